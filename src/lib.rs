//! `cargo memprof` compares memory between git revisions.
//!
//! A tour, in the order in which a comparison happens:
//!
//! 1. [`cli`] is what the user typed, [`matrix`] what `memprof.yaml` says; [`request`] is what both together mean.
//! 2. [`git`] resolves refs to revisions, which makes a [`plan`].
//! 3. [`worktree`] checks a revision out, [`inject`] lays overlays and the shim over it, [`build`] compiles it into
//!    the [`store`], with provenance.
//! 4. [`runner`] runs each cell in a process of its own; the shim in that process writes a log, which [`shim_log`] reads.
//! 5. [`compare`] matches checkpoints and computes deltas; [`report`] renders them.
//!
//! Data modules import nothing but data; pure ones take data and return data; effects are at the edge.
//! `DESIGN.md` has a sentence for each file.

pub mod bytes;
pub mod cell_filters;
pub mod cell_names;
pub mod cell_pattern;
pub mod cells;
pub mod cli;
pub mod complaint;
pub mod console;
pub mod event;
pub mod exit_code;
pub mod expression;
pub mod flag;
pub mod init;
pub mod invocation;
pub mod listing;
pub mod matrix;
mod matrix_rules;
pub mod matrix_schema;
pub mod matrix_values;
pub mod metric;
pub mod metric_name;
pub mod outcome;
pub mod outputs;
pub mod overlay_paths;
pub mod plan;
pub mod progress;
pub mod quantity;
pub mod reconcile;
pub mod request;
pub mod run_folder;
pub mod selection;
pub mod suggest;
pub mod title;
pub mod yaml;
pub mod yaml_mapping;
