//! Limits that no figure was checked against: a metric that no test measured, or a checkpoint that no test has.

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparison};
use crate::compare::lost_figures;
use crate::compare::rule_notes::{self, checked, kind, place};
use crate::results::outcome::Status;
use crate::verdict::limits::{LEAK_FROM, LEAK_TO, Limits};
use memprof_plan::metric::{self, Figure, Property, Unit};
use memprof_plan::rule::Rule;
use memprof_support::glob;

/// Returns a note for each limit or leak that covers a measured test of a candidate, or of the only revision, and was
/// checked in none. A rule whose tests were not selected, did not run or failed gets no note. The same holds
/// for a rule that may have no figure, unless the baseline has one.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> Vec<String> {
    // By rule: the revisions where it was not checked.
    let mut unchecked: Vec<(&Rule, Vec<usize>)> = Vec::new();
    for revision in checked(comparison) {
        for rule in unchecked_at(comparison, limits, revision) {
            match unchecked.iter_mut().find(|(known, _)| std::ptr::eq(*known, rule)) {
                Some((_, revisions)) => revisions.push(revision),
                None => unchecked.push((rule, vec![revision])),
            }
        }
    }
    let note = |(rule, revisions): (&Rule, Vec<usize>)| note(rule, &place(comparison, &revisions));
    unchecked.into_iter().map(note).collect()
}

/// Where a rule's figures are, the best of all tests that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Figures {
    /// The rule covers no test that passed.
    NotMeasured,
    /// No test has them.
    Nowhere,
    /// Only the baseline has them, in a test that the revision lacks.
    InRemovedTest,
    /// Only the baseline has them, in a test that passed at both.
    AtBaseline,
    /// The revision has them.
    Found,
}

/// Returns the rules that were not checked at a revision.
fn unchecked_at<'a>(comparison: &Comparison, limits: &'a Limits, revision: usize) -> Vec<&'a Rule> {
    // A rule, where its figures are, and whether it covers a test that failed.
    let mut rules: Vec<(&Rule, Figures, bool)> = Vec::new();
    let is_compared =
        |cell: &&Cell| cell.alone.is_some() || cell.pairs.iter().any(|pair| pair.candidate == revision);
    // With other features, a revision lacks a test that nobody removed.
    let has_same_settings = comparison.differs.get(revision).is_none_or(|one| one.settings.is_empty());
    for cell in comparison.cells.iter().filter(is_compared) {
        let side = &cell.sides[revision];
        let mut failed = side.failed.iter().map(|run| &comparison.runs[*run].record.outcome.status);
        // A test that the revision itself lacks has none of its figures.
        let fails_as_added = side.fails_as_added();
        let has_failed = failed.any(Status::is_failure) && !fails_as_added;
        let is_removed = has_same_settings && (fails_as_added || is_removed(comparison, side));
        let test = format!("{} {}", cell.id.test, cell.id.title);
        for rule in limits.absolute(&test) {
            let at_baseline = || has_figures(comparison, rule, cell, &cell.sides[comparison.baseline]);
            let figures = if side.availability != Availability::Measured {
                if is_removed && at_baseline() { Figures::InRemovedTest } else { Figures::NotMeasured }
            } else if has_figures(comparison, rule, cell, side)
                // This has a note of its own.
                || lost_figures::lost(comparison, rule, side).next().is_some()
            {
                Figures::Found
            } else if at_baseline() {
                Figures::AtBaseline
            } else {
                Figures::Nowhere
            };
            match rules.iter_mut().find(|(known, ..)| std::ptr::eq(*known, rule)) {
                Some((_, best, covers_failed)) => {
                    *best = figures.max(*best);
                    *covers_failed |= has_failed;
                }
                None => rules.push((rule, figures, has_failed)),
            }
        }
    }
    // A test that failed, has no run, or is in another shard may have the figures.
    let is_unchecked = |(rule, figures, covers_failed): &(&Rule, Figures, bool)| match figures {
        Figures::NotMeasured | Figures::Found => false,
        Figures::InRemovedTest => !covers_failed && comparison.has_all_tests(),
        Figures::AtBaseline => !comparison.is_shard,
        Figures::Nowhere => comparison.must_match(rule) && !covers_failed && comparison.has_all_tests(),
    };
    rules.into_iter().filter(is_unchecked).map(|(rule, ..)| rule).collect()
}

/// Whether the revision lacks the test.
fn is_removed(comparison: &Comparison, side: &Aggregate) -> bool {
    let mut statuses = side.failed.iter().map(|run| &comparison.runs[*run].record.outcome.status);
    !side.failed.is_empty() && statuses.all(|status| *status == Status::NotInThisRef)
}

/// Whether a test that passed has the figures that a rule is about.
fn has_figures(comparison: &Comparison, rule: &Rule, cell: &Cell, side: &Aggregate) -> bool {
    side.availability == Availability::Measured
        && comparison.metrics.iter().any(|metric| {
            Unit::of_metric(&rule.metric) == metric.unit
                && glob::matches(&rule.metric, &metric.name)
                && is_checked(rule, cell, side, &metric.name)
        })
}

/// Whether a test of this metric has the figures that a rule is about.
fn is_checked(rule: &Rule, cell: &Cell, side: &Aggregate, metric: &str) -> bool {
    let Some(column) = side.column(metric) else { return false };
    let has = |wanted: &dyn Fn(&str) -> bool| {
        let mut keys = side.keys.iter().enumerate();
        keys.any(|(at, key)| {
            let label = &cell.labels[key.label as usize];
            wanted(label) && rule_notes::concerns(rule, key.kind, label) && column.figure(at).is_some()
        })
    };
    let checkpoint = rule.checkpoint.as_deref().unwrap_or("*");
    let has_limit = rule.limit.is_none() || has(&|label| glob::matches(checkpoint, label));
    let has_start = metric::known(metric).is(Property::ZeroAtFirst) || has(&|label| label == LEAK_FROM);
    let is_level = metric::known(metric).figure == Figure::Level;
    let has_leak = rule.leak.is_none() || (is_level && has_start && has(&|label| label == LEAK_TO));
    has_limit && has_leak
}

/// `the limit of gpu.0.peak was not checked: no test has a figure for it`.
fn note(rule: &Rule, place: &str) -> String {
    let kind = kind(rule);
    let checkpoint = rule.checkpoint.as_ref().map_or_else(String::new, |label| format!(" at '{label}'"));
    format!("the {kind} of {}{checkpoint} was not checked{place}: no test has a figure for it", rule.metric)
}
