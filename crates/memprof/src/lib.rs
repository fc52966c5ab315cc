//! Memory checkpoints, scopes and assertions for tests. They do nothing in an ordinary build, and
//! measure under `cargo memprof`.
//!
//! ```
//! # fn decode(bytes: &[u8]) -> Vec<u8> { bytes.to_vec() }
//! let (image, used) = memprof::measure("decode", || decode(b"sample"));
//! assert!(used.heap.rise < 4 << 20, "{used}");
//! memprof::checkpoint!("decoded {} bytes", image.len());
//! ```
//!
//! [`courtesy`] is an exception: it works in every build.
//!
//! `cargo memprof` links a crate with the same items in place of this one, which measures. Here, a
//! call costs at most a branch and allocates nothing. The arguments of a label are compiled, but
//! neither evaluated nor formatted. Figures are absent: [`Reading`] has none, and an assertion about
//! a [`Usage`] passes.
//!
//! In a live notebook of evcxr, [`measure`] measures without `cargo memprof`, as far as it can be
//! done there, and [`cells`] returns its reports.
//!
//! No dependencies, no build script; Rust 1.63 and later.

#![warn(missing_docs)]
// A test may call these for nothing, and its crate may deny warnings.
#![allow(clippy::must_use_candidate)]

use std::fmt;
use std::str::FromStr;

mod heap;
mod kernel;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "kernel_gpus_elsewhere.rs"
)]
mod kernel_gpus;
mod layers;
mod platform;
mod pools;
mod reading;
mod report;
mod resident;
mod scope;
// Only the crate that measures makes figures and asks for all that is here.
#[allow(dead_code)]
mod shared;
mod tensors;

pub use layers::{Forward, forward, layer};
pub use pools::{WatchedPool, trim, watch_pool};
pub use reading::Reading;
pub use report::Report;
pub use scope::{Scope, measure};
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
pub use tensors::{Names, pool, tensor};

/// `cargo memprof` recognizes this crate by this name, and links its own in place of it.
#[doc(hidden)]
pub mod cargo_memprof_replaces_this_crate {}

/// Logs a checkpoint: memory now, and its peak and totals since the last checkpoint, in bytes.
///
/// The arguments are those of `format!`. Revisions are matched by the label and its occurrence
/// (1-based: how often this label was logged). So the same label in both revisions compares.
///
/// ```
/// let (epoch, step) = (1, 2);
/// memprof::checkpoint!("epoch {} step {}", epoch, step);
/// ```
#[macro_export]
macro_rules! checkpoint {
    () => {
        $crate::checkpoint!("checkpoint")
    };
    ($($label:tt)+) => {
        if $crate::is_measuring() {
            let _ = ::core::format_args!($($label)+);
        }
    };
}

/// Logs a checkpoint each n-th time that this line runs; a period of 0 never logs.
///
/// ```
/// for step in 0..1_000 {
///     memprof::checkpoint_every!(100, "step {}", step);
/// }
/// ```
#[macro_export]
macro_rules! checkpoint_every {
    ($period:expr, $($label:tt)+) => {
        if $crate::is_measuring() {
            let _: u64 = $period;
            $crate::checkpoint!($($label)+);
        }
    };
}

/// Measures until the returned guard ([`Scope`]) is dropped, then logs consumed, peaked and used
/// bytes. The arguments are those of `format!`.
///
/// ```
/// let index = 3;
/// let _scope = memprof::scope!("layer {}", index);
/// ```
#[macro_export]
macro_rules! scope {
    ($($label:tt)+) => {{
        if $crate::is_measuring() {
            let _ = ::core::format_args!($($label)+);
        }
        $crate::Scope::inert()
    }};
}

/// Pays now what is otherwise paid at first use, and logs a checkpoint named `warm up`. The cost
/// then has a row of its own and does not appear in a random later one.
///
/// If the program has a CUDA context, this cost is the context, loading NVML, and waiting for the
/// device. This function makes no context, because the program chooses the device. Make the context
/// first, for example with `CudaContext::new(0)` or `Device::new_cuda(0)`, or let [`warm_up_on`] do it.
#[inline]
pub fn warm_up() {}

/// Makes the context of a CUDA device, and then does what [`warm_up`] does.
///
/// The context (some 500 MiB of the device, a quarter of a second) then belongs to the row `warm up`,
/// and not to the first use of the device. It is the device's primary context, which frameworks and the
/// CUDA runtime share, and stays to the end of the process. If it cannot be made, for example on a
/// machine without a GPU, a warning on standard error says why. Any other device needs none.
#[inline]
pub fn warm_up_on(_device: Device<'_>) {}

/// Returns a table of the checkpoints and scopes so far, and of the named tensors that are alive, with
/// units and the sources of the figures. `{}` shows it:
///
/// ```
/// println!("{}", memprof::report());
/// ```
///
/// Nothing is logged, and the interval since the last checkpoint goes on. Outside a run of `cargo
/// memprof`, the text says that nothing was measured.
pub fn report() -> Report {
    Report::new()
}

/// Returns the figures as data. Nothing is logged, and the interval since the last checkpoint goes
/// on. Without `cargo memprof`, all of them are `None`.
#[inline]
pub fn read() -> Reading {
    Reading::new()
}

/// Returns what the calls of [`measure`] since the last call of this function used, in the order in
/// which they ended.
///
/// This is for notebooks: in a live kernel of evcxr, [`measure`] measures, and this as the last
/// expression of a cell shows a table. Elsewhere there are no reports.
#[inline]
pub fn cells() -> Cells {
    if kernel::is_live() { kernel::cells() } else { Cells::new(Vec::new(), "") }
}

/// Returns a counter for loops whose [`tick`](Every::tick) is true each `period`-th time.
pub fn every(period: u64) -> Every {
    Every::new(period)
}

/// Logs a checkpoint named `epoch`, and returns its 1-based number. Call it at the end of each epoch
/// of a training; revisions are then compared epoch by epoch.
pub fn epoch() -> u64 {
    shared::every::epoch()
}

/// Whether this is a run of `cargo memprof`, so that checkpoints and scopes are logged.
#[inline]
pub fn is_measuring() -> bool {
    false
}

/// Returns the value of a parameter of this test (`--param batch=8,64`), if it has one.
///
/// `None` means that the test runs without this parameter, or outside a run of `cargo memprof`. So
/// give a default:
///
/// ```
/// let batch = memprof::param("batch").unwrap_or(8);
/// # assert_eq!(batch, 8);
/// ```
///
/// # Panics
///
/// Under `cargo memprof`, the value is not a `T`. A test that went on with a default would measure
/// something else.
#[inline]
pub fn param<T: FromStr>(_name: &str) -> Option<T>
where
    T::Err: fmt::Display,
{
    None
}
