//! The figures as data, for a test's own assertions.

use std::time::Duration;

use crate::metrics::metric::MAXIMUM;

/// What the process uses now, and since the last checkpoint. Sizes are in bytes. An unavailable
/// figure is `None`.
///
/// ```ignore
/// memprof::checkpoint!("before");
/// decode(&input);
/// let reading = memprof::read();
/// assert!(reading.heap_peak().map_or(true, |bytes| bytes < 64 << 20), "{:?}", reading);
/// ```
#[derive(Clone, Copy)]
pub struct Reading {
    figures: [(&'static str, u64); MAXIMUM],
    length: usize,
}

impl Reading {
    pub(crate) const fn new() -> Self {
        Self { figures: [("", 0); MAXIMUM], length: 0 }
    }

    pub(crate) fn add(&mut self, metric: &'static str, figure: u64) {
        if self.length < MAXIMUM {
            self.figures[self.length] = (metric, figure);
            self.length += 1;
        }
    }

    /// Returns the figure of a metric by its name in the log: `heap.peak`, `cpu.rss`, …
    pub fn get(&self, metric: &str) -> Option<u64> {
        self.iter().find(|&(name, _)| name == metric).map(|(_, figure)| figure)
    }

    /// Returns all figures with the names of their metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.figures[..self.length].iter().copied()
    }

    /// Live heap bytes (`heap.live`). `None` also if there are fewer than when the test's body began.
    pub fn heap_live(&self) -> Option<u64> {
        self.get("heap.live")
    }

    /// Most live heap bytes since the last checkpoint (`heap.peak`).
    pub fn heap_peak(&self) -> Option<u64> {
        self.get("heap.peak")
    }

    /// Heap bytes allocated since the last checkpoint (`heap.allocated`).
    pub fn heap_allocated(&self) -> Option<u64> {
        self.get("heap.allocated")
    }

    /// Number of heap allocations since the last checkpoint (`heap.count`).
    pub fn heap_count(&self) -> Option<u64> {
        self.get("heap.count")
    }

    /// Resident bytes (`cpu.rss`).
    pub fn cpu_rss(&self) -> Option<u64> {
        self.get("cpu.rss")
    }

    /// Most resident bytes since the last checkpoint (`cpu.peak`).
    pub fn cpu_peak(&self) -> Option<u64> {
        self.get("cpu.peak")
    }

    /// Time since `start`; outside a run, since the first reading.
    pub fn time(&self) -> Option<Duration> {
        self.get("time").map(Duration::from_nanos)
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}
