//! Makes memprof's tracking allocator the global one, in front of the system's. Linked into test
//! executables that have no global allocator of their own.
//!
//! It is `memprof::Heap<System>` with its own counts, which only code in this crate can reach
//! directly. Nothing here is public or `#[inline]`: the statics would then be exported, and reached
//! through a table again.

// The functions run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

extern crate memprof;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

static COUNTS: memprof::Counts = memprof::Counts::new();

thread_local! {
    static CLAIMED: memprof::Claimed = const { Cell::new(None) };
}

#[inline(always)]
fn account() -> memprof::Account {
    memprof::Account::new(&COUNTS, &CLAIMED)
}

// SAFETY: every call goes to the system's allocator with the caller's arguments, and its result is
// returned unchanged.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        account().alloc(&System, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        account().alloc_zeroed(&System, layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        account().dealloc(&System, block, layout);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        account().realloc(&System, block, layout, new_size)
    }
}
