//! What was asked of a bisection or a history, and what measuring it took so far: `search.json`, from which `--resume` goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bisect::linear_search::Find;
use crate::bisect::merge_search::Merges;
use crate::bisect::metric_query::Wanted;
use crate::git::lineage::Lineage;
use crate::plan::cells::PlannedCell;
use crate::plan::quantity::Threshold;

/// The version of `search.json`'s format.
pub const VERSION: u32 = 1;

/// A search over the commits of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// What is done with the commits.
    pub task: Task,
    /// The commit before, as written.
    pub good: String,
    /// The commit after, as written.
    pub bad: String,
    /// What is read of each run.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// What is no change yet, if that was asked for.
    pub threshold: Option<Threshold>,
    /// How often each commit is run, whatever comes of it.
    pub least_runs: u32,
    /// Only commits that touch these were looked at.
    pub paths: Vec<String>,
    /// The commits; their indices are those of the plan's revisions.
    pub lineage: Lineage,
    /// The command line, without the program.
    pub arguments: Vec<String>,
    /// Path and hash of every overlay file.
    pub overlay: BTreeMap<String, String>,
    /// The test as it is run at each commit; known once both ends are built.
    pub cell: Option<PlannedCell>,
    /// What was measured, in that order.
    pub efforts: Vec<Effort>,
}

/// What is done with the commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Task {
    /// The change is searched for.
    Bisect {
        /// Which change.
        find: Find,
        /// What becomes of a merge that made it.
        merges: Merges,
    },
    /// The commits are all measured.
    History {
        /// These, in their order.
        commits: Vec<usize>,
        /// The tags' names.
        tags: Vec<(usize, String)>,
    },
}

impl Task {
    /// The command's name.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Bisect { .. } => "bisect",
            Self::History { .. } => "history",
        }
    }
}

/// What measuring a commit took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Which.
    pub commit: usize,
    /// Wall time, of its build and its runs.
    pub seconds: f64,
    /// Whether it was built; `false` if the store had it.
    pub built: bool,
}
