//! What the runner gives and gets: its settings in the environment, and the log.
//! A line is JSON, and a checksum covers all of them.

pub(crate) mod checksum;
pub(crate) mod environment;
pub(crate) mod json;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "mapped_file_elsewhere.rs"
)]
pub(crate) mod mapped_file;
pub(crate) mod run_log;
pub(crate) mod stamp;
pub(crate) mod terminal;
