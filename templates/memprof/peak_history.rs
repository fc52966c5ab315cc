//! The highest of a metric's peaks since any mark that still matters.
//!
//! Checkpoints, scope starts and scope ends are all *marks*. Each mark ends an interval and learns the interval's
//! peak; checkpoints and scopes then ask for the highest peak since the mark at which they began. Scopes nest and
//! overlap in any way, on any number of threads, and each has its own exact peak.
//!
//! Kept are the peaks that are higher than all after them, oldest (and highest) first: only they can be an answer.
//! Adding one is constant time on average, asking is a binary search.

use crate::untracked::Untracked;

pub(crate) struct PeakHistory {
    /// Number of the mark that ended the interval, and the interval's peak.
    falling: Untracked<(u64, u64)>,
}

impl PeakHistory {
    pub(crate) const fn new() -> Self {
        Self { falling: Untracked::new() }
    }

    /// Adds the peak of the interval that the mark of this number ended. Numbers grow.
    pub(crate) fn add(&mut self, mark: u64, peak: u64) {
        while self.falling.last().map_or(false, |&(_, last)| last <= peak) {
            self.falling.pop();
        }
        self.falling.push((mark, peak));
    }

    /// The highest peak of the intervals after this mark; `None` if none was added since.
    pub(crate) fn since(&self, mark: u64) -> Option<u64> {
        let first = self.falling.partition_point(|&(number, _)| number <= mark);
        self.falling.get(first).map(|&(_, peak)| peak)
    }

    /// Forgets everything: no mark that anyone will ask for has passed.
    pub(crate) fn clear(&mut self) {
        self.falling.clear();
    }
}
