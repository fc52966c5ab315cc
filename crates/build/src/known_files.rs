//! Hashes of large files that were read before. A file with the same stamp is not read again.
//!
//! What is kept for later sessions only decides which build is taken, and whether the copy of this program is this
//! program. Tests are read and hashed before their first run in each session, whatever this says.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use memprof_support::paths;
use memprof_support::regular_file::followed;
use memprof_support::sealed;

/// A change this young may be followed by one with the same time: the kernel's time of files has steps of up to 10 ms.
const SETTLED: Duration = Duration::from_millis(100);

/// The same for a file system that keeps whole seconds, or every other one.
const SETTLED_WITHOUT_FRACTIONS: Duration = Duration::from_secs(3);

/// How long a file is remembered that nobody asks for.
const KEPT_SECONDS: i64 = 60 * 24 * 60 * 60;

/// The hashes, by device and inode: a file may have several names.
#[derive(Debug, Default)]
pub struct KnownFiles {
    /// `None` if nothing is kept.
    path: Option<Utf8PathBuf>,
    files: Mutex<BTreeMap<String, Known>>,
    has_new: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    stamp: FileStamp,
    /// blake3 of the content.
    hash: String,
    /// When somebody asked last, in seconds since the epoch.
    used: i64,
}

/// What changes with a file's content. No program can set the time of the last change; a link to the file
/// sets it, and leaves the time of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    length: u64,
    content: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            content: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the last change is old at a time since the epoch.
    fn is_settled(self, at: Duration) -> bool {
        let (seconds, fraction) = self.content.max(self.changed);
        let since = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(fraction).unwrap_or(0));
        let has_fractions = self.changed.1 != 0;
        since + if has_fractions { SETTLED } else { SETTLED_WITHOUT_FRACTIONS } < at
    }
}

impl KnownFiles {
    /// Reads what earlier sessions noted. A damaged file counts as an empty one.
    pub fn read(path: Utf8PathBuf) -> Self {
        let files = sealed::read(&path).unwrap_or_default();
        Self { path: Some(path), files: Mutex::new(files), has_new: AtomicBool::new(false) }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hash of a file that did not change since it was read.
    pub fn known(&self, path: &Utf8Path) -> Option<String> {
        let metadata = regular(path)?;
        let mut files = self.files();
        let known = files.get_mut(&id(&metadata))?;
        if known.stamp != FileStamp::of(&metadata) {
            return None;
        }
        known.used = now();
        Some(known.hash.clone())
    }

    /// Returns the hash of a file, which is read only if it is not known.
    pub fn hash(&self, path: &Utf8Path) -> io::Result<String> {
        if let Some(hash) = self.known(path) {
            return Ok(hash);
        }
        self.note(path, || hash_file(path))
    }

    /// Returns the hash of the file that a path leads to, perhaps through links.
    pub fn hash_followed(&self, path: &Utf8Path) -> io::Result<String> {
        self.hash(&path.canonicalize_utf8()?)
    }

    /// Reads a file, and notes the hash that this returns.
    pub fn note<E>(&self, path: &Utf8Path, read: impl FnOnce() -> Result<String, E>) -> Result<String, E> {
        let (before, began) = (regular(path), since_epoch());
        let hash = read()?;
        if let Some(metadata) = before
            && let stamp = FileStamp::of(&metadata)
            && stamp.is_settled(began)
            && regular(path)
                .is_some_and(|after| FileStamp::of(&after) == stamp && id(&after) == id(&metadata))
        {
            let known = Known { stamp, hash: hash.clone(), used: now() };
            self.files().insert(id(&metadata), known);
            self.has_new.store(true, Ordering::Relaxed);
        }
        Ok(hash)
    }

    /// Makes a link to a file, which stays known if it was.
    pub fn link(&self, file: &Utf8Path, link: &Utf8Path) -> io::Result<()> {
        let known = self.known(file);
        std::fs::hard_link(file, link)?;
        let Some((hash, metadata)) = known.zip(regular(link)) else { return Ok(()) };
        let mut files = self.files();
        if let Some(known) = files.get_mut(&id(&metadata)).filter(|known| known.hash == hash) {
            let stamp = FileStamp::of(&metadata);
            if (stamp.length, stamp.content) == (known.stamp.length, known.stamp.content) {
                known.stamp = stamp;
                self.has_new.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Drop for KnownFiles {
    /// Writes what is known, if something was added. It only saves time, so a full disk is no error.
    fn drop(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| *self.has_new.get_mut()) else { return };
        let oldest = now() - KEPT_SECONDS;
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        files.retain(|_, known| known.used >= oldest);
        let _ = sealed::write(path, files);
    }
}

/// How many bytes of a file are hashed. A sparse file of any size takes no space on the disk, and hours.
const MOST_OF_STORED: u64 = 64 << 30;

/// Returns the blake3 hash of a file, as hexadecimal digits.
pub fn hash_file(path: &Utf8Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(followed::open_within(path, MOST_OF_STORED)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns a hash of the paths and contents of all files in a folder, and of the texts of links.
pub(crate) fn hash_folder(folder: &Utf8Path) -> anyhow::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        let path = paths::utf8(entry.path().to_owned())?;
        let relative = path.strip_prefix(folder).unwrap_or(&path);
        hasher.update(relative.as_str().as_bytes()).update(&[0]);
        let content = if entry.file_type().is_file() {
            hash_file(&path)?
        } else if entry.file_type().is_symlink() {
            path.read_link_utf8()?.to_string()
        } else {
            String::new()
        };
        hasher.update(content.as_bytes()).update(&[0]);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the metadata of a regular file, and of nothing else.
fn regular(path: &Utf8Path) -> Option<Metadata> {
    path.symlink_metadata().ok().filter(Metadata::is_file)
}

fn id(metadata: &Metadata) -> String {
    format!("{}:{}", metadata.dev(), metadata.ino())
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn now() -> i64 {
    i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};

    use super::*;

    fn hash_of(text: &str) -> String {
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// Files, with what is known of them.
    fn known(folder: &Utf8Path, file: &str, hash: &str) -> KnownFiles {
        let known = KnownFiles::read(folder.join("known.json"));
        let metadata = folder.join(file).symlink_metadata().unwrap();
        let one = Known { stamp: FileStamp::of(&metadata), hash: hash.into(), used: now() };
        known.files().insert(id(&metadata), one);
        known.has_new.store(true, Ordering::Relaxed);
        known
    }

    #[test]
    fn an_unchanged_file_is_not_read_again_and_a_changed_or_replaced_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let file = folder.join("a");
        fs_err::write(&file, "one").unwrap();
        drop(known(folder, "a", "as noted"));
        let files = KnownFiles::read(folder.join("known.json"));
        assert_eq!(files.hash(&file).unwrap(), "as noted");
        let content = file.metadata().unwrap().modified().unwrap();
        // The same length, and the time of the content set back.
        fs_err::write(&file, "two").unwrap();
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_times(FileTimes::new().set_modified(content))
            .unwrap();
        assert_eq!(files.hash(&file).unwrap(), hash_of("two"));
        let files = known(folder, "a", "as noted");
        fs_err::rename(&file, folder.join("b")).unwrap();
        fs_err::write(&file, "two").unwrap();
        assert_eq!(files.known(&file), None, "another file");
        fs_err::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.join("b"), &file).unwrap();
        assert_eq!(files.known(&file), None, "a link");
    }

    #[test]
    fn a_file_is_known_by_all_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::write(folder.join("a"), "one").unwrap();
        let files = known(folder, "a", "as noted");
        std::thread::sleep(Duration::from_millis(20));
        files.link(&folder.join("a"), &folder.join("b")).unwrap();
        for name in ["a", "b"] {
            assert_eq!(files.known(&folder.join(name)).as_deref(), Some("as noted"), "{name}");
        }
        std::thread::sleep(Duration::from_millis(20));
        std::fs::hard_link(folder.join("a"), folder.join("c")).unwrap();
        assert_eq!(files.known(&folder.join("a")), None, "somebody else made a link");
    }

    #[test]
    fn a_file_that_a_link_leads_to_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::write(folder.join("a"), "one").unwrap();
        let files = known(folder, "a", "as noted");
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        assert_eq!(files.hash_followed(&folder.join("link")).unwrap(), "as noted");
        assert!(files.hash_followed(&folder.join("absent")).is_err());
    }

    #[test]
    fn a_young_file_is_not_noted() {
        let stamp = |content, changed| FileStamp { length: 3, content, changed };
        let is_settled = |stamp: FileStamp, at: f64| stamp.is_settled(Duration::from_secs_f64(at));
        let with_fractions = stamp((7, 0), (9, 500_000_000));
        assert!(!is_settled(with_fractions, 9.55) && is_settled(with_fractions, 9.65));
        let in_seconds = stamp((9, 0), (9, 0));
        assert!(!is_settled(in_seconds, 11.9) && is_settled(in_seconds, 12.1));
        assert!(!is_settled(stamp((20, 0), (9, 1)), 12.0), "a content of the future");
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(folder.path()).unwrap().join("a");
        fs_err::write(&file, "one").unwrap();
        std::thread::sleep(2 * SETTLED);
        let files = KnownFiles::default();
        assert_eq!(files.hash(&file).unwrap(), hash_of("one"));
        let has_fractions = file.metadata().unwrap().ctime_nsec() != 0;
        assert_eq!(files.known(&file), has_fractions.then(|| hash_of("one")));
    }

    #[test]
    fn a_damaged_file_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::write(folder.join("a"), "one").unwrap();
        drop(known(folder, "a", "as noted"));
        let path = folder.join("known.json");
        let text = fs_err::read_to_string(&path).unwrap().replace("as noted", "otherwise");
        fs_err::write(&path, text).unwrap();
        assert_eq!(KnownFiles::read(path).known(&folder.join("a")), None);
    }
}
