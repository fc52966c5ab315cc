//! Cargo: its command line, messages, manifests, configuration, toolchain, and lock file.
//! Runs cargo and rustc; reads configuration.

pub(crate) mod command;
pub mod configuration;
pub(crate) mod errors;
pub mod lockfile;
pub(crate) mod manifest;
pub(crate) mod member_versions;
pub(crate) mod messages;
pub(crate) mod moved_package;
mod patched_packages;
pub mod resolution;
pub mod toolchain;
pub(crate) mod usable_versions;
