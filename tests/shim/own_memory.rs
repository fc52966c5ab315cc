//! Memory for the shim's arrays. Here it comes from the system's allocator.
#![expect(unsafe_code, reason = "it has the contract of an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};

pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    unsafe { System.alloc(layout) }
}

pub unsafe fn dealloc(block: *mut u8, layout: Layout) {
    unsafe { System.dealloc(block, layout) };
}

pub unsafe fn realloc(block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    unsafe { System.realloc(block, layout, new_size) }
}
