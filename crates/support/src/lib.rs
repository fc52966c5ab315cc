//! What every part needs: byte counts, labels, events, child processes, files, redaction, errors for users.
//!
//! Runs processes, locks and writes files, handles signals.

pub mod advice;
pub mod bounded_lines;
pub mod bytes;
pub mod child_output;
pub mod continuation;
pub mod counted;
pub mod durable;
pub mod elapsed;
pub mod event;
pub mod exit_code;
pub mod file_lock;
pub mod folder_removal;
pub mod format_version;
pub mod free_memory;
pub mod glob;
pub mod guarded_files;
pub mod hexadecimal;
pub mod labels;
pub mod nesting;
pub mod output_file;
pub mod parallel;
pub mod paths;
pub mod process;
pub mod process_error;
#[cfg(target_os = "linux")]
pub mod process_tree;
pub mod redacted_file;
pub mod redaction;
pub mod regular_file;
pub mod run_identity;
pub mod salt;
pub mod sealed;
pub mod secret_names;
mod secret_patterns;
pub mod stamp;
pub mod suggest;
#[cfg(target_os = "linux")]
pub mod supervisor;
pub mod terminal_mode;
pub mod termination;
pub mod user_error;
pub mod whole_file;
pub mod workflow_commands;
pub mod wrapped;
