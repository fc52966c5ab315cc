//! Each revision's tests, side by side, and the error about a selection that matches none of
//! them.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::program::ProgramRequest;
use crate::request::TargetKind;
use crate::resolved::{Revision, TestId};
use crate::selection::Selector;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

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
    /// Its tests; `None` if it did not build.
    pub tests: Option<&'a [DiscoveredTest]>,
    /// Executables whose tests cannot be measured.
    pub not_measured: &'a [NotMeasured],
    /// The programs that its packages have, such as `bin tool`, if it lacks one of the request.
    pub known_programs: &'a [String],
}

impl ListedRevision<'_> {
    /// Whether it may have tests that are not listed.
    pub fn has_unknown_tests(&self) -> bool {
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

/// Returns the error `no test matches -k 'hf_fdw' in main (4f1c2aa)`, with similar names.
pub(crate) fn no_match(
    words: &str,
    selector: &Selector<'_>,
    found: &TestsByRevision<'_>,
    revisions: &[ListedRevision<'_>],
) -> UserError {
    let nearest = selector.nearest(found.keys().copied());
    let all = match found.len() {
        1 => "`cargo memprof list` shows the only test".to_owned(),
        count => format!("`cargo memprof list` shows all {count}"),
    };
    let help = if nearest.is_empty() { all } else { format!("nearest: {} · {all}", nearest.join(", ")) };
    UserError::new(format!("no test matches {words} in {}", in_revisions(revisions))).help(help)
}

/// Returns the error `there is no bin 'tol' in main (4f1c2aa)`, with similar names.
pub(crate) fn no_program(program: &ProgramRequest, revisions: &[ListedRevision<'_>]) -> UserError {
    let mut known: Vec<&str> = Vec::new();
    for target in revisions.iter().flat_map(|listed| listed.known_programs) {
        if !known.contains(&target.as_str()) {
            known.push(target);
        }
    }
    let (kind, name) = (program.kind.as_str(), &program.name);
    let user_error = UserError::new(format!("there is no {kind} '{name}' in {}", in_revisions(revisions)));
    if known.is_empty() {
        return user_error.help("was the right package built? `-p NAME` and `--workspace` choose others");
    }
    user_error.help(suggest::did_you_mean_or_list(&program.target(), "programs", &known))
}

/// Returns the revisions that were built: `main (4f1c2aa) or pr/7 (9be0d13)`.
pub(crate) fn in_revisions(revisions: &[ListedRevision<'_>]) -> String {
    let built = revisions.iter().filter(|listed| listed.tests.is_some());
    let names: Vec<String> =
        built.map(|listed| format!("{} ({})", listed.revision.name, listed.revision.short())).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.join(""),
    }
}
