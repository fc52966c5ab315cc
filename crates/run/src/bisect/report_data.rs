//! The result of a bisection or a history, as data. It is stored in `found.json` and shown in
//! reports.

use serde::{Deserialize, Serialize};

use crate::bisect::linear_search::{SearchGoal, StepKind};
use crate::bisect::metric_query::MetricQuery;
use crate::bisect::observations::HasChanged;
use crate::bisect::record::LockfileSearch;
use memprof_build::git::commits::CommitFacts;
use memprof_plan::metric::Unit;
use memprof_plan::quantity::Threshold;

/// The version of `found.json`'s format, which is the JSON report's.
pub const VERSION: u32 = 1;

/// The report of a search over commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The tool's version.
    pub tool: String,
    /// The run's name, which is also its folder's.
    pub id: String,
    /// When it began, RFC 3339.
    pub created: String,
    /// `bisect` or `history`.
    pub command: String,
    /// Which change was searched for; absent in a history.
    pub find: Option<SearchGoal>,
    /// What the search found; absent in a history.
    pub result: Option<SearchResult>,
    /// The test, `package::binary::test`.
    pub test: String,
    /// The name in reports.
    pub title: String,
    /// The parameters.
    pub params: Vec<(String, String)>,
    /// The metric and its checkpoint.
    #[serde(flatten)]
    pub query: MetricQuery,
    /// The unit of the figures.
    pub unit: Unit,
    /// Smaller changes are ignored.
    pub threshold: Threshold,
    /// The commit at which the range begins.
    pub good: NamedCommit,
    /// The commit at which the range ends.
    pub bad: NamedCommit,
    /// The number of commits in the range, without the first.
    pub commits: usize,
    /// Whether merges were named as the answer, without searching their branches.
    pub first_parent: bool,
    /// The search considered only commits that touch these paths.
    pub paths: Vec<String>,
    /// What a search over the updates between two lock files is about; absent otherwise. Its commits are
    /// the tool's own, with one update each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<LockfileSearch>,
    /// The commits at which the figure changed, in their order.
    pub steps: Vec<FoundStep>,
    /// The number of commits of a history of which noise hides whether they changed the figure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unclear: usize,
    /// Every commit that was measured or could not be measured, ancestors first.
    pub measured: Vec<MeasuredCommit>,
    /// The time and the runs that the search took.
    pub effort: TotalEffort,
    /// Command lines that show the result again.
    pub replay: Vec<Replay>,
}

impl SearchReport {
    /// Returns what the search goes through: commits, or updates of packages.
    pub fn noun(&self) -> &'static str {
        if self.lockfile.is_some() { "update" } else { "commit" }
    }
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchResult {
    /// One or more commits that changed the figure.
    Found,
    /// The two ends do not differ by more than the threshold.
    Same,
    /// Noise hides whether the two ends differ.
    Unclear,
}

/// A commit as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCommit {
    /// The text that the user wrote.
    pub name: String,
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// The figure.
    pub value: Option<i64>,
}

/// A difference between two commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundStep {
    /// What caused the difference.
    pub kind: StepKind,
    /// Whether the difference exceeds the threshold.
    pub change: HasChanged,
    /// The commit after the difference. If `kind` is `commit`, it made the difference.
    #[serde(flatten)]
    pub commit: CommitFacts,
    /// The commit before the difference.
    pub before: CommitFacts,
    /// The figure before, with `other_side`.
    pub value_before: i64,
    /// What the other side of a merge adds to the figure of the commit before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_side: Option<i128>,
    /// The figure after.
    pub value: i64,
    /// The figure after minus the figure before.
    pub difference: i128,
    /// The difference in percent; absent unless the figure before is above zero.
    pub percent: Option<f64>,
    /// The paths that differ between the two commits.
    pub files: Vec<String>,
    /// The commits that may have made the difference, if there is more than one. Includes the
    /// commit after it.
    pub candidates: Vec<Candidate>,
}

/// A commit that may have made a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// Why it could not be measured, if the search tried.
    pub skipped: Option<String>,
}

/// A commit of the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCommit {
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// The tag, if tags were measured.
    pub tag: Option<String>,
    /// The figure: the median of the runs, or that of one round if figures are compared round by round.
    pub value: Option<i64>,
    /// The figure of each run.
    pub samples: Vec<i64>,
    /// Why it has no figure.
    pub skipped: Option<String>,
    /// The commit that it is compared with: the good commit in a bisection, the nearest earlier
    /// commit with a figure in a history.
    pub compared_with: Option<String>,
    /// The figure minus that commit's figure.
    pub difference: Option<i128>,
    /// Whether this is the commit that was searched for, or a step of a history.
    pub is_step: bool,
    /// Duration of its build and its runs, in seconds.
    pub seconds: Option<f64>,
    /// Whether cargo built it; `false` if the store already had the build.
    pub built: Option<bool>,
}

/// The time and the runs that a whole search took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalEffort {
    /// Commits with a figure.
    pub measured: usize,
    /// Of these, commits before the range, where a merged branch forked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forks: usize,
    /// Commits without a figure.
    pub skipped: usize,
    /// Builds that cargo made.
    pub built: usize,
    /// Runs of the test that passed.
    pub runs: usize,
    /// Wall time of the builds and the runs, in seconds.
    pub seconds: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A command line, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// What it shows.
    pub shows: String,
    /// The line, for a shell.
    pub line: String,
}
