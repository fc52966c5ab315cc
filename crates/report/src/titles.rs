//! Titles of tests in reports, and their numbers of runs.

use std::fmt::Write as _;

use memprof_judge::compare::comparison::{Cell, PairView};
use memprof_plan::resolved::CellId;
use memprof_support::counted::counted;
use memprof_support::labels;

/// Returns the test's name in the report, with parameters that it does not show already.
pub(crate) fn title(view: &PairView) -> String {
    distinct_title(view.cell)
}

/// Returns a cell's title, with package and target if another test has the same name.
pub(crate) fn distinct_title(cell: &Cell) -> String {
    if cell.has_namesake { full_title_of(&cell.id) } else { title_of(&cell.id) }
}

/// Returns the test's name with its parameters.
pub(crate) fn title_of(id: &CellId) -> String {
    if id.title.is_empty() {
        return labels::one_line(&id.test.to_string()).into_owned();
    }
    let mut title = labels::one_line(&id.title).into_owned();
    if id.title == id.test.name && !id.params.is_empty() {
        let params: Vec<String> = id.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        _ = write!(title, " ({})", labels::one_line(&params.join(", ")));
    }
    title
}

/// Returns the package, the target and the test's name: `bart::tests hf_fwd`.
pub(crate) fn full_title(view: &PairView) -> String {
    full_title_of(&view.cell.id)
}

/// Returns a cell's package, target and name.
pub(crate) fn full_title_of(id: &CellId) -> String {
    let (test, title) = (&id.test, title_of(id));
    if id.title.is_empty() {
        return title;
    }
    let place = format!("{}::{}", test.package, test.binary);
    format!("{} {title}", labels::one_line(&place))
}

/// Returns `3 runs each`, or `2 to 4 runs each`; `None` without a run.
pub(crate) fn runs(view: &PairView) -> Option<String> {
    match (view.baseline.runs.len(), view.candidate.runs.len()) {
        (0, 0) => None,
        (0, runs) | (runs, 0) => Some(counted(runs, "run")),
        (a, b) if a == b => Some(format!("{} each", counted(a, "run"))),
        (a, b) => Some(format!("{} to {} each", a.min(b), counted(a.max(b), "run"))),
    }
}
