//! Checkpoints in loops: every n-th time only.

/// Counts, and says at each n-th tick that it is time.
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
/// `memprof::checkpoint_every!(100, "step {}", step)` is the same in one line, with a counter of its own.
#[derive(Clone, Debug)]
pub struct Every {
    period: u64,
    count: u64,
}

impl Every {
    pub(crate) const fn new(period: u64) -> Self {
        Self { period, count: 0 }
    }

    /// Counts one; whether it was the n-th, 2n-th, … A period of 0 never is.
    pub fn tick(&mut self) -> bool {
        self.count += 1;
        self.period != 0 && self.count % self.period == 0
    }

    /// How many ticks there were.
    pub fn count(&self) -> u64 {
        self.count
    }
}
