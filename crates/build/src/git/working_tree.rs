//! Commits the user's working tree, with uncommitted and untracked files, but without ignored ones and
//! cargo's target folders.
//!
//! Git uses a temporary copy of the user's index, which does not change by a byte. Equal content on
//! an equal `HEAD` gives an equal commit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use camino::Utf8Path;

use crate::git::fetch::OUR_REFS;
use crate::git::program::nul_separated;
use crate::git::repository::{Lookup, Repository};
use crate::git::written_commit;
use memprof_support::event::{Event, Sink};
use memprof_support::process::Command;
use memprof_support::user_error::UserError;

/// The commit that has the content of the working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The full hash. Without changes, this is `HEAD`'s.
    pub commit: String,
    /// Whether the working tree differs from `HEAD`.
    pub is_changed: bool,
}

/// Finds or makes a commit of the working tree. A new one is kept alive with a ref of the tool.
pub(crate) fn snapshot(repository: &Repository, sink: &dyn Sink) -> anyhow::Result<Snapshot> {
    let lacks = if repository.is_bare() {
        Some("which a bare repository lacks".to_owned())
    } else if !repository.has_checkout()? {
        Some(format!("and no files are checked out in {}", repository.root()))
    } else {
        None
    };
    if let Some(lacks) = lacks {
        let text = format!("'.' is the working tree, {lacks}");
        return Err(UserError::new(text).help("name a ref instead: cargo memprof HEAD").into());
    }
    let folder = tempfile::tempdir().context("could not create a temporary folder for git's index")?;
    let folder = Utf8Path::from_path(folder.path()).context("the temporary folder's path is not UTF-8")?;
    let index = TemporaryIndex { repository, path: &folder.join("index") };
    index.copy_users()?;
    index.see_hidden_changes()?;
    index.add_everything(sink)?;
    let tree = index.git(&["write-tree"]).run()?.text();
    warn_of_dirty_submodules(repository, sink)?;

    let head = match repository.look_up("HEAD")? {
        Lookup::Commit(hash) => Some(repository.commit(&hash)?),
        Lookup::Ambiguous(_) | Lookup::NotACommit(_) | Lookup::Missing => None,
    };
    if let Some(head) = head.as_ref().filter(|head| head.tree == tree) {
        return Ok(Snapshot { commit: head.hash.clone(), is_changed: false });
    }
    let time = head.as_ref().map_or(0, |commit| commit.time);
    let base = head.as_ref().map_or("no commit yet".to_owned(), |commit| commit.hash.clone());
    let parent = head.as_ref().map(|head| head.hash.as_str());
    let commit =
        written_commit::of_tree(repository, &tree, parent, time, &format!("Working tree on {base}"))?;
    repository.git().args(["update-ref", &format!("{OUR_REFS}worktree/{commit}"), &commit]).run()?;
    Ok(Snapshot { commit, is_changed: true })
}

/// A temporary index file for the user's working tree.
struct TemporaryIndex<'a> {
    repository: &'a Repository,
    path: &'a Utf8Path,
}

impl TemporaryIndex<'_> {
    fn git(&self, arguments: &[&str]) -> Command {
        // A split index would leave its shared half in the user's git directory. A cache of
        // untracked files is useless in a temporary index.
        // Outside of a sparse checkout, `git add` changes nothing.
        let settings = [
            "core.splitIndex=false",
            "core.untrackedCache=false",
            "core.sparseCheckout=false",
            "index.sparse=false",
        ];
        let command =
            settings.iter().fold(self.repository.git(), |command, setting| command.args(["-c", setting]));
        // Warnings about line endings matter only for the user's own `git add`.
        let command = command.args(["-c", "core.safecrlf=false"]);
        command.env("GIT_INDEX_FILE", self.path).args(arguments)
    }

    /// Copies the user's index with its modification time. The copy saves hashing every file again.
    /// The time tells git which entries may have changed right after the index was written.
    fn copy_users(&self) -> anyhow::Result<()> {
        let users = self.repository.git_directory().join("index");
        let modified = match fs_err::metadata(&users) {
            Ok(metadata) => metadata.modified()?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        fs_err::copy(&users, self.path)?;
        let copy = fs_err::OpenOptions::new().write(true).open(self.path)?;
        copy.file().set_modified(modified).context("could not set the time of the copied index")
    }

    /// Removes the marks that hide changes: `assume-unchanged`, and `skip-worktree` if the file
    /// exists. The user builds what is on the disk.
    fn see_hidden_changes(&self) -> anyhow::Result<()> {
        let listed = self.git(&["ls-files", "-v", "-z"]).run()?;
        let root = self.repository.root().as_std_path();
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for entry in listed.stdout.split_inclusive(|byte| *byte == 0) {
            let [tag, b' ', item @ ..] = entry else { continue };
            let there = || root.join(without_nul(item)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() {
                assumed.extend_from_slice(item);
            }
            if tag.eq_ignore_ascii_case(&b'S') && there() {
                skipped.extend_from_slice(item);
            }
        }
        for (mark, paths) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            if !paths.is_empty() {
                self.git(&["update-index", mark, "-z", "--stdin"]).input(paths).run()?;
            }
        }
        Ok(())
    }

    /// Adds changed, deleted and untracked files. Target folders are left out, and so are nested
    /// repositories that are not submodules: git would record their commit, which this repository lacks.
    fn add_everything(&self, sink: &dyn Sink) -> anyhow::Result<()> {
        self.git(&["add", "--update"]).run()?;
        let others = self.git(&["ls-files", "--others", "--exclude-standard", "-z"]).run()?;
        let items = others.stdout.split_inclusive(|byte| *byte == 0).collect();
        let (nested, files): (Vec<_>, Vec<_>) = without_target_folders(self.repository, items)?
            .into_iter()
            .partition(|item| item.ends_with(b"/\0"));
        self.git(&["update-index", "--add", "-z", "--stdin"]).input(files.concat()).run()?;
        for path in nul_separated(&nested.concat()) {
            sink.emit(Event::Warning {
                message: format!(
                    "'{path}' is a nested repository and not a submodule; '.' does not include it"
                ),
                help: Some("add it as a submodule, or to .gitignore to silence this".to_owned()),
            });
        }
        Ok(())
    }
}

/// Leaves out what is in target folders, among untracked paths of `-z` output. cargo tags them. A folder in
/// which git tracks a file is not only cargo's.
pub(crate) fn without_target_folders<'a>(
    repository: &Repository,
    mut items: Vec<&'a [u8]>,
) -> anyhow::Result<Vec<&'a [u8]>> {
    let mut folders = Vec::new();
    for item in &items {
        let folder = item.strip_suffix(b"CACHEDIR.TAG\0");
        let Some(folder) = folder.filter(|folder| folder.ends_with(b"/")) else { continue };
        let tag = repository.root().as_std_path().join(without_nul(item));
        if tag.is_file() && is_of_cargo(&fs_err::read(tag)?) {
            let tracked = ["--literal-pathspecs", "ls-files", "-z", "--"];
            let tracked = repository.git().args(tracked).arg(OsStr::from_bytes(folder)).run()?;
            folders.extend(tracked.stdout.is_empty().then_some(folder));
        }
    }
    items.retain(|item| !folders.iter().any(|folder| item.starts_with(folder)));
    Ok(items)
}

/// Whether a `CACHEDIR.TAG` is from cargo. Other programs write such files, too.
fn is_of_cargo(tag: &[u8]) -> bool {
    tag.starts_with(b"Signature: 8a477f597d28d172789f06886806bc55")
        && memchr::memmem::find(tag, b"created by cargo").is_some()
}

/// Returns the path of an item of `-z` output. It may not be UTF-8.
fn without_nul(item: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(item.strip_suffix(b"\0").unwrap_or(item)))
}

/// Warns about submodules with uncommitted changes. The tree contains only a submodule's commit.
fn warn_of_dirty_submodules(repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    if !repository.root().join(".gitmodules").exists() {
        return Ok(());
    }
    let status =
        ["--no-optional-locks", "status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=none"];
    for entry in nul_separated(&repository.git().args(status).run()?.stdout) {
        // `1 XY sub mH mI mW hH hI path`, where sub is `S<commit changed><modified><untracked>` for
        // a submodule.
        let words: Vec<_> = entry.splitn(9, ' ').collect();
        if let ["1", _, sub, .., path] = words[..]
            && sub.starts_with('S')
            && sub.contains(['M', 'U'])
        {
            sink.emit(Event::Warning {
                message: format!("submodule '{path}' has uncommitted changes; '.' does not include them"),
                help: Some(format!("commit them in '{path}'")),
            });
        }
    }
    Ok(())
}
