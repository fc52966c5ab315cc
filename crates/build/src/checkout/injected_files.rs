//! Files that the tool writes into the checkout in addition to git's: overlays, appended lines,
//! instrumentation.
//!
//! Cargo compares modification times. Git rewrites an injected file at every checkout, so its time
//! would be new even if its content is the same, and cargo would rebuild everything that depends on
//! it. The record of this module gives such a file its old time back. A file with changed content
//! must keep its current time, or cargo would silently run the old code.
//!
//! The record has one line of JSON for each file. It names a file before it is written, so that a
//! checkout can remove what a killed run left behind, even if git ignores it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::git::reserved_names::reserved_part;
use memprof_support::advice::Advice;
use memprof_support::regular_file;

/// The files that are injected into the checkout for one build: call [`load`](Self::load) after the
/// checkout, [`write`](Self::write) for each file, and [`save`](Self::save) before cargo runs.
#[derive(Debug)]
pub struct InjectedFiles {
    record: Utf8PathBuf,
    journal: File,
    /// The files as the last build saw them.
    before: BTreeMap<Utf8PathBuf, Seen>,
    now: BTreeMap<Utf8PathBuf, Seen>,
}

/// A file as a build saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The hash of the content.
    blake3: String,
    /// Modification time, nanoseconds since the epoch.
    modified_nanoseconds: u64,
}

/// A line of the record.
#[derive(Serialize, Deserialize)]
struct RecordLine {
    /// Relative to the checkout's root.
    path: Utf8PathBuf,
    /// Absent while the tool writes a build's files.
    #[serde(flatten)]
    seen: Option<Seen>,
}

impl InjectedFiles {
    /// Reads the record and marks it as outdated. If this run is killed before
    /// [`save`](Self::save), the next one gives every file a current time. That costs a rebuild,
    /// but an outdated time could hide a change.
    pub fn load(record: &Utf8Path) -> anyhow::Result<Self> {
        let lines = read(record)?;
        let mut journal =
            replace(record, lines.iter().map(|line| RecordLine { path: line.path.clone(), seen: None }))?;
        journal.flush()?;
        let before = lines.into_iter().filter_map(|line| Some((line.path, line.seen?))).collect();
        Ok(Self { record: record.to_owned(), journal, before, now: BTreeMap::new() })
    }

    /// Writes a file below the checkout's root, and the folders above it. The file replaces a
    /// symbolic or hard link, and anything else through which a write would leave the checkout.
    ///
    /// # Errors
    /// The path leads out of the checkout, or to git's own files.
    pub fn write(&mut self, root: &Utf8Path, relative: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
        ensure!(
            relative.components().all(|part| matches!(part, Utf8Component::Normal(_))),
            "'{relative}' is not a path inside the checkout"
        );
        if let Some(part) = reserved_part(relative) {
            bail!("'{relative}' cannot be written: git keeps the name '{part}' for itself");
        }
        let path = root.join(relative);
        let folder = path.parent().with_context(|| format!("'{relative}' is not the path of a file"))?;
        check_inside(root, folder)?;
        append(&mut self.journal, &RecordLine { path: relative.to_owned(), seen: None })?;
        fs_err::create_dir_all(folder)?;
        // Always written, so that its time comes from the same kernel clock as those of cargo's own
        // files.
        regular_file::write(&path, content)?;

        let blake3 = blake3::hash(content).to_hex().to_string();
        if let Some(before) = self.before.get(relative).filter(|before| before.blake3 == blake3) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(before.modified_nanoseconds);
            let file = fs_err::OpenOptions::new().write(true).open(&path)?;
            file.file()
                .set_modified(time)
                .with_context(|| format!("could not set the modification time of {path}"))?;
        }
        let modified = fs_err::metadata(&path)?.modified()?;
        let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let modified_nanoseconds = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        self.now.insert(relative.to_owned(), Seen { blake3, modified_nanoseconds });
        Ok(())
    }

    /// Keeps the record for the next build. It forgets files that only earlier builds had, because
    /// the checkout has removed them.
    pub fn save(self) -> anyhow::Result<()> {
        let lines = self.now.into_iter().map(|(path, seen)| RecordLine { path, seen: Some(seen) });
        replace(&self.record, lines).map(drop)
    }
}

/// Returns the files that were injected last, or those that a checkout would have to remove.
pub(crate) fn recorded(record: &Utf8Path) -> anyhow::Result<BTreeSet<Utf8PathBuf>> {
    Ok(read(record)?.into_iter().map(|line| line.path).collect())
}

/// Removes every injected file from the checkout, before git restores its own files.
pub(crate) fn remove_all(record: &Utf8Path, root: &Utf8Path) -> anyhow::Result<()> {
    let mut inside = BTreeMap::new();
    // Older versions could inject `.git`, and have noted it.
    for line in read(record)?.into_iter().filter(|line| reserved_part(&line.path).is_none()) {
        let path = root.join(line.path);
        let Some(folder) = path.parent() else { continue };
        let inside = *inside.entry(folder.to_owned()).or_insert_with(|| check_inside(root, folder).is_ok());
        if inside && path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            fs_err::remove_file(path)?;
        }
    }
    Ok(())
}

/// Returns the record's lines. A crash may have cut off a line before its file was written, so
/// lines that do not parse are left out.
fn read(record: &Utf8Path) -> anyhow::Result<Vec<RecordLine>> {
    match regular_file::text(record) {
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the record, so that the old or the new one exists even if this process is killed.
/// Returns the file, open for more lines.
fn replace(record: &Utf8Path, lines: impl Iterator<Item = RecordLine>) -> anyhow::Result<File> {
    let partial = record.with_extension("partial");
    let mut text = Vec::new();
    for line in lines {
        append(&mut text, &line)?;
    }
    if let Some(folder) = record.parent() {
        // A test may have removed the cache.
        fs_err::create_dir_all(folder)?;
    }
    let mut file = regular_file::create_over(&partial)?;
    file.write_all(&text).with_context(|| partial.to_string())?;
    fs_err::rename(&partial, record)?;
    Ok(file)
}

fn append(to: &mut impl Write, line: &RecordLine) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    to.write_all(&text).context("could not write the record of injected files")
}

/// A path in the checkout leads out of it, through a symbolic link of the revision.
#[derive(Debug, thiserror::Error)]
#[error("'{path}' leads out of the checkout, to {target}, and nothing is written there")]
pub(crate) struct LeadsOutside {
    path: Utf8PathBuf,
    target: Utf8PathBuf,
}

impl Advice for LeadsOutside {
    fn help(&self) -> Option<String> {
        let path = &self.path;
        Some(format!("commit the files themselves in place of the symbolic link: ls -l {path}"))
    }
}

/// Checks that a folder is inside the checkout, because a committed link may lead out of it.
///
/// # Errors
/// `LeadsOutside`, also for a link that leads nowhere, and a folder of git's own files.
pub fn check_inside(root: &Utf8Path, folder: &Utf8Path) -> anyhow::Result<()> {
    let is_there = |path: &&Utf8Path| path.symlink_metadata().is_ok();
    let existing = folder.ancestors().find(is_there).unwrap_or(root);
    let root_target = root.canonicalize_utf8()?;
    let target = match existing.canonicalize_utf8() {
        Ok(target) if target.starts_with(&root_target) => {
            let inside = target.strip_prefix(&root_target)?;
            ensure!(reserved_part(inside).is_none(), "'{folder}' leads to git's own files, in {target}");
            return Ok(());
        }
        Ok(target) => target,
        Err(_) => existing.read_link_utf8().unwrap_or_else(|_| existing.to_owned()),
    };
    let path = folder.strip_prefix(root).unwrap_or(folder).to_owned();
    Err(LeadsOutside { path, target }.advised())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Checkout {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
        record: Utf8PathBuf,
    }

    impl Checkout {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = Utf8PathBuf::try_from(folder.path().to_owned()).unwrap();
            let root = path.join("worktree");
            fs_err::create_dir(&root).unwrap();
            Self { _folder: folder, root, record: path.join("injected.json") }
        }

        /// Injects these files as a build does, and returns the first file's time.
        fn inject(&self, files: &[(&str, &str)]) -> SystemTime {
            remove_all(&self.record, &self.root).unwrap();
            // Times of different builds must differ for the test to see anything.
            std::thread::sleep(Duration::from_millis(20));
            let mut injected = InjectedFiles::load(&self.record).unwrap();
            for (path, content) in files {
                injected.write(&self.root, path.as_ref(), content.as_bytes()).unwrap();
            }
            injected.save().unwrap();
            self.time(files[0].0)
        }

        fn time(&self, path: &str) -> SystemTime {
            self.root.join(path).metadata().unwrap().modified().unwrap()
        }
    }

    #[test]
    fn equal_content_keeps_its_time_and_changed_content_does_not() {
        let checkout = Checkout::new();
        let first = checkout.inject(&[("src/lib.rs", "one")]);
        assert_eq!(checkout.inject(&[("src/lib.rs", "one")]), first);
        let second = checkout.inject(&[("src/lib.rs", "two")]);
        assert!(second > first);
        let third = checkout.inject(&[("src/lib.rs", "one")]);
        assert!(third > second, "the last build saw 'two': the time of an older 'one' would hide the change");
    }

    #[test]
    fn a_build_without_the_file_makes_its_next_time_current() {
        let checkout = Checkout::new();
        let first = checkout.inject(&[("tests/overlay.rs", "x")]);
        checkout.inject(&[("other.rs", "x")]);
        assert!(!checkout.root.join("tests/overlay.rs").exists());
        assert!(checkout.inject(&[("tests/overlay.rs", "x")]) > first);
    }

    #[test]
    fn a_run_killed_before_it_saved_costs_the_times_and_leaves_no_file() {
        let checkout = Checkout::new();
        let first = checkout.inject(&[("src/lib.rs", "one")]);
        let mut killed = InjectedFiles::load(&checkout.record).unwrap();
        killed.write(&checkout.root, "src/lib.rs".as_ref(), b"two").unwrap();
        killed.write(&checkout.root, "new.rs".as_ref(), b"new").unwrap();
        drop(killed);
        assert!(checkout.inject(&[("src/lib.rs", "one")]) > first);
        assert!(!checkout.root.join("new.rs").exists());
    }

    #[test]
    fn nothing_is_written_outside_of_the_checkout() {
        let checkout = Checkout::new();
        let outside = checkout.root.with_file_name("outside");
        fs_err::create_dir(&outside).unwrap();
        fs_err::write(outside.join("shared.rs"), "theirs").unwrap();
        std::os::unix::fs::symlink(&outside, checkout.root.join("linked")).unwrap();
        std::os::unix::fs::symlink(outside.join("shared.rs"), checkout.root.join("link.rs")).unwrap();
        let mut injected = InjectedFiles::load(&checkout.record).unwrap();
        for path in ["../x.rs", "/x.rs", "linked/x.rs", "linked/deeper/x.rs"] {
            assert!(injected.write(&checkout.root, path.as_ref(), b"ours").is_err(), "{path}");
        }
        injected.write(&checkout.root, "link.rs".as_ref(), b"ours").unwrap();
        assert_eq!(fs_err::read_to_string(outside.join("shared.rs")).unwrap(), "theirs");
        assert_eq!(fs_err::read_to_string(checkout.root.join("link.rs")).unwrap(), "ours");
        fs_err::hard_link(outside.join("shared.rs"), checkout.root.join("hard.rs")).unwrap();
        injected.write(&checkout.root, "hard.rs".as_ref(), b"ours").unwrap();
        assert_eq!(fs_err::read_to_string(outside.join("shared.rs")).unwrap(), "theirs");
    }

    #[test]
    fn gits_own_files_are_neither_written_nor_removed() {
        let checkout = Checkout::new();
        let link = checkout.root.join(".git");
        fs_err::write(&link, "gitdir: somewhere").unwrap();
        fs_err::create_dir_all(checkout.root.join("sub/.git")).unwrap();
        std::os::unix::fs::symlink("sub/.git", checkout.root.join("alias")).unwrap();
        let mut injected = InjectedFiles::load(&checkout.record).unwrap();
        for path in [".git", ".GIT", ".git.", "git~1", "sub/.git/config", ".git /x", "alias/config"] {
            let error = injected.write(&checkout.root, path.as_ref(), b"ours").unwrap_err().to_string();
            assert!(error.contains("git"), "{path}: {error}");
        }
        injected.save().unwrap();
        // As an older version noted it.
        fs_err::write(&checkout.record, "{\"path\":\".git\"}\n").unwrap();
        remove_all(&checkout.record, &checkout.root).unwrap();
        assert_eq!(fs_err::read_to_string(&link).unwrap(), "gitdir: somewhere");
    }
}
