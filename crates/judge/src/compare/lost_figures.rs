//! Rules about a metric that a test lost before its end, as `heap.live` in a test that ends the process. The figures
//! before, such as 0 B at `start`, check none of them, and other tests cannot check them for this one.

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparison};
use crate::compare::rule_notes::{checked, kind, place};
use crate::verdict::limits::{self, LEAK_TO, Limits};
use memprof_plan::metric::{self, Figure, Unit};
use memprof_plan::rule::Rule;
use memprof_support::glob;
use memprof_support::labels;

/// Returns a note for each limit, leak and threshold on the command line that was not checked up to the end of a test.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> Vec<String> {
    let of_revision = |revision| {
        comparison.cells.iter().flat_map(move |cell| notes_of_test(comparison, limits, revision, cell))
    };
    checked(comparison).into_iter().flat_map(of_revision).collect()
}

fn notes_of_test(comparison: &Comparison, limits: &Limits, revision: usize, cell: &Cell) -> Vec<String> {
    let test = format!("{} {}", cell.id.test, cell.id.title);
    let title = labels::one_line(&cell.id.title);
    let place = place(comparison, &[revision]);
    let note = |rule: &Rule, metric: &str, whose: &str| {
        let kind = kind(rule);
        format!(
            "the {kind} of {metric} was not checked for {title}{place}: {whose} has no figure at '{LEAK_TO}'"
        )
    };
    let side = &cell.sides[revision];
    // A pattern in memprof.yaml is about whatever there is.
    let is_meant = |rule: &&Rule| !rule.metric.contains('*') || comparison.must_match(rule);
    let absolute = limits.absolute(&test).filter(is_meant).flat_map(|rule| {
        let lost = lost(comparison, rule, side);
        lost.map(|metric| note(rule, metric, "it")).collect::<Vec<_>>()
    });
    let mut notes: Vec<String> = absolute.collect();
    let Some(pair) = cell.pairs.iter().find(|pair| pair.candidate == revision) else { return notes };
    let view = comparison.view(cell, pair);
    for rule in limits.must_check(&test).filter(|_| view.is_compared()) {
        if let Some(metric) = lost(comparison, rule, side).next() {
            notes.push(note(rule, metric, "it"));
        } else if let Some(metric) = lost(comparison, rule, view.baseline).next() {
            notes.push(note(rule, metric, &labels::one_line(&view.old.name)));
        }
    }
    notes
}

/// Returns the metrics of a rule that a test lost, if the rule is about its end, too.
pub(crate) fn lost<'a>(
    comparison: &'a Comparison,
    rule: &'a Rule,
    side: &'a Aggregate,
) -> impl Iterator<Item = &'a str> {
    let is_at_end = limits::is_at(rule.checkpoint.as_deref(), &[LEAK_TO]);
    let is_meant = move |metric: &str| match (rule.limit, rule.leak) {
        (None, Some(_)) => metric::known(metric).figure == Figure::Level,
        _ => is_at_end,
    };
    let measured = comparison.metrics.iter().filter(|_| side.availability == Availability::Measured);
    let of_rule = measured.filter(|metric| {
        Unit::of_metric(&rule.metric) == metric.unit && glob::matches(&rule.metric, &metric.name)
    });
    of_rule.map(|metric| &*metric.name).filter(move |metric| is_meant(metric) && side.has_lost(metric))
}
