//! What a bisection found or a history shows, as data: `found.json`, and what its reports are made of.

use serde::{Deserialize, Serialize};

use crate::bisect::linear_search::{Find, StepKind};
use crate::bisect::metric_query::Wanted;
use crate::bisect::observations::Change;
use crate::git::commits::CommitFacts;
use crate::plan::metric::Unit;
use crate::plan::quantity::Threshold;

/// The version of `found.json`'s format, which is the JSON report's.
pub const VERSION: u32 = 1;

/// All that is told of a search over commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The tool's version.
    pub tool: String,
    /// The run's name, which is its folder's too.
    pub id: String,
    /// When it was begun, RFC 3339.
    pub created: String,
    /// `bisect` or `history`.
    pub command: String,
    /// What was searched for; absent in a history.
    pub find: Option<Find>,
    /// What came of it; absent in a history.
    pub result: Option<SearchResult>,
    /// The test, `package::binary::test`.
    pub test: String,
    /// Its name in reports.
    pub title: String,
    /// Its parameters.
    pub params: Vec<(String, String)>,
    /// The metric, and where it was read.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// What the figures count.
    pub unit: Unit,
    /// What is no change yet.
    pub threshold: Threshold,
    /// The first commit.
    pub good: NamedCommit,
    /// The last one.
    pub bad: NamedCommit,
    /// How many commits there are from the one to the other, the first not counted.
    pub commits: usize,
    /// Whether a merge was named and its branch not searched.
    pub first_parent: bool,
    /// Only commits that touch these were looked at.
    pub paths: Vec<String>,
    /// The commits at which the figure changed, in their order.
    pub steps: Vec<FoundStep>,
    /// Every commit that was measured, or could not be, ancestors first.
    pub measured: Vec<MeasuredCommit>,
    /// What it took.
    pub effort: TotalEffort,
    /// Command lines that show it again.
    pub replay: Vec<Replay>,
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchResult {
    /// Something that made a difference.
    Found,
    /// The two ends do not differ beyond the threshold.
    Same,
    /// Whether they do is lost in the noise.
    Unclear,
}

/// A commit as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCommit {
    /// What was written.
    pub name: String,
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// Its figure.
    pub value: Option<i64>,
}

/// A difference between two commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundStep {
    /// What it is known to be.
    pub kind: StepKind,
    /// Whether it is beyond the threshold.
    pub change: Change,
    /// The commit after it: where `kind` is `commit`, the one that made it.
    #[serde(flatten)]
    pub commit: CommitFacts,
    /// The commit before it.
    pub before: CommitFacts,
    /// The figure before.
    pub value_before: i64,
    /// The figure after.
    pub value: i64,
    /// What it grew by.
    pub difference: i128,
    /// The same in percent; absent where the figure before is not above zero.
    pub percent: Option<f64>,
    /// The paths that differ between the two commits.
    pub files: Vec<String>,
    /// Where more than one commit may have made it: those, the one after it included, each with why it has no figure.
    pub candidates: Vec<Candidate>,
}

/// A commit that may be it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// Why it could not be measured, if that was tried.
    pub skipped: Option<String>,
}

/// A commit of the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCommit {
    /// The commit.
    #[serde(flatten)]
    pub facts: CommitFacts,
    /// Its tag, where tags were measured.
    pub tag: Option<String>,
    /// Its figure: the median of the runs.
    pub value: Option<i64>,
    /// The figure of each run.
    pub samples: Vec<i64>,
    /// Why it has none.
    pub skipped: Option<String>,
    /// The commit that it is compared with: in a bisection the good one, in a history the nearest before it that has a figure.
    pub compared_with: Option<String>,
    /// What it is more than that one's figure.
    pub difference: Option<i128>,
    /// Whether that is a step of a history, or this the commit that was searched for.
    pub is_step: bool,
    /// How long its build and its runs took, in seconds.
    pub seconds: Option<f64>,
    /// Whether it was built; `false` if the store had it.
    pub built: Option<bool>,
}

/// What a whole search took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalEffort {
    /// Commits with a figure.
    pub measured: usize,
    /// Commits without.
    pub skipped: usize,
    /// Builds that cargo was called for.
    pub built: usize,
    /// Runs of the test that passed.
    pub runs: usize,
    /// Wall time of the builds and the runs, in seconds.
    pub seconds: f64,
}

/// A command line, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// What it shows.
    pub shows: String,
    /// The line, for a shell.
    pub line: String,
}
