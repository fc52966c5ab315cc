//! Cells of revisions whose test executables cannot be measured.

use memprof_plan::cells::{CellStatus, cells};
use memprof_plan::listing::{DiscoveredTest, ListedRevision, NotMeasured};
use memprof_plan::request::{RefRequest, Request, TestRequest};

use crate::support::synthetic::{self, Synthetic};

#[test]
fn a_test_whose_executable_is_not_measured_is_not_called_missing() {
    let synthetic = Synthetic::new(&["main", "pr/7"]);
    let revisions = synthetic.results().plan.revisions;
    let request = Request {
        refs: vec![RefRequest::default(), RefRequest::default()],
        tests: vec![TestRequest::default()],
        ..Request::default()
    };
    let test = synthetic::cell("keeps", &[]).test;
    let not_measured = [NotMeasured {
        package: test.package.clone(),
        binary: test.binary.clone(),
        kind: test.kind,
        reason: "it was changed".to_owned(),
    }];
    let statuses = |main: &[DiscoveredTest], of_candidate: &[NotMeasured]| {
        let listed = [(main, &[][..]), (&[][..], of_candidate)];
        let listed: Vec<_> = (revisions.iter().zip(listed))
            .map(|(revision, (tests, not_measured))| ListedRevision {
                revision,
                tests: Some(tests),
                not_measured,
                known_programs: &[],
            })
            .collect();
        cells(&request, &listed).map(|cells| cells.cells.iter().map(|cell| cell.status).collect::<Vec<_>>())
    };
    let main = [DiscoveredTest { id: test, ignored: false, is_program: false }];
    assert_eq!(statuses(&main, &not_measured), Ok(vec![CellStatus::Run, CellStatus::NotMeasured]));
    assert_eq!(statuses(&main, &[]), Ok(vec![CellStatus::Run, CellStatus::NotInThisRef]));
    // Without any listed test, there is still something to report.
    assert_eq!(statuses(&[], &not_measured), Ok(Vec::new()));
    statuses(&[], &[]).expect_err("there are no tests");
}
