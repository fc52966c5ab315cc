//! Whether an archive's plan, its cells and its builds belong together. Its maker can write anything
//! there, and the rest of the program takes numbers of revisions for valid.

use std::collections::BTreeSet;

use memprof_plan::cells::PlannedCell;
use memprof_plan::resolved::Plan;

/// Checks a plan and its cells, for an archive with this many builds.
///
/// # Errors
///
/// What is wrong.
pub fn check(plan: &Plan, cells: &[PlannedCell], builds: usize) -> Result<(), String> {
    let revisions = plan.revisions.len();
    if revisions == 0 || revisions != builds {
        return Err(format!("its plan has {revisions} revisions, and it has {builds} builds"));
    }
    if plan.baseline >= revisions {
        return Err(format!("its plan has no revision {} for a baseline", plan.baseline));
    }
    let mut seen = BTreeSet::new();
    for planned in cells {
        let title = &planned.cell.title;
        if planned.revision >= revisions {
            return Err(format!("its plan has no revision {} for the test {title}", planned.revision));
        }
        if !seen.insert((planned.revision, &planned.cell)) {
            return Err(format!("it plans the test {title} twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::cell_status::CellStatus;
    use memprof_plan::repeat::Repeat;
    use memprof_plan::request::Request;
    use memprof_plan::resolved::{CellId, Revision, TestId};

    fn cell(revision: usize, name: &str) -> PlannedCell {
        let test = TestId {
            package: "p".into(),
            binary: "t".into(),
            kind: memprof_plan::target_kind::TargetKind::Test,
            name: name.into(),
        };
        PlannedCell {
            cell: CellId { test, params: Vec::new(), title: name.into(), program: None },
            revision,
            status: CellStatus::Run,
            env: std::collections::BTreeMap::new(),
            args: Vec::new(),
            exit_code: 0,
            timeout_seconds: None,
            repeat: Repeat::default(),
            devices: None,
        }
    }

    #[test]
    fn numbers_of_revisions_are_valid_and_no_test_is_planned_twice() {
        let revision = Revision {
            name: "main".into(),
            spec: "main".into(),
            commit: "c".into(),
            tree: "t".into(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        };
        let mut plan = Plan::sample(Request::default());
        let problem = |plan: &Plan, cells: &[PlannedCell], builds| check(plan, cells, builds).unwrap_err();
        assert_eq!(problem(&plan, &[], 0), "its plan has 0 revisions, and it has 0 builds");
        plan.revisions = vec![revision.clone(), revision];
        assert_eq!(problem(&plan, &[], 1), "its plan has 2 revisions, and it has 1 builds");
        assert_eq!(check(&plan, &[cell(0, "a"), cell(1, "a"), cell(1, "b")], 2), Ok(()));
        assert_eq!(problem(&plan, &[cell(2, "a")], 2), "its plan has no revision 2 for the test a");
        assert_eq!(problem(&plan, &[cell(0, "a"), cell(0, "a")], 2), "it plans the test a twice");
        plan.baseline = 2;
        assert_eq!(problem(&plan, &[], 2), "its plan has no revision 2 for a baseline");
    }
}
