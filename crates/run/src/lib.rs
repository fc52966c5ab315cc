//! Tests in their processes: runs, archives, clusters, searches, and what this machine can measure.
//!
//! Runs tests and Slurm's commands; writes the folder of a run and archives.

pub mod archive;
pub mod attribution;
pub mod bisect;
pub mod changed_sources;
pub mod classify;
pub mod delay;
pub mod doctor;
pub mod estimate;
pub mod executables;
pub mod files_beside;
pub mod finished;
pub mod follow;
pub mod home;
pub mod kept_baseline;
pub mod log_end;
pub mod malloc_variables;
pub mod merging;
pub mod narrower_build;
pub mod one_run;
pub mod one_sided_tests;
pub mod process_group;
pub mod recording;
pub mod rounds;
pub mod runner;
pub mod same_builds;
pub mod same_machine;
pub mod saved_baselines;
pub mod schedule;
pub mod session;
pub mod side_by_side;
pub mod slurm;
pub mod spread;
pub mod stdin_files;
pub mod stored_plan;
pub mod stretch;
pub mod test_command;
#[cfg_attr(not(target_os = "linux"), path = "write_order_elsewhere.rs")]
pub mod write_order;
