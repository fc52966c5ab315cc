//! What a piece of code used, as data for a test's own assertions.
//!
//! The crate for ordinary builds (`crates/memprof`) has the same file.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use crate::gpus::Gpus;

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

/// One kind of memory over a piece of code, in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Memory {
    /// The highest point above the beginning: all that the code needed, its result included.
    pub rise: Figure<u64>,
    /// The part of the rise that was needed only in between: the highest point above the larger of
    /// the two ends. A result that the code returns is not in it.
    pub transient: Figure<u64>,
    /// Memory at the end minus memory at the beginning. Negative if memory was given back.
    pub kept: Figure<i64>,
    /// Memory in use at the end.
    pub at_end: Figure<u64>,
}

/// One GPU in a [`Usage`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Gpu {
    /// The device as in the metrics: `0` in `gpu.0.peak`.
    pub device: &'static str,
    /// Its memory.
    pub memory: Memory,
}

/// A figure that may be absent. Compare it with a limit, or take it with [`get`](Figure::get).
///
/// * Measured: it compares like its value.
/// * Not measured, because this is an ordinary build or the program was started by hand: it is below
///   every limit and equal to nothing. So `assert!(figure < limit)` and `<=` pass.
/// * Unavailable in a run of `cargo memprof`: it is neither below nor above anything. So these
///   assertions fail, because nobody knows whether they hold.
#[derive(Clone, Copy)]
pub struct Figure<T>(State<T>);

#[derive(Clone, Copy)]
enum State<T> {
    Measured(T),
    NotMeasured,
    /// With the reason.
    Unavailable(&'static str),
}

impl<T> Figure<T> {
    pub(crate) const NOT_MEASURED: Self = Self(State::NotMeasured);

    pub(crate) const fn unavailable(reason: &'static str) -> Self {
        Self(State::Unavailable(reason))
    }

    pub(crate) fn measured(value: T) -> Self {
        Self(State::Measured(value))
    }
}

impl<T: Copy> Figure<T> {
    /// Returns the value, if there is one.
    pub fn get(self) -> Option<T> {
        match self.0 {
            State::Measured(value) => Some(value),
            State::NotMeasured | State::Unavailable(_) => None,
        }
    }

    /// Returns why a run of `cargo memprof` lacks this figure. `None` if it was measured, and
    /// outside a run.
    pub fn why_unavailable(self) -> Option<&'static str> {
        match self.0 {
            State::Unavailable(reason) => Some(reason),
            State::Measured(_) | State::NotMeasured => None,
        }
    }
}

impl Memory {
    pub(crate) const NOT_MEASURED: Self = Self {
        rise: Figure::NOT_MEASURED,
        transient: Figure::NOT_MEASURED,
        kept: Figure::NOT_MEASURED,
        at_end: Figure::NOT_MEASURED,
    };

    pub(crate) const fn unavailable(reason: &'static str) -> Self {
        Self {
            rise: Figure::unavailable(reason),
            transient: Figure::unavailable(reason),
            kept: Figure::unavailable(reason),
            at_end: Figure::unavailable(reason),
        }
    }

    /// Without the transient part, its reason: the highest point in between is unknown, too.
    pub(crate) fn measured(kept: i64, transient: Result<u64, &'static str>, at_end: u64) -> Self {
        let (rise, transient) = match transient {
            Ok(bytes) => {
                let rise = bytes.saturating_add(u64::try_from(kept).unwrap_or(0));
                (Figure::measured(rise), Figure::measured(bytes))
            }
            Err(reason) => (Figure::unavailable(reason), Figure::unavailable(reason)),
        };
        Self { rise, transient, kept: Figure::measured(kept), at_end: Figure::measured(at_end) }
    }
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

// There is no `limit > figure`: an implementation for `u64` would make types ambiguous in code that
// this crate is linked to, such as `size == text.parse().unwrap()`.
impl<T: PartialEq> PartialEq<T> for Figure<T> {
    fn eq(&self, other: &T) -> bool {
        match &self.0 {
            State::Measured(value) => value == other,
            State::NotMeasured | State::Unavailable(_) => false,
        }
    }
}

impl<T: PartialOrd> PartialOrd<T> for Figure<T> {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        match &self.0 {
            State::Measured(value) => value.partial_cmp(other),
            State::NotMeasured => Some(Ordering::Less),
            State::Unavailable(_) => None,
        }
    }
}

pub(crate) const NOT_MEASURED: &str = "not measured; run under `cargo memprof`";

/// The value, or why there is none.
impl<T: fmt::Debug> fmt::Debug for Figure<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Measured(value) => value.fmt(formatter),
            State::NotMeasured => formatter.write_str(NOT_MEASURED),
            State::Unavailable(reason) => write!(formatter, "unavailable: {reason}"),
        }
    }
}

impl<T: fmt::Debug> fmt::Display for Figure<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
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

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, at_end) = match (self.kept.0, self.at_end.0) {
            (State::Measured(kept), State::Measured(at_end)) => (Bytes(kept.into()), Bytes(at_end.into())),
            (State::Unavailable(reason), _) | (_, State::Unavailable(reason)) => {
                return write!(formatter, "unavailable ({reason})");
            }
            _ => return formatter.write_str(NOT_MEASURED),
        };
        match (self.rise.0, self.transient.0) {
            (State::Measured(rise), State::Measured(transient)) => {
                let (rise, transient) = (Bytes(rise.into()), Bytes(transient.into()));
                write!(formatter, "rise {rise}, transient {transient}, kept {kept}, {at_end} at the end")
            }
            (State::Unavailable(reason), _) | (_, State::Unavailable(reason)) => {
                write!(formatter, "kept {kept}, {at_end} at the end, peak unavailable ({reason})")
            }
            _ => formatter.write_str(NOT_MEASURED),
        }
    }
}

/// Bytes as the reports show them: `812 KiB`, `9.85 MiB`.
pub(crate) struct Bytes(pub(crate) i128);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.unsigned_abs() < 1024 {
            return write!(formatter, "{} B", self.0);
        }
        // Shown with three digits.
        #[allow(clippy::cast_precision_loss)]
        let mut value = self.0 as f64 / 1024.0;
        let mut units = ["MiB", "GiB", "TiB", "PiB", "EiB"].iter();
        let mut unit = "KiB";
        // From here on, it would be shown as 1000 or more.
        while value.abs() >= 999.5 {
            match units.next() {
                Some(next) => unit = next,
                None => break,
            }
            value /= 1024.0;
        }
        let digits = match value.abs() {
            below if below < 9.995 => 2,
            below if below < 99.95 => 1,
            _ => 0,
        };
        write!(formatter, "{value:.digits$} {unit}")
    }
}
