//! The plan: the request, with its refs resolved to revisions. It is stored as `plan.json`, and
//! `--dry-run` prints it.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::checkpoint_at::CheckpointAt;
use crate::program::ProgramCall;
use crate::request::{RefRequest, Request};
use crate::search_options::SearchOptions;

/// The version of `plan.json`'s format.
pub const VERSION: u32 = 1;

/// A resolved request. Running it twice does the same work on the same revisions, and `--resume`
/// relies on that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The tool's version.
    pub tool: String,
    /// Name of the run and of its folder: `20250302T101500Z-4f1c2aa-9be0d13`.
    pub id: String,
    /// When the plan was made, RFC 3339.
    pub created: String,
    /// The user's repository: the root of its working tree, or the git directory of a bare one.
    pub repository: Utf8PathBuf,
    /// The folder of the workspace's manifest, relative to the repository's root. Empty for the
    /// root itself.
    pub workspace: Utf8PathBuf,
    /// The revisions, in the order of the refs.
    pub revisions: Vec<Revision>,
    /// Index of the baseline in `revisions`.
    pub baseline: usize,
    /// The commit that each overlay's files come from, in the order of `request.overlay`. `None`
    /// means the disk.
    pub overlay_commits: Vec<Option<String>>,
    /// Warnings about the request that every report repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How `bisect` measures what this run does; `None` if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchOptions>,
    /// The request. Its `refs` correspond to the revisions, including a baseline that was added.
    pub request: Request,
}

#[cfg(any(test, feature = "samples"))]
impl Plan {
    /// Returns a plan of this request for tests, without revisions.
    pub fn sample(request: Request) -> Self {
        Self {
            version: VERSION,
            tool: String::new(),
            id: "RUN".into(),
            created: String::new(),
            repository: "/r".into(),
            workspace: "".into(),
            revisions: Vec::new(),
            baseline: 0,
            overlay_commits: Vec::new(),
            notes: Vec::new(),
            search: None,
            request,
        }
    }
}

/// A ref that was resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The name in the report; unique in the plan.
    pub name: String,
    /// What the user wrote.
    pub spec: String,
    /// Full hash of the commit. For a working tree with changes, this is a commit of its content,
    /// which a ref below `refs/memprof/` keeps.
    pub commit: String,
    /// Full hash of the commit's tree.
    pub tree: String,
    /// First line of the commit's message.
    pub subject: String,
    /// Committer time, seconds since the epoch.
    pub time: i64,
    /// Where the ref was found, unless that is obvious: `fetched from upstream`,
    /// `refs/remotes/origin/pr/7`.
    pub found: Option<String>,
    /// Whether this is the working tree, and it differs from `HEAD`.
    pub working_tree: bool,
}

impl Revision {
    /// Returns the first seven digits of the commit, with a `+` for the working tree.
    pub fn short(&self) -> String {
        let digits = self.commit.get(..7).unwrap_or(&self.commit);
        if self.working_tree { format!("{digits}+") } else { digits.to_owned() }
    }

    /// Returns `main (4f1c2aa)`, or the commit alone if that is the name.
    pub fn named(&self) -> String {
        let short = self.short();
        // A branch may be called `a`.
        let is_commit = self.name.len() >= 7 && self.commit.starts_with(&self.name);
        if is_commit { short } else { format!("{} ({short})", self.name) }
    }

    /// Whether the revision gets this checkpoint.
    pub fn gets(&self, checkpoint: &CheckpointAt) -> bool {
        checkpoint.revision.as_ref().is_none_or(|name| *name == self.name || *name == self.spec)
    }

    /// Returns the request's entry for the revision; `None` if there is none, as for a merge base.
    pub fn request_in<'a>(&self, request: &'a Request) -> Option<&'a RefRequest> {
        request.refs.iter().find(|one| one.name.as_deref().unwrap_or(&one.spec) == self.name)
    }
}

/// A test of an executable, by names that stay the same between revisions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TestId {
    pub package: String,
    /// The target's name. For unit tests, that is the crate's name.
    pub binary: String,
    pub kind: crate::request::TargetKind,
    /// The test's path. Empty for a program and for a `harness = false` target, which run as a whole.
    pub name: String,
}

impl std::fmt::Display for TestId {
    /// Writes `package::binary::test`, which `-k` matches.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}::{}", self.package, self.binary)?;
        if !self.name.is_empty() {
            write!(formatter, "::{}", self.name)?;
        }
        Ok(())
    }
}

/// One test with one set of parameters. Each revision has a cell of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellId {
    pub test: TestId,
    /// Parameters, in the order written.
    pub params: Vec<(String, String)>,
    /// The name in the report: from a template, or the test's own.
    pub title: String,
    /// What a program is given; `None` for a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramCall>,
}

impl CellId {
    /// Returns `package::binary::test`; for a program, with its arguments and its standard input. With
    /// the parameters, it is the cell's name in tables for programs.
    pub fn full_name(&self) -> String {
        let given = self.program.iter().map(ProgramCall::line).filter(|line| !line.is_empty());
        given.fold(self.test.to_string(), |name, line| format!("{name} {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_named_by_its_commit_is_named_once() {
        let named = |name: &str, working_tree| {
            let (name, commit) = (name.to_owned(), "4f1c2aa00000".to_owned());
            Revision { name, commit, working_tree, ..Revision::default() }.named()
        };
        assert_eq!(named("main", false), "main (4f1c2aa)");
        assert_eq!(named("4f1c2aa", false), "4f1c2aa");
        assert_eq!(named("4", false), "4 (4f1c2aa)");
        assert_eq!(named(".", true), ". (4f1c2aa+)");
    }
}
