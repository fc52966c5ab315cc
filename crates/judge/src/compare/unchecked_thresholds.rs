//! Thresholds on the command line whose metric no compared test has, as on a machine without its GPU.

use crate::compare::comparison::{Comparison, PairView};
use crate::verdict::limits::Limits;
use memprof_plan::rule::Rule;

/// Returns how many thresholds were not checked, and a note for each. A threshold counts if it covers a
/// compared test. None counts if tests did not run because their code is the same: these may have the figures. The
/// same is true of the tests of other shards: the merged run judges all of them.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> (usize, Vec<String>) {
    if comparison.is_shard {
        return (0, Vec::new());
    }
    // A rule, and whether a compared test has its metric.
    let mut rules: Vec<(&Rule, bool)> = Vec::new();
    for view in comparison.pairs().filter(PairView::is_compared) {
        let test = format!("{} {}", view.cell.id.test, view.cell.id.title);
        for rule in limits.must_check(&test) {
            let column = view.column(&rule.metric);
            let has_metric = column.baseline.is_some() || column.candidate.is_some();
            match rules.iter_mut().find(|(known, _)| std::ptr::eq(*known, rule)) {
                Some((_, checked)) => *checked |= has_metric,
                None => rules.push((rule, has_metric)),
            }
        }
    }
    let note = |rule: &Rule| {
        format!("the threshold of {} was not checked: no compared test has a figure for it", rule.metric)
    };
    let notes: Vec<String> =
        rules.into_iter().filter(|(_, checked)| !checked).map(|(rule, _)| note(rule)).collect();
    (if comparison.same_code.is_empty() { notes.len() } else { 0 }, notes)
}
