//! Memory checkpoints from inside a test's process.
//!
//! ```ignore
//! memprof::checkpoint!("done encoder, outputs shaped {:?}", output.shape());
//! let _scope = memprof::scope!("decoder");   // consumed, peaked and used, when it is dropped
//! memprof::warm_up();                        // pays for what is lazy now, at a checkpoint of its own
//! let reading = memprof::read();             // the figures as data
//! let _named = memprof::tensor(memprof::Tensor { name: "encoder.0.weight", .. }); // which memory is what, until dropped
//! ```
//!
//! `cargo memprof` links this crate into test executables and sets `MEMPROF_LOG` when it runs them; then `start` is
//! logged before `main`, `done` after it, and what is called above in between. Without the variable every call but
//! `read` does nothing and costs a branch. Linking `memprof_heap` too, or wrapping an own global allocator in
//! [`Heap`], adds the heap's figures.
//!
//! No dependencies, Rust 1.63 and later. The modules, from the bottom up:
//!
//! * what counts: `heap` (the allocator), `counts`: `live` (bytes live, and their exact peak) and `tally` (totals);
//! * what reads: `heap_metrics`, `resident` (with a file for each platform), `malloc`, `gpu` (of `cuda_driver`, `nvml` and
//!   what the crate `memprof_inject` counts, met at `gpu_rendezvous`), `drm` (of `drm_fdinfo`); both GPU ones through
//!   `dynamic_library`; `sources` is their list, `metric` what they tell;
//! * what remembers: `peak_history`, `occurrences`, `calls`, and `recorder`, which ties all together under a `lock`;
//! * what is logged through it: `scope_log`, `call_log` and `tensor_log`, and checkpoints by itself;
//! * what the tool puts into traced functions: `trace`; what names memory: `tensors`;
//! * what writes: `log`, `json`, `terminal`; `untracked` memory for all of them;
//! * what begins and ends: `constructor`, `environment`, `stamp`.

#![warn(missing_docs)]
// Elsewhere there are no GPU figures, and what only they need is left unused.
#![cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), allow(dead_code))]

mod call_log;
mod calls;
mod constructor;
mod counts;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod cuda_driver;
mod descriptor;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "drm_elsewhere.rs")]
mod drm;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod drm_fdinfo;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod dynamic_library;
mod environment;
mod every;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "gpu_elsewhere.rs")]
mod gpu;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod gpu_rendezvous;
mod heap;
mod heap_metrics;
mod json;
mod live;
mod lock;
mod log;
mod malloc;
mod metric;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod nvml;
mod occurrences;
mod peak_history;
mod reading;
mod recorder;
mod resident;
mod scope;
mod scope_log;
mod sources;
mod stamp;
mod tally;
mod tensor_log;
mod tensors;
mod terminal;
mod thread_number;
mod trace;
mod untracked;

#[doc(hidden)]
pub use counts::{Account, Counts};
pub use every::Every;
pub use heap::Heap;
pub use reading::Reading;
pub use scope::Scope;
#[doc(hidden)]
pub use tally::{CAN_BE_OWNED, Claimed, Slot};
pub use tensors::{Device, Kind, Names, Pool, Tensor, pool, tensor};
#[doc(hidden)]
pub use trace::{Block, Site, Traced};
/// Formatted in a statement of its own, so that what its arguments hold (`scope!("{}", shape.join("×"))`) is freed
/// before the figures are read.
#[doc(hidden)]
pub use untracked::Text as Label;

/// The shim's version, in the log's first line.
const VERSION: &str = "0.1.0";

/// Logs a checkpoint: memory now, and its peak and totals since the last checkpoint. The label is formatted as by
/// `format!`; it and the occurrence (how often this label was logged) are what revisions are matched by.
#[macro_export]
macro_rules! checkpoint {
    ($($label:tt)+) => {
        if $crate::is_recording() {
            let label = $crate::Label::of(::core::format_args!($($label)+));
            $crate::log_checkpoint(label, ::core::concat!(::core::file!(), ":", ::core::line!()));
        }
    };
}

/// Logs a checkpoint at each n-th time that this line runs: `checkpoint_every!(100, "step {}", step)`.
#[macro_export]
macro_rules! checkpoint_every {
    ($period:expr, $($label:tt)+) => {
        if $crate::is_recording() {
            static TIMES: ::core::sync::atomic::AtomicU64 = ::core::sync::atomic::AtomicU64::new(0);
            let period: u64 = $period;
            let times = TIMES.fetch_add(1, ::core::sync::atomic::Ordering::Relaxed) + 1;
            if period != 0 && times % period == 0 {
                $crate::checkpoint!($($label)+);
            }
        }
    };
}

/// Measures until the guard that it gives is dropped: `let _scope = memprof::scope!("layer {}", index);`
#[macro_export]
macro_rules! scope {
    ($($label:tt)+) => {
        if $crate::is_recording() {
            let label = $crate::Label::of(::core::format_args!($($label)+));
            $crate::Scope::begin(label, ::core::concat!(::core::file!(), ":", ::core::line!()))
        } else {
            $crate::Scope::inert()
        }
    };
}

/// Pays now for what is otherwise paid at first use, and logs a checkpoint `warm up`, so that the cost stands in a row of
/// its own and not in a random later one.
///
/// If the program has a CUDA context by then, that is all that making it cost, loading NVML, and waiting for the
/// device. No context is made here, for which device to use is the program's choice: make it first
/// (`CudaContext::new(0)`, `Device::new_cuda(0)`), then call this.
#[track_caller]
pub fn warm_up() {
    if is_recording() {
        recorder::warm_up();
        let caller = std::panic::Location::caller();
        let at = untracked::Text::of(format_args!("{}:{}", caller.file(), caller.line()));
        recorder::checkpoint("warm up", Some(at.as_str()));
    }
}

/// The figures as data. The interval since the last checkpoint goes on, and nothing is logged.
///
/// Outside a run this works too, and counts from the start of the process: the heap's figures are there if a [`Heap`]
/// is the global allocator, the resident ones where the platform has them.
pub fn read() -> Reading {
    recorder::read()
}

/// A counter for loops that says at each n-th tick that it is time for a checkpoint.
pub fn every(period: u64) -> Every {
    Every::new(period)
}

/// Whether checkpoints are logged.
#[doc(hidden)]
#[inline]
pub fn is_recording() -> bool {
    recorder::is_recording()
}

#[doc(hidden)]
#[cold]
pub fn log_checkpoint(label: Label, at: &'static str) {
    recorder::checkpoint(label.as_str(), Some(at));
}
