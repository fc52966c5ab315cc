//! What a run's folder keeps about call sites, so that reports need neither the executables nor the
//! repository: which tests were recorded, their functions, and the changed source files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::why::frame::Frame;
use crate::why::owner_tree::OwnerTree;
use memprof_plan::resolved::CellId;

/// `why/tests.json`: the tests with call stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredTests {
    /// One entry for each pair or, with one revision, each test.
    pub tests: Vec<StoredTest>,
    /// The number of tests that were left out, and why.
    pub left_out: Option<String>,
}

/// A test that was recorded, or why it was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTest {
    /// The test.
    pub cell: CellId,
    /// Index of the candidate, or of the only revision.
    pub candidate: usize,
    /// Why there are no call sites.
    pub problem: Option<String>,
}

/// `symbols.json` beside a log: the functions of its frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredSymbols {
    /// Why lines or names are missing in the executable, and what provides them.
    pub note: Option<String>,
    /// By module and address, as in the log: `0 4711`, and `- 4711` without a module. The innermost
    /// inlined function is the first.
    pub frames: BTreeMap<String, Vec<Frame>>,
    /// The sizes of types that are elements of containers, in bytes, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, u64>,
}

impl StoredSymbols {
    /// Returns the key of an address.
    pub fn key(module: Option<u32>, address: u64) -> String {
        match module {
            Some(module) => format!("{module} {address}"),
            None => format!("- {address}"),
        }
    }
}

/// `owners.json` beside a log: who holds the memory of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredOwners {
    /// The owners.
    pub tree: Option<OwnerTree>,
    /// Why they are not known, or what limits the answer.
    pub problem: Option<String>,
}

/// `changes.json`: the source files that differ between the baseline and each candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredChanges {
    /// By candidate; or why they are not known.
    pub of: BTreeMap<usize, Result<Vec<StoredFile>, String>>,
}

/// A source file that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredFile {
    /// The path at the baseline and at the candidate; `None` if a side lacks it.
    pub paths: [Option<String>; 2],
    /// The text on each side; `None` if it could not be read.
    pub texts: [Option<String>; 2],
}
