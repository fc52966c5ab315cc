//! The cells that do not run, because their tests cannot differ between the revisions.

use std::collections::{BTreeMap, BTreeSet};

use memprof_judge::results::same_code::SameCode;
use memprof_plan::cell_status::CellStatus;
use memprof_plan::cells::PlannedCell;
use memprof_plan::request::TargetKind;
use memprof_plan::resolved::{CellId, TestId};

/// Package, name and kind of an executable, as in a [`TestId`].
pub(crate) type Name<'a> = (&'a str, &'a str, TargetKind);

/// The cells that do not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many tests of each package these are.
    pub tests: Vec<SameCode>,
    pub cells: BTreeSet<CellId>,
    /// Why it is not known what the tests of changed executables reach, each with the number of executables.
    pub unknown_reach: BTreeMap<String, usize>,
    /// Which tests with the same code run all the same, and for which changed files.
    pub run_for: Option<String>,
}

/// Which tests of an executable cannot differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SameTests<'a> {
    All,
    These(BTreeSet<&'a str>),
}

/// Removes the cells of these executables that would run at each revision in the same way.
pub(crate) fn remove(
    cells: &mut Vec<PlannedCell>,
    same: &BTreeMap<Name<'_>, SameTests<'_>>,
    revisions: usize,
) -> LeftOut {
    let is_same = |test: &TestId| match same.get(&(&*test.package, &*test.binary, test.kind)) {
        Some(SameTests::All) => true,
        Some(SameTests::These(tests)) => tests.contains(&*test.name),
        None => false,
    };
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    let mut left_cells = BTreeSet::new();
    let mut kept = Vec::new();
    for of_one in cells.chunk_by(|a, b| a.cell == b.cell) {
        let first = &of_one[0];
        let is_alike = |planned: &PlannedCell| {
            planned.status == CellStatus::Run
                && (&planned.env, &planned.args, &planned.devices)
                    == (&first.env, &first.args, &first.devices)
                && (planned.exit_code, planned.timeout_seconds) == (first.exit_code, first.timeout_seconds)
        };
        if of_one.len() == revisions && is_same(&first.cell.test) && of_one.iter().all(is_alike) {
            *left.entry(first.cell.test.package.clone()).or_default() += 1;
            left_cells.insert(first.cell.clone());
        } else {
            kept.extend_from_slice(of_one);
        }
    }
    *cells = kept;
    let tests = left.into_iter().map(|(package, tests)| SameCode { package, tests }).collect();
    LeftOut { tests, cells: left_cells, ..LeftOut::default() }
}

#[cfg(test)]
mod tests {
    use memprof_plan::repeat::Repeat;

    use super::*;

    #[test]
    fn cells_that_would_not_run_alike_at_each_revision_stay() {
        let cell = |test: &str, revision: usize, variable: &str| PlannedCell {
            cell: CellId {
                test: TestId {
                    package: "app".into(),
                    binary: "b".into(),
                    kind: TargetKind::Lib,
                    name: test.into(),
                },
                params: Vec::new(),
                title: test.into(),
                program: None,
            },
            revision,
            status: CellStatus::Run,
            env: BTreeMap::from([("SIZE".into(), variable.into())]),
            args: Vec::new(),
            exit_code: 0,
            timeout_seconds: None,
            repeat: Repeat::Auto,
            devices: None,
        };
        let mut ignored = cell("ignored", 1, "8");
        ignored.status = CellStatus::Ignored;
        let mut cells = vec![
            cell("same", 0, "8"),
            cell("same", 1, "8"),
            cell("variable", 0, "8"),
            cell("variable", 1, "64"),
            cell("once", 1, "8"),
            cell("ignored", 0, "8"),
            ignored,
        ];
        let same = BTreeMap::from([(("app", "b", TargetKind::Lib), SameTests::All)]);
        let left_out = remove(&mut cells, &same, 2);
        assert_eq!(left_out.tests, [SameCode { package: "app".into(), tests: 1 }]);
        assert_eq!(left_out.cells, BTreeSet::from([cell("same", 0, "8").cell]));
        let titles: Vec<&str> = cells.iter().map(|planned| planned.cell.title.as_str()).collect();
        assert_eq!(titles, ["variable", "variable", "once", "ignored", "ignored"]);
    }
}
