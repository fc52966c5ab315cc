//! What the user types, the commands, and the terminal.
//! Imports every folder but symbols.
//! The terminal prints; everything else prints nothing.

pub mod arguments;
pub mod commands;
pub mod demo;
pub mod init;
pub mod kept_runs;
pub mod notebook;
pub mod output;
pub mod request;
pub mod search;
pub mod terminal;
