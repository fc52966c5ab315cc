//! Memory checkpoints from inside a test's process.
//!
//! ```ignore
//! memprof::checkpoint!("encoded {:?}", output.shape()); // memory now, and its peak so far
//! let _scope = memprof::scope!("decoder"); // consumed, peaked and used, logged at its drop
//! let (image, used) = memprof::measure("decode", || decode(SAMPLE)); // the same, as data
//! memprof::assert_heap_peak!(used, 4 << 20); // at most 4 MiB
//! memprof::warm_up(); // pays lazy costs now, in a checkpoint of its own
//! let reading = memprof::read(); // the figures as data, in bytes
//! let _named = memprof::tensor(weight); // a `memprof::Tensor`: names memory until its drop
//! let _pool = memprof::watch_pool("arena", usage); // metrics of a memory pool until its drop
//! ```
//!
//! `cargo memprof` links this crate into test executables and sets `MEMPROF_LOG` when it runs them.
//! It then logs `start` when the test's body begins, `done` after the test, and the calls above in between. Without the
//! variable, every call except `read` does nothing and costs a branch. The heap's figures need the
//! tracking allocator: link `memprof_heap`, or wrap your own global allocator in [`Heap`].
//!
//! No dependencies; Rust 1.63 and later. The modules, from the bottom up:
//!
//! * counting: `heap` (the allocator), `counts` with `live` (live bytes and their exact peak) and
//!   `tally` (totals), and `live_sizes` (blocks of each size);
//! * call stacks, in runs that record them: `stacks` puts a header before each block, or `blocks`
//!   keeps it in a table; `sites` tells call stacks apart, with `stack_walk`, `stack_bounds`,
//!   `unwind_table` and `loaded`; `events` orders them, and `site_figures` adds up, with `releases`
//!   (where blocks end) and a `timeline`; `stack_log` writes;
//! * reading: `heap_metrics`, `resident` (with a file for each platform), `malloc`, `gpu`, `drm`;
//!   `malloc_library` finds the crate `memprof_malloc`, which `malloc_link` describes;
//!   `pool_metrics` asks the program's memory pools through `callback`; `pools` makes them known;
//!   `sources` lists them and `metric` describes what they report;
//! * GPUs: `gpu_metrics`, `cuda_driver`, `nvml`, and `gpu_rendezvous`, where the crate
//!   `memprof_inject` hands over its counts; `drm_fdinfo` for `drm`; all use `dynamic_library`;
//! * keeping: `peak_history`, `occurrences`, `calls` with `call_tree`, and `recorder`, which ties
//!   all together under a `lock`;
//! * logging: `scope_log`, `call_log` with `telling`, `layer_log`, `tensor_log` and `live_size_log`; the
//!   recorder logs checkpoints itself;
//! * asserting: `usage` with `gpus`, `assertions`, and `parameter`; `cells` shows it in notebooks;
//!   `report` reads the log back;
//! * naming and tracing: `tensors` and `layers`; `trace`, which the tool inserts into traced functions;
//! * writing: `log` with `mapped_file`, `checksum`, `json`, `terminal`; all keep their memory in `untracked`,
//!   which has it from `own_memory`;
//! * giving way: `courtesy` with `courtesy_driver`, which use nothing else;
//! * `random`, which answers with the same random numbers in every revision; `causes` logs what varies;
//! * beginning and end: `constructor`, `environment`, `stamp`, and `body`, which begins and ends the
//!   figures with the test's body; `harness` waits for libtest's main thread.

#![warn(missing_docs)]
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
// A test may call these for nothing, and its crate may deny warnings.
#![allow(clippy::must_use_candidate)]
// Other platforms have no GPU figures, and some code is unused there.
#![cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), allow(dead_code))]

mod assertions;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod blocks;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "body_elsewhere.rs")]
mod body;
mod call_log;
mod call_tree;
mod callback;
mod calls;
mod causes;
mod cells;
mod checksum;
mod constructor;
mod counts;
mod courtesy;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "courtesy_driver_elsewhere.rs"
)]
mod courtesy_driver;
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
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod events;
mod every;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod first_variables;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "gpu_elsewhere.rs")]
mod gpu;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod gpu_metrics;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod gpu_rendezvous;
mod gpus;
mod harness;
mod heap;
mod heap_metrics;
mod json;
mod layer_log;
mod layers;
mod live;
mod live_size_log;
mod live_sizes;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod loaded;
mod lock;
mod log;
mod malloc;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "malloc_library_elsewhere.rs"
)]
mod malloc_library;
mod malloc_link;
#[cfg_attr(not(all(target_os = "linux", target_env = "gnu")), path = "malloc_statistics_elsewhere.rs")]
mod malloc_statistics;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "mapped_file_elsewhere.rs"
)]
mod mapped_file;
mod metric;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod nvml;
mod occurrences;
mod own_memory;
mod parameter;
mod peak_history;
mod pool_metrics;
mod pools;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    path = "random_elsewhere.rs"
)]
mod random;
mod reading;
mod recorder;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod releases;
mod report;
mod resident;
mod scope;
mod scope_log;
mod site_figures;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod sites;
mod size_count;
mod sources;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod stack_bounds;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "stack_log_elsewhere.rs"
)]
mod stack_log;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod stack_walk;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "stacks_elsewhere.rs"
)]
mod stacks;
mod stamp;
mod tally;
mod telling;
mod tensor_log;
mod tensors;
mod terminal;
mod thread_number;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod timeline;
mod trace;
mod untracked;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod unwind_table;
mod usage;

#[doc(hidden)]
pub use assertions::Broken;
pub use cells::{CellUsage, Cells};
#[doc(hidden)]
pub use counts::{Account, Counts};
pub use courtesy::{Courtesy, Movable, Moved, courtesy, movable};
pub use every::Every;
pub use gpus::Gpus;
pub use heap::Heap;
pub use layers::{Forward, forward, layer};
#[doc(hidden)]
pub use layers::{LayerCall, Origin, Output, origin};
pub use parameter::param;
pub use pools::{PoolUsage, WatchedPool, trim, watch_pool};
#[doc(hidden)]
pub use pools::{log_pool, no_pool, watch_driver_pool, watch_pool_once};
pub use reading::Reading;
pub use report::Report;
pub use scope::{Scope, measure};
#[doc(hidden)]
pub use tally::{CAN_BE_OWNED, Claimed, Slot};
pub use tensors::{Device, Kind, Names, Pool, Tensor, pool, tensor};
#[doc(hidden)]
pub use trace::{Block, Site, Traced};
/// A formatted label. The macros format it in a statement of its own, so that what the arguments
/// hold (`scope!("{}", shape.join("×"))`) is freed before the figures are read.
#[doc(hidden)]
pub use untracked::Text as Label;
pub use usage::{Figure, Gpu, Memory, Usage};

/// `cargo memprof` links itself in place of every crate whose metadata has this name. Otherwise the
/// copy of this crate that a manifest names would be linked as well.
#[doc(hidden)]
pub mod cargo_memprof_replaces_this_crate {}

/// The shim's version, in the log's first line.
const VERSION: &str = "0.1.0";

/// Logs a checkpoint: memory now, and its peak and totals since the last checkpoint, in bytes.
///
/// The arguments are those of `format!`. Revisions are matched by the label and its occurrence
/// (1-based: how often this label was logged). So the same label in both revisions compares.
///
/// ```ignore
/// memprof::checkpoint!("epoch {} step {}", epoch, step);
/// ```
#[macro_export]
macro_rules! checkpoint {
    () => {
        $crate::checkpoint!("checkpoint")
    };
    ($($label:tt)+) => {
        if $crate::is_recording() {
            let label = $crate::Label::of(::core::format_args!($($label)+));
            $crate::log_checkpoint(&label, ::core::concat!(::core::file!(), ":", ::core::line!()));
        }
    };
}

/// Logs a checkpoint each n-th time that this line runs; a period of 0 never logs.
///
/// ```ignore
/// memprof::checkpoint_every!(100, "step {}", step);
/// ```
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

/// Measures until the returned guard ([`Scope`]) is dropped, then logs consumed, peaked and used
/// bytes. The arguments are those of `format!`.
///
/// ```ignore
/// let _scope = memprof::scope!("layer {}", index);
/// ```
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

/// Pays now what is otherwise paid at first use, and logs a checkpoint named `warm up`. The cost
/// then has a row of its own and does not appear in a random later one.
///
/// If the program has a CUDA context, this cost is the context, loading NVML, and waiting for the
/// device. This function makes no context, because the program chooses the device. Make the context
/// first, for example with `CudaContext::new(0)` or `Device::new_cuda(0)`, or let [`warm_up_on`] do it.
#[track_caller]
pub fn warm_up() {
    if is_recording() {
        recorder::warm_up();
        let caller = std::panic::Location::caller();
        let at = untracked::Text::of(format_args!("{}:{}", caller.file(), caller.line()));
        recorder::checkpoint("warm up", Some(at.as_str()));
    }
}

/// Makes the context of a CUDA device, and then does what [`warm_up`] does.
///
/// The context (some 500 MiB of the device, a quarter of a second) then belongs to the row `warm up`,
/// and not to the first use of the device. It is the device's primary context, which frameworks and the
/// CUDA runtime share, and stays to the end of the process. If it cannot be made, for example on a
/// machine without a GPU, a warning on standard error says why. Any other device needs none.
#[track_caller]
pub fn warm_up_on(device: Device<'_>) {
    if is_recording() {
        if let Device::Cuda(ordinal) = device {
            if let Err(reason) = gpu::make_context(ordinal) {
                terminal::warn(format_args!("no context on {device}: {reason}"));
            }
        }
        warm_up();
    }
}

/// Returns a table of the checkpoints and scopes so far, and of the named tensors that are alive, with
/// units and the sources of the figures. `{}` shows it:
///
/// ```ignore
/// println!("{}", memprof::report());
/// ```
///
/// Nothing is logged, and the interval since the last checkpoint goes on. Outside a run of `cargo
/// memprof`, the text says that nothing was measured.
pub fn report() -> Report {
    Report::new()
}

/// Returns the figures as data. Nothing is logged, and the interval since the last checkpoint goes
/// on.
///
/// This also works outside a run of `cargo memprof`, and then counts from the start of the process.
/// The heap's figures are there if a [`Heap`] is the global allocator, and the resident ones where
/// the platform has them. Figures that are unavailable are `None`.
pub fn read() -> Reading {
    recorder::read()
}

/// Returns the reports of [`measure`] in a live notebook of evcxr. In a run of `cargo memprof` there
/// are none, because its report has them.
#[inline]
pub fn cells() -> Cells {
    Cells::new(Vec::new(), "the report of `cargo memprof` has the figures")
}

/// Returns a counter for loops whose [`tick`](Every::tick) is true each `period`-th time.
pub fn every(period: u64) -> Every {
    Every::new(period)
}

/// Logs a checkpoint named `epoch`, and returns its 1-based number. Call it at the end of each epoch
/// of a training; revisions are then compared epoch by epoch.
#[track_caller]
pub fn epoch() -> u64 {
    if is_recording() {
        let caller = std::panic::Location::caller();
        let at = untracked::Text::of(format_args!("{}:{}", caller.file(), caller.line()));
        recorder::checkpoint("epoch", Some(at.as_str()));
    }
    every::epoch()
}

/// Whether this is a run of `cargo memprof`, so that checkpoints and scopes are logged.
#[inline]
pub fn is_measuring() -> bool {
    recorder::is_recording()
}

#[doc(hidden)]
#[inline]
pub fn is_recording() -> bool {
    is_measuring()
}

#[doc(hidden)]
#[cold]
pub fn log_checkpoint(label: &Label, at: &'static str) {
    recorder::checkpoint(label.as_str(), Some(at));
}
