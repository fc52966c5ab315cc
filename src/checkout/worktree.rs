//! The checkout, outside of the user's repository, in which every revision is built and run.
//!
//! It is a linked worktree of the user's repository at a fixed path. Revisions are checked out in
//! place: git rewrites only the files that differ, with a current time, so that incremental builds
//! are correct and fast. The caller holds the cache's lock.

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
use crate::support::regular_file;

/// The checkout.
pub struct Worktree<'repository> {
    repository: &'repository Repository,
    path: Utf8PathBuf,
    /// `.git/worktrees/NAME` of the user's repository.
    git_directory: Utf8PathBuf,
    /// The content of the file `.git`, which names that directory.
    link: String,
    injected: Utf8PathBuf,
    lfs: Lfs,
}

/// Why a revision could not be checked out.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// A partial clone lacks contents, and its remote does not deliver them.
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
        /// Git LFS's message, or that it is not installed. Empty if there is no message.
        reason: String,
    },
    /// Git failed for another reason.
    #[error("could not check out {revision}")]
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
        let exclude = format!(
            "leave them out with --sparse-exclude '{}'",
            files.first().map_or("PATTERN", |file| file)
        );
        Some(match self {
            Self::LfsPointers { .. } => {
                format!("install git-lfs and check that `git lfs fetch` can reach the server, or {exclude}")
            }
            Self::MissingContents { .. } | Self::Git { .. } => {
                format!("run again while the remote can be reached, or {exclude}")
            }
        })
    }
}

impl<'repository> Worktree<'repository> {
    /// Finds the checkout of an earlier run, even of a killed one, or creates it. `sparse_exclude`
    /// are patterns of files to leave out of every checkout.
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
        // A killed git leaves its locks behind. This process holds the cache's lock, so no living
        // process holds them.
        for lock in ["index.lock", "HEAD.lock"] {
            match fs_err::remove_file(git_directory.join(lock)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        fs_err::create_dir_all(git_directory.join("info"))?;
        fs_err::write(git_directory.join("info/sparse-checkout"), sparse_patterns(sparse_exclude)?)?;
        let lfs = Lfs::open(&cache.lfs(), repository)?;
        let link = fs_err::read_to_string(path.join(".git"))?;
        Ok(Self { repository, path, git_directory, link, injected: cache.injected(), lfs })
    }

    /// Returns the root of the checkout.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Checks out the revision in place. Files that do not differ keep their time. Removes injected
    /// files, but keeps files that git ignores.
    pub fn check_out(&self, revision: &Revision) -> anyhow::Result<()> {
        self.mend()?;
        injected_files::remove_all(&self.injected, &self.path)?;
        let checkout = ["checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules"];
        let command = self.git().args(checkout).args([&revision.commit, "--"]);
        if let Err(source) = command.run() {
            return Err(self.explained(revision, source)?.advised());
        }
        // Forced twice, to remove the repositories of submodules that this revision lacks, too.
        self.git().args(["clean", "-ffdq"]).run()?;
        submodules::check_out(self.repository, &self.path, &self.git_directory)?;
        self.verify(revision)
    }

    /// Restores the folder and its link to the git directory, which a test may have deleted or
    /// replaced.
    pub fn mend(&self) -> anyhow::Result<()> {
        let is_folder = |path: &Utf8Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_folder(&self.path) {
            regular_file::remove(&self.path)?;
            fs_err::create_dir_all(&self.path)?;
        }
        let link = self.path.join(".git");
        if regular_file::read(&link).ok().as_deref() != Some(self.link.as_bytes()) {
            regular_file::replace(&link, self.link.as_bytes())?;
        }
        Ok(())
    }

    /// Returns git's list of differences from the revision. Files that git ignores are not in it.
    pub fn status(&self) -> anyhow::Result<Vec<u8>> {
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
        Ok(self.git().args(status).run()?.stdout)
    }

    /// Checks for another tree than planned, and for LFS pointers in place of files.
    fn verify(&self, revision: &Revision) -> anyhow::Result<()> {
        let tree = self.git().args(["rev-parse", "HEAD^{tree}"]).run()?.text();
        ensure!(
            tree == revision.tree,
            "the checkout of {} has the tree {tree}, but the plan has {}",
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

    /// Returns git in the checkout. The command line sets sparse patterns, because all worktrees
    /// share the user's configuration.
    fn git(&self) -> Command {
        let sparse = ["core.sparseCheckout=true", "core.sparseCheckoutCone=false", "index.sparse=false"];
        let safe = ["core.untrackedCache=false", "core.splitIndex=false", "core.checkStat=default"];
        let settings = sparse.iter().chain(&safe);
        let command = settings
            .fold(self.repository.git_in(&self.path), |command, setting| command.args(["-c", setting]));
        self.lfs.applied_to(command)
    }

    /// Finds the files that made a checkout fail.
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

    /// Returns the files of a commit whose contents a partial clone lacks.
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

/// Returns the checkout's entry in the user's git directory, if the folder and the entry belong
/// together.
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
            // The cache is a copy, and the entry belongs to the original.
            return Ok(None);
        }
        // The cache was moved. `git worktree repair` would also change the user's own worktrees.
        fs_err::write(entry.join("gitdir"), format!("{}\n", path.join(".git")))?;
    }
    // A worktree whose creation was killed has no index, and may lack anything else.
    let usable =
        repository.git_in(path).args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).capture()?;
    Ok(usable.status.success().then_some(entry))
}

/// Creates the checkout without any file in it.
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
        // Relative paths would set an extension in the user's configuration.
        .args(["-c", "worktree.useRelativePaths=false"])
        .args(add)
        .args([path.as_str(), &commit])
        .run()?;
    let mut entries = registered(repository, path)?;
    match entries.pop() {
        Some(entry) if entries.is_empty() => Ok(entry),
        _ => bail!("git created the worktree {path}, but {} has no entry for it", registry(repository)),
    }
}

/// Returns any commit to create the worktree at. The first checkout moves it.
fn any_commit(repository: &Repository) -> anyhow::Result<String> {
    let references = repository.references()?;
    for name in std::iter::once("HEAD").chain(references.iter().map(String::as_str)) {
        if let Lookup::Commit(commit) = repository.look_up(name)? {
            return Ok(commit);
        }
    }
    bail!("the repository {} has no commit yet; make one first", repository.root())
}

/// Returns a sparse-checkout file for everything but these patterns. It is needed even without
/// patterns, because a new worktree inherits those of the user's worktree.
fn sparse_patterns(exclude: &[String]) -> anyhow::Result<String> {
    let mut text = "/*\n".to_owned();
    for pattern in exclude {
        ensure!(
            !pattern.is_empty() && !pattern.contains('\n') && !pattern.starts_with(['!', '#']),
            "'{pattern}' is not a pattern of files to leave out: use the syntax of .gitignore, without '!'"
        );
        text.extend(["!", pattern, "\n"]);
    }
    Ok(text)
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
