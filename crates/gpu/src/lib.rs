//! The GPUs of this machine: which there are, who uses them, and who waits for them.
//!
//! Asks NVML and the CUDA driver, locks and writes files.

pub mod courtesy;
pub mod cupti;
pub mod devices;
pub mod locks;
pub mod neighbours;
pub mod nvml;
mod nvml_library;
mod queue;
pub mod spreading;
pub mod tickets;
pub mod variables;
pub mod visible_devices;
pub mod watch;
