//! The commands, one file each, and `dispatch`, which picks the one that the user named.
//! Each command puts stages together, prints through the console, and returns the exit code.

pub mod bisect;
pub mod budget;
pub mod build;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod context;
pub mod courtesy;
pub mod demo;
pub mod devices;
pub mod dispatch;
pub mod doctor;
pub mod history;
pub mod init;
pub mod list;
pub mod man;
pub mod merge;
pub mod notebook;
pub mod prove;
pub mod report;
pub mod run;
pub mod run_archive;
pub mod schema;
pub mod submit;
pub mod trace;
