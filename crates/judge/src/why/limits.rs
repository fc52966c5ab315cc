//! The limits that a test broke at the candidate, and the figures that broke them.

use crate::compare::comparison::{Breach, Comparison, PairView};
use crate::results::measurement::Kind;
use crate::results::outcome::Status;
use crate::results::stack_log::{Interval, StackLog};
use crate::why::chosen::names;
use crate::why::difference::{CheckpointName, Measure};

/// At most this many limits of a test are explained.
const MOST_LIMITS: usize = 3;

/// The macro of the crate `memprof` that counts allocations.
const OF_ALLOCATIONS: &str = "assert_allocations! at ";

/// The one that asserts that nothing is kept.
const OF_LEAKS: &str = "assert_no_leak! at ";

/// What these write behind the figure.
const BEHIND_FIGURE: &str = ", and the limit is ";

/// Figures are the same if they differ by at most this part: a run with call stacks may have others.
const SAME: i64 = 100;

/// A failed assertion makes fewer allocations than this for its message. They are in the same interval.
const OF_MESSAGE: i64 = 16;

/// A figure that broke a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokenLimit {
    pub metric: String,
    pub at: Where,
}

/// Where a figure broke a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// The checkpoint at which it is highest.
    Checkpoint(CheckpointName),
    /// In a scope with one of these figures, because an assertion of the test is about it.
    Scope(Vec<i64>),
}

impl BrokenLimit {
    /// Returns each metric that broke a limit of a test once, at its highest figure, and the assertion of the
    /// test that does not hold.
    pub fn all(comparison: &Comparison, view: &PairView<'_>) -> Vec<Self> {
        let mut worst: Vec<&Breach> = Vec::new();
        for breach in view.pair.breaches.iter().filter(|breach| breach.counts()) {
            match worst.iter_mut().find(|known| known.metric == breach.metric && known.kind == breach.kind) {
                Some(known) if breach.value > known.value => *known = breach,
                Some(_) => {}
                None => worst.push(breach),
            }
        }
        let of_breach = |breach: &Breach| {
            let [_, at] = names(view, &view.rows[breach.row]);
            Some(Self { metric: breach.metric.clone(), at: Where::Checkpoint(at?) })
        };
        let own = own_message(comparison, view);
        let own = own.map(|message| Self::of_assertion(message, || scope_peaks(view)));
        let mut all: Vec<Self> = Vec::new();
        for limit in worst.into_iter().filter_map(of_breach).chain(own) {
            // A limit and a leak may be broken by one figure.
            if !all.contains(&limit) {
                all.push(limit);
            }
        }
        all.truncate(MOST_LIMITS);
        all
    }

    /// An assertion is about the heap's peak, unless it counts allocations or what is left.
    fn of_assertion(message: &str, peaks: impl FnOnce() -> Vec<i64>) -> Self {
        let stated = || stated(message).into_iter().collect();
        let (metric, figures) = if message.contains(OF_ALLOCATIONS) {
            ("heap.count", stated())
        } else if message.contains(OF_LEAKS) {
            ("heap.live", stated())
        } else {
            ("heap.peak", peaks())
        };
        Self { metric: metric.to_owned(), at: Where::Scope(figures) }
    }

    /// Returns the checkpoint at the end of the interval with this figure. `None` if each interval has
    /// other memory, too: its call sites would say nothing of the figure.
    pub fn checkpoint(&self, log: &StackLog) -> Option<CheckpointName> {
        let figures = match &self.at {
            Where::Checkpoint(at) => return Some(at.clone()),
            Where::Scope(figures) => figures,
        };
        let (family, measure) = Measure::of_metric(&self.metric)?;
        let is_count = self.metric == "heap.count";
        let of_message = if is_count { OF_MESSAGE } else { 0 };
        let is_meant = |interval: &&Interval| {
            let found = measure.get(interval.total);
            let is_near = |figure: &i64| {
                let same = figure.abs() / SAME;
                (figure - same..=figure + same.max(of_message)).contains(&found)
            };
            figures.iter().any(is_near)
        };
        // The first of several that are equal.
        let intervals = log.family(family)?.intervals.iter().rev().filter(is_meant);
        let rank = |interval: &&Interval| {
            let found = measure.get(interval.total);
            if is_count { -found } else { found }
        };
        let meant = intervals.max_by_key(rank)?;
        Some(CheckpointName { label: meant.label.clone(), occurrence: meant.occurrence })
    }

    /// Returns why no checkpoint has the figure, and what helps.
    pub fn advice(&self) -> &'static str {
        match &*self.metric {
            "heap.count" => {
                "more is allocated around the measured code than the assertion counts: \
                 put checkpoints before and after that code"
            }
            "heap.live" => {
                "no checkpoint has what the measured code kept and nothing else: \
                 put one after that code, and free all else before it"
            }
            _ => {
                "the peak that broke the assertion is not the highest one around it: \
                 put checkpoints before and after the measured code"
            }
        }
    }
}

/// Returns the figure in the message of an assertion: `the heap grew by 4.77 MiB (5000000 B), and the limit
/// is 0 B`, `1 allocation, and the limit is 0 allocations`.
fn stated(message: &str) -> Option<i64> {
    let (before, _) = message.split_once(BEHIND_FIGURE)?;
    before.rsplit(' ').nth(1)?.trim_start_matches('(').parse().ok()
}

/// Returns the highest heap figure of each scope at the candidate.
fn scope_peaks(view: &PairView<'_>) -> Vec<i64> {
    let [used, peaked] = ["heap.used", "heap.peaked"].map(|metric| view.candidate.column(metric));
    let (Some(used), Some(peaked)) = (used, peaked) else { return Vec::new() };
    let scopes = view.candidate.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Scope);
    let peak = |(index, _)| Some(used.figure(index)?.value.saturating_add(peaked.figure(index)?.value));
    scopes.filter_map(peak).collect()
}

/// Returns the message of an assertion of the test that does not hold; empty if there is none.
fn own_message<'a>(comparison: &'a Comparison, view: &PairView<'_>) -> Option<&'a str> {
    if !view.breaks_own_limit() {
        return None;
    }
    let outcomes = view.candidate.failed.iter().map(|&run| &comparison.runs[run].record.outcome);
    let mut messages = outcomes.filter(|outcome| outcome.status == Status::OverLimit);
    Some(messages.find_map(|outcome| outcome.message.as_deref()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::stack_log::{Family, Figures};

    fn log() -> StackLog {
        let interval = |label: &str, at_peak, live, count| {
            let mut interval = Interval::default();
            (interval.label, interval.occurrence) = (label.to_owned(), 1);
            interval.total = Figures { at_peak, live, count, ..Figures::default() };
            interval
        };
        let intervals = vec![
            interval("start", 0, 0, 0),
            interval("before", 6000, 5000, 100),
            interval("measured", 3_000_100, 5000, 1),
            interval("done", 4_000_000, 39, 9),
        ];
        let family = Family { name: "heap".to_owned(), intervals };
        StackLog { families: vec![family], ..StackLog::default() }
    }

    #[test]
    fn the_peak_of_an_assertion_is_that_of_a_scope() {
        let log = log();
        let found = |metric: &str, peaks: &[i64]| {
            let at = Where::Scope(peaks.to_vec());
            let limit = BrokenLimit { metric: metric.to_owned(), at };
            limit.checkpoint(&log).map(|at| at.label)
        };
        assert_eq!(found("heap.peak", &[3_000_000]).as_deref(), Some("measured"));
        assert_eq!(found("heap.peak", &[1000, 4_000_000]).as_deref(), Some("done"));
        assert_eq!(found("heap.peak", &[2_000_000]), None, "it is hidden by a higher one");
        assert_eq!(found("gpu.0.peak", &[4_000_000]), None);
    }

    #[test]
    fn a_count_and_a_leak_are_those_of_an_interval_with_nothing_else() {
        let log = log();
        let found = |message: &str| {
            let limit = BrokenLimit::of_assertion(message, || vec![4_000_000]);
            let at = limit.checkpoint(&log).map(|at| at.label);
            (limit.metric, at)
        };
        let at = |metric: &str, label: Option<&str>| (metric.to_owned(), label.map(str::to_owned));
        let count = |counted: &str| {
            let limit = "and the limit is 0 allocations\nheap: rise 10 B";
            found(&format!("tests/a.rs:5:9: assert_allocations! at tests/a.rs:5: {counted}, {limit}"))
        };
        assert_eq!(count("1 allocation"), at("heap.count", Some("measured")));
        assert_eq!(count("100 allocations"), at("heap.count", Some("before")));
        assert_eq!(count("8 allocations"), at("heap.count", Some("done")), "one is of the message");
        assert_eq!(count("80 allocations"), at("heap.count", None));
        let leak = |left: &str| {
            let limit = "and the limit is 0 B\nheap: rise 10 B";
            found(&format!("assert_no_leak! at tests/a.rs:5: a page: the heap grew by {left}, {limit}"))
        };
        assert_eq!(leak("4.88 KiB (5000 B)"), at("heap.live", Some("before")), "the first of the same");
        assert_eq!(leak("10 B"), at("heap.live", None), "no peak is named for it");
        assert_eq!(leak("39 B"), at("heap.live", Some("done")));
        assert_eq!(found("tests/a.rs:5:9: heap: rise 4 B"), at("heap.peak", Some("done")));
    }
}
