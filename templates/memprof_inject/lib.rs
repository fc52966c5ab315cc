//! A library that the CUDA driver loads when a program initialises it (`CUDA_INJECTION64_PATH`),
//! before any allocation. It subscribes to the driver's own API through CUPTI, and keeps the exact
//! live bytes and their peak for each device.
//!
//! It does nothing unless `cargo memprof` runs the process: only then does the shim in the
//! executable listen at the `rendezvous`. It has its own allocator and its own standard library, so
//! its memory is not in the heap's figures.
//!
//! * `ledger`: what is allocated, and the peaks; pure. `site_figures`, with `untracked`: the same for
//!   each call stack, in runs that record them.
//! * `calls`: the driver's calls and their numbers, and what each does to the ledger; `allocation`:
//!   what a call allocates; `parameters`: their layout.
//! * `cupti`: loading it and subscribing; `driver`: questions to the driver; `search`: finding the
//!   rendezvous.

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
mod calls;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod cupti;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod driver;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod ledger;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/lock.rs"]
mod lock;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod parameters;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/gpu_rendezvous.rs"]
mod rendezvous;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod search;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "../memprof/site_figures.rs"]
mod site_figures;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[allow(dead_code)]
#[path = "../memprof/untracked.rs"]
mod untracked;

/// Called by the driver while it is being initialised. The driver goes on, whatever this returns.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[no_mangle]
pub extern "C" fn InitializeInjection() -> std::os::raw::c_int {
    if let Some(rendezvous) = search::rendezvous() {
        if let Err(problem) = cupti::subscribe(rendezvous) {
            // The shim may read it for the rest of the process's life.
            rendezvous.answer_with_problem(problem.into_raw());
        }
    }
    1
}
