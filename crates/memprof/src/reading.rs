//! The figures as data. Without `cargo memprof` there are none.

use std::time::Duration;

/// What the process uses now, and since the last checkpoint. Sizes are in bytes. An unavailable
/// figure is `None`. Without `cargo memprof`, all are.
///
/// ```
/// memprof::checkpoint!("before");
/// let reading = memprof::read();
/// assert!(reading.heap_peak().map_or(true, |bytes| bytes < 64 << 20), "{:?}", reading);
/// ```
#[derive(Clone, Copy)]
pub struct Reading(());

impl Reading {
    pub(crate) const fn new() -> Self {
        Self(())
    }

    /// Returns the figure of a metric by its name in the log: `heap.peak`, `cpu.rss`, …
    pub fn get(&self, _metric: &str) -> Option<u64> {
        None
    }

    /// Returns all figures with the names of their metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        std::iter::empty()
    }

    /// Live heap bytes (`heap.live`). `None` also if there are fewer than when the test's body began.
    pub fn heap_live(&self) -> Option<u64> {
        None
    }

    /// Most live heap bytes since the last checkpoint (`heap.peak`).
    pub fn heap_peak(&self) -> Option<u64> {
        None
    }

    /// Heap bytes allocated since the last checkpoint (`heap.allocated`).
    pub fn heap_allocated(&self) -> Option<u64> {
        None
    }

    /// Number of heap allocations since the last checkpoint (`heap.count`).
    pub fn heap_count(&self) -> Option<u64> {
        None
    }

    /// Resident bytes (`cpu.rss`).
    pub fn cpu_rss(&self) -> Option<u64> {
        None
    }

    /// Most resident bytes since the last checkpoint (`cpu.peak`).
    pub fn cpu_peak(&self) -> Option<u64> {
        None
    }

    /// Time since `start`; outside a run, since the first reading.
    pub fn time(&self) -> Option<Duration> {
        None
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}
