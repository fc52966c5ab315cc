//! Limits that tests broke which are no candidate of a pair: the baselines, and tests without a partner.

use crate::text;
use memprof_judge::compare::comparison::{Breach, BreachKind, Comparison, UnpairedBreach};
use memprof_plan::metric::Unit;
use memprof_plan::resolved::CellId;
use memprof_support::labels;

/// A limit that a test broke, at its first checkpoint.
pub(crate) struct UnpairedLimit<'a> {
    first: &'a UnpairedBreach,
    /// The number of later checkpoints.
    others: usize,
}

impl<'a> UnpairedLimit<'a> {
    /// Returns each test's broken limits that count, by metric.
    pub(crate) fn all(comparison: &'a Comparison) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for one in comparison.unpaired_breaches.iter().filter(|one| one.breach.counts()) {
            let what = |one: &'a UnpairedBreach| (&one.test, &one.breach.metric, one.breach.kind);
            // The breaches of a metric follow each other, those of a budget come last.
            let of_test = all.iter_mut().rev().take_while(|known| known.first.test == one.test);
            match of_test.into_iter().find(|known| what(known.first) == what(one)) {
                Some(known) => known.others += 1,
                None => all.push(Self { first: one, others: 0 }),
            }
        }
        all
    }

    pub(crate) fn test(&self) -> &'a CellId {
        &self.first.test
    }

    pub(crate) fn metric(&self) -> &'a str {
        &self.first.breach.metric
    }

    /// Returns `over its limit: hf_fwd, heap.peak 9.00 MiB at 'step', and 39 later ones, limit 8.00 MiB`.
    pub(crate) fn words(&self) -> String {
        let UnpairedBreach { test, checkpoint, breach, .. } = self.first;
        let Breach { metric, value, limit, kind, place, .. } = breach;
        let unit = Unit::of_metric(metric);
        let figure = match kind {
            BreachKind::Limit => text::figure(*value, unit),
            BreachKind::Leak => {
                format!("{} not freed since 'start'", text::difference((*value).into(), unit))
            }
        };
        let later = if self.others > 0 { text::later(self.others) } else { String::new() };
        let limit = text::limit(*limit, *value, unit);
        let place = place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        let title = labels::one_line(&test.title);
        format!("over its limit: {title}, {metric} {figure} at '{checkpoint}'{later}, limit {limit}{place}")
    }
}
