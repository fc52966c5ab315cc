//! What the user asked of a bisection or a history, and what was measured so far. It is stored in
//! `search.json`, and `--resume` continues from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bisect::linear_search::SearchGoal;
use crate::bisect::merge_search::Merges;
use crate::bisect::metric_query::MetricQuery;
use crate::bisect::parts::record::PartsSearch;
use crate::stored_plan;
use memprof_build::git::lineage::Lineage;
use memprof_plan::cells::PlannedCell;
use memprof_plan::quantity::Threshold;
use memprof_plan::resolved::CellId;

/// The version of `search.json`'s format. Version 1 had one test.
pub const VERSION: u32 = 2;

/// A search over the commits of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// What to do with the commits.
    pub task: Task,
    /// The first commit, as the user wrote it; a full hash by its first digits.
    pub good: String,
    /// The last commit, as the user wrote it; a full hash by its first digits.
    pub bad: String,
    /// What to read from each run.
    #[serde(flatten)]
    pub query: MetricQuery,
    /// The threshold that the user asked for: smaller changes are ignored.
    pub threshold: Option<Threshold>,
    /// The minimum number of runs of each commit.
    pub least_runs: u32,
    /// The search considers only commits that touch these paths.
    pub paths: Vec<String>,
    /// The commits. Their indices are those of the plan's revisions.
    pub lineage: Lineage,
    /// What a search over the updates between two lock files is about. Its commits are the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<LockfileSearch>,
    /// The command line, without the program.
    pub arguments: Vec<String>,
    /// Path and hash of every overlay file.
    pub overlay: BTreeMap<String, String>,
    /// Whether the parts of the commit that a bisection finds are measured then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proves: bool,
    /// The only test to run, if it is known before both ends are built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<CellId>,
    /// The tests to run at each commit, known once both ends are built. A bisection has one.
    #[serde(default)]
    pub cells: Vec<PlannedCell>,
    /// The measurements so far, in their order.
    pub efforts: Vec<Effort>,
}

impl SearchRecord {
    /// Returns the record as it is stored, with marks in place of secrets.
    #[must_use]
    pub fn sealed(&self) -> Self {
        Self { cells: self.cells.iter().map(stored_plan::sealed_cell).collect(), ..self.clone() }
    }
}

/// A search over the updates between two lock files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockfileSearch {
    /// The ref whose code is built with each lock file.
    pub code: String,
    /// The number of steps: single packages, and groups that only move together.
    pub updates: usize,
    /// The number of packages that differ.
    pub packages: usize,
}

/// What to do with the commits of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Task {
    /// Search for a change.
    Bisect {
        /// Which change to look for.
        find: SearchGoal,
        /// What to do with a merge that made the change.
        merges: Merges,
    },
    /// Measure each of these commits.
    History {
        /// The commits, in their order.
        commits: Vec<usize>,
        /// Commits that have a tag, with the tag's name.
        tags: Vec<(usize, String)>,
        /// Whether the commits of merged branches belong to the history.
        #[serde(default)]
        merges: Merges,
    },
    /// Measure the parts of a diff by leaving them out.
    Prove(PartsSearch),
}

impl Task {
    /// The command's name.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Bisect { .. } => "bisect",
            Self::History { .. } => "history",
            Self::Prove(_) => "prove",
        }
    }
}

/// The time that measuring a commit took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// The commit's index.
    pub commit: usize,
    /// Wall time of its build and its runs.
    pub seconds: f64,
    /// Whether cargo built it; `false` if the store already had the build.
    pub built: bool,
}
