//! The figures of a memory pool.

/// What a memory pool says about itself, in bytes.
///
/// A pair is the bytes in use and the bytes reserved, of a pool that keeps no peaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Bytes handed out now.
    pub in_use: u64,
    /// Bytes that the pool holds now, whether handed out or not.
    pub reserved: u64,
    /// The most bytes handed out since the last answer, if the pool itself keeps them. The function
    /// that answers resets it.
    pub in_use_peak: Option<u64>,
    /// The most bytes held since the last answer, likewise.
    pub reserved_peak: Option<u64>,
}

impl From<(u64, u64)> for PoolUsage {
    fn from((in_use, reserved): (u64, u64)) -> Self {
        Self { in_use, reserved, in_use_peak: None, reserved_peak: None }
    }
}
