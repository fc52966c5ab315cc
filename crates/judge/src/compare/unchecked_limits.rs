//! Limits of a single revision that no figure was checked against: a metric that no test measured,
//! or a checkpoint that no test has.

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparison};
use crate::verdict::limits::{LEAK_FROM, LEAK_TO, Limits};
use memprof_plan::metric::{self, Property, Unit};
use memprof_plan::rule::Rule;
use memprof_support::glob;

/// Returns a note for each limit or leak of a single revision that covers a measured test and was
/// checked in none. A rule whose tests were not selected, or failed, gets no note.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> Vec<String> {
    // A rule, and whether it was checked in some test.
    let mut rules: Vec<(&Rule, bool)> = Vec::new();
    for cell in comparison.cells.iter().filter(|cell| cell.alone.is_some()) {
        let side = &cell.sides[0];
        if side.availability != Availability::Measured {
            continue;
        }
        let test = format!("{} {}", cell.id.test, cell.id.title);
        for rule in limits.absolute(&test) {
            let is_checked = comparison.metrics.iter().any(|metric| {
                Unit::of_metric(&rule.metric) == metric.unit
                    && glob::matches(&rule.metric, &metric.name)
                    && is_checked(rule, cell, side, &metric.name)
            });
            match rules.iter_mut().find(|(known, _)| std::ptr::eq(*known, rule)) {
                Some((_, checked)) => *checked |= is_checked,
                None => rules.push((rule, is_checked)),
            }
        }
    }
    rules.into_iter().filter(|(_, checked)| !checked).map(|(rule, _)| note(rule)).collect()
}

/// Whether a test of this metric has the figures that a rule is about.
fn is_checked(rule: &Rule, cell: &Cell, side: &Aggregate, metric: &str) -> bool {
    let Some(column) = side.column(metric) else { return false };
    let has = |wanted: &dyn Fn(&str) -> bool| {
        let mut keys = side.keys.iter().enumerate();
        keys.any(|(at, key)| wanted(&cell.labels[key.label as usize]) && column.figure(at).is_some())
    };
    let checkpoint = rule.checkpoint.as_deref().unwrap_or("*");
    let has_limit = rule.limit.is_none() || has(&|label| glob::matches(checkpoint, label));
    let has_start = metric::known(metric).is(Property::ZeroAtFirst) || has(&|label| label == LEAK_FROM);
    let has_leak = rule.leak.is_none() || (has_start && has(&|label| label == LEAK_TO));
    has_limit && has_leak
}

/// `the limit of gpu.0.peak was not checked: no test has a figure for it`.
fn note(rule: &Rule) -> String {
    let kind = if rule.limit.is_some() { "limit" } else { "leak" };
    let checkpoint = rule.checkpoint.as_ref().map_or_else(String::new, |label| format!(" at '{label}'"));
    format!("the {kind} of {}{checkpoint} was not checked: no test has a figure for it", rule.metric)
}
