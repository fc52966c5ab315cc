//! A lock on a file, so that only one run of this program at a time uses what the file stands for.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::continuation;
use crate::elapsed::shown;
use crate::event::{Event, Sink};
use crate::regular_file;
use crate::run_identity::{RunIdentity, described};
use crate::stamp::is_at;

/// How often a waiting run tries again.
pub const RETRY: Duration = Duration::from_millis(100);

/// How much of a file is read, which another user may have written.
const MOST_OF_FILE: u64 = 1 << 14;

/// The lock, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// A file to lock.
#[derive(Clone, Debug)]
pub struct LockFile {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// What the file stands for, in messages: `this repository's cache`, `GPU 0`.
    pub subject: String,
    /// Opens the file, creating it if necessary. Returns `None` if its folder disappeared
    /// meanwhile.
    pub open: fn(&Utf8Path) -> anyhow::Result<Option<File>>,
}

/// What to do when another run holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenHeld {
    /// Report it once, and wait.
    Wait,
    /// Report it once, and wait this long. Then fail with [`LockError::WaitedInVain`].
    WaitAtMost(Duration),
    /// Fail with [`LockError::Held`].
    Fail,
}

/// Why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds the lock, and the caller did not want to wait.
    #[error("another run is using {subject}: {holder}")]
    Held {
        /// What is locked.
        subject: String,
        /// The run that has the lock: user, command line, process id, and since when.
        holder: String,
    },
    /// Other runs held the lock until the caller's patience ended.
    #[error("waited {} for {subject}, which another run is using: {holder}", shown(*waited))]
    WaitedInVain {
        /// What is locked.
        subject: String,
        /// The run that has the lock: user, command line, process id, and since when.
        holder: String,
        /// How long this run waited.
        waited: Duration,
    },
    /// The interrupt flag was raised while waiting.
    #[error("interrupted while waiting for another run")]
    Interrupted,
}

impl LockError {
    /// What the user can do about it.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Held { .. } => "without --no-wait, this run waits for the other one".to_owned(),
            Self::WaitedInVain { .. } => format!(
                "nothing is lost; {}\n\
                 to wait longer, add for example `--wait 2h`; to see who else waits: cargo memprof doctor",
                continuation::advice("to continue")
            ),
            Self::Interrupted => return None,
        })
    }
}

/// What came of one attempt to take a lock, or something else that only one run can have.
#[derive(Debug)]
pub enum Attempt<T = Lock> {
    /// Is taken.
    Acquired(T),
    /// Another run has it: user, command line, process id, and since when.
    HeldBy(String),
}

impl LockFile {
    /// Returns the lock file of a repository's cache folder, or of the folder of archives.
    pub fn of_folder(path: Utf8PathBuf) -> Self {
        Self { path, subject: "this repository's cache".to_owned(), open: open_below_a_folder }
    }
}

/// Opens a lock file. A `clean` that this run waited for may have removed its folder.
fn open_below_a_folder(path: &Utf8Path) -> anyhow::Result<Option<File>> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    // A test may have put a link, a FIFO or a folder there, and nobody holds a lock on that.
    if path.symlink_metadata().is_ok_and(|found| regular_file::irregular(&found).is_some()) {
        regular_file::remove(path).with_context(|| format!("cannot remove {path}"))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    match options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => Ok(Some(opened.with_context(|| format!("cannot open {path}"))?)),
    }
}

impl Lock {
    /// Acquires the lock. Waits for another holder if `when_held` says so.
    pub fn acquire(
        target: &LockFile,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        sink: &dyn Sink,
    ) -> anyhow::Result<Self> {
        wait_for(&target.subject, when_held, interrupt, sink, || Self::attempt(target))
    }

    /// Takes the lock if no other run holds it.
    pub fn attempt(target: &LockFile) -> anyhow::Result<Attempt> {
        let path = &target.path;
        loop {
            let Some(mut file) = (target.open)(path)? else { continue };
            match file.try_lock() {
                Ok(()) if is_at(&file, path) => {
                    file.set_len(0)?;
                    file.write_all(RunIdentity::of_this_process().line().as_bytes())?;
                    return Ok(Attempt::Acquired(Self { file }));
                }
                // The file was removed or replaced before it was locked, so the lock excludes
                // nobody.
                Ok(()) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {path}"));
                }
                Err(TryLockError::WouldBlock) => return Ok(Attempt::HeldBy(holder(&mut file))),
            }
        }
    }
}

/// Repeats an attempt while another run holds its subject, if `when_held` says so.
pub fn wait_for<T>(
    subject: &str,
    when_held: WhenHeld,
    interrupt: &AtomicBool,
    sink: &dyn Sink,
    mut attempt: impl FnMut() -> anyhow::Result<Attempt<T>>,
) -> anyhow::Result<T> {
    let mut reported = false;
    let begin = Instant::now();
    loop {
        let holder = match attempt()? {
            Attempt::Acquired(taken) => return Ok(taken),
            Attempt::HeldBy(holder) => holder,
        };
        when_held.check(begin, subject, &holder, interrupt)?;
        if !reported {
            sink.emit(Event::WaitingForLock { subject: subject.to_owned(), holder });
            reported = true;
        }
        std::thread::sleep(RETRY);
    }
}

impl WhenHeld {
    /// `--no-wait`, or not.
    pub fn of_no_wait(no_wait: bool) -> Self {
        if no_wait { Self::Fail } else { Self::Wait }
    }

    /// Decides whether a run that began to wait then waits on.
    pub fn check(
        self,
        begin: Instant,
        subject: &str,
        holder: &str,
        interrupt: &AtomicBool,
    ) -> Result<(), LockError> {
        let (subject, holder) = (subject.to_owned(), holder.to_owned());
        match self {
            Self::Fail => Err(LockError::Held { subject, holder }),
            _ if interrupt.load(Ordering::Relaxed) => Err(LockError::Interrupted),
            Self::WaitAtMost(limit) if begin.elapsed() >= limit => {
                Err(LockError::WaitedInVain { subject, holder, waited: limit })
            }
            Self::Wait | Self::WaitAtMost(_) => Ok(()),
        }
    }
}

/// Returns who holds the lock on this file. Creates and changes nothing.
pub fn held_by(path: &Utf8Path) -> Option<String> {
    let mut file = regular_file::open(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file frees the lock. A holder's name that stays behind is only misleading.
        let _ = self.file.set_len(0);
    }
}

/// Returns what the holder wrote about itself. It may not have done so yet.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(MOST_OF_FILE).read_to_end(&mut bytes));
    described(&read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn path(folder: &tempfile::TempDir) -> Utf8PathBuf {
        Utf8PathBuf::try_from(folder.path().join("cache/lock")).unwrap()
    }

    fn target(folder: &tempfile::TempDir) -> LockFile {
        LockFile::of_folder(path(folder))
    }

    fn ignore(_: Event) {}

    #[test]
    fn a_second_run_fails_at_once_if_told_to_and_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let held = Lock::acquire(&target(&folder), WhenHeld::Fail, &never, &ignore).unwrap();
        assert_eq!(held_by(&path(&folder)), Some(holder(&mut File::open(path(&folder)).unwrap())));
        let error = Lock::acquire(&target(&folder), WhenHeld::Fail, &never, &ignore).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!(", process {}, since ", std::process::id())), "{message}");
        drop(held);
        assert_eq!(held_by(&path(&folder)), None);
        Lock::acquire(&target(&folder), WhenHeld::Fail, &never, &ignore).unwrap();
    }

    #[test]
    fn a_second_run_waits_and_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let events = Mutex::new(Vec::new());
        let held = Lock::acquire(&target(&folder), WhenHeld::Wait, &never, &ignore).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let sink = |event: Event| events.lock().unwrap().push(format!("{event:?}"));
                Lock::acquire(&target(&folder), WhenHeld::Wait, &never, &sink).unwrap()
            });
            std::thread::sleep(4 * RETRY);
            assert!(!second.is_finished());
            drop(held);
            second.join().unwrap();
        });
        let events = events.into_inner().unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].starts_with("WaitingForLock"), "{events:?}");
    }

    #[test]
    fn waiting_ends_at_its_limit_and_the_error_says_who_holds_the_lock_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let limit = WhenHeld::WaitAtMost(RETRY);
        let held = Lock::acquire(&target(&folder), limit, &never, &ignore).unwrap();
        let error = Lock::acquire(&target(&folder), limit, &never, &ignore).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("waited 0.1 s for this repository's cache, which"), "{message}");
        assert!(message.contains(&format!(", process {}, since ", std::process::id())), "{message}");
        let advice = error.downcast_ref::<LockError>().and_then(LockError::help).unwrap();
        assert!(advice.starts_with("nothing is lost; to continue"), "{advice}");
        drop(held);
        Lock::acquire(&target(&folder), limit, &never, &ignore).unwrap();
    }

    #[test]
    fn waiting_ends_at_an_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let _held =
            Lock::acquire(&target(&folder), WhenHeld::Wait, &AtomicBool::new(false), &ignore).unwrap();
        let raised = AtomicBool::new(true);
        let error = Lock::acquire(&target(&folder), WhenHeld::Wait, &raised, &ignore).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(LockError::Interrupted)));
    }

    #[test]
    fn what_another_user_put_in_a_locks_place_is_neither_waited_for_nor_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(held_by(&path), None);
        let lock = Lock::acquire(&target(&folder), WhenHeld::Fail, &AtomicBool::new(false), &ignore).unwrap();
        assert!(held_by(&path).is_some() && path.metadata().unwrap().is_file());
        drop(lock);
    }

    #[test]
    fn a_lock_file_that_clean_removed_under_a_waiting_run_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let held = Lock::acquire(&target(&folder), WhenHeld::Wait, &never, &ignore).unwrap();
        std::thread::scope(|scope| {
            let second =
                scope.spawn(|| Lock::acquire(&target(&folder), WhenHeld::Wait, &never, &ignore).unwrap());
            std::thread::sleep(2 * RETRY);
            std::fs::remove_dir_all(path(&folder).parent().unwrap()).unwrap();
            drop(held);
            let second = second.join().unwrap();
            assert!(Lock::acquire(&target(&folder), WhenHeld::Fail, &never, &ignore).is_err());
            drop(second);
        });
    }
}
