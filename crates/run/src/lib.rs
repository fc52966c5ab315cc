//! Tests in their processes: runs, archives, clusters, searches, and what this machine can measure.
//!
//! Runs tests and Slurm's commands; writes the folder of a run and archives.

pub mod archive;
pub mod attribution;
pub mod bisect;
mod changed_sources;
mod classify;
pub mod conditions;
mod delay;
pub mod doctor;
mod estimate;
mod executables;
mod files_beside;
mod finished;
pub mod follow;
pub mod forecast;
pub mod guards;
mod home;
pub mod kept_baseline;
pub mod kept_build;
pub mod left_out;
mod linked_files;
mod log_end;
mod malloc_variables;
pub mod merging;
mod narrower_build;
mod one_run;
mod one_sided_tests;
mod open_files;
pub mod own_shard;
pub mod owners;
mod planned;
pub mod prepared;
mod process_group;
mod read_files;
mod recorded_log;
mod recording;
mod refusals;
mod rounds;
pub mod runner;
mod same_builds;
pub mod same_code;
pub mod same_machine;
pub mod saved_baselines;
mod schedule;
pub mod session;
mod side_by_side;
pub mod slurm;
mod spread;
pub mod stdin_files;
pub mod stored_plan;
mod stretch;
mod temporary_folder;
mod test_command;
mod ways_out;
#[cfg_attr(not(target_os = "linux"), path = "write_order_elsewhere.rs")]
mod write_order;
