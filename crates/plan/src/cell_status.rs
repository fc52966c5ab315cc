//! Whether a cell runs at a revision, and if not, why.

use crate::listing::ListedRevision;
use crate::request::Ignored;
use crate::resolved::TestId;

/// Whether a cell runs at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellStatus {
    /// The cell runs.
    Run,
    /// The test is marked `#[ignore]` here, and the user did not ask for ignored tests. Or `exclude` or `include` leaves
    /// the cell out here.
    Ignored,
    /// Only other revisions have this test.
    NotInThisRef,
    /// The revision did not build, so its tests are unknown.
    BuildFailed,
    /// The executable that has the test elsewhere cannot be measured here.
    NotMeasured,
}

/// Returns whether a test runs at a revision. `ignored_here` is `None` if the revision lacks it.
pub(crate) fn status(
    listed: &ListedRevision<'_>,
    test: &TestId,
    ignored_here: Option<bool>,
    ignored: Ignored,
) -> CellStatus {
    match (listed.tests, ignored_here, ignored) {
        (None, ..) => CellStatus::BuildFailed,
        (_, None, _) if listed.not_measured.iter().any(|executable| executable.may_have(test)) => {
            CellStatus::NotMeasured
        }
        (_, None, _) => CellStatus::NotInThisRef,
        (_, Some(true), Ignored::Skip) => CellStatus::Ignored,
        // With `--ignored`, a test that only one revision ignores runs at both, so that it can be
        // compared.
        _ => CellStatus::Run,
    }
}
