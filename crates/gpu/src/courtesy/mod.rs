//! Setting other processes' GPU memory aside for a while, with their owner's consent, and restoring it.
//! Calls the CUDA driver, reads `/proc`, writes a note beside the device locks.

pub mod candidate;
pub(crate) mod checks;
pub(crate) mod driver;
pub(crate) mod held;
pub(crate) mod host_memory;
pub mod note;
pub mod process;
pub mod refusal;
pub(crate) mod returning;
pub(crate) mod room;
pub mod taking;
