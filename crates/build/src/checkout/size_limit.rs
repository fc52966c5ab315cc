//! Keeps the cache below its size limit: what is large and was not used for long is removed first. What a
//! running session uses stays.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use camino::{Utf8DirEntry, Utf8Path, Utf8PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkout::cache::{Cache, bytes_on_disk};
use crate::checkout::removal::remove_whatever_is_at;
use memprof_plan::quantity;
use memprof_support::event::{Event, Sink};
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// The variable that sets the limit: a size such as `50GiB`, or `off`.
pub(crate) const SIZE_VARIABLE: &str = "CARGO_MEMPROF_CACHE_SIZE";

/// The limit without the variable.
const USUAL: u64 = 20 << 30;

/// How long a size that is far below the limit is not measured again: a large cache has a hundred thousand files.
const TRUSTED: Duration = Duration::from_hours(1);

/// Returns the limit in bytes; `None` if there is none.
pub fn limit() -> Result<Option<u64>, UserError> {
    of_text(std::env::var(SIZE_VARIABLE).ok().as_deref())
}

fn of_text(text: Option<&str>) -> Result<Option<u64>, UserError> {
    match text.map(str::trim) {
        None | Some("") => Ok(Some(USUAL)),
        Some("off") => Ok(None),
        Some(text) => quantity::size(text).map(Some).map_err(|problem| {
            UserError::new(format!("{SIZE_VARIABLE}: {problem}"))
                .help(format!("write a size or off: {SIZE_VARIABLE}=20GiB"))
        }),
    }
}

/// Something in the cache that can be made again.
struct Part {
    path: Utf8PathBuf,
    bytes: u64,
    /// When it was used last.
    used: SystemTime,
    /// The folder of its repository.
    repository: Utf8PathBuf,
}

impl Part {
    /// Its bytes times the seconds without use. A target folder has a hundred times the bytes of a build, which a
    /// saved baseline may need for its causes.
    fn weight(&self, now: SystemTime) -> u128 {
        let unused = now.duration_since(self.used).unwrap_or_default().as_secs();
        u128::from(self.bytes) * u128::from(unused)
    }
}

/// The size of all caches together, as a session measured it.
#[derive(Serialize, Deserialize)]
struct Measured {
    bytes: u64,
    at: SystemTime,
}

impl Measured {
    fn place(home: &Utf8Path) -> Utf8PathBuf {
        home.join("size.json")
    }

    /// Whether the caches need not be measured again, with these new builds. Adds them to the size.
    fn is_far_below(home: &Utf8Path, new: &[&Utf8Path], limit: u64) -> bool {
        let Ok(mut measured) = sealed::read::<Self>(&Self::place(home)) else { return false };
        measured.bytes += new.iter().map(|build| bytes_on_disk(build)).sum::<u64>();
        let is_far = measured.bytes < limit / 10 * 9 && measured.at.elapsed().is_ok_and(|age| age < TRUSTED);
        if is_far && !new.is_empty() {
            measured.note(home);
        }
        is_far
    }

    /// Measures the caches, and notes their size.
    fn take(home: &Utf8Path) -> u64 {
        let bytes = bytes_on_disk(home);
        Self { bytes, at: SystemTime::now() }.note(home);
        bytes
    }

    fn note(&self, home: &Utf8Path) {
        // It only saves time, so a full disk is no error.
        let _ = sealed::write(&Self::place(home), self);
    }
}

/// Removes parts until the caches together take no more than the limit. The caller holds the lock
/// of `own`, has added the builds in `new`, and uses those in `in_use`. Returns the bytes that were removed.
pub fn shrink(
    own: &Cache,
    new: &[&Utf8Path],
    in_use: &[&Utf8Path],
    limit: u64,
    interrupt: &AtomicBool,
    sink: &dyn Sink,
) -> anyhow::Result<u64> {
    let Some(home) = own.folder().parent() else { return Ok(0) };
    if Measured::is_far_below(home, new, limit) {
        return Ok(0);
    }
    let total = Measured::take(home);
    if total <= limit {
        return Ok(0);
    }
    let mut parts: Vec<Part> = below(home).iter().flat_map(|repository| parts_of(repository, own)).collect();
    parts.retain(|part| !in_use.contains(&part.path.as_path()));
    let now = SystemTime::now();
    parts.sort_by_key(|part| std::cmp::Reverse(part.weight(now)));
    let mut removed = 0;
    for part in parts {
        if total.saturating_sub(removed) <= limit {
            break;
        }
        let lock = if part.repository == own.folder() {
            None
        } else {
            let lock_file = LockFile::of_folder(part.repository.join("lock"));
            match Lock::acquire(&lock_file, WhenHeld::Fail, interrupt, sink) {
                Ok(lock) => Some(lock),
                // Another session uses this repository.
                Err(_) => continue,
            }
        };
        remove_whatever_is_at(&part.path)?;
        removed += part.bytes;
        drop(lock);
    }
    if removed > 0 {
        sink.emit(Event::CacheShrunk { removed, limit });
    }
    Ok(removed)
}

/// The parts of a repository's folder: its builds, and target folders unless they are the running session's
/// own: cargo's, and what tests that start cargo built inside of the checkout.
fn parts_of(repository: &Utf8Path, own: &Cache) -> Vec<Part> {
    // The home may be a folder of the user's. Only folders with this file are the tool's.
    let Ok(opened) = fs_err::metadata(repository.join("repository")).and_then(|file| file.modified()) else {
        return Vec::new();
    };
    let part = |path: Utf8PathBuf, used| Part {
        bytes: bytes_on_disk(&path),
        path,
        used,
        repository: repository.to_owned(),
    };
    let modified =
        |path: &Utf8Path| path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(opened);
    let is_target = |path: &Utf8PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name == "target" || name.starts_with("target-traced-")
    };
    let builds = below(&repository.join("store")).into_iter().map(|path| {
        let used = modified(&path);
        part(path, used)
    });
    let of_tests = Some(repository.join("worktree/target")).filter(|path| path.is_dir());
    let targets = below(repository).into_iter().filter(is_target).chain(of_tests);
    let targets = targets.filter(|_| repository != own.folder());
    // Opening the cache gives the file `repository` the time of now.
    builds.chain(targets.map(|path| part(path, opened))).collect()
}

/// The folders directly below this one, without links.
fn below(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(Utf8DirEntry::into_path).collect()
}

/// Notes that a build is used now.
pub fn note_use(build: &Utf8Path) {
    // Without it, the build may be removed earlier, and is made again.
    _ = std::fs::File::open(build).and_then(|folder| folder.set_modified(SystemTime::now()));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::git::repository::Repository;

    const MIB: usize = 1 << 20;

    struct Place {
        _folder: tempfile::TempDir,
        home: Utf8PathBuf,
        own: Cache,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
            fs_err::create_dir(root.join("mine")).unwrap();
            let git = std::process::Command::new("git")
                .args(["init", "-q"])
                .current_dir(root.join("mine"))
                .status();
            assert!(git.unwrap().success());
            let repository = Repository::discover(&root.join("mine")).unwrap();
            let own = Cache::open(&root.join("home"), &repository).unwrap();
            Self { _folder: folder, home: root.join("home"), own }
        }

        /// A folder of one MiB that was used so many hours ago.
        fn part(repository: &Utf8Path, name: &str, hours: u64) -> Utf8PathBuf {
            Self::part_of(MIB, repository, name, hours)
        }

        fn part_of(bytes: usize, repository: &Utf8Path, name: &str, hours: u64) -> Utf8PathBuf {
            let path = repository.join(name);
            fs_err::create_dir_all(&path).unwrap();
            fs_err::write(path.join("file"), vec![1; bytes]).unwrap();
            set_hours_ago(&path, hours);
            path
        }

        fn other(&self, name: &str, hours: u64) -> Utf8PathBuf {
            let folder = self.home.join(name);
            fs_err::create_dir_all(&folder).unwrap();
            fs_err::write(folder.join("repository"), "/elsewhere/.git\n").unwrap();
            set_hours_ago(&folder.join("repository"), hours);
            folder
        }

        fn shrink(&self, in_use: &[&Utf8Path], limit: usize) -> u64 {
            shrink(&self.own, &[], in_use, limit as u64, &AtomicBool::new(false), &|_| ()).unwrap()
        }
    }

    fn set_hours_ago(path: &Utf8Path, hours: u64) {
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn the_oldest_parts_go_first_and_what_is_used_stays() {
        let place = Place::new();
        let own = place.own.folder().to_owned();
        let used = Place::part(&own, "store/used", 100);
        let [old, new] =
            [("store/old", 50), ("store/new", 1)].map(|(name, hours)| Place::part(&own, name, hours));
        let target = Place::part(&own, "target", 1_000);
        let other = place.other("other-1", 70);
        let of_other = Place::part(&other, "target", 0);
        let users = Place::part(&place.home, "taxes-2025/target", 2_000);
        assert_eq!(place.shrink(&[&used], 100 * MIB), 0, "below the limit nothing goes");
        let is_far_below =
            |new: &[&Utf8Path], limit: u64| Measured::is_far_below(&place.home, new, limit << 20);
        assert!(is_far_below(&[], 100));
        assert!(!is_far_below(&[], 5), "it has six parts, and some small files");
        // A search adds many builds before the size is measured again.
        assert!(is_far_below(&[&new], 12) && is_far_below(&[&new, &old], 12));
        assert!(!is_far_below(&[&new, &old], 12));
        place.shrink(&[&used], 5 * MIB + MIB / 2);
        assert!(!of_other.exists() && old.exists(), "the other repository was opened 70 hours ago");
        note_use(&old);
        place.shrink(&[&used], 0);
        assert!(!old.exists() && !new.exists());
        assert!(used.exists() && target.exists() && users.exists());
    }

    #[test]
    fn a_large_target_goes_before_small_builds_that_are_a_little_older() {
        let place = Place::new();
        let build = Place::part(place.own.folder(), "store/build", 12);
        // A process that another test forks may hold the first one's lock for a moment.
        let [one, other] = ["other-1", "other-2"].map(|name| place.other(name, 4));
        let target = Place::part_of(6 * MIB, &one, "target", 0);
        let of_tests = Place::part_of(5 * MIB, &other, "worktree/target", 0);
        place.shrink(&[], 7 * MIB);
        assert!(!target.exists() && of_tests.exists() && build.exists());
        place.shrink(&[], 2 * MIB);
        assert!(!of_tests.exists() && build.exists());
    }

    #[test]
    fn what_another_session_holds_stays() {
        let place = Place::new();
        let other = place.other("other-1", 70);
        let of_other = Place::part(&other, "store/a", 70);
        let lock_file = LockFile::of_folder(other.join("lock"));
        let held = Lock::acquire(&lock_file, WhenHeld::Fail, &AtomicBool::new(false), &|_| ()).unwrap();
        assert_eq!(place.shrink(&[], 0), 0);
        drop(held);
        // A process that another test forks may hold it for a moment.
        let is_shrunk = || {
            std::thread::sleep(Duration::from_millis(5));
            place.shrink(&[], 0) > 0
        };
        assert!((0..200).any(|_| is_shrunk()));
        assert!(!of_other.exists());
    }

    #[test]
    fn the_limit_is_a_size_or_off() {
        assert_eq!(of_text(None).unwrap(), Some(20 << 30));
        assert_eq!(of_text(Some("50GiB")).unwrap(), Some(50 << 30));
        assert_eq!(of_text(Some("off")).unwrap(), None);
        let error = of_text(Some("5G")).unwrap_err();
        assert_eq!(
            error.rendered(),
            "error: CARGO_MEMPROF_CACHE_SIZE: '5G' is ambiguous: write 5GiB or 5GB\n  \
             help: write a size or off: CARGO_MEMPROF_CACHE_SIZE=20GiB"
        );
    }
}
