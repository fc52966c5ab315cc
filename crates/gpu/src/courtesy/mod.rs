//! Setting other processes' GPU memory aside for a while, with their owner's consent, and restoring it.
//! Calls the CUDA driver, reads `/proc`, writes a note beside the device locks.

pub mod candidate;
pub mod checks;
pub mod driver;
pub mod held;
pub mod host_memory;
pub mod note;
pub mod process;
pub mod refusal;
pub mod returning;
pub mod room;
pub mod taking;
