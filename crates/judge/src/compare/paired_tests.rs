//! Two implementations within one revision: the runs of both tests as if they were one test at two
//! revisions, so that every view can show them.

use std::collections::BTreeMap;

use crate::compare::comparison::{Breach, Cell, Comparison, UnpairedBreach};
use crate::results::stored::{Results, Run};
use memprof_plan::resolved::{CellId, Revision, TestId};
use memprof_plan::test_pairs::Pairs;
use memprof_support::counted::counted;

/// Name at most this many tests without a partner.
const MOST_NAMES: usize = 10;

/// The results of the pairs of a revision.
pub(crate) struct PairedResults {
    /// The baselines' runs are those of revision 0, the candidates' of revision 1.
    pub results: Results,
    /// The two tests of each pair, by the pair's cell.
    pub origins: BTreeMap<CellId, [CellId; 2]>,
    /// The number of tests that failed and have no partner.
    pub not_compared: usize,
    /// The note that tells of these.
    pub failures_note: Option<String>,
}

impl PairedResults {
    /// Pairs the tests of a single revision. `None` if there is no pair, or if
    /// there are several revisions.
    pub fn from_results(results: &Results) -> Option<Self> {
        let patterns = &results.plan.request.settings.pairs;
        let [revision] = results.plan.revisions.as_slice() else { return None };
        if patterns.is_empty() {
            return None;
        }
        let mut cells: Vec<&CellId> = results.runs.iter().map(|run| &run.record.cell).collect();
        // Runs are ordered by cell.
        cells.dedup();
        let found = Pairs::find(patterns, &cells);
        if found.pairs.is_empty() {
            return None;
        }
        let mut paired = results.clone();
        let names = match patterns.as_slice() {
            [only] => [only.baseline.clone(), only.candidate.clone()],
            _ => ["baseline", "candidate"].map(str::to_owned),
        };
        paired.plan.revisions = names.map(|name| Revision { name, ..revision.clone() }).to_vec();
        paired.plan.baseline = 0;
        paired.builds.extend(results.builds.get(&0).cloned().map(|facts| (1, facts)));
        paired.traces.extend(results.traces.get(&0).cloned().map(|facts| (1, facts)));
        // Limits are about a test alone: `add_limits`.
        let judging = &mut paired.plan.request.judging;
        judging.budget = None;
        for rule in &mut judging.rules {
            (rule.limit, rule.leak) = (None, None);
        }
        judging.rules.retain(|rule| rule.growth.is_some());
        paired.runs.clear();
        let mut origins = BTreeMap::new();
        for (old, new) in &found.pairs {
            let cell = cell(old, new);
            for (revision, side) in [old, new].into_iter().enumerate() {
                let runs = results.runs.iter().filter(|run| run.record.cell == **side);
                paired.runs.extend(runs.map(|run| moved(run, revision, &cell)));
            }
            origins.insert(cell, [(*old).clone(), (*new).clone()]);
        }
        paired.sort();
        let failed = |cell: &&&CellId| {
            let mut runs = results.runs.iter().filter(|run| run.record.cell == ***cell);
            runs.any(Run::lacks_figures)
        };
        let failures = found.unpaired.iter().filter(failed).count();
        let note = unpaired_note(&found.unpaired, failures);
        paired.notes.extend(note.clone());
        let failures_note = note.filter(|_| failures > 0);
        Some(Self { results: paired, origins, not_compared: failures, failures_note })
    }
}

/// Takes over what the tests alone have above their limits, what was not checked, and the notes on it.
pub(crate) fn add_limits(comparison: &mut Comparison, alone: Comparison) {
    comparison.unchecked += alone.unchecked;
    // A limit may be unchecked at a pair and at a test alone.
    let is_new = |note: &String| !comparison.unchecked_notes.contains(note);
    let new: Vec<String> = alone.unchecked_notes.into_iter().filter(is_new).collect();
    comparison.unchecked_notes.extend(new);
    // An expired entry of `allow` may be about both.
    let is_new = |note: &String| !comparison.notes.contains(note);
    let new: Vec<String> = alone.notes.into_iter().filter(is_new).collect();
    comparison.notes.extend(new);
    let reference = &alone.revisions[alone.baseline].name;
    for cell in &alone.cells {
        for breach in cell.alone.iter().flat_map(|alone| &alone.breaches) {
            // The pair has the candidate's figures.
            if let Some((breaches, row)) = of_candidate(comparison, &cell.id, breach.row) {
                breaches.push(Breach { row, ..breach.clone() });
            } else {
                let key = cell.sides[0].keys[breach.row];
                comparison.unpaired_breaches.push(UnpairedBreach {
                    reference: reference.clone(),
                    test: cell.id.clone(),
                    label: cell.labels[key.label as usize].to_string(),
                    occurrence: key.occurrence,
                    checkpoint: key.shown(&cell.labels),
                    breach: breach.clone(),
                });
            }
        }
    }
}

/// Returns the breaches of the pair that has a test as its candidate, and its row with this checkpoint of the test.
fn of_candidate<'a>(
    comparison: &'a mut Comparison,
    test: &CellId,
    checkpoint: usize,
) -> Option<(&'a mut Vec<Breach>, usize)> {
    let is_meant = |cell: &&mut Cell| cell.origins.as_ref().is_some_and(|[_, candidate]| candidate == test);
    let pair = comparison.cells.iter_mut().find(is_meant)?.pairs.first_mut()?;
    let row = pair.rows.iter().position(|row| row.candidate == Some(checkpoint))?;
    Some((&mut pair.breaches, row))
}

fn cell(old: &CellId, new: &CellId) -> CellId {
    let joined = |old: &str, new: &str| format!("{old} → {new}");
    let test = TestId { name: joined(&old.test.name, &new.test.name), ..old.test.clone() };
    CellId { test, params: old.params.clone(), title: joined(&old.title, &new.title), program: None }
}

/// Returns a run as one of a pair's cell.
fn moved(run: &Run, revision: usize, cell: &CellId) -> Run {
    let mut run = run.clone();
    run.record.revision = revision;
    run.record.cell = cell.clone();
    run
}

/// `2 tests without a partner, 1 of them failed: fs_bwd, other`.
fn unpaired_note(unpaired: &[&CellId], failures: usize) -> Option<String> {
    let first = unpaired.iter().take(MOST_NAMES).map(|cell| match cell.params.as_slice() {
        [] => cell.title.clone(),
        params if cell.title == cell.test.name => {
            let params: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} ({})", cell.title, params.join(", "))
        }
        _ => cell.title.clone(),
    });
    let names = first.collect::<Vec<_>>().join(", ");
    let tests = counted(unpaired.len(), "test");
    let failed = if failures > 0 { format!(", {failures} of them failed") } else { String::new() };
    let rest = match unpaired.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (!unpaired.is_empty()).then(|| format!("{tests} without a partner{failed}: {names}{rest}"))
}
