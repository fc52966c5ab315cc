//! A library that the CUDA driver loads when a program initialises it (`CUDA_INJECTION64_PATH`),
//! before any allocation. It subscribes to the driver's own API through CUPTI, and keeps the exact
//! live bytes and their peak for each device.
//!
//! It does nothing unless `cargo memprof` runs the process: only then does the shim in the
//! executable listen at the `rendezvous`. It has its own allocator (`own_memory`) and its own
//! standard library, so its memory is in no figure.
//!
//! * `ledger`: what is allocated, the peaks, and the captured streams; pure. `site_figures`, with
//!   `untracked`: what is allocated by each call stack, in runs that record them.
//! * `call`: the driver's calls and their numbers; `calls`: what each does to the ledger; `allocation`:
//!   what a call allocates; `parameters`: their layout.
//! * `cupti`: loading it and subscribing; `state`: what its callbacks share; `driver`: questions to the
//!   driver; `search`: finding the rendezvous.

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

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod allocation;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/blocks"]
mod blocks {
    pub(crate) mod site_figures;
    pub(crate) mod size_count;
}
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod call;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod calls;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod cupti;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod driver;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/gpu"]
mod gpu {
    pub(crate) mod rendezvous;
}
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod ledger;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod parameters;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/platform"]
mod platform {
    pub(crate) mod lock;
    pub(crate) mod own_memory;
    #[allow(dead_code)]
    pub(crate) mod untracked;
}
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod search;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod state;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use platform::own_memory;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
struct Allocator;

// SAFETY: every call goes to `own_memory`, which has the same contract.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
unsafe impl std::alloc::GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        own_memory::alloc(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: std::alloc::Layout) {
        own_memory::dealloc(block, layout);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: std::alloc::Layout, new_size: usize) -> *mut u8 {
        own_memory::realloc(block, layout, new_size)
    }
}

/// Whether the library in front of the C library's allocator is loaded.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn is_malloc_counted() -> bool {
    extern "C" {
        fn dlsym(
            handle: *mut std::os::raw::c_void,
            symbol: *const std::os::raw::c_char,
        ) -> *mut std::os::raw::c_void;
    }
    // SAFETY: the name ends with a zero byte; a null handle is RTLD_DEFAULT.
    unsafe { !dlsym(std::ptr::null_mut(), b"memprof_malloc\0".as_ptr().cast()).is_null() }
}

/// Called by the driver while it is being initialised. The driver goes on, whatever this returns.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[no_mangle]
pub extern "C" fn InitializeInjection() -> std::os::raw::c_int {
    if is_malloc_counted() {
        own_memory::use_pages();
    }
    if let Some(rendezvous) = search::rendezvous() {
        if let Err(problem) = cupti::subscribe(rendezvous) {
            // The shim may read it for the rest of the process's life.
            rendezvous.answer_with_problem(problem.into_raw());
        }
    }
    1
}
