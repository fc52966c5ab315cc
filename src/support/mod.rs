//! What every folder needs: byte counts, events, child processes, file locks, errors for users.
//! Imports no other folder.
//! Runs processes, opens and locks files, handles signals; the rest is pure.

pub mod advice;
pub mod bytes;
pub mod counted;
pub mod elapsed;
pub mod event;
pub mod exit_code;
pub mod file_lock;
pub mod glob;
pub mod labels;
pub mod paths;
pub mod process;
#[cfg(target_os = "linux")]
pub mod process_tree;
pub mod regular_file;
pub mod suggest;
#[cfg(target_os = "linux")]
pub mod supervisor;
pub mod terminal_mode;
pub mod termination;
pub mod user_error;
