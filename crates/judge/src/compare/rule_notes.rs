//! Parts of notes on rules: at which revisions a rule is checked, and what it is called.

use crate::compare::comparison::Comparison;
use crate::results::measurement::Kind;
use crate::verdict::limits;
use memprof_plan::rule::Rule;
use memprof_support::labels;

/// Returns the revisions whose figures are checked: the candidates, or the only one.
pub(crate) fn checked(comparison: &Comparison) -> Vec<usize> {
    match comparison.revisions.len() {
        1 => vec![0],
        _ => comparison.candidates().collect(),
    }
}

/// Returns where a rule was not checked, ` in pr/1, pr/2`; empty if it was checked in none.
pub(crate) fn place(comparison: &Comparison, revisions: &[usize]) -> String {
    if revisions.len() == checked(comparison).len() {
        return String::new();
    }
    let name = |revision: &usize| labels::one_line(&comparison.revisions[*revision].name).into_owned();
    format!(" in {}", revisions.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Whether a rule is checked at checkpoints of this kind with this label: those of traced calls only if the rule names
/// them.
pub(crate) fn concerns(rule: &Rule, kind: Kind, label: &str) -> bool {
    kind != Kind::Call || limits::names(rule, label)
}

/// What a rule is called on the command line.
pub(crate) fn kind(rule: &Rule) -> &'static str {
    match (rule.limit, rule.leak) {
        (Some(_), _) => "limit",
        (None, Some(_)) => "leak",
        (None, None) => "threshold",
    }
}
