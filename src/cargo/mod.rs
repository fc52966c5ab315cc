//! Cargo: its command line, its configuration, the toolchain, and the lock file.
//! Imports support and plan.
//! Runs cargo and rustc; reads configuration.

pub mod command;
pub mod configuration;
pub mod lockfile;
pub mod manifest;
pub mod messages;
pub mod toolchain;
