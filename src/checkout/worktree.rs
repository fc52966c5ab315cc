//! The one checkout, outside the user's repository, in which every revision is built and run.
//!
//! It is a linked worktree of the user's repository at a path that never changes, and revisions are checked out in place: git
//! rewrites only the files that differ, with a current time, which is what makes incremental builds both right and fast.
//! Whoever opens it holds the cache's lock.

use anyhow::{bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::cache::Cache;
use crate::checkout::injected_files;
use crate::checkout::lfs::{Lfs, quoted_list};
use crate::checkout::registry::{registered, registry};
use crate::checkout::submodules;
use crate::git::program::nul_separated;
use crate::git::repository::{Lookup, Repository};
use crate::plan::resolved::Revision;
use crate::support::advice::Advice;
use crate::support::process::{Command, ProcessError};

/// The checkout.
pub struct Worktree<'repository> {
    repository: &'repository Repository,
    path: Utf8PathBuf,
    /// `.git/worktrees/NAME` of the user's repository.
    git_directory: Utf8PathBuf,
    injected: Utf8PathBuf,
    lfs: Lfs,
}

/// A revision that could not be checked out, and why.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// Contents are neither here nor to be had from the remote of a partial clone.
    #[error("{revision} lacks the contents of {}", quoted_list(.files))]
    MissingContents {
        /// The revision's name.
        revision: String,
        /// Paths of the files.
        files: Vec<String>,
        /// What git said.
        source: ProcessError,
    },
    /// Files kept by Git LFS are still pointers after the checkout.
    #[error("{revision} has only Git LFS pointers for {}{}", quoted_list(.files), because(.reason))]
    LfsPointers {
        /// The revision's name.
        revision: String,
        /// Paths of the files.
        files: Vec<String>,
        /// What Git LFS said, or that it is not installed; empty if it said nothing.
        reason: String,
    },
    /// Git failed otherwise.
    #[error("{revision} could not be checked out")]
    Git {
        /// The revision's name.
        revision: String,
        /// What git said.
        source: ProcessError,
    },
}

impl Advice for CheckoutError {
    fn help(&self) -> Option<String> {
        let files = match self {
            Self::MissingContents { files, .. } | Self::LfsPointers { files, .. } => files,
            Self::Git { .. } => return None,
        };
        let exclude =
            format!("leave them out: --sparse-exclude '{}'", files.first().map_or("PATTERN", |file| file));
        Some(match self {
            Self::LfsPointers { .. } => {
                format!("install git-lfs and check that `git lfs fetch` can reach the server, or {exclude}")
            }
            Self::MissingContents { .. } | Self::Git { .. } => {
                format!("fetch them while the remote can be reached, or {exclude}")
            }
        })
    }
}

impl<'repository> Worktree<'repository> {
    /// Finds the checkout that an earlier run left, killed or not, or makes it. `sparse_exclude` are the patterns of what
    /// is left out of every checkout.
    pub fn open(
        cache: &Cache,
        repository: &'repository Repository,
        sparse_exclude: &[String],
    ) -> anyhow::Result<Self> {
        let path = cache.worktree();
        let git_directory = match reusable(repository, &path)? {
            Some(git_directory) => git_directory,
            None => create(repository, &path)?,
        };
        // A killed git leaves its locks. The cache's lock is ours, so that no living process has them.
        for lock in ["index.lock", "HEAD.lock"] {
            match fs_err::remove_file(git_directory.join(lock)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        fs_err::create_dir_all(git_directory.join("info"))?;
        fs_err::write(git_directory.join("info/sparse-checkout"), sparse_patterns(sparse_exclude)?)?;
        let lfs = Lfs::open(&cache.lfs(), repository)?;
        Ok(Self { repository, path, git_directory, injected: cache.injected(), lfs })
    }

    /// The root of the checkout.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Makes the checkout the revision and nothing else, in place: a file that does not differ keeps its time. Injected
    /// files are gone afterwards; ignored files that git does not track stay.
    pub fn check_out(&self, revision: &Revision) -> anyhow::Result<()> {
        injected_files::remove_all(&self.injected, &self.path)?;
        let checkout = ["checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules"];
        let command = self.git().args(checkout).args([&revision.commit, "--"]);
        if let Err(source) = command.run() {
            return Err(self.explained(revision, source)?.advised());
        }
        // Twice forced: folders of submodules that this revision does not have are repositories, and go as well.
        self.git().args(["clean", "-ffdq"]).run()?;
        submodules::check_out(self.repository, &self.path, &self.git_directory)?;
        self.verify(revision)
    }

    /// What differs from the revision, as git lists it. Files that git ignores are not in it.
    pub fn status(&self) -> anyhow::Result<Vec<u8>> {
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
        Ok(self.git().args(status).run()?.stdout)
    }

    /// What must not go unnoticed: another tree than planned, LFS pointers in place of the files.
    fn verify(&self, revision: &Revision) -> anyhow::Result<()> {
        let tree = self.git().args(["rev-parse", "HEAD^{tree}"]).run()?.text();
        ensure!(
            tree == revision.tree,
            "the checkout of {} has the tree {tree}, and {} was planned",
            revision.name,
            revision.tree
        );
        let files = self.lfs.pointers_left(&self.git(), &self.path)?;
        if !files.is_empty() {
            let reason = self.lfs.why_unavailable().unwrap_or_default();
            return Err(
                CheckoutError::LfsPointers { revision: revision.name.clone(), files, reason }.advised()
            );
        }
        Ok(())
    }

    /// Git in the checkout. Sparse patterns apply by command line only: switching them on in the configuration would write
    /// to the user's, which all worktrees share.
    fn git(&self) -> Command {
        let sparse = ["core.sparseCheckout=true", "core.sparseCheckoutCone=false", "index.sparse=false"];
        let safe = ["core.untrackedCache=false", "core.splitIndex=false", "core.checkStat=default"];
        let settings = sparse.iter().chain(&safe);
        let command = settings
            .fold(self.repository.git_in(&self.path), |command, setting| command.args(["-c", setting]));
        self.lfs.applied_to(command)
    }

    /// Finds the files that a failed checkout failed for.
    fn explained(&self, revision: &Revision, source: ProcessError) -> anyhow::Result<CheckoutError> {
        let name = revision.name.clone();
        if let Some(files) = crate::checkout::lfs::files_in_message(source.stderr()) {
            let reason = source.stderr().to_owned();
            return Ok(CheckoutError::LfsPointers { revision: name, files, reason });
        }
        let missing = self.missing_contents(&revision.commit)?;
        if missing.is_empty() {
            return Ok(CheckoutError::Git { revision: name, source });
        }
        Ok(CheckoutError::MissingContents { revision: name, files: missing, source })
    }

    /// The files of a commit whose contents a partial clone lacks.
    fn missing_contents(&self, commit: &str) -> anyhow::Result<Vec<String>> {
        let list = ["rev-list", "--objects", "--no-object-names", "--missing=print", "-1", commit];
        let objects = self.git().args(list).capture()?.text();
        let missing: std::collections::HashSet<_> =
            objects.lines().filter_map(|line| line.strip_prefix('?')).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.git().args(["ls-tree", "-r", "-z", "--full-tree", commit]).capture()?;
        let files = nul_separated(&tree.stdout);
        let facts = files.iter().filter_map(|line| line.split_once('\t'));
        let lacks = |facts: &str| facts.split(' ').next_back().is_some_and(|hash| missing.contains(hash));
        Ok(facts.filter(|(facts, _)| lacks(facts)).map(|(_, path)| path.to_owned()).collect())
    }
}

/// The checkout's entry in the user's git directory, if the folder and the entry belong together (again).
fn reusable(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Option<Utf8PathBuf>> {
    let Ok(link) = fs_err::read_to_string(path.join(".git")) else { return Ok(None) };
    let Some(entry) = link.trim_end().strip_prefix("gitdir: ").map(Utf8PathBuf::from) else {
        return Ok(None);
    };
    let ours = entry.parent() == Some(&registry(repository)) && entry.join("HEAD").is_file();
    let Ok(back) = fs_err::read_to_string(entry.join("gitdir")) else { return Ok(None) };
    let back = Utf8Path::new(back.trim_end());
    if !ours {
        return Ok(None);
    }
    if back != path.join(".git") {
        if back.exists() {
            // The cache was copied, and the entry belongs to the original.
            return Ok(None);
        }
        // The cache was moved. `git worktree repair` would look after the user's own worktrees too.
        fs_err::write(entry.join("gitdir"), format!("{}\n", path.join(".git")))?;
    }
    // A worktree that was killed while it was made has no index yet and may lack anything else.
    let usable =
        repository.git_in(path).args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).capture()?;
    Ok(usable.status.success().then_some(entry))
}

/// Makes the checkout without any file in it.
fn create(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    for leftover in registered(repository, path)?.into_iter().chain([path.to_owned()]) {
        match fs_err::remove_dir_all(leftover) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    let commit = any_commit(repository)?;
    let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--force", "--"];
    repository
        .git()
        // It would set an extension in the user's configuration.
        .args(["-c", "worktree.useRelativePaths=false"])
        .args(add)
        .args([path.as_str(), &commit])
        .run()?;
    let mut entries = registered(repository, path)?;
    match entries.pop() {
        Some(entry) if entries.is_empty() => Ok(entry),
        _ => bail!("git made the worktree {path}, but {} has no entry for it", registry(repository)),
    }
}

/// A worktree has to begin somewhere; the first checkout moves it.
fn any_commit(repository: &Repository) -> anyhow::Result<String> {
    let references = repository.references()?;
    for name in std::iter::once("HEAD").chain(references.iter().map(String::as_str)) {
        if let Lookup::Commit(commit) = repository.look_up(name)? {
            return Ok(commit);
        }
    }
    bail!("{} has no commit yet", repository.root())
}

/// A sparse-checkout file that takes everything but these patterns. It is there even if nothing is left out: git gives a
/// new worktree the patterns of the one it was made from.
fn sparse_patterns(exclude: &[String]) -> anyhow::Result<String> {
    let mut text = "/*\n".to_owned();
    for pattern in exclude {
        ensure!(
            !pattern.is_empty() && !pattern.contains('\n') && !pattern.starts_with(['!', '#']),
            "'{pattern}' is no pattern of what to leave out (it has the syntax of .gitignore, without '!')"
        );
        text.extend(["!", pattern, "\n"]);
    }
    Ok(text)
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
