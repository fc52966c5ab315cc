//! A cell at a revision, with everything that its runs need.

use std::collections::BTreeMap;

use crate::cell_status::CellStatus;
use crate::program;
use crate::repeat::Repeat;
use crate::request::{Request, TestRequest};
use crate::resolved::{CellId, Revision};

/// A cell at a revision.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlannedCell {
    /// Test, parameters and name.
    pub cell: CellId,
    /// Index in the plan's revisions.
    pub revision: usize,
    /// Whether it runs.
    pub status: CellStatus,
    /// The environment of its runs: the common variables, then the ref's, the test's and the
    /// parameters. Later ones win.
    pub env: BTreeMap<String, String>,
    /// The arguments of a program, with its secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The exit code that it succeeds with.
    #[serde(default, skip_serializing_if = "program::is_zero")]
    pub exit_code: u8,
    /// Time limit of a run in seconds.
    pub timeout_seconds: Option<u64>,
    /// How often it is repeated.
    pub repeat: Repeat,
    /// The devices that its runs see, as written. `None` leaves the choice to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
}

/// Returns the environment of a cell: later variables win.
pub(crate) fn environment(
    request: &Request,
    revision: &Revision,
    entry: &TestRequest,
    params: &[(String, String)],
) -> BTreeMap<String, String> {
    let mut env = request.env.clone();
    env.extend(revision.request_in(request).into_iter().flat_map(|one| one.env.clone()));
    env.extend(entry.env.clone());
    env.extend(params.iter().cloned());
    env
}
