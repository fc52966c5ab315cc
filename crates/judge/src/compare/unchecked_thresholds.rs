//! Thresholds on the command line for which no compared test has a figure, as on a machine without its GPU or with a
//! mistyped checkpoint.

use crate::compare::comparison::{Comparison, PairView};
use crate::verdict::limits::{self, Limits};
use memprof_plan::rule::Rule;

/// Returns how many thresholds were not checked, and a note for each. A threshold counts if it covers a
/// compared test. None counts if tests did not run because their code is the same: these may have the figures. The
/// same is true of the tests of other shards: the merged run judges all of them.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> (usize, Vec<String>) {
    if comparison.is_shard {
        return (0, Vec::new());
    }
    // A rule, and whether a compared test has its figures.
    let mut rules: Vec<(&Rule, bool)> = Vec::new();
    for view in comparison.pairs().filter(PairView::is_compared) {
        let test = format!("{} {}", view.cell.id.test, view.cell.id.title);
        for rule in limits.must_check(&test) {
            let checked = is_checked(rule, &view);
            match rules.iter_mut().find(|(known, _)| std::ptr::eq(*known, rule)) {
                Some((_, any)) => *any |= checked,
                None => rules.push((rule, checked)),
            }
        }
    }
    let note = |rule: &Rule| {
        let checkpoint = rule.checkpoint.as_ref().map_or_else(String::new, |label| format!(" at '{label}'"));
        let metric = &rule.metric;
        format!("the threshold of {metric}{checkpoint} was not checked: no compared test has a figure for it")
    };
    let notes: Vec<String> =
        rules.into_iter().filter(|(_, checked)| !checked).map(|(rule, _)| note(rule)).collect();
    (if comparison.same_code.is_empty() { notes.len() } else { 0 }, notes)
}

/// Whether both sides have a figure at a checkpoint of the rule.
fn is_checked(rule: &Rule, view: &PairView<'_>) -> bool {
    let column = view.column(&rule.metric);
    view.rows.iter().any(|row| {
        let figures = column.at(row);
        let [old, new] =
            [row.baseline.map(|at| view.baseline.keys[at]), row.candidate.map(|at| view.candidate.keys[at])];
        let labels: Vec<&str> =
            old.into_iter().chain(new).map(|key| &view.cell.labels[key.label as usize][..]).collect();
        figures.baseline.is_some()
            && figures.candidate.is_some()
            && limits::is_at(rule.checkpoint.as_deref(), &labels)
    })
}
