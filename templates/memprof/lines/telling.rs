//! When the sums of traced calls, and the figures of lines, are logged.

/// The time between two logs of the sums, at first. A process that is killed or hangs loses what came
/// after the last log.
const PAUSE: u64 = 1_000_000_000;
/// In the first seconds, the sums are logged after this part of the process's time, so that a test
/// that hangs or aborts in its first second leaves most of what it measured.
const PART: u64 = 3;
/// After this part of the time between two logs without a call or a line, something slow has ended,
/// and is logged at once.
const SLOW: u64 = 8;
/// So many bytes of sums double the time between two logs: 8 MiB, as a power of two. With thousands
/// of functions, sums are some MiB, and the log of a long test must stay small enough to be read.
const BYTES: u32 = 23;

/// When the sums of calls, and the figures of lines, are logged: about once a second, more often in
/// the first one, and less often the more was logged. So a process that is killed leaves most of what
/// it measured.
pub(crate) struct Telling {
    /// The time of the last call or line, and of the last log.
    last: u64,
    told: u64,
    bytes: u64,
}

impl Telling {
    pub(crate) const fn new() -> Self {
        Self { last: 0, told: 0, bytes: 0 }
    }

    /// Returns whether to log calls and lines. Asked at each call that begins or ends, and for each
    /// line.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let slower = 1 << (self.bytes >> BYTES).min(30);
        let quiet = now.saturating_sub(self.last);
        self.last = now;
        self.told == 0
            || now.saturating_sub(self.told) >= PAUSE.min(now / PART) * slower
            || quiet >= PAUSE / SLOW * slower
    }

    /// They have been logged by now, with so many bytes.
    pub(crate) fn told(&mut self, now: u64, bytes: u64) {
        self.last = now;
        self.told = now;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
