//! What the user types, the commands, and the terminal.
//! Imports every folder but trace.
//! Prints; everything else prints nothing.

pub mod archive_commands;
pub mod arguments;
pub mod command_arguments;
pub mod commands;
pub mod console;
pub mod demo;
pub mod fixture;
pub mod flag;
pub mod init;
pub mod init_facts;
pub mod invocation;
pub mod manual;
pub mod outputs;
pub mod overlay_paths;
pub mod progress;
pub mod reconcile;
pub mod search_arguments;
pub mod search_commands;
pub mod search_plan;
pub mod trace_listing;
