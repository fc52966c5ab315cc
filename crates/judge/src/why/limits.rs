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

/// A peak is that of a scope if they differ by at most this part of it: a run with call stacks may have
/// other figures.
const SAME: i64 = 100;

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
    /// In one of the scopes with these peaks, because an assertion of the test is about one.
    Scope(Vec<i64>),
}

impl BrokenLimit {
    /// Returns each metric that broke a limit of a test once, at its highest figure. An assertion of the
    /// test is about the heap's peak, unless it counts allocations.
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
        let own = own_metric(comparison, view);
        let own = own.map(|metric| Self { metric: metric.to_owned(), at: Where::Scope(scope_peaks(view)) });
        worst.into_iter().filter_map(of_breach).chain(own).take(MOST_LIMITS).collect()
    }

    /// Returns the checkpoint at the end of the interval in which the figure was so high.
    pub fn checkpoint(&self, log: &StackLog) -> Option<CheckpointName> {
        let peaks = match &self.at {
            Where::Checkpoint(at) => return Some(at.clone()),
            Where::Scope(peaks) => peaks,
        };
        let (family, measure) = Measure::of_metric(&self.metric)?;
        let is_meant = |interval: &&Interval| {
            let is_same = |peak: &i64| (interval.total.at_peak - peak).abs() <= peak.abs() / SAME;
            measure != Measure::AtPeak || peaks.iter().any(is_same)
        };
        // The first of several that are equal.
        let intervals = log.family(family)?.intervals.iter().rev().filter(is_meant);
        let highest = intervals.max_by_key(|interval| measure.get(interval.total))?;
        Some(CheckpointName { label: highest.label.clone(), occurrence: highest.occurrence })
    }
}

/// Returns the highest heap figure of each scope at the candidate.
fn scope_peaks(view: &PairView<'_>) -> Vec<i64> {
    let [used, peaked] = ["heap.used", "heap.peaked"].map(|metric| view.candidate.column(metric));
    let (Some(used), Some(peaked)) = (used, peaked) else { return Vec::new() };
    let scopes = view.candidate.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Scope);
    let peak = |(index, _)| Some(used.figure(index)?.value.saturating_add(peaked.figure(index)?.value));
    scopes.filter_map(peak).collect()
}

/// Returns the metric of an assertion of the test that does not hold.
fn own_metric(comparison: &Comparison, view: &PairView<'_>) -> Option<&'static str> {
    if !view.breaks_own_limit() {
        return None;
    }
    let outcomes = view.candidate.failed.iter().map(|&run| &comparison.runs[run].record.outcome);
    let mut messages = outcomes.filter(|outcome| outcome.status == Status::OverLimit);
    let message = messages.find_map(|outcome| outcome.message.as_deref());
    Some(if message.is_some_and(|text| text.contains(OF_ALLOCATIONS)) { "heap.count" } else { "heap.peak" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::stack_log::{Family, Figures};

    fn interval(label: &str, at_peak: i64, count: i64) -> Interval {
        let mut interval = Interval::default();
        (interval.label, interval.occurrence) = (label.to_owned(), 1);
        interval.total = Figures { at_peak, count, ..Figures::default() };
        interval
    }

    #[test]
    fn the_peak_of_an_assertion_is_that_of_a_scope() {
        let intervals =
            vec![interval("start", 0, 0), interval("measured", 3_000_100, 1), interval("done", 4_000_000, 9)];
        let family = Family { name: "heap".to_owned(), intervals };
        let log = StackLog { families: vec![family], ..StackLog::default() };
        let found = |metric: &str, peaks: &[i64]| {
            let at = Where::Scope(peaks.to_vec());
            let limit = BrokenLimit { metric: metric.to_owned(), at };
            limit.checkpoint(&log).map(|at| at.label)
        };
        assert_eq!(found("heap.peak", &[3_000_000]).as_deref(), Some("measured"));
        assert_eq!(found("heap.peak", &[1000, 4_000_000]).as_deref(), Some("done"));
        assert_eq!(found("heap.peak", &[2_000_000]), None, "it is hidden by a higher one");
        assert_eq!(found("heap.count", &[2_000_000]).as_deref(), Some("done"));
        assert_eq!(found("gpu.0.peak", &[4_000_000]), None);
    }
}
