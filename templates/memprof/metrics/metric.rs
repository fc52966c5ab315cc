//! The metrics of this process: their names, their sources, and how they behave between
//! checkpoints.

use crate::platform::untracked::Untracked;

/// Most metrics of a process: eight GPUs with a dozen each, and room for the rest.
pub(crate) const MAXIMUM: usize = 128;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A figure of the moment.
    Level,
    /// The highest figure since the last mark, and its level. For the family `heap`, scopes report
    /// `heap.consumed`, `heap.peaked` and `heap.used`.
    Peak { family: &'static str, level: Index },
    /// A sum that only grows. A checkpoint shows its growth since the last one.
    Total,
}

#[derive(Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// What the figure is read from, with the bound of its error if it is not exact.
    pub(crate) source: &'static str,
    pub(crate) kind: Kind,
    /// The reason to log if it can no longer be read; empty if that needs no reason.
    pub(crate) lost: &'static str,
    /// If it appears late: whether it was zero before, rather than unknown.
    pub(crate) is_zero_before: bool,
    /// What a level or a peak is logged above: the level when the test's body began.
    pub(crate) base: u64,
}

/// The reason for most sources, which are files.
const LOST: &str = "can no longer be read; the program may have closed a file descriptor of memprof";

/// A metric's place in the catalogue, and its figure's place in [`Values`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index(usize);

impl Index {
    pub(crate) fn at(place: usize) -> Self {
        Self(place)
    }

    pub(crate) fn place(self) -> usize {
        self.0
    }
}

/// A metric that this process does not have.
#[derive(Clone, Copy)]
pub(crate) struct Absent {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
}

/// The metrics that the sources have, and those that they lack.
pub(crate) struct Catalogue {
    metrics: Untracked<Metric>,
    absent: Untracked<Absent>,
}

impl Catalogue {
    pub(crate) const fn new() -> Self {
        Self { metrics: Untracked::new(), absent: Untracked::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, source: &'static str, kind: Kind) -> Index {
        self.add_metric(Metric { name, source, kind, lost: LOST, is_zero_before: true, base: 0 })
    }

    /// Adds a metric, which may appear late ([`Source::appear`](crate::metrics::source::Source::appear)).
    pub(crate) fn add_metric(&mut self, metric: Metric) -> Index {
        assert!(self.metrics.len() < MAXIMUM, "memprof: more than {MAXIMUM} metrics");
        self.metrics.push(metric);
        Index(self.metrics.len() - 1)
    }

    pub(crate) fn add_absent(&mut self, name: &'static str, reason: &'static str) {
        self.absent.push(Absent { name, reason });
    }

    pub(crate) fn absent(&self) -> &[Absent] {
        &self.absent
    }

    pub(crate) fn length(&self) -> usize {
        self.metrics.len()
    }

    pub(crate) fn metric(&self, index: Index) -> &Metric {
        &self.metrics[index.0]
    }

    /// Logs levels and peaks of this metric above this level from now on.
    pub(crate) fn set_base(&mut self, index: Index, base: u64) {
        self.metrics.as_mut()[index.0].base = base;
    }

    pub(crate) fn metrics(&self) -> impl Iterator<Item = (Index, &Metric)> {
        self.metrics.iter().enumerate().map(|(index, metric)| (Index(index), metric))
    }
}

/// A figure for each metric; `None` where it could not be read this time.
#[derive(Clone, Copy)]
pub(crate) struct Values([Option<u64>; MAXIMUM]);

impl Values {
    pub(crate) const fn new() -> Self {
        Self([None; MAXIMUM])
    }

    pub(crate) fn set(&mut self, index: Index, value: Option<u64>) {
        self.0[index.0] = value;
    }

    pub(crate) fn get(&self, index: Index) -> Option<u64> {
        self.0[index.0]
    }
}

/// One value of a type for each metric.
pub(crate) struct PerMetric<T>([T; MAXIMUM]);

impl<T> PerMetric<T> {
    pub(crate) const fn new(all: [T; MAXIMUM]) -> Self {
        Self(all)
    }

    pub(crate) fn get(&self, index: Index) -> &T {
        &self.0[index.0]
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> &mut T {
        &mut self.0[index.0]
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}
