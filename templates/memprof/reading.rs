//! The figures as data, for the test itself.

use std::time::Duration;

use crate::metric::MAXIMUM;

/// What the process uses now, and since the last checkpoint. A figure that cannot be had is `None`.
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

    /// The figure of the metric of this name, as in the log: `heap.peak`, `cpu.rss`, …
    pub fn get(&self, metric: &str) -> Option<u64> {
        self.iter().find(|&(name, _)| name == metric).map(|(_, figure)| figure)
    }

    /// All figures with their metrics' names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.figures[..self.length].iter().copied()
    }

    /// Heap bytes live.
    pub fn heap_live(&self) -> Option<u64> {
        self.get("heap.live")
    }

    /// Most heap bytes live since the last checkpoint.
    pub fn heap_peak(&self) -> Option<u64> {
        self.get("heap.peak")
    }

    /// Heap bytes allocated since the last checkpoint.
    pub fn heap_allocated(&self) -> Option<u64> {
        self.get("heap.allocated")
    }

    /// Heap allocations since the last checkpoint.
    pub fn heap_count(&self) -> Option<u64> {
        self.get("heap.count")
    }

    /// Resident bytes.
    pub fn cpu_rss(&self) -> Option<u64> {
        self.get("cpu.rss")
    }

    /// Most bytes resident since the last checkpoint.
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
