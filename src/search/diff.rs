//! The diff between the two commits of a proof: read from git, checked by the compiler, and written as commits
//! that have some of its hunks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;

use memprof_build::cargo::lockfile;
use memprof_build::compile_check::{ChangedLock, Changes, CompileCheck};
use memprof_build::compile_error::CompileError;
use memprof_build::git::changed_files::changed_files;
use memprof_build::git::repository::Repository;
use memprof_build::git::written_commit::{self, TreeEntry};
use memprof_plan::changed_file::ChangedFile;
use memprof_plan::resolved::Plan;
use memprof_run::bisect::parts::hunk::{ComposedFile, DiffFiles, SplitDiff, is_code};
use memprof_run::bisect::parts::labels::{self, Outline, Weight};
use memprof_run::bisect::parts::locked::LockedSides;
use memprof_run::bisect::parts::record::HunkPlace;

/// The files that differ between two commits.
pub struct DifferingFiles<'a> {
    repository: &'a Repository,
    commits: [String; 2],
    files: DiffFiles,
}

/// The diff in hunks.
pub struct ReadDiff<'a> {
    repository: &'a Repository,
    commits: [String; 2],
    pub split: SplitDiff,
    /// The candidate's sources with hunks.
    outlines: BTreeMap<String, Outline>,
    /// The blobs that were written, by their text.
    blobs: RefCell<BTreeMap<String, String>>,
}

/// A variant that compiles.
pub struct CheckedVariant {
    /// Its lock file, if it is neither the baseline's nor the candidate's.
    pub lock: Option<Vec<u8>>,
}

impl<'a> DifferingFiles<'a> {
    /// Reads the files that differ between the first two revisions of a plan.
    pub fn read(plan: &Plan, repository: &'a Repository) -> anyhow::Result<Self> {
        let [old, new, ..] = &plan.revisions[..] else { anyhow::bail!("a diff has two sides") };
        let commits = [old.commit.clone(), new.commit.clone()];
        let mut files = DiffFiles::default();
        let path_of_lock = plan.workspace.join("Cargo.lock").to_string();
        // With other dependencies than those of the lock file, its packages say nothing.
        let is_in_use = plan.request.lockfile.is_none() && plan.request.with.is_empty();
        for ChangedFile { old, new } in changed_files(repository, &commits[0], &commits[1])? {
            let is_lock = is_in_use && new.as_deref() == Some(path_of_lock.as_str()) && old == new;
            match both_texts(repository, &commits, old.as_deref(), new.as_deref()) {
                Some((path, old, new)) if is_lock => files.lock = Some(LockedSides::new(path, &old, &new)),
                Some(both) if is_code(&both.0) => files.texts.push(both),
                _ => files.whole.push((old, new)),
            }
        }
        if files.lock.is_none() && is_in_use {
            files.lock = same_lock(repository, &commits, path_of_lock)?;
        }
        Ok(Self { repository, commits, files })
    }

    /// Whether the two commits have the same files.
    pub fn is_empty(&self) -> bool {
        let lock = self.files.lock.as_ref();
        self.files.texts.is_empty() && self.files.whole.is_empty() && lock.is_none_or(LockedSides::is_same)
    }

    /// Returns the files that differ, by their paths.
    pub fn paths(&self) -> BTreeSet<&str> {
        let texts = self.files.texts.iter().map(|(path, ..)| path.as_str());
        let whole = self.files.whole.iter().flat_map(|(old, new)| old.iter().chain(new)).map(String::as_str);
        texts.chain(whole).collect()
    }

    /// Splits them into hunks. `elsewhere` are the files that the test's target does not compile, and
    /// `included` those that the compiler reads although their names do not say so.
    pub fn split(self, elsewhere: &BTreeSet<String>, included: &BTreeSet<String>) -> ReadDiff<'a> {
        let Self { repository, commits, files } = self;
        let sources = files.texts.iter().filter(|(path, ..)| Utf8Path::new(path).extension() == Some("rs"));
        let outlines = sources.map(|(path, _, new)| (path.clone(), Outline::of_source(new))).collect();
        let split =
            SplitDiff::new(DiffFiles { elsewhere: elsewhere.clone(), included: included.clone(), ..files });
        ReadDiff { repository, commits, split, outlines, blobs: RefCell::default() }
    }
}

/// Returns the path and both texts of a text file that both commits have.
fn both_texts(
    repository: &Repository,
    commits: &[String; 2],
    old: Option<&str>,
    new: Option<&str>,
) -> Option<(String, String, String)> {
    let path = new.filter(|new| old == Some(*new))?;
    // A link, a submodule, or not text: such a file is one hunk.
    let text = |commit: &String| String::from_utf8(repository.show(commit, path).ok()??).ok();
    let [old, new] = commits.each_ref().map(text);
    Some((path.to_owned(), old?, new?))
}

/// Returns the lock file that both commits have alike. Changes of manifests may need another one.
fn same_lock(
    repository: &Repository,
    commits: &[String; 2],
    path: String,
) -> anyhow::Result<Option<LockedSides>> {
    let [old, new] = commits.each_ref().map(|commit| lockfile::text_of(repository, commit, &path));
    let (Some(old), Some(new)) = (old?, new?) else { return Ok(None) };
    let [old, new] = [old, new].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Some(LockedSides::new(path, &old, &new)))
}

impl ReadDiff<'_> {
    /// Where a hunk is, what it is in, and how much that says.
    pub fn place(&self, hunk: usize) -> (Weight, HunkPlace) {
        labels::place(&self.split, hunk, self.outlines.get(&self.split.hunks[hunk].path))
    }

    /// Lets the compiler check the candidate without some hunks. The inner error is the compiler's.
    pub fn errors(
        &self,
        left_out: &BTreeSet<usize>,
        composed: &[ComposedFile],
        checker: &mut CompileCheck<'_, '_>,
    ) -> anyhow::Result<Result<(), Vec<CompileError>>> {
        self.with_changes(left_out, composed, |changes| checker.errors(changes))
    }

    /// Like [`Self::errors`], and returns what its commit needs.
    pub fn checked(
        &self,
        left_out: &BTreeSet<usize>,
        checker: &mut CompileCheck<'_, '_>,
    ) -> anyhow::Result<Result<CheckedVariant, Vec<CompileError>>> {
        let composed = self.split.composed(left_out);
        if let Err(errors) = self.errors(left_out, &composed, checker)? {
            return Ok(Err(errors));
        }
        let lock = self.with_changes(left_out, &composed, |changes| checker.lockfile(changes))?;
        Ok(match lock.transpose() {
            Ok(lock) => Ok(CheckedVariant { lock }),
            Err(error) => Err(vec![error]),
        })
    }

    fn with_changes<T>(
        &self,
        left_out: &BTreeSet<usize>,
        composed: &[ComposedFile],
        check: impl FnOnce(&Changes<'_>) -> T,
    ) -> T {
        let packages = self.split.packages(left_out);
        let lock = self.split.lock.as_ref().filter(|_| self.split.concerns_lockfile(left_out));
        let wrong =
            |completed: &[u8]| lock.map_or_else(BTreeSet::new, |lock| lock.wrong(completed, &packages));
        let lock = lock.map(|lock| ChangedLock { text: lock.without(&packages), wrong: &wrong });
        let mut changes = Changes { lock, ..Changes::default() };
        changes.files = composed
            .iter()
            .map(|file| (file.path.clone().into(), Some(file.text.clone().into_bytes())))
            .collect();
        for file in self.split.whole(left_out) {
            if let Some(new) = file.new.filter(|new| Some(*new) != file.old) {
                changes.files.push((new.into(), None));
            }
            let Some(old) = file.old else { continue };
            // Links and submodules are no sources.
            if let Some(content) = self.repository.show(&self.commits[0], old).ok().flatten() {
                changes.files.push((old.into(), Some(content)));
            }
        }
        check(&changes)
    }

    /// Writes the commit that is the candidate without some hunks, and returns its hash.
    pub fn written(
        &self,
        left_out: &BTreeSet<usize>,
        variant: &CheckedVariant,
        message: &str,
    ) -> anyhow::Result<String> {
        let [old_commit, new_commit] = &self.commits;
        let mut entries = Vec::new();
        for file in self.split.composed(left_out) {
            let mode = self.entry(new_commit, &file.path)?.map_or(0o100_644, |entry| entry.mode);
            let blob = self.blob(file.text)?;
            entries.push((file.path, Some(TreeEntry { mode, blob })));
        }
        for file in self.split.whole(left_out) {
            if let Some(new) = file.new.filter(|new| Some(*new) != file.old) {
                entries.push((new.to_owned(), None));
            }
            if let Some(old) = file.old {
                entries.push((old.to_owned(), self.entry(old_commit, old)?));
            }
        }
        if let (Some(text), Some(lock)) = (&variant.lock, &self.split.lock) {
            let blob = written_commit::blob(self.repository, text)?;
            entries.push((lock.path.clone(), Some(TreeEntry { mode: 0o100_644, blob })));
        }
        written_commit::with_entries(self.repository, Some(new_commit), &entries, message)
    }

    fn blob(&self, text: String) -> anyhow::Result<String> {
        if let Some(blob) = self.blobs.borrow().get(&text) {
            return Ok(blob.clone());
        }
        let blob = written_commit::blob(self.repository, text.as_bytes())?;
        self.blobs.borrow_mut().insert(text, blob.clone());
        Ok(blob)
    }

    fn entry(&self, commit: &str, path: &str) -> anyhow::Result<Option<TreeEntry>> {
        let entry = self.repository.tree_entry(commit, path)?;
        Ok(entry.map(|(mode, blob)| TreeEntry { mode, blob }))
    }
}
