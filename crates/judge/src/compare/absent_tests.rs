//! Tests that only one of two merged runs has. Each run measured all tests that it selects, so the
//! other run's revisions lack them.

use std::collections::BTreeSet;
use std::sync::Arc;

use camino::Utf8PathBuf;

use crate::results::kept_baseline;
use crate::results::outcome::{RunRecord, Status};
use crate::results::run_folder::RunFolder;
use crate::results::stored::{Results, Run};
use memprof_plan::resolved::CellId;

/// Adds to each run why it has no figures of the cells that only the other has. Does nothing if a
/// test without a run may exist.
pub(crate) fn add(a: &mut Results, b: &mut Results) {
    if !have_all_of_the_same_tests(a, b) {
        return;
    }
    let cells = |results: &Results| -> BTreeSet<CellId> {
        results.runs.iter().map(|run| run.record.cell.clone()).collect()
    };
    let (of_a, of_b) = (cells(a), cells(b));
    add_cells(a, of_b.difference(&of_a));
    add_cells(b, of_a.difference(&of_b));
}

/// Whether both runs select tests in the same way, from the same targets, and left none out.
fn have_all_of_the_same_tests(a: &Results, b: &Results) -> bool {
    let (of_a, of_b) = (&a.plan.request, &b.plan.request);
    let is_whole = |results: &Results| {
        let request = &results.plan.request;
        let mut patterns = request.include.iter().chain(&request.exclude);
        !results.lacks_tests
            && results.same_code.is_empty()
            && request.shard.is_none()
            && patterns.all(|pattern| pattern.r#ref.is_none())
    };
    is_whole(a)
        && is_whole(b)
        && a.plan.workspace == b.plan.workspace
        && kept_baseline::select_the_same(of_a, of_b)
        && kept_baseline::of_requests(of_a, of_b).is_ok_and(|differing| differing.is_empty())
}

fn add_cells<'a>(results: &mut Results, cells: impl Iterator<Item = &'a CellId>) {
    for cell in cells {
        for revision in 0..results.plan.revisions.len() {
            let gaps = results.not_measured.get(&revision).map_or(&[][..], Vec::as_slice);
            let status = if results.failed_builds.contains_key(&revision) {
                (Status::BuildFailed, None)
            } else {
                kept_baseline::why_absent(gaps, cell)
            };
            let folder = RunFolder(Utf8PathBuf::new()).cell(&results.plan, revision, cell, 0);
            results.runs.push(Run {
                record: RunRecord::absent(revision, cell, status),
                measurement: Arc::default(),
                unreadable: None,
                folder,
            });
        }
    }
}
