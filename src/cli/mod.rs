//! What the user types, the commands, and the terminal.
//! Imports support, gpu, courtesy, plan, config, git, verdict, checkout, cargo, results, slurm, doctor, compare, why, inject, notebook, build, run, archive, bisect and report.
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
