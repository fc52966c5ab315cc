//! Only glibc has statistics of its allocator.

pub(crate) const SOURCE: &str = "";
pub(crate) const KEPT_SOURCE: &str = "";

/// Never made on this platform.
#[derive(Clone, Copy)]
pub(crate) enum Statistics {}

pub(crate) fn find() -> Result<Statistics, &'static str> {
    Err("available with glibc only (mallinfo2)")
}

/// Never made on this platform.
#[derive(Clone, Copy)]
pub(crate) enum Trim {}

pub(crate) fn find_trim() -> Result<Trim, &'static str> {
    Err("malloc_trim is available with glibc only")
}

pub(crate) fn trim(trim: Trim) {
    match trim {}
}

pub(crate) fn in_use(statistics: Statistics) -> u64 {
    match statistics {}
}

pub(crate) fn kept(statistics: Statistics) -> u64 {
    match statistics {}
}
