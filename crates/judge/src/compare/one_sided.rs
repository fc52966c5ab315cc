//! Notes on tests that only one revision has or passes: fixed tests, and test files of one revision
//! that were put into another one.

use crate::compare::aggregate::Aggregate;
use crate::compare::comparison::{Comparison, PairView};
use crate::compare::standing::Standing;
use crate::results::added_test::AddedTest;
use memprof_support::counted::counted;
use memprof_support::labels;

/// Name at most this many tests in a note.
const MOST_NAMES: usize = 5;

/// Returns the notes: one per file that was put into a revision, and one per candidate with fixed
/// tests.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    let added = comparison.added_tests.iter().flat_map(|(&revision, added)| {
        let compiled = added.iter().filter(|added| added.compiles);
        compiled.map(move |added| of_file(comparison, revision, added))
    });
    added.chain(comparison.candidates().filter_map(|candidate| fixed(comparison, candidate))).collect()
}

/// The columns of why one test failed. The message of an assertion may have all values of two vectors.
const REASON_COLUMNS: usize = 160;

/// `tests/regression.rs of HEAD (9be0d13) was put into main (4f1c2aa), which lacks it: 1 test fails
/// there and is not compared: wraps (src/lib.rs:3:9: overflow)`.
fn of_file(comparison: &Comparison, revision: usize, added: &AddedTest) -> String {
    let AddedTest { file, donor, files_beside, .. } = added;
    let files_beside = match files_beside {
        0 => String::new(),
        files => format!(", with {} beside it", counted(*files, "file")),
    };
    let into = shown(comparison, revision);
    let text = format!("{file} of {donor} was put into {into}, which lacks it{files_beside}");
    let of_file = comparison.cells.iter().filter(|cell| added.has(&cell.id.test));
    let failed = of_file.filter(|cell| cell.sides[revision].fails_as_added());
    let failed: Vec<String> =
        failed.map(|cell| with_reason(comparison, &cell.id.title, &cell.sides[revision])).collect();
    if failed.is_empty() {
        return text;
    }
    let (fail, are) = if failed.len() == 1 { ("fails", "is") } else { ("fail", "are") };
    let tests = counted(failed.len(), "test");
    format!("{text}: {tests} {fail} there and {are} not compared: {}", some(&failed))
}

/// `fixed in HEAD (9be0d13): 1 test that fails in main (4f1c2aa): wraps (src/lib.rs:3:9: overflow)`.
fn fixed(comparison: &Comparison, candidate: usize) -> Option<String> {
    let is_fixed = |view: &PairView<'_>| {
        view.pair.candidate == candidate && Standing::for_pair(comparison, view) == Standing::Fixed
    };
    let fixed = comparison.pairs().filter(is_fixed);
    let fixed: Vec<String> =
        fixed.map(|view| with_reason(comparison, &view.cell.id.title, view.baseline)).collect();
    let fail = if fixed.len() == 1 { "fails" } else { "fail" };
    (!fixed.is_empty()).then(|| {
        format!(
            "fixed in {}: {} that {fail} in {}: {}",
            shown(comparison, candidate),
            counted(fixed.len(), "test"),
            shown(comparison, comparison.baseline),
            some(&fixed)
        )
    })
}

/// Returns `wraps (src/lib.rs:3:9: overflow)`: the test's name, and the first line of why it failed.
fn with_reason(comparison: &Comparison, title: &str, side: &Aggregate) -> String {
    let outcomes = side.failed.iter().map(|&run| &comparison.runs[run].record.outcome);
    let failed = outcomes.into_iter().find(|outcome| outcome.status.is_failure());
    let title = labels::one_line(title);
    let Some(outcome) = failed else { return title.into_owned() };
    // The first line of a panic's message is its place.
    let lines = outcome.message.iter().flat_map(|message| message.lines().map(str::trim));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).take(2).collect();
    match lines.as_slice() {
        [] => format!("{title} ({})", outcome.status),
        lines => format!("{title} ({})", labels::cut(&labels::one_line(&lines.join(" ")), REASON_COLUMNS)),
    }
}

fn shown(comparison: &Comparison, revision: usize) -> String {
    labels::one_line(&comparison.revisions[revision].named()).into_owned()
}

fn some(names: &[String]) -> String {
    let first = names[..names.len().min(MOST_NAMES)].join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
