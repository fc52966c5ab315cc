//! Limits and thresholds on the command line whose `test=` fits no test, as one with a mistyped name. One of
//! memprof.yaml may be about another package, or a feature that is off.

use crate::compare::comparison::Comparison;
use crate::verdict::limits::Limits;
use memprof_plan::rule::Rule;

/// Returns a note for each of these rules. There is none if tests have no run, as those of other shards, those with
/// the same code, or those of a target that did not build: another test may fit.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> Vec<String> {
    let has_all_tests = comparison.has_all_tests() && comparison.failed_builds.is_empty();
    if !has_all_tests || comparison.cells.is_empty() {
        return Vec::new();
    }
    let cells = comparison.cells.iter();
    let tests: Vec<String> = cells.map(|cell| format!("{} {}", cell.id.test, cell.id.title)).collect();
    // A threshold needs a baseline.
    let applies = |rule: &&Rule| {
        let is_absolute = rule.limit.is_some() || rule.leak.is_some();
        rule.must_check && (comparison.revisions.len() > 1 || is_absolute)
    };
    limits.without_tests(&tests).filter(applies).map(note).collect()
}

/// `the limit of heap.peak was not checked: no test matches 'decode'`.
fn note(rule: &Rule) -> String {
    let kind = match rule {
        Rule { limit: Some(_), .. } => "limit",
        Rule { leak: Some(_), .. } => "leak",
        _ => "threshold",
    };
    let tests = rule.test.as_deref().unwrap_or_default();
    format!("the {kind} of {} was not checked: no test matches '{tests}'", rule.metric)
}
