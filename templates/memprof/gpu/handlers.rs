//! What the recorder does for events of the GPU's driver. The injection library calls it, too.

/// The recorder's functions.
#[derive(Clone, Copy)]
pub(crate) struct Handlers {
    /// Called once a device is in use.
    pub(crate) first_use: extern "C" fn(),
    /// Called on the thread whose request the driver refused: the device's ordinal, the requested bytes, and
    /// the live ones.
    pub(crate) out_of_memory: extern "C" fn(u32, u64, u64),
}
