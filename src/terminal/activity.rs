//! What is under way, such as a build or a test: it takes long, and no event says so. Pure: whoever
//! has a clock says what time it is.

use std::time::{Duration, Instant};

/// Without a terminal, a build and a series of runs print a line this often.
pub const LINE_EVERY: Duration = Duration::from_secs(10);

/// A test that takes longer is named.
pub const SLOW: Duration = Duration::from_mins(1);

/// A build or a run, and when the next line about it is due.
#[derive(Debug)]
pub struct Activity {
    kind: ActivityKind,
    /// `hf_fwd at main`, or `main · 12 crates · serde`.
    text: String,
    /// When it was first seen.
    since: Option<Instant>,
    /// When the next line about it is due, after `since`.
    due: Duration,
}

/// A kind of activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Cargo builds a revision.
    Build,
    /// A test runs.
    Run,
}

impl Activity {
    /// Something that begins now.
    pub fn begun(kind: ActivityKind, text: String) -> Self {
        let due = match kind {
            ActivityKind::Build => LINE_EVERY,
            ActivityKind::Run => SLOW,
        };
        Self { kind, text, since: None, due }
    }

    /// What kind it is.
    pub fn kind(&self) -> ActivityKind {
        self.kind
    }

    /// What it is: `hf_fwd at main`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Changes the text; the clock goes on.
    pub fn rename(&mut self, text: String) {
        self.text = text;
    }

    /// Returns how long it has been under way, if a line about it is due. A build has a line every
    /// ten seconds, and a test after one minute, two, four, and so on.
    pub fn due(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.duration_since(*self.since.get_or_insert(now));
        if passed < self.due {
            return None;
        }
        self.due = match self.kind {
            ActivityKind::Build => passed + LINE_EVERY,
            ActivityKind::Run => passed * 2,
        };
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_due_every_ten_seconds_and_a_test_after_one_minute_two_and_four() {
        let begin = Instant::now();
        let due = |kind| -> Vec<u64> {
            let mut activity = Activity::begun(kind, "x".to_owned());
            (0..=250).filter(|second| activity.due(begin + Duration::from_secs(*second)).is_some()).collect()
        };
        assert_eq!(due(ActivityKind::Build)[..3], [10, 20, 30]);
        assert_eq!(due(ActivityKind::Run), [60, 120, 240]);
    }
}
