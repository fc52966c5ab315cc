//! The user's working tree as a commit: uncommitted and untracked files included, ignored ones left out.
//!
//! Git writes it with a temporary index, copied from the user's, which stays as it is byte for byte. Equal content on an
//! equal `HEAD` gives an equal commit.

use anyhow::{Context, ensure};
use camino::Utf8Path;

use crate::git::fetch::OUR_REFS;
use crate::git::program::nul_separated;
use crate::git::repository::{Lookup, Repository};
use crate::support::event::{Event, Sink};
use crate::support::process::Command;

/// Makes a commit of the working tree, keeps it alive by a ref of ours, and returns its full hash.
pub fn snapshot(repository: &Repository, sink: &dyn Sink) -> anyhow::Result<String> {
    ensure!(!repository.is_bare(), "'.' is the working tree, and a bare repository has none");
    let folder = tempfile::tempdir().context("no temporary folder for an index")?;
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
    let time = head.as_ref().map_or(0, |commit| commit.time);
    let base = head.as_ref().map_or("no commit yet".to_owned(), |commit| commit.hash.clone());
    // The `@` keeps git from taking small numbers for a year.
    let date = format!("@{time} +0000");
    let mut command = repository
        .git()
        .args(["-c", "i18n.commitEncoding=UTF-8", "commit-tree", "--no-gpg-sign", &tree])
        .args(["-m", &format!("Working tree on {base}")]);
    for role in ["AUTHOR", "COMMITTER"] {
        command = command
            .env(format!("GIT_{role}_NAME"), "cargo memprof")
            .env(format!("GIT_{role}_EMAIL"), "memprof@localhost")
            .env(format!("GIT_{role}_DATE"), &date);
    }
    if let Some(head) = &head {
        command = command.args(["-p", &head.hash]);
    }
    let commit = command.run()?.text();
    repository.git().args(["update-ref", &format!("{OUR_REFS}worktree/{commit}"), &commit]).run()?;
    Ok(commit)
}

/// An index file of our own for the user's working tree.
struct TemporaryIndex<'a> {
    repository: &'a Repository,
    path: &'a Utf8Path,
}

impl TemporaryIndex<'_> {
    fn git(&self, arguments: &[&str]) -> Command {
        // A split index would leave its shared half in the user's git directory, and a cache of untracked files is of use
        // only in an index that stays.
        let settings = ["core.splitIndex=false", "core.untrackedCache=false", "index.sparse=false"];
        let command =
            settings.iter().fold(self.repository.git(), |command, setting| command.args(["-c", setting]));
        // Adding a nested repository is dealt with below; line endings are the user's affair at a real `git add`.
        let command = command.args(["-c", "core.safecrlf=false"]);
        command.env("GIT_INDEX_FILE", self.path).args(arguments)
    }

    /// Copies the user's index with its time. The copy spares hashing every file again; the time is how git knows which
    /// entries may have changed in the instant after the index was written.
    fn copy_users(&self) -> anyhow::Result<()> {
        let users = self.repository.git_directory().join("index");
        let modified = match fs_err::metadata(&users) {
            Ok(metadata) => metadata.modified()?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        fs_err::copy(&users, self.path)?;
        let copy = fs_err::OpenOptions::new().write(true).open(self.path)?;
        copy.file().set_modified(modified).context("the index copy takes no time stamp")
    }

    /// Takes the marks off that hide changes: `assume-unchanged`, and `skip-worktree` where the file is there after all.
    /// What is on the disk is what the user sees built.
    fn see_hidden_changes(&self) -> anyhow::Result<()> {
        let listed = self.git(&["ls-files", "-v", "-z"]).run()?;
        let mut assumed = String::new();
        let mut skipped = String::new();
        for entry in nul_separated(&listed.stdout) {
            let Some((tag, path)) = entry.split_once(' ') else { continue };
            let there = || self.repository.root().join(path).symlink_metadata().is_ok();
            if tag.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                assumed.extend([path, "\0"]);
            }
            if tag.eq_ignore_ascii_case("S") && there() {
                skipped.extend([path, "\0"]);
            }
        }
        for (mark, paths) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            if !paths.is_empty() {
                self.git(&["update-index", mark, "-z", "--stdin"]).input(paths).run()?;
            }
        }
        Ok(())
    }

    /// Adds what is changed, deleted and untracked. Repositories inside this one that are no submodules are left out: git
    /// would record their commit, which nobody else has.
    fn add_everything(&self, sink: &dyn Sink) -> anyhow::Result<()> {
        self.git(&["add", "--update"]).run()?;
        let others = self.git(&["ls-files", "--others", "--exclude-standard", "-z"]).run()?;
        let (nested, files): (Vec<_>, Vec<_>) =
            nul_separated(&others.stdout).into_iter().partition(|path| path.ends_with('/'));
        let paths: String = files.iter().flat_map(|path| [path.as_str(), "\0"]).collect();
        self.git(&["update-index", "--add", "-z", "--stdin"]).input(paths).run()?;
        for path in nested {
            sink.emit(Event::Warning {
                message: format!(
                    "'{path}' is a repository of its own and no submodule: it is not part of '.'"
                ),
                help: Some("add it as a submodule, or to .gitignore if it does not matter".to_owned()),
            });
        }
        Ok(())
    }
}

/// A submodule enters the tree as the commit that it is at; changes in its own working tree cannot.
fn warn_of_dirty_submodules(repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    if !repository.root().join(".gitmodules").exists() {
        return Ok(());
    }
    let status =
        ["--no-optional-locks", "status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=none"];
    for entry in nul_separated(&repository.git().args(status).run()?.stdout) {
        // `1 XY sub mH mI mW hH hI path`, where sub is `S<commit changed><modified><untracked>` for a submodule.
        let words: Vec<_> = entry.splitn(9, ' ').collect();
        if let ["1", _, sub, .., path] = words[..]
            && sub.starts_with('S')
            && sub.contains(['M', 'U'])
        {
            sink.emit(Event::Warning {
                message: format!("submodule '{path}' has uncommitted changes: they are not part of '.'"),
                help: Some(format!("commit them in '{path}'")),
            });
        }
    }
    Ok(())
}
