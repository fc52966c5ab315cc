//! What is asked for: refs, tests, metrics and rules, and the plan that is made of them.
//!
//! Pure, apart from `clean_env`, which reads the environment.

pub mod axes;
pub mod axis_labels;
pub mod budget;
mod cell_filters;
mod cell_names;
pub mod cell_pattern;
pub mod cell_status;
pub mod cells;
pub mod changed_file;
pub mod checkpoint_at;
pub mod clean_env;
pub mod config;
pub mod dependency_change;
pub mod expression;
pub mod jobs;
pub mod listing;
pub mod lock_differences;
pub mod metric;
pub mod metric_family;
pub mod metric_name;
mod nothing_selected;
pub mod pair_pattern;
pub mod parameter;
mod plan_size;
mod planned_cell;
pub mod program;
pub mod quantity;
pub mod random_numbers;
pub mod repeat;
pub mod request;
pub mod resolved;
pub mod rule;
pub mod same_commit;
pub mod search_options;
pub mod selection;
pub mod settings;
pub mod shard;
pub mod sharding;
pub mod side;
pub mod side_lockfile;
pub mod target_kind;
pub mod test_pairs;
pub mod title;
pub mod trace_pattern;
pub mod trace_periods;
