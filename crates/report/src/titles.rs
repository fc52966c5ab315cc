//! Titles of tests in reports, and their numbers of runs.

use std::fmt::Write as _;

use memprof_judge::compare::comparison::{Cell, PairView};
use memprof_plan::resolved::{CellId, TestId};
use memprof_plan::target_kind::TargetKind;
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
    let title = title_of(id);
    if id.title.is_empty() {
        return title;
    }
    format!("{} {title}", labels::one_line(&target_of(id)))
}

/// Returns a cell's package and target: `bart::tests`. A library may have the name of a binary, of an example or
/// of a bench, and of a test that is named like the package, so these have their kind: `bart::bart (bin)`.
pub(crate) fn target_of(id: &CellId) -> String {
    let TestId { package, binary, kind, .. } = &id.test;
    let is_named_as_package = || binary.replace('-', "_") == package.replace('-', "_");
    let is_plain = match kind {
        TargetKind::Lib => true,
        TargetKind::Test => !is_named_as_package(),
        TargetKind::Bin | TargetKind::Example | TargetKind::Bench => id.program.is_some(),
    };
    let kind = if is_plain { String::new() } else { format!(" ({})", kind.as_str()) };
    format!("{package}::{binary}{kind}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_one_name_have_their_kind() {
        let of = |binary: &str, kind| {
            let test = TestId { package: "a-b".into(), binary: binary.into(), kind, name: "small".into() };
            full_title_of(&CellId { test, title: "small".into(), params: Vec::new(), program: None })
        };
        assert_eq!(of("a_b", TargetKind::Lib), "a-b::a_b small");
        assert_eq!(of("a_b", TargetKind::Test), "a-b::a_b (test) small");
        assert_eq!(of("tests", TargetKind::Test), "a-b::tests small");
        assert_eq!(of("a-b", TargetKind::Bin), "a-b::a-b (bin) small");
        assert_eq!(of("tests", TargetKind::Bench), "a-b::tests (bench) small");
    }
}
