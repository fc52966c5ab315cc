//! `cargo memprof` compares memory between git revisions: what the user types, the commands, the terminal.
//!
//! The crates below it do the work; `DESIGN.md` has their order and the story of one comparison.

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
