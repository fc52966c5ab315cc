//! Flags and memprof.yaml put together: what the user asks for.
//! `matrix_file` reads memprof.yaml, and `asked` the noise file and the budget.

pub mod archived;
pub mod asked;
pub mod axes;
pub mod cargo_options;
pub mod continued;
pub mod explanation;
pub mod judging;
pub mod matrix_file;
pub mod new_run;
pub mod overlay_paths;
pub mod pairs;
pub mod programs;
pub mod reconcile;
pub mod refs;
pub mod search_options;
pub mod secrets;
pub mod side_paths;
pub mod sides;
pub mod surroundings;
