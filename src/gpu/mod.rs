//! The GPUs of this machine: which there are, who uses them, and which of them a test may see.
//! Imports support.
//! Asks NVML, opens lock files, writes tickets, reads the environment.

pub mod cupti;
pub mod devices;
pub mod locks;
pub mod neighbours;
pub mod nvml;
pub mod queue;
pub mod spreading;
pub mod tickets;
pub mod variables;
pub mod visible_devices;
pub mod watch;
