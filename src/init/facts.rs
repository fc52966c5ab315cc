//! What `init` learns about a repository without building it.

use camino::Utf8Path;

use memprof_build::cargo::toolchain::Toolchain;
use memprof_build::git::repository::Repository;
use memprof_build::git::workspace_folder;
use memprof_build::inject::checkout_edits;

/// What is known of a repository. Unknown facts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The default branch, which is that of `origin/HEAD`.
    pub default_branch: Option<String>,
    /// The current branch; `None` for a detached HEAD.
    pub current_branch: Option<String>,
    /// All local branches.
    pub branches: Vec<String>,
    pub remotes: Vec<String>,
    /// The workspace's packages.
    pub packages: Vec<String>,
    /// Names of some tests.
    pub tests: Vec<String>,
    /// Whether the repository has a lock file committed.
    pub has_lockfile: bool,
}

impl RepositoryFacts {
    /// Reads branches, remotes and packages.
    pub fn gather(repository: &Repository, manifest: Option<&Utf8Path>) -> anyhow::Result<Self> {
        let references = repository.references()?;
        let branches: Vec<String> = references
            .iter()
            .filter_map(|name| name.strip_prefix("refs/heads/"))
            .map(ToOwned::to_owned)
            .collect();
        let symbolic = |name: &str| {
            let answer = repository.git().args(["symbolic-ref", "--quiet", "--short", name]).run();
            answer.ok().map(|answer| answer.text())
        };
        let default_branch = symbolic("refs/remotes/origin/HEAD")
            .map(|name| name.trim_start_matches("origin/").to_owned())
            .filter(|name| branches.contains(name));
        let place = workspace_folder::find(repository, manifest.map(Utf8Path::as_str), &[])?;
        let workspace = repository.root().join(&place.workspace);
        let toolchain =
            Toolchain { pinned: None, directory: workspace.clone(), version: String::new(), clean_env: None };
        let packages = checkout_edits::metadata(&toolchain, &workspace.join("Cargo.toml"), &workspace)
            .map(|metadata| metadata.packages.iter().map(|package| package.name.to_string()).collect())
            .unwrap_or_default();
        let lock = place.workspace.join("Cargo.lock");
        let has_lockfile = repository.show("HEAD", lock.as_str()).ok().flatten().is_some();
        Ok(Self {
            default_branch,
            current_branch: symbolic("HEAD"),
            branches,
            remotes: repository.remotes()?,
            packages,
            tests: Vec::new(),
            has_lockfile,
        })
    }

    /// Returns baseline and candidate: the default branch, and the current branch or the working
    /// tree.
    pub fn refs(&self) -> (String, String) {
        let usual = || {
            let known = |name: &&str| self.branches.iter().any(|branch| branch == name);
            ["main", "master", "trunk", "develop"].into_iter().find(known).map(str::to_owned)
        };
        let base = self.default_branch.clone().or_else(usual).or_else(|| self.current_branch.clone());
        let base = base.unwrap_or_else(|| "HEAD".to_owned());
        let other = self.current_branch.clone().filter(|current| *current != base);
        // On the default branch itself, compare with the uncommitted changes.
        (base, other.unwrap_or_else(|| ".".to_owned()))
    }
}
