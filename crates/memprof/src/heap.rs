//! A global allocator's wrapper, which counts only under `cargo memprof`.

use std::alloc::{GlobalAlloc, Layout};

use crate::shared::heap::Heap;

// SAFETY: every call goes to the inner allocator with the caller's arguments, and its result is
// returned unchanged. So the contract holds if the inner allocator keeps it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.alloc(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.0.alloc_zeroed(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.dealloc(block, layout);
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.0.realloc(block, layout, new_size)
    }
}
