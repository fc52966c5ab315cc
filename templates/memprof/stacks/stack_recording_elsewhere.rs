//! Call stacks are recorded on Linux with 64 bits only.

use std::alloc::{GlobalAlloc, Layout};

use crate::blocks::live::Epoch;
use crate::blocks::tally::Totals;

pub(crate) fn are_recorded() -> bool {
    false
}

pub(crate) fn are_in_use() -> bool {
    false
}

pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    None
}

pub(crate) fn totals() -> Option<Totals> {
    None
}

pub(crate) fn after_checkpoint(_: &str, _: u64, _: bool) {}

// Nobody calls these: `are_in_use` is false.

pub(crate) unsafe fn alloc<A: GlobalAlloc>(_: &A, _: usize, _: usize, _: bool) -> *mut u8 {
    std::ptr::null_mut()
}

pub(crate) unsafe fn dealloc<A: GlobalAlloc>(_: &A, _: *mut u8, _: usize, _: usize) {}

pub(crate) unsafe fn realloc<A: GlobalAlloc>(_: &A, _: *mut u8, _: Layout, _: usize) -> *mut u8 {
    std::ptr::null_mut()
}
