//! What the shim and the library in front of the C library's allocator tell each other. Both crates
//! contain this file.
//!
//! The runner has the library loaded with `LD_PRELOAD`. It exports one symbol, which the shim asks
//! the loader for.

use crate::blocks::site_figures::{Changed, Interval};

/// The exported [`Library`], with a zero byte at its end.
pub(crate) const SYMBOL: &[u8] = b"memprof_malloc\0";

/// The layout of [`Library`]. Changes with each change to this file.
pub(crate) const VERSION: u64 = 1;

/// Live bytes, and the most since the last reading; bytes and blocks allocated since the process
/// began. All in usable bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) live: u64,
    pub(crate) peak: u64,
    pub(crate) allocated: u64,
    pub(crate) count: u64,
}

/// Returns the site of the calling thread's stack.
pub(crate) type CurrentSite = extern "C" fn() -> u32;

/// What the library can do. Calls of these functions must not overlap.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) version: u64,
    /// Why the figures mean nothing: 0 if they are right, or one of the numbers below.
    pub(crate) problem: extern "C" fn() -> u32,
    /// Reads the figures. The peak begins anew.
    pub(crate) read: extern "C" fn(*mut Figures),
    /// Keeps the figures of each site from here on. What is live now has site 0.
    pub(crate) record_stacks: extern "C" fn(CurrentSite),
    /// Tells the next reading what it means for the intervals of call stacks, as a
    /// [`AtNextMark`](crate::blocks::site_figures::AtNextMark).
    pub(crate) at_next_mark: extern "C" fn(u32),
    /// Copies the interval that ended last: its own figures, and those of up to `room` sites that
    /// changed. Returns how many sites changed.
    pub(crate) interval: extern "C" fn(*mut Interval, *mut Changed, usize) -> usize,
}

/// The next allocator has no `malloc_usable_size`.
pub(crate) const NO_USABLE_SIZE: u32 = 1;
/// A signal handler allocated while the interrupted thread counted, so that blocks are missing.
pub(crate) const INCOMPLETE: u32 = 2;
/// More was freed than allocated, so blocks of another allocator are freed here.
pub(crate) const UNBALANCED: u32 = 3;
