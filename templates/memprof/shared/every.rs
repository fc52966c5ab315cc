//! Checkpoints in loops, only each n-th time, and the number of the epoch.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts ticks, and tells at each n-th one that it is time for a checkpoint.
///
/// ```ignore
/// let mut steps = memprof::every(100);
/// for batch in batches {
///     train(batch);
///     if steps.tick() {
///         memprof::checkpoint!("epoch {} step {}", epoch, steps.count());
///     }
/// }
/// ```
///
/// `memprof::checkpoint_every!(100, "step {}", step)` does the same in one line.
#[derive(Clone, Debug)]
pub struct Every {
    period: u64,
    count: u64,
}

impl Every {
    pub(crate) const fn new(period: u64) -> Self {
        Self { period, count: 0 }
    }

    /// Counts one tick. Returns true for the n-th, 2n-th, … tick; with a period of 0, never.
    pub fn tick(&mut self) -> bool {
        self.count += 1;
        self.period != 0 && self.count % self.period == 0
    }

    /// Returns the number of ticks so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Counts one more epoch. Returns its 1-based number.
pub(crate) fn epoch() -> u64 {
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    EPOCHS.fetch_add(1, Ordering::Relaxed) + 1
}
