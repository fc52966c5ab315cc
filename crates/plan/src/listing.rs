//! Each revision's tests, side by side.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::request::TargetKind;
use crate::resolved::{Revision, TestId};

/// A test that one of a revision's executables lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTest {
    pub id: TestId,
    /// Whether it is marked `#[ignore]`.
    pub ignored: bool,
    /// Whether it is a program, which an entry of the request names.
    pub is_program: bool,
}

/// A test executable of a revision that cannot be measured, so that its tests have no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    pub package: String,
    /// The target's name.
    pub binary: String,
    pub kind: TargetKind,
    /// Why it cannot be measured.
    pub reason: String,
}

impl NotMeasured {
    /// Whether the executable contains this test, if it has a test of this name.
    pub fn may_have(&self, test: &TestId) -> bool {
        self.package == test.package && self.binary == test.binary && self.kind == test.kind
    }
}

/// `package::binary`.
impl fmt::Display for NotMeasured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}::{}", self.package, self.binary)
    }
}

/// A revision of the plan with its tests.
#[derive(Clone, Copy, Debug)]
pub struct ListedRevision<'a> {
    /// The revision; its index in the slice is its index in the plan.
    pub revision: &'a Revision,
    /// The tests; `None` if it did not build.
    pub tests: Option<&'a [DiscoveredTest]>,
    /// Executables whose tests cannot be measured.
    pub not_measured: &'a [NotMeasured],
    /// The programs that its packages have, such as `bin tool`, if it lacks one of the request.
    pub known_programs: &'a [String],
}

impl ListedRevision<'_> {
    /// Whether it may have tests that are not listed.
    pub(crate) fn has_unknown_tests(&self) -> bool {
        self.tests.is_none() || !self.not_measured.is_empty()
    }
}

/// The tests of all revisions. The values say for each revision whether it ignores the test; `None`
/// if it lacks the test.
pub(crate) type TestsByRevision<'a> = IndexMap<&'a TestId, Vec<Option<bool>>>;

/// Returns the tests of the first revision, then those that only later revisions have; or the
/// programs.
pub(crate) fn tests_by_revision<'a>(
    revisions: &[ListedRevision<'a>],
    is_program: bool,
) -> TestsByRevision<'a> {
    let mut found: TestsByRevision<'a> = IndexMap::new();
    for (index, revision) in revisions.iter().enumerate() {
        let tests = revision.tests.unwrap_or_default().iter();
        for test in tests.filter(|test| test.is_program == is_program) {
            found.entry(&test.id).or_insert_with(|| vec![None; revisions.len()])[index] = Some(test.ignored);
        }
    }
    found
}
