//! A library in front of the C library's allocator (`LD_PRELOAD`). It counts the usable bytes of
//! each block and leaves the work to the next definition of each function: the C library's, or that
//! of an allocator that the program links as a shared library.
//!
//! The C library's own functions, such as `strdup`, and C++'s `new` call `malloc` through the
//! loader, so they come here too. The code runs in every allocation of the process: in the loader
//! before any constructor, in ending threads, in a forked child. So it uses no thread-local storage
//! of its own, for which the loader may have to allocate, and nothing of the standard library that
//! allocates or locks.
//!
//! * `next`: the next definitions, and a little memory for the time in which the loader looks for
//!   them.
//! * `counts`: the figures, with `totals`; `by_site`: the same for each call stack, in runs that
//!   record them.

// What these lints suggest needs a newer compiler than Rust 1.63.
#![allow(
    clippy::borrow_as_ptr,
    clippy::manual_c_str_literals,
    clippy::manual_is_multiple_of,
    clippy::manual_let_else,
    clippy::ptr_as_ptr,
    clippy::ptr_cast_constness,
    clippy::ref_as_ptr,
    clippy::unnecessary_map_or
)]
// These are C's functions: malloc(3) describes them.
#![allow(clippy::missing_safety_doc, missing_docs)]
// A block has a site and a size.
#![allow(clippy::similar_names)]
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

#[path = "../memprof/blocks"]
#[allow(dead_code)]
mod blocks {
    pub(crate) mod block_table;
    pub(crate) mod live;
    pub(crate) mod site_figures;
}
mod by_site;
mod counts;
mod next;
#[path = "../memprof/platform"]
#[allow(dead_code)]
mod platform {
    pub(crate) mod lock;
    pub(crate) mod own_memory;
    #[path = "../../memprof_malloc/thread_number.rs"]
    pub(crate) mod thread_number;
    pub(crate) mod untracked;
}
#[path = "../memprof/sources"]
#[allow(dead_code)]
mod sources {
    pub(crate) mod malloc_link;
}
mod totals;

use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use sources::malloc_link::{self, Library};

/// What the shim asks the loader for: see `malloc_link`.
#[no_mangle]
#[allow(non_upper_case_globals)]
static memprof_malloc: Library = Library {
    version: malloc_link::VERSION,
    problem: counts::problem,
    read: counts::read,
    record_stacks: counts::record_stacks,
    at_next_mark: by_site::at_next_mark,
    interval: by_site::interval,
};

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn() = counts::watch_forks;

#[no_mangle]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    match next::functions() {
        Some(next) => counts::came((next.malloc)(size)),
        None => next::early(size),
    }
}

#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match next::functions() {
        Some(next) => counts::came((next.calloc)(count, size)),
        // This memory is zero.
        None => count.checked_mul(size).map_or(null_mut(), next::early),
    }
}

#[no_mangle]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || next::is_early(block) {
        return;
    }
    if let Some(next) = next::functions() {
        counts::goes(block);
        (next.free)(block);
    }
}

/// C23's `free` with the block's size.
#[no_mangle]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    free(block);
}

/// C23's `free` with the block's alignment and size.
#[no_mangle]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    free(block);
}

#[no_mangle]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if next::is_early(block) {
        let moved = malloc(size);
        if !moved.is_null() {
            let old_size = next::early_size(block);
            moved.cast::<u8>().copy_from_nonoverlapping(block.cast(), size.min(old_size));
        }
        return moved;
    }
    match next::functions() {
        Some(next) => counts::moves(block, size, next),
        None => null_mut(),
    }
}

/// The C library's own function may or may not call `realloc` through the loader, so it is not asked.
#[no_mangle]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => realloc(block, bytes),
        None => next::out_of_memory(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    const ENOMEM: c_int = 12;
    let next = match next::functions() {
        Some(next) => next,
        None => return ENOMEM,
    };
    let status = (next.posix_memalign)(out, align, size);
    if status == 0 {
        counts::came(*out);
    }
    status
}

#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    next::functions().map_or(null_mut(), |next| counts::came((next.aligned_alloc)(align, size)))
}

#[no_mangle]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    next::functions().map_or(null_mut(), |next| counts::came((next.memalign)(align, size)))
}

#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    next::functions().map_or(null_mut(), |next| counts::came((next.valloc)(size)))
}

#[no_mangle]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    next::functions().map_or(null_mut(), |next| counts::came((next.pvalloc)(size)))
}
