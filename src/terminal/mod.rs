//! The terminal: progress, warnings and errors on standard error, reports on standard output.
//! The console prints; `build_errors`, `lines`, `progress` and `failure` are pure.

pub mod activity;
pub mod build_errors;
pub mod console;
pub mod event_text;
pub mod failure;
pub mod filtered;
pub mod lines;
pub mod progress;
pub mod status_term;
pub mod usage_error;
pub mod workflow;
