//! The folder that an archive's executables contain: created on this machine for one run, locked while
//! that run uses it, and removed afterwards.
//!
//! Runs with other cache folders may need the same one, at the same time. It appears with its locked
//! mark inside, and disappears with it, so that no other run takes its files for its own.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::file_lock::Attempt;
use memprof_support::folder_removal::remove_folder;
use memprof_support::paths;
use memprof_support::regular_file;
use memprof_support::run_identity::{RunIdentity, described};
use memprof_support::salt::Salt;
use memprof_support::stamp::{FileId, file_id, is_at};
use memprof_support::user_error::UserError;

/// The name of a file that marks a folder as ours, in case a killed run could not remove it. It has
/// three lines: the outermost folder that was created, a proof that this tool created it, and the run.
pub(crate) const MARK: &str = "made-for-an-archive";

/// How many bytes of a mark are read, which anybody may have written.
const MOST_OF_MARK: u64 = 1 << 14;

/// How often other runs may interfere before the folder counts as one that cannot be created.
const MOST_RACES: u32 = 100;

/// The folder, held until it is dropped. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct BuiltInFolder {
    root: Utf8PathBuf,
    /// The outermost folder that was created for `root`.
    outermost: Utf8PathBuf,
    /// The locked mark in `root`.
    mark: File,
    /// The file system's identity of `root`. Nothing else is removed in its place.
    identity: Option<FileId>,
}

impl BuiltInFolder {
    /// Creates the folder, or takes over one that an earlier run with this cache left. The inner error is
    /// why it cannot be had: nothing of an archive is there.
    ///
    /// # Errors
    ///
    /// A run with another cache left it. Tests would find that run's files.
    pub(crate) fn attempt(root: &Utf8Path, salt: &Salt) -> anyhow::Result<Attempt<Result<Self, String>>> {
        let mut races = 0;
        loop {
            if root.symlink_metadata().is_err() {
                races += 1;
                match Self::create(root, salt) {
                    Ok(created) => return Ok(Attempt::Acquired(Ok(created))),
                    // Another run has just created the folder, or removed one above it.
                    Err(error) if races < MOST_RACES && is_race(&error) => continue,
                    Err(error) => {
                        return Ok(Attempt::Acquired(Err(format!("it cannot be created ({error})"))));
                    }
                }
            }
            let path = root.join(MARK);
            let mut mark = match open_mark(&path) {
                Ok(mark) => mark,
                // Another run may remove the folder and create it again.
                Err(error) if races < MOST_RACES && is_race(&error) => {
                    races += 1;
                    continue;
                }
                Err(_) => return Ok(Attempt::Acquired(Err("it already exists".to_owned()))),
            };
            match mark.try_lock() {
                Ok(()) if is_at(&mark, &path) => {}
                // Its run has removed the folder in the meantime.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => {
                    return Ok(Attempt::HeldBy(described(&Mark::read(&mut mark).run)));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {path}"));
                }
            }
            let identity = identity(root);
            let Mark { outermost, proof: found, .. } = Mark::read(&mut mark);
            let own = proof(root, &outermost, identity, salt);
            if outermost.as_str().is_empty() || !root.starts_with(&outermost) || found.len() != own.len() {
                // Anybody may have written such a file.
                return Ok(Attempt::Acquired(Err("it already exists".to_owned())));
            }
            if found != own {
                return Err(left_by_another(root).into());
            }
            write_mark(&mark, &outermost, &found).with_context(|| format!("cannot write {path}"))?;
            return Ok(Attempt::Acquired(Ok(Self { root: root.to_owned(), outermost, mark, identity })));
        }
    }

    /// Creates the folder beside its place, with its locked mark, and moves it there.
    fn create(root: &Utf8Path, salt: &Salt) -> std::io::Result<Self> {
        let missing = root.ancestors().take_while(|folder| folder.symlink_metadata().is_err());
        let outermost = missing.last().unwrap_or(root).to_owned();
        let created = Self::create_below(root, &outermost, salt);
        if created.is_err() {
            remove_empty(root, &outermost);
        }
        let (mark, identity) = created?;
        Ok(Self { root: root.to_owned(), outermost, mark, identity })
    }

    fn create_below(
        root: &Utf8Path,
        outermost: &Utf8Path,
        salt: &Salt,
    ) -> std::io::Result<(File, Option<FileId>)> {
        let above = root.parent().unwrap_or(root);
        std::fs::create_dir_all(above)?;
        // The system takes the umask off these permissions.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".memprof-").permissions(Permissions::from_mode(0o777));
        let made = builder.tempdir_in(above)?;
        let folder = paths::utf8(made.path().to_owned()).map_err(std::io::Error::other)?;
        let identity = identity(&folder);
        let mark = File::create_new(folder.join(MARK))?;
        mark.lock()?;
        write_mark(&mark, outermost, &proof(root, outermost, identity, salt))?;
        // Fails if another run has created the folder by now, because that has a mark in it.
        std::fs::rename(&folder, root)?;
        let _moved = made.keep();
        Ok((mark, identity))
    }

    /// Lets the folder look like that of a run that was killed.
    #[cfg(test)]
    pub(crate) fn unlock(&self) {
        self.mark.unlock().unwrap();
    }
}

impl Drop for BuiltInFolder {
    /// Removes what was created. If that fails, the next run with this cache recognizes the folder by its mark.
    fn drop(&mut self) {
        let is_there = || identity(&self.root) == self.identity;
        if is_there() && self.remove().is_err() && is_there() {
            let _ = remove_folder(&self.root);
        }
        remove_empty(self.root.parent().unwrap_or(&self.root), &self.outermost);
        // Not before the folder is gone: who waits for it would take it over.
        let _ = self.mark.unlock();
    }
}

impl BuiltInFolder {
    /// Removes the folder. Its mark goes last, and together with it.
    fn remove(&self) -> std::io::Result<()> {
        for entry in self.root.read_dir_utf8()? {
            let entry = entry?;
            if entry.file_name() != MARK {
                regular_file::remove(entry.path())?;
            }
        }
        let aside = tempfile::Builder::new()
            .prefix(".memprof-")
            .tempdir_in(self.root.parent().unwrap_or(&self.root))?;
        std::fs::rename(&self.root, aside.path())?;
        remove_folder(aside.path())
    }
}

/// Removes a folder and those above it, as far as they were created and are empty.
fn remove_empty(folder: &Utf8Path, outermost: &Utf8Path) {
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(outermost)) {
        let _ = std::fs::remove_dir(folder);
    }
}

/// Whether another run may have caused an error.
fn is_race(error: &std::io::Error) -> bool {
    use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotFound)
}

/// Writes a mark, for this run. What the mark of an earlier run proves stays as it is all the time.
fn write_mark(mark: &File, outermost: &Utf8Path, proof: &str) -> std::io::Result<()> {
    let text = format!("{outermost}\n{proof}\n{}", RunIdentity::of_this_process().line());
    mark.write_all_at(text.as_bytes(), 0)?;
    mark.set_len(text.len() as u64)
}

/// Opens a mark. Some file systems lock only files that can be written, and another user's cannot.
fn open_mark(path: &Utf8Path) -> std::io::Result<File> {
    let found = regular_file::open(path)?;
    let mut options = OpenOptions::new();
    let writable =
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    Ok(writable.ok().filter(|writable| is_at(writable, path)).unwrap_or(found))
}

fn left_by_another(root: &Utf8Path) -> UserError {
    UserError::new(format!(
        "{root} has the files of another run, which was killed: the tests have this folder built in, and would find them"
    ))
    .help(format!("if nothing else is in {root}, remove it, and run the same command again"))
}

/// The content of a mark. What is missing is empty.
#[derive(Debug, Default)]
struct Mark {
    outermost: Utf8PathBuf,
    proof: String,
    /// Which run holds or held the folder.
    run: String,
}

impl Mark {
    fn read(file: &mut File) -> Self {
        let mut text = String::new();
        if file.take(MOST_OF_MARK).read_to_string(&mut text).is_err() {
            return Self::default();
        }
        let mut lines = text.lines().map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        Self { outermost: next().into(), proof: next(), run: next() }
    }
}

/// Returns what only this user's tool can write about this very folder: anybody can add a file with the
/// name of the mark to a repository.
fn proof(root: &Utf8Path, outermost: &Utf8Path, identity: Option<FileId>, salt: &Salt) -> String {
    salt.hash(format!("{MARK}\n{root}\n{outermost}\n{identity:?}").as_bytes())
}

/// Returns a folder's identity. `None` if there is no folder; a link is none.
pub(crate) fn identity(folder: &Utf8Path) -> Option<FileId> {
    let metadata = folder.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
    Some(file_id(&metadata))
}
