//! Cargo: its command line, its configuration, the toolchain, and the lock file.
//! Imports support, plan and git.
//! Runs cargo and rustc; reads configuration.

pub mod command;
pub mod configuration;
pub mod lockfile;
pub mod toolchain;
