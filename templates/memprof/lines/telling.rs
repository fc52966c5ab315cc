//! When the sums of traced calls, and the figures of lines, are logged.

/// In a row of quick calls and lines, only each so many-th looks at the clock. A look takes 25 ns, and
/// a call 20 times as long.
const BETWEEN_LOOKS: u32 = 8;
/// So many looks in a row, each within this time after the one before, make the next ones quick.
const ROW: u32 = 64;
const QUICK: u64 = 1_000_000;
/// The longest time between two logs of the sums. A process that is killed or hangs loses what came
/// after the last log.
const NANOSECONDS_BETWEEN_TELLING: u64 = 1_000_000_000;
/// Before that, the sums are logged after this part of the process's time, so that a test that hangs
/// or aborts in its first second leaves most of what it measured.
const PART_BETWEEN_TELLING: u64 = 3;
/// Lines are logged after this part of the process's time, at the earliest after a second: they are
/// many, and the log of a long run must not be full of them.
const PART_BETWEEN_LINES: u64 = 20;

/// When the sums of calls, and the figures of lines, are logged: about once a second, and more often
/// in the first one, so that a process that is killed leaves most of what it measured.
pub(crate) struct Telling {
    /// Calls and lines until the next look at the clock.
    until_look: u32,
    /// Looks in a row that came soon after the one before.
    quick: u32,
    looked: u64,
    told_calls: u64,
    told_lines: u64,
}

impl Telling {
    pub(crate) const fn new() -> Self {
        Self { until_look: 1, quick: 0, looked: 0, told_calls: 0, told_lines: 0 }
    }

    /// Whether it is time to look at the clock. Called for each call that ends, and for each line.
    pub(crate) fn is_time_to_look(&mut self) -> bool {
        self.until_look -= 1;
        self.until_look == 0
    }

    /// Returns whether to log the calls, and whether to log the lines.
    pub(crate) fn look(&mut self, now: u64) -> (bool, bool) {
        let since = now.saturating_sub(self.looked);
        self.looked = now;
        self.quick = if since < QUICK { self.quick.saturating_add(1) } else { 0 };
        self.until_look = if self.quick > ROW { BETWEEN_LOOKS } else { 1 };
        let usual = NANOSECONDS_BETWEEN_TELLING.min(now / PART_BETWEEN_TELLING);
        let calls = self.told_calls == 0 || now - self.told_calls >= usual;
        let pause = usual.max(now / PART_BETWEEN_LINES);
        let lines = self.told_lines == 0 || now - self.told_lines >= pause;
        self.told_calls = if calls { now } else { self.told_calls };
        self.told_lines = if lines { now } else { self.told_lines };
        (calls, lines)
    }
}
