//! Test files of one revision that were put into another one, which lacks them.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use memprof_plan::request::TargetKind;
use memprof_plan::resolved::TestId;

/// A test file of another revision that was put into a revision, or that does not compile there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedTest {
    pub package: String,
    /// The name of the test target.
    pub binary: String,
    /// The file, relative to the repository's root.
    pub file: Utf8PathBuf,
    /// How many further files the test needs: its modules, and files that it reads.
    #[serde(default)]
    pub files_beside: usize,
    /// The revision that the file comes from, with its commit: `HEAD (9be0d13)`.
    pub donor: String,
    /// Whether it compiles there. If not, its tests do not run there.
    pub compiles: bool,
}

impl AddedTest {
    /// Whether the file has this test.
    pub fn has(&self, test: &TestId) -> bool {
        test.kind == TargetKind::Test && self.package == test.package && self.binary == test.binary
    }
}
