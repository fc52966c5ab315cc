//! A run's folder: its files, the shim's log, the outcomes, and what may be compared.
//! Reads and writes the run's folder.

pub mod added_test;
pub mod build_facts;
pub mod comparability;
pub mod environment;
pub mod file_seal;
pub mod kept_baseline;
pub mod layer_record;
pub mod live_line;
pub mod live_sizes;
pub mod log_checksum;
pub mod log_file;
mod log_line;
pub mod measurement;
pub mod outcome;
pub mod run_folder;
pub mod same_code;
#[cfg(test)]
pub(crate) mod sample_log;
pub mod shard_record;
pub mod shim_log;
pub mod stack_log;
pub mod stack_log_reader;
pub mod stored;
pub mod tensor_record;
pub mod trace_facts;
pub mod trace_record;
pub mod unfinished;
