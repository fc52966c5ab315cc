//! Thresholds on the command line for which no compared test has a figure, as on a machine without its GPU or with a
//! mistyped checkpoint.

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Comparison, PairView};
use crate::compare::lost_figures;
use crate::compare::matching::Match;
use crate::compare::rule_notes;
use crate::results::outcome::Status;
use crate::verdict::limits::{self, Limits};
use memprof_plan::rule::Rule;
use memprof_support::labels;

/// Returns a note for each threshold that was not checked at a candidate: first those that count, then the others. A
/// threshold counts if it covers a compared test. It does not if a test that failed and passed at no side, or that only
/// one side has, may have the figure. None counts if tests have no run, as those with the same code: these may have the
/// figures. But it counts if the baseline has a figure that the candidate lacks. A shard leaves all of them to the
/// merged run, as the tests of other shards may have the figures, too.
pub(crate) fn notes(comparison: &Comparison, limits: &Limits) -> (Vec<String>, Vec<String>) {
    if comparison.is_shard {
        return (Vec::new(), Vec::new());
    }
    // By rule: the candidates where it was not checked, and the revisions that have a figure.
    let mut unchecked: Vec<(&Rule, Vec<usize>, Vec<usize>)> = Vec::new();
    for candidate in comparison.candidates() {
        for (rule, one_sided) in unchecked_at(comparison, limits, candidate) {
            match unchecked.iter_mut().find(|(known, ..)| std::ptr::eq(*known, rule)) {
                Some((_, candidates, with_figure)) => {
                    candidates.push(candidate);
                    with_figure.extend(one_sided);
                }
                None => unchecked.push((rule, vec![candidate], one_sided)),
            }
        }
    }
    for (_, _, with_figure) in &mut unchecked {
        with_figure.sort_unstable();
        with_figure.dedup();
    }
    let counts =
        |with_figure: &[usize]| comparison.has_all_tests() || with_figure.contains(&comparison.baseline);
    let note = |(rule, candidates, with_figure): (&Rule, Vec<usize>, Vec<usize>)| {
        note(comparison, rule, &rule_notes::place(comparison, &candidates), &with_figure)
    };
    let (counting, others): (Vec<_>, Vec<_>) =
        unchecked.into_iter().partition(|(_, _, with_figure)| counts(with_figure));
    (counting.into_iter().map(note).collect(), others.into_iter().map(note).collect())
}

/// Returns the rules that were not checked at a candidate, each with the revisions that have a figure.
fn unchecked_at<'a>(
    comparison: &Comparison,
    limits: &'a Limits,
    candidate: usize,
) -> Vec<(&'a Rule, Vec<usize>)> {
    let mut rules: Vec<(&Rule, Coverage)> = Vec::new();
    for view in comparison.pairs().filter(|view| view.pair.candidate == candidate) {
        let test = format!("{} {}", view.cell.id.test, view.cell.id.title);
        for rule in limits.must_check(&test) {
            let at = rules.iter().position(|(known, _)| std::ptr::eq(*known, rule)).unwrap_or_else(|| {
                rules.push((rule, Coverage::default()));
                rules.len() - 1
            });
            rules[at].1.add(comparison, rule, &view);
        }
    }
    let unchecked = rules.into_iter().filter(|(_, coverage)| coverage.is_unchecked());
    unchecked.map(|(rule, coverage)| (rule, coverage.one_sided)).collect()
}

/// What the tests of a rule have, at the baseline and one candidate.
#[derive(Default)]
struct Coverage {
    /// Whether the rule covers a compared test.
    is_compared: bool,
    /// Whether both sides of a compared test have a figure.
    is_checked: bool,
    /// Whether a test that is not compared has a figure, or failed and passed at no side.
    may_be_elsewhere: bool,
    /// The revisions that have a figure in a compared test whose other side lacks it.
    one_sided: Vec<usize>,
}

impl Coverage {
    fn add(&mut self, comparison: &Comparison, rule: &Rule, view: &PairView<'_>) {
        if !view.is_compared() {
            let sides = [view.baseline, view.candidate];
            let has_figure = |side: &&Aggregate| has_figure(rule, view, side);
            // The log of a side that passed shows whether the test has the figure.
            self.may_be_elsewhere |= if sides.iter().any(|side| side.availability == Availability::Measured) {
                sides.iter().any(has_figure)
            } else {
                sides.iter().any(|side| has_failed(comparison, side))
            };
            return;
        }
        self.is_compared = true;
        let [of_baseline, of_candidate, of_both] = figures(rule, view);
        // A figure that was lost has a note of its own.
        let is_lost = |side| lost_figures::lost(comparison, rule, side).next().is_some();
        self.is_checked |= of_both || is_lost(view.baseline) || is_lost(view.candidate);
        let sides = [(of_baseline, comparison.baseline), (of_candidate, view.pair.candidate)];
        for (has_figure, revision) in sides {
            if has_figure && !of_both && !self.one_sided.contains(&revision) {
                self.one_sided.push(revision);
            }
        }
    }

    fn is_unchecked(&self) -> bool {
        self.is_compared && !self.is_checked && !self.may_be_elsewhere
    }
}

/// `the threshold of gpu.0.peak was not checked: no compared test has a figure for it`.
fn note(comparison: &Comparison, rule: &Rule, place: &str, with_figure: &[usize]) -> String {
    let checkpoint = rule.checkpoint.as_ref().map_or_else(String::new, |label| format!(" at '{label}'"));
    let reason = match with_figure {
        [] => "no compared test has a figure for it".to_owned(),
        [only] => {
            format!("only {} has a figure for it", labels::one_line(&comparison.revisions[*only].name))
        }
        _ => "no compared test has a figure for it on both sides".to_owned(),
    };
    format!("the threshold of {}{checkpoint} was not checked{place}: {reason}", rule.metric)
}

/// Whether the baseline, the candidate, and both at one row have a figure at a checkpoint of the rule.
fn figures(rule: &Rule, view: &PairView<'_>) -> [bool; 3] {
    let column = view.column(&rule.metric);
    let mut found = [false; 3];
    let is_concerned = |row: &&Match| {
        let key = view.key(row);
        rule_notes::concerns(rule, key.kind, &view.cell.labels[key.label as usize])
    };
    for row in view.rows.iter().filter(is_concerned) {
        let [old, new] =
            [row.baseline.map(|at| view.baseline.keys[at]), row.candidate.map(|at| view.candidate.keys[at])];
        let labels: Vec<&str> =
            old.into_iter().chain(new).map(|key| &view.cell.labels[key.label as usize][..]).collect();
        if limits::is_at(rule.checkpoint.as_deref(), &labels) {
            let figures = column.at(row);
            let [old, new] = [figures.baseline.is_some(), figures.candidate.is_some()];
            found = [found[0] || old, found[1] || new, found[2] || (old && new)];
        }
    }
    found
}

/// Whether the runs of a side that passed have a figure at a checkpoint of the rule.
fn has_figure(rule: &Rule, view: &PairView<'_>, side: &Aggregate) -> bool {
    let Some(column) = side.column(&rule.metric) else { return false };
    let is_at = |label: &str| limits::is_at(rule.checkpoint.as_deref(), &[label]);
    let mut keys = side.keys.iter().enumerate();
    side.availability == Availability::Measured
        && keys.any(|(at, key)| {
            let label = &view.cell.labels[key.label as usize];
            is_at(label) && rule_notes::concerns(rule, key.kind, label) && column.figure(at).is_some()
        })
}

fn has_failed(comparison: &Comparison, side: &Aggregate) -> bool {
    let mut failed = side.failed.iter().map(|run| &comparison.runs[*run].record.outcome.status);
    failed.any(Status::is_failure)
}
