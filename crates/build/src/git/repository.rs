//! Reads a repository. Only this file uses git2.
//!
//! libgit2 answers within microseconds, but not for every repository: it does not open sha256 or
//! reftable repositories, does not fetch what a partial clone lacks, and ignores `refs/replace`.
//! The git program answers what libgit2 cannot, and its message is then the error.

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::program::{Place, git, nul_separated, searching_git};
use memprof_support::process::Command;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The first bytes of a Git LFS pointer file.
pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// The user's repository, read only.
pub struct Repository {
    libgit2: Option<git2::Repository>,
    root: Utf8PathBuf,
    git_directory: Utf8PathBuf,
    common_directory: Utf8PathBuf,
    bare: bool,
    start: Utf8PathBuf,
    environment: Vec<(String, String)>,
}

/// What a name means to git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The full hash of a commit; tags are peeled.
    Commit(String),
    /// Several commits begin with these digits: their full hashes.
    Ambiguous(Vec<String>),
    /// An object that is not a commit, and its type.
    NotACommit(String),
    /// Nothing has this name.
    Missing,
}

/// The facts about a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Full hash.
    pub hash: String,
    /// Full hash of its tree.
    pub tree: String,
    /// First line of the message.
    pub subject: String,
    /// Committer time, seconds since the epoch.
    pub time: i64,
}

impl Repository {
    /// Finds the repository of this folder: a working tree, a linked one, a folder in one, or a
    /// bare repository.
    pub fn discover(path: &Utf8Path) -> anyhow::Result<Self> {
        let start = path.canonicalize_utf8().with_context(|| format!("no folder '{path}'"))?;
        // Later calls name the git directory, and git trusts a named one. So this search is where
        // git applies `safe.directory` and `safe.bareRepository`.
        let git_directory = found_by_program(&start)?;
        // `discover` forgets the file `.git` that leads to a git directory, and takes what is above that for the root.
        let across = git2::RepositoryOpenFlags::CROSS_FS;
        let mut repository = match git2::Repository::open_ext(&start, across, std::iter::empty::<&str>()) {
            Ok(libgit2) if canonical(libgit2.path())? == git_directory => Self::opened(libgit2, start)?,
            Ok(_) | Err(_) => Self::described_by_program(start, git_directory)?,
        };
        // libgit2 ignores replacements, but a checkout does not, so the trees' hashes would differ.
        let replaces =
            |libgit2: &git2::Repository| Ok(libgit2.references_glob("refs/replace/*")?.next().is_some());
        let found: Result<bool, git2::Error> = repository.libgit2.as_ref().map_or(Ok(false), replaces);
        if found.unwrap_or(true) {
            repository.libgit2 = None;
        }
        Ok(repository)
    }

    /// Sets variables for every git process of this repository. They win over inherited ones.
    #[must_use]
    pub fn with_environment<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    fn opened(libgit2: git2::Repository, start: Utf8PathBuf) -> anyhow::Result<Self> {
        let bare = libgit2.is_bare();
        let git_directory = canonical(libgit2.path())?;
        let root = libgit2.workdir().map_or_else(|| Ok(git_directory.clone()), canonical)?;
        Ok(Self {
            root,
            common_directory: canonical(libgit2.commondir())?,
            git_directory,
            bare,
            start,
            libgit2: Some(libgit2),
            environment: Vec::new(),
        })
    }

    fn described_by_program(start: Utf8PathBuf, git_directory: Utf8PathBuf) -> anyhow::Result<Self> {
        let ask = |question: &str| -> anyhow::Result<String> {
            Ok(searching_git(&start).args(["rev-parse", question]).run()?.text())
        };
        // The answers may be relative to `start`.
        let folder = |answer: String| canonical(start.join(answer).as_std_path());
        let bare = ask("--is-bare-repository")? == "true";
        let common_directory = folder(ask("--git-common-dir")?)?;
        let root = if bare { git_directory.clone() } else { folder(ask("--show-toplevel")?)? };
        Ok(Self {
            libgit2: None,
            root,
            git_directory,
            common_directory,
            bare,
            start,
            environment: Vec::new(),
        })
    }

    /// Returns the working tree's root, or the git directory of a bare repository.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Returns the git directory of this working tree: `.git`, or `.git/worktrees/NAME` of a linked
    /// one.
    pub fn git_directory(&self) -> &Utf8Path {
        &self.git_directory
    }

    /// Returns the git directory that all working trees share. It identifies the repository.
    pub fn common_directory(&self) -> &Utf8Path {
        &self.common_directory
    }

    /// Returns the folder that the repository was found from. The user's paths are relative to it.
    pub fn start(&self) -> &Utf8Path {
        &self.start
    }

    /// Whether the repository has no working tree.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Whether there are files of the user: not in a bare repository, and not after `git clone
    /// --no-checkout`, whose working tree git describes as if all files were deleted.
    pub(crate) fn has_checkout(&self) -> anyhow::Result<bool> {
        if self.bare {
            return Ok(false);
        }
        if self.git_directory.join("index").exists() || self.is_head_unborn()? {
            return Ok(true);
        }
        let listed = self.reading().args(["ls-tree", "--name-only", "-z", "--full-tree", "HEAD"]).run()?;
        let is_there = |name: &String| self.root.join(name).symlink_metadata().is_ok();
        Ok(nul_separated(&listed.stdout).iter().any(is_there))
    }

    /// Whether `--depth` cut off the history.
    pub(crate) fn is_shallow(&self) -> bool {
        self.common_directory.join("shallow").exists()
    }

    /// Returns the git program in this repository, started at its root.
    pub fn git(&self) -> Command {
        let work_tree = (!self.bare).then_some(self.root.as_path());
        self.git_at(Place { git_directory: &self.git_directory, work_tree })
    }

    /// Returns the git program in this repository, started where the user is. The user's paths are
    /// relative to that folder.
    pub(crate) fn git_at_start(&self) -> Command {
        self.git().current_dir(&self.start)
    }

    /// Returns the git program in another place: the checkout, or the repository of a submodule.
    pub(crate) fn git_at(&self, place: Place<'_>) -> Command {
        git(place).envs(self.environment.iter().map(|(name, value)| (name, value)))
    }

    /// Returns git for reading only. It does not even refresh the user's index.
    fn reading(&self) -> Command {
        self.git().arg("--no-optional-locks")
    }

    /// Looks `spec` up by git's own rules: branches, tags, hashes, `HEAD~3`, `origin/x`,
    /// `main@{yesterday}`.
    pub fn look_up(&self, spec: &str) -> anyhow::Result<Lookup> {
        if spec.is_empty() || spec.starts_with('-') {
            return Ok(Lookup::Missing);
        }
        let peeled = |libgit2: &git2::Repository| {
            Ok::<_, git2::Error>(libgit2.revparse_single(spec)?.peel_to_commit()?.id().to_string())
        };
        if let Some(Ok(hash)) = self.libgit2.as_ref().map(peeled) {
            return Ok(Lookup::Commit(hash));
        }
        let verify = |suffix: &str| {
            self.reading().args(["rev-parse", "--verify", "--quiet", &format!("{spec}{suffix}")]).capture()
        };
        let commit = verify("^{commit}")?;
        if commit.status.success() {
            return Ok(Lookup::Commit(commit.text()));
        }
        let candidates = self.commits_beginning_with(spec)?;
        if candidates.len() > 1 {
            return Ok(Lookup::Ambiguous(candidates));
        }
        let object = verify("")?;
        if !object.status.success() {
            return Ok(Lookup::Missing);
        }
        let kind = self.reading().args(["cat-file", "-t", &object.text()]).capture()?;
        // rev-parse accepts a full hash even if the object does not exist.
        Ok(if kind.status.success() { Lookup::NotACommit(kind.text()) } else { Lookup::Missing })
    }

    fn commits_beginning_with(&self, digits: &str) -> anyhow::Result<Vec<String>> {
        if digits.len() < 4 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Vec::new());
        }
        let objects = self.reading().args(["rev-parse", &format!("--disambiguate={digits}")]).run()?;
        let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let types = self.reading().args(check).input(objects.stdout).run()?.text();
        Ok(types.lines().filter_map(|line| line.strip_suffix(" commit")).map(str::to_owned).collect())
    }

    /// Returns the facts about a commit, by its full hash.
    pub fn commit(&self, hash: &str) -> anyhow::Result<Commit> {
        self.answer(
            |libgit2| {
                let commit = libgit2.find_commit(git2::Oid::from_str(hash)?)?;
                Ok(Commit {
                    hash: hash.to_owned(),
                    tree: commit.tree_id().to_string(),
                    subject: String::from_utf8_lossy(commit.summary_bytes().unwrap_or_default()).into_owned(),
                    time: commit.time().seconds(),
                })
            },
            || {
                let format = ["log", "-1", "--no-show-signature", "--format=%T%n%ct%n%s"];
                let text = self.reading().args(format).arg(hash).run()?.text();
                let mut lines = text.splitn(3, '\n');
                let (Some(tree), Some(time)) = (lines.next(), lines.next()) else {
                    bail!("git described commit {hash} as '{text}'");
                };
                Ok(Commit {
                    hash: hash.to_owned(),
                    tree: tree.to_owned(),
                    subject: lines.next().unwrap_or_default().to_owned(),
                    time: time.parse().with_context(|| format!("commit {hash} has the time '{time}'"))?,
                })
            },
        )
    }

    /// Returns the full names of all refs (`refs/heads/main`), sorted.
    pub fn references(&self) -> anyhow::Result<Vec<String>> {
        let mut names = self.answer(
            |libgit2| {
                let references = libgit2.references()?.flatten();
                Ok(references
                    .map(|reference| String::from_utf8_lossy(reference.name_bytes()).into_owned())
                    .collect::<Vec<_>>())
            },
            || {
                let listed = self.reading().args(["for-each-ref", "--format=%(refname)"]).run()?;
                Ok(listed.text().lines().map(str::to_owned).collect())
            },
        )?;
        names.sort();
        Ok(names)
    }

    /// Returns the names of the remotes, sorted.
    pub fn remotes(&self) -> anyhow::Result<Vec<String>> {
        let mut names = self.answer(
            |libgit2| {
                let remotes = libgit2.remotes()?;
                Ok(remotes.iter().flatten().flatten().map(str::to_owned).collect::<Vec<_>>())
            },
            || Ok(self.reading().arg("remote").run()?.text().lines().map(str::to_owned).collect()),
        )?;
        names.sort();
        Ok(names)
    }

    /// Whether `HEAD` names a branch that has no commit yet.
    pub(crate) fn is_head_unborn(&self) -> anyhow::Result<bool> {
        Ok(self.look_up("HEAD")? == Lookup::Missing)
    }

    /// Returns the number of ancestors of this commit along first parents.
    pub(crate) fn first_parents(&self, commit: &str) -> anyhow::Result<usize> {
        let counted = self.reading().args(["rev-list", "--count", "--first-parent", commit]).run()?.text();
        Ok(counted.parse::<usize>().context("`git rev-list --count`")?.saturating_sub(1))
    }

    /// Returns the best common ancestor of these commits; `None` if there is none.
    pub fn merge_base(&self, commits: &[&str]) -> anyhow::Result<Option<String>> {
        let by_program = || {
            let command = self.reading().args(["merge-base", "--octopus"]).args(commits);
            let base = command.capture()?;
            match (base.status.code(), base.text().lines().next()) {
                (Some(0), Some(hash)) => Ok(Some(hash.to_owned())),
                (Some(0 | 1), _) => Ok(None),
                _ => Err(command.failed(&base).into()),
            }
        };
        if self.is_shallow() {
            // libgit2 would walk past the boundary, to commits that are missing.
            return by_program();
        }
        self.answer(
            |libgit2| {
                let ids: Result<Vec<_>, _> = commits.iter().map(|hash| git2::Oid::from_str(hash)).collect();
                Ok(Some(libgit2.merge_base_octopus(&ids?)?.to_string()))
            },
            by_program,
        )
    }

    /// Returns the content of a file at a commit, without applying filters; `None` if there is no
    /// such file.
    pub fn show(&self, commit: &str, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let listed = self.tree_entry(commit, path)?;
        let Some((mode, blob)) = listed else { return Ok(None) };
        ensure!(
            mode != SYMBOLIC_LINK,
            "'{path}' at {commit} is a symbolic link; use the path of the file that it points to"
        );
        if mode & FILE_TYPE != REGULAR_FILE {
            return Ok(None);
        }
        let content = self.blob(&blob).with_context(|| format!("could not read '{path}' at {commit}"))?;
        ensure!(
            !content.starts_with(LFS_POINTER),
            "'{path}' at {commit} is a Git LFS pointer; copy the file itself from a checkout"
        );
        Ok(Some(content))
    }

    /// Returns where a symbolic link at a commit leads; `None` if the path is no link.
    pub fn link_target(&self, commit: &str, path: &str) -> anyhow::Result<Option<String>> {
        let Some((SYMBOLIC_LINK, blob)) = self.tree_entry(commit, path)? else { return Ok(None) };
        let target = self.blob(&blob).with_context(|| format!("could not read '{path}' at {commit}"))?;
        Ok(Some(String::from_utf8_lossy(&target).into_owned()))
    }

    fn blob(&self, hash: &str) -> anyhow::Result<Vec<u8>> {
        self.answer(
            |libgit2| Ok(libgit2.find_blob(git2::Oid::from_str(hash)?)?.content().to_vec()),
            || Ok(self.reading().args(["cat-file", "blob", hash]).run()?.stdout),
        )
    }

    /// Returns the mode and hash of the entry at a path.
    pub fn tree_entry(&self, commit: &str, path: &str) -> anyhow::Result<Option<(u32, String)>> {
        let path = path.trim_end_matches('/');
        self.answer(
            |libgit2| {
                let tree = libgit2.find_commit(git2::Oid::from_str(commit)?)?.tree()?;
                match tree.get_path(std::path::Path::new(path)) {
                    Ok(entry) => Ok(Some((entry.filemode().cast_unsigned(), entry.id().to_string()))),
                    // The tree has no such entry. A tree that a partial clone lacks gives an error
                    // of class Odb.
                    Err(error)
                        if error.class() == git2::ErrorClass::Tree
                            && error.code() == git2::ErrorCode::NotFound =>
                    {
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            },
            || {
                let listed =
                    self.reading().args(["ls-tree", "-z", "--full-tree", commit, "--", path]).run()?;
                let Some(line) = nul_separated(&listed.stdout).into_iter().next() else { return Ok(None) };
                let mut words = line.split([' ', '\t']);
                match (words.next().map(|mode| u32::from_str_radix(mode, 8)), words.nth(1)) {
                    (Some(Ok(mode)), Some(hash)) => Ok(Some((mode, hash.to_owned()))),
                    _ => bail!("git listed '{path}' at {commit} as '{line}'"),
                }
            },
        )
    }

    /// Returns the paths of all files below a folder of a commit (`""` is the root), relative to
    /// the root and in git's order. For a file, that is its own path; for a missing path, there are
    /// none. Files of submodules are left out.
    pub fn files(&self, commit: &str, folder: &str) -> anyhow::Result<Vec<String>> {
        let folder = folder.trim_end_matches('/');
        let mut files = self.listed(commit, |mode| mode != SUBMODULE)?;
        let is_inside = |path: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        files.retain(|path| folder.is_empty() || is_inside(path));
        Ok(files)
    }

    /// Returns the paths of a commit's symbolic links.
    ///
    /// # Errors
    /// Git cannot read the commit.
    pub fn links(&self, commit: &str) -> anyhow::Result<Vec<Utf8PathBuf>> {
        let links = self.listed(commit, |mode| mode == SYMBOLIC_LINK)?;
        Ok(links.into_iter().map(Utf8PathBuf::from).collect())
    }

    /// Returns the folders of a commit's submodules.
    ///
    /// # Errors
    /// Git cannot read the commit.
    pub(crate) fn submodules(&self, commit: &str) -> anyhow::Result<Vec<Utf8PathBuf>> {
        let submodules = self.listed(commit, |mode| mode == SUBMODULE)?;
        Ok(submodules.into_iter().map(Utf8PathBuf::from).collect())
    }

    /// Returns the paths in a commit whose mode is wanted, in git's order. Folders have none.
    fn listed(&self, commit: &str, is_wanted: impl Fn(u32) -> bool) -> anyhow::Result<Vec<String>> {
        self.answer(
            |libgit2| {
                let mut paths = Vec::new();
                let tree = libgit2.find_commit(git2::Oid::from_str(commit)?)?.tree()?;
                tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
                    let mode = entry.filemode().cast_unsigned();
                    if mode & FILE_TYPE != FOLDER && is_wanted(mode) {
                        paths.push(format!("{folder}{}", String::from_utf8_lossy(entry.name_bytes())));
                    }
                    git2::TreeWalkResult::Ok
                })?;
                Ok(paths)
            },
            || {
                let listed = self.reading().args(["ls-tree", "-r", "-z", "--full-tree", commit]).run()?;
                let mut paths = Vec::new();
                for line in nul_separated(&listed.stdout) {
                    let (facts, path) = line.split_once('\t').context("git printed no path")?;
                    let mode = facts.split(' ').next().unwrap_or_default();
                    if is_wanted(u32::from_str_radix(mode, 8).with_context(|| line.clone())?) {
                        paths.push(path.to_owned());
                    }
                }
                Ok(paths)
            },
        )
    }

    /// Whether a file of a commit that these pathspecs select contains one of the texts.
    ///
    /// # Errors
    /// Git cannot read a file, because a partial clone lacks it.
    pub fn has_text(&self, commit: &str, texts: &[&str], pathspecs: &[&str]) -> anyhow::Result<bool> {
        let patterns = texts.iter().flat_map(|text| ["-e", text]);
        let command = self.reading().env("GIT_NO_LAZY_FETCH", "1").args(["grep", "-q", "-I", "-F"]);
        let searched = command.args(patterns).args([commit, "--"]).args(pathspecs).capture()?;
        match searched.status.code() {
            Some(0) => Ok(true),
            Some(1) if searched.stderr.is_empty() => Ok(false),
            _ => anyhow::bail!("git grep: {}", String::from_utf8_lossy(&searched.stderr).trim()),
        }
    }

    /// Returns the files of a commit whose content or path contains this text, in upper or lower case.
    /// Files of submodules are left out. The content of files of these patterns does not count.
    ///
    /// # Errors
    /// Git cannot read a file, because a partial clone lacks it.
    pub fn files_with(&self, commit: &str, text: &str, without: &[String]) -> anyhow::Result<Vec<String>> {
        let lowercase = text.to_lowercase();
        let mut found = self.files(commit, "")?;
        found.retain(|path| path.to_lowercase().contains(&lowercase));
        let options = ["grep", "-z", "-l", "-a", "-i", "-F", "--full-name", "-e", text, commit, "--"];
        // A pattern in .gitignore's syntax may match more than this.
        let excluded =
            without.iter().map(|pattern| format!(":(exclude,top,glob){}", pattern.trim_matches('/')));
        let command = self.reading().env("GIT_NO_LAZY_FETCH", "1").args(options).args(excluded);
        let searched = command.capture()?;
        let stderr = String::from_utf8_lossy(&searched.stderr);
        // Git exits with 1 if no file has the text, and goes on after a file that it cannot read.
        let is_finished = searched.status.success() || searched.status.code() == Some(1);
        if !is_finished || !stderr.trim().is_empty() {
            anyhow::bail!("git grep: {}", stderr.trim());
        }
        let prefix = format!("{commit}:");
        for path in nul_separated(&searched.stdout) {
            let path = path.strip_prefix(&prefix).unwrap_or(&path).to_owned();
            if !found.contains(&path) {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Returns the paths that differ between two commits or trees, sorted.
    pub fn changed_paths(&self, before: &str, after: &str) -> anyhow::Result<Vec<String>> {
        let mut paths = self.answer(
            |libgit2| {
                let tree = |hash| libgit2.find_object(git2::Oid::from_str(hash)?, None)?.peel_to_tree();
                let diff = libgit2.diff_tree_to_tree(Some(&tree(before)?), Some(&tree(after)?), None)?;
                let path = |delta: git2::DiffDelta<'_>| {
                    delta
                        .new_file()
                        .path_bytes()
                        .or_else(|| delta.old_file().path_bytes())
                        .map(<[u8]>::to_vec)
                };
                let bytes = diff.deltas().filter_map(path);
                Ok(bytes.map(|path| String::from_utf8_lossy(&path).into_owned()).collect::<Vec<_>>())
            },
            || {
                let diff = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after];
                Ok(nul_separated(&self.reading().args(diff).run()?.stdout))
            },
        )?;
        paths.sort();
        Ok(paths)
    }

    /// Returns libgit2's answer, or else the git program's.
    fn answer<T>(
        &self,
        by_libgit2: impl FnOnce(&git2::Repository) -> Result<T, git2::Error>,
        by_program: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        match self.libgit2.as_ref().map(by_libgit2) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => by_program(),
        }
    }
}

/// The bits of a tree entry's mode that tell its type, and their values.
const FILE_TYPE: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
pub(crate) const SYMBOLIC_LINK: u32 = 0o120_000;
pub(crate) const SUBMODULE: u32 = 0o160_000;
const FOLDER: u32 = 0o040_000;

/// Returns the work tree or bare repository that this folder is in, whoever owns it. The folder
/// itself need not exist.
pub(crate) fn enclosing(folder: &Utf8Path) -> Option<&Utf8Path> {
    folder.ancestors().find(|folder| {
        let link = folder.join(".git");
        let is_link = || followed::text(&link).is_ok_and(|text| text.starts_with("gitdir:"));
        let is_bare = ["objects", "refs"].iter().all(|part| folder.join(part).is_dir());
        link.join("HEAD").exists() || is_link() || (is_bare && folder.join("HEAD").is_file())
    })
}

/// Returns the git directory that git finds from this folder.
fn found_by_program(start: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    match searching_git(start).args(["rev-parse", "--absolute-git-dir"]).run() {
        Ok(found) => canonical(found.text().as_ref()),
        Err(error) if error.stderr().contains("dubious ownership") => {
            let message = format!("git does not read the repository at {start}: another user owns it");
            // Git names the exact folder.
            let advice = error.stderr().lines().map(str::trim).find(|line| line.contains("safe.directory"));
            Err(UserError::new(message).maybe_help(advice.map(|line| format!("to trust it: {line}"))).into())
        }
        Err(error) if error.stderr().contains("not a git repository") => {
            Err(UserError::new(format!("no git repository at '{start}' or above it"))
                .help(
                    "go to one with `cd`\n\
                     or make one here: git init && git add -A && git commit -m start\n\
                     or look at the demo: cargo memprof demo",
                )
                .into())
        }
        Err(error) => Err(error).with_context(|| format!("no git repository at '{start}'")),
    }
}

fn canonical(path: &std::path::Path) -> anyhow::Result<Utf8PathBuf> {
    let canonical = fs_err::canonicalize(path)?;
    Utf8PathBuf::from_path_buf(canonical)
        .map_err(|path| anyhow::anyhow!("the path {} is not UTF-8", path.display()))
}
