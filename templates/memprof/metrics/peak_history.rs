//! The highest peak of a metric since any mark that still matters.
//!
//! Checkpoints and the beginnings and ends of scopes are all *marks*. Each mark ends an interval
//! and learns the interval's peak. Checkpoints and scopes then ask for the highest peak since the
//! mark at which they began. Scopes may nest and overlap in any way, on any number of threads; each
//! has its own exact peak.
//!
//! Only peaks that are higher than all later ones can be an answer, so only these are kept, oldest
//! and highest first. Adding one takes constant time on average; asking is a binary search.

use crate::platform::untracked::Untracked;

pub(crate) struct PeakHistory {
    /// The number of the mark that ended the interval, and the interval's peak.
    falling: Untracked<(u64, u64)>,
}

impl PeakHistory {
    pub(crate) const fn new() -> Self {
        Self { falling: Untracked::new() }
    }

    /// Adds the peak of the interval that this mark ended. Numbers of marks grow.
    pub(crate) fn add(&mut self, mark: u64, peak: u64) {
        while self.falling.last().map_or(false, |&(_, last)| last <= peak) {
            self.falling.pop();
        }
        self.falling.push((mark, peak));
    }

    /// Returns the highest peak of the intervals after this mark; `None` if there is none yet.
    pub(crate) fn since(&self, mark: u64) -> Option<u64> {
        let first = self.falling.partition_point(|&(number, _)| number <= mark);
        self.falling.get(first).map(|&(_, peak)| peak)
    }

    /// Drops all peaks, when nothing will ask for earlier marks.
    pub(crate) fn clear(&mut self) {
        self.falling.clear();
    }
}
