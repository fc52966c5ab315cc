//! Two implementations within one revision: the runs of both tests as if they were one test at two
//! revisions, so that every view can show them.

use std::collections::BTreeMap;

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
            runs.any(|run| run.record.outcome.status.is_failure())
        };
        let failures = found.unpaired.iter().filter(failed).count();
        paired.notes.extend(unpaired_note(&found.unpaired, failures));
        Some(Self { results: paired, origins, not_compared: failures })
    }
}

/// Returns the cell of a pair: `hf_fwd → fs_fwd`.
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
