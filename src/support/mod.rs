//! What every folder needs: byte counts, events, child processes, file locks, errors for users.
//! Imports no other folder.
//! Runs processes and locks files; the rest is pure.

pub mod advice;
pub mod bounded_lines;
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
pub mod suggest;
pub mod user_error;
