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
//! No dependencies; Rust 1.63 and later. `DESIGN.md` has the folders and their order.

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

mod blocks;
mod gpu;
mod heap;
mod lines;
mod log;
mod metrics;
mod platform;
mod recorder;
mod shared;
mod sources;
mod stacks;
mod views;

#[doc(hidden)]
pub use blocks::tally::{CAN_BE_OWNED, Claimed, Slot};
#[doc(hidden)]
pub use heap::counts::{Account, Counts};
#[doc(hidden)]
pub use lines::passes::{Origin, Output};
#[doc(hidden)]
pub use lines::traced_function::Site;
/// A formatted label. The macros format it in a statement of its own, so that what the arguments
/// hold (`scope!("{}", shape.join("×"))`) is freed before the figures are read.
#[doc(hidden)]
pub use platform::untracked::Text as Label;
pub use recorder::reading::Reading;
#[doc(hidden)]
pub use shared::assertions::Broken;
pub use shared::cells::{CellUsage, Cells};
pub use shared::courtesy::{Courtesy, Movable, Moved, courtesy, movable};
pub use shared::every::Every;
pub use shared::figure::Figure;
pub use shared::gpus::{Gpu, Gpus};
pub use shared::heap::Heap;
pub use shared::memory::Memory;
pub use shared::pool_usage::PoolUsage;
pub use shared::tensor::{Device, Kind, Pool, Tensor};
pub use shared::usage::Usage;
pub use views::layers::{Forward, forward, layer};
#[doc(hidden)]
pub use views::layers::{LayerCall, origin};
pub use views::parameter::param;
pub use views::pools::{WatchedPool, trim, watch_pool};
#[doc(hidden)]
pub use views::pools::{log_pool, no_pool, watch_driver_pool, watch_pool_once};
pub use views::report::Report;
pub use views::scope::{Scope, measure};
pub use views::tensors::{Names, pool, tensor};
#[doc(hidden)]
pub use views::trace::{Block, Traced, enter_span, exit_span};

use platform::untracked;
use recorder::requests;

/// `cargo memprof` links itself in place of every crate whose metadata has this name. Otherwise the
/// copy of this crate that a manifest names would be linked as well.
#[doc(hidden)]
pub mod cargo_memprof_replaces_this_crate {}

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
            let label = $crate::Label::format(::core::format_args!($($label)+));
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
            let label = $crate::Label::format(::core::format_args!($($label)+));
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
        requests::warm_up();
        let caller = std::panic::Location::caller();
        let at = untracked::Text::format(format_args!("{}:{}", caller.file(), caller.line()));
        requests::checkpoint("warm up", Some(at.as_str()));
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
            if let Err(reason) = gpu::devices::make_context(ordinal) {
                log::terminal::warn(format_args!("no context on {device}: {reason}"));
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
    requests::read()
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
        let at = untracked::Text::format(format_args!("{}:{}", caller.file(), caller.line()));
        requests::checkpoint("epoch", Some(at.as_str()));
    }
    shared::every::epoch()
}

/// Whether this is a run of `cargo memprof`, so that checkpoints and scopes are logged.
#[inline]
pub fn is_measuring() -> bool {
    platform::process::is_recording()
}

#[doc(hidden)]
#[inline]
pub fn is_recording() -> bool {
    is_measuring()
}

#[doc(hidden)]
#[cold]
pub fn log_checkpoint(label: &Label, at: &'static str) {
    requests::checkpoint(label.as_str(), Some(at));
}
