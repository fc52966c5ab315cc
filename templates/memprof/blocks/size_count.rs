//! Live blocks of one size, as the shim and the injection library exchange them. Both crates contain
//! this file.

/// Live blocks of one size and site.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeCount {
    /// Bytes of each block.
    pub(crate) bytes: u64,
    /// How many blocks.
    pub(crate) count: u64,
    /// Where they were allocated; 0 if that is not recorded.
    pub(crate) site: u64,
}
