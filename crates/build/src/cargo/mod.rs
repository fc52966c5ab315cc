//! Cargo: its command line, messages, manifests, configuration, toolchain, and lock file.
//! Runs cargo and rustc; reads configuration.

pub mod command;
pub mod configuration;
pub mod lockfile;
pub mod manifest;
pub mod messages;
pub mod moved_package;
pub mod resolution;
pub mod toolchain;
pub mod usable_versions;
