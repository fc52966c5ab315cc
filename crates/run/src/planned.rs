//! The tests of builds, and the cells that follow from them.

use memprof_build::attempts::Build;
use memprof_build::provenance::ListedTest;
use memprof_plan::cells::{self, PlannedCell};
use memprof_plan::listing::{DiscoveredTest, ListedRevision, NotMeasured};
use memprof_plan::resolved::{Plan, TestId};

/// Returns the tests of a build, named as in the cells.
pub(crate) fn listed(build: &Build) -> Option<Vec<DiscoveredTest>> {
    let entry = build.entry()?;
    let mut tests = Vec::new();
    for executable in &entry.provenance.executables {
        let id = |name: &str| TestId {
            package: executable.package.clone(),
            binary: executable.binary.clone(),
            kind: executable.kind,
            name: name.to_owned(),
        };
        let is_program = executable.is_program;
        if executable.harness || executable.library.is_some() {
            let listed = |test: &ListedTest| (id(&test.name), test.ignored);
            let own = executable.tests.iter().map(listed);
            tests.extend(own.map(|(id, ignored)| DiscoveredTest { id, ignored, is_program }));
        } else {
            tests.push(DiscoveredTest { id: id(""), ignored: false, is_program });
        }
    }
    Some(tests)
}

/// Returns the cells of builds, none if the request has a mistake: it is reported when those of the final builds are
/// planned.
pub(crate) fn planned(plan: &Plan, builds: &[Build]) -> Vec<PlannedCell> {
    let tests: Vec<Option<Vec<DiscoveredTest>>> = builds.iter().map(listed).collect();
    let not_measured: Vec<Vec<NotMeasured>> = builds.iter().map(Build::not_measured).collect();
    let planned = cells::cells(&plan.request, &listed_revisions(plan, builds, &tests, &not_measured));
    planned.map(|planned| planned.cells).unwrap_or_default()
}

/// Returns the revisions with their tests and with the executables that cannot be measured.
pub(crate) fn listed_revisions<'a>(
    plan: &'a Plan,
    builds: &'a [Build],
    tests: &'a [Option<Vec<DiscoveredTest>>],
    not_measured: &'a [Vec<NotMeasured>],
) -> Vec<ListedRevision<'a>> {
    let revisions = plan.revisions.iter().zip(builds).zip(tests).zip(not_measured);
    revisions
        .map(|(((revision, build), tests), not_measured)| ListedRevision {
            revision,
            tests: tests.as_deref(),
            not_measured,
            known_programs: build.known_programs(),
        })
        .collect()
}
