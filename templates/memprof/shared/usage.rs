//! What a piece of code used, as data for a test's own assertions.

use std::fmt;
use std::time::Duration;

use crate::shared::bytes::Bytes;
use crate::shared::figure::{Figure, NOT_MEASURED, State};
use crate::shared::gpus::Gpus;
use crate::shared::memory::Memory;

/// What a piece of code used: the result of [`measure`](crate::measure) and of
/// [`Scope::finish`](crate::Scope::finish).
///
/// `{}` shows it in one line, and `{:#}` in three. Both say so if nothing was measured.
///
/// ```
/// let (sum, used) = memprof::measure("sum", || (1..=10).sum::<u32>());
/// assert!(used.heap.rise < 4 << 20, "{used}");
/// # assert_eq!(sum, 55);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// Rust's global allocator (`heap`).
    pub heap: Memory,
    /// Resident memory of the process (`cpu`).
    pub cpu: Memory,
    /// The GPUs whose allocations are counted and that the process uses, as a slice.
    pub gpus: Gpus,
    /// Bytes requested from the global allocator in between (`heap.allocated`).
    pub heap_allocated: Figure<u64>,
    /// Number of allocations in between (`heap.count`).
    pub heap_count: Figure<u64>,
    /// Time between beginning and end.
    pub time: Figure<Duration>,
}

impl Usage {
    /// Nothing was measured, because this is no run.
    pub(crate) const fn not_measured() -> Self {
        Self {
            heap: Memory::NOT_MEASURED,
            cpu: Memory::NOT_MEASURED,
            gpus: Gpus::new(),
            heap_allocated: Figure::NOT_MEASURED,
            heap_count: Figure::NOT_MEASURED,
            time: Figure::NOT_MEASURED,
        }
    }

    /// Nothing could be measured, although this is a run.
    pub(crate) const fn unavailable(reason: &'static str) -> Self {
        Self {
            heap: Memory::unavailable(reason),
            cpu: Memory::unavailable(reason),
            gpus: Gpus::new(),
            heap_allocated: Figure::unavailable(reason),
            heap_count: Figure::unavailable(reason),
            time: Figure::unavailable(reason),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if formatter.alternate() { "\n" } else { "; " };
        let time = match self.time.0 {
            State::Measured(time) => time,
            State::NotMeasured => return formatter.write_str(NOT_MEASURED),
            State::Unavailable(reason) => return write!(formatter, "not measured: {reason}"),
        };
        write!(formatter, "heap: {}", self.heap)?;
        if let (Some(count), Some(bytes)) = (self.heap_count.get(), self.heap_allocated.get()) {
            let noun = if count == 1 { "allocation" } else { "allocations" };
            write!(formatter, ", {count} {noun} of {}", Bytes(bytes.into()))?;
        }
        write!(formatter, "{separator}cpu: {}{separator}", self.cpu)?;
        for gpu in &self.gpus {
            write!(formatter, "gpu {}: {}; ", gpu.device, gpu.memory)?;
        }
        write!(formatter, "time: {time:.1?}")
    }
}
