//! One run at a time on a repository's cache folder, and on a device.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use camino::Utf8Path;

use crate::gpu::devices::Place;
use crate::gpu::locks;
use crate::support::event::{Event, Sink};

/// How often a waiting run tries again.
const RETRY: Duration = Duration::from_millis(100);

/// The lock, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// What to do when another run holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenHeld {
    /// Say so once, and wait.
    Wait,
    /// Fail with [`LockError::Held`].
    Fail,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it, and waiting was not wanted.
    #[error("another run is using this repository's cache: {holder}")]
    Held {
        /// The other's process id and command line.
        holder: String,
    },
    /// Another run holds a device's, and waiting was not wanted.
    #[error("another run is using {device}: {holder}")]
    DeviceHeld {
        /// `GPU 0`.
        device: String,
        /// The other's process id and command line.
        holder: String,
    },
    /// The interrupt flag was raised while waiting.
    #[error("interrupted while waiting for another run")]
    Interrupted,
}

impl Lock {
    /// Takes the lock on this file, which is made if it is not there.
    pub fn acquire(
        path: &Utf8Path,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        sink: &dyn Sink,
    ) -> anyhow::Result<Self> {
        Self::acquire_on(&Target::Cache(path), when_held, interrupt, sink)
    }

    /// Takes the lock on a device, in this folder.
    pub fn acquire_device(
        folder: &Utf8Path,
        place: &Place,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        sink: &dyn Sink,
    ) -> anyhow::Result<Self> {
        let target = Target::Device { path: &locks::path(folder, place), place };
        Self::acquire_on(&target, when_held, interrupt, sink)
    }

    fn acquire_on(
        target: &Target<'_>,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        sink: &dyn Sink,
    ) -> anyhow::Result<Self> {
        let mut said = false;
        let path = target.path();
        loop {
            let Some(mut file) = target.open()? else { continue };
            match file.try_lock() {
                Ok(()) if is_still_at(&file, path) => {
                    file.set_len(0)?;
                    let command: Vec<_> = std::env::args().collect();
                    writeln!(file, "process {} ({})", std::process::id(), command.join(" "))?;
                    return Ok(Self { file });
                }
                // Removed or replaced between opening and locking: a lock on it keeps nobody out.
                Ok(()) => continue,
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("{path} cannot be locked"));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            let holder = holder(&mut file);
            if when_held == WhenHeld::Fail {
                return Err(target.held(holder).into());
            }
            if !said {
                sink.emit(target.waiting(holder));
                said = true;
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(LockError::Interrupted.into());
            }
            std::thread::sleep(RETRY);
        }
    }
}

/// What a lock is on.
enum Target<'a> {
    /// A folder of the cache.
    Cache(&'a Utf8Path),
    /// A device.
    Device { path: &'a Utf8Path, place: &'a Place },
}

impl Target<'_> {
    fn path(&self) -> &Utf8Path {
        match self {
            Self::Cache(path) | Self::Device { path, .. } => path,
        }
    }

    /// The file; `None` if its folder went away meanwhile.
    fn open(&self) -> anyhow::Result<Option<File>> {
        let path = match self {
            Self::Device { path, .. } => return locks::open(path).map(Some),
            Self::Cache(path) => path,
        };
        if let Some(parent) = path.parent() {
            // A `clean` that we waited for has removed it.
            fs_err::create_dir_all(parent)?;
        }
        let mut options = fs_err::OpenOptions::new();
        match options.read(true).write(true).create(true).truncate(false).open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            opened => Ok(Some(opened?.into_parts().0)),
        }
    }

    fn held(&self, holder: String) -> LockError {
        match self {
            Self::Cache(_) => LockError::Held { holder },
            Self::Device { place, .. } => LockError::DeviceHeld { device: place.to_string(), holder },
        }
    }

    fn waiting(&self, holder: String) -> Event {
        match self {
            Self::Cache(_) => Event::WaitingForLock { holder },
            Self::Device { place, .. } => Event::WaitingForDevice { device: place.to_string(), holder },
        }
    }
}

/// Who holds the lock on this file now; nothing is changed, and nothing made.
pub fn held_by(path: &Utf8Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file frees the lock; without its holder's name nobody is misled. Neither can fail usefully.
        let _ = self.file.set_len(0);
    }
}

fn is_still_at(file: &File, path: &Utf8Path) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (ours, there) = (file.metadata().map(identity), path.metadata().map(identity));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

/// What the holder wrote; it may be about to.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), holder) if !holder.is_empty() => holder.to_owned(),
        _ => "a process that has not said which".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn path(folder: &tempfile::TempDir) -> camino::Utf8PathBuf {
        camino::Utf8PathBuf::try_from(folder.path().join("cache/lock")).unwrap()
    }

    fn ignore(_: Event) {}

    #[test]
    fn a_second_run_fails_at_once_if_told_to_and_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let held = Lock::acquire(&path(&folder), WhenHeld::Fail, &never, &ignore).unwrap();
        assert_eq!(held_by(&path(&folder)), Some(holder(&mut File::open(path(&folder)).unwrap())));
        let error = Lock::acquire(&path(&folder), WhenHeld::Fail, &never, &ignore).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("process {} (", std::process::id())), "{message}");
        drop(held);
        assert_eq!(held_by(&path(&folder)), None);
        Lock::acquire(&path(&folder), WhenHeld::Fail, &never, &ignore).unwrap();
    }

    #[test]
    fn two_runs_do_not_share_a_device_and_the_second_says_which_it_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let never = AtomicBool::new(false);
        let [first, other] = [0, 1].map(|index| Place { index, part: None, uuid: format!("GPU-{index}") });
        let take = |place: &Place, when_held, sink: &dyn Sink| {
            Lock::acquire_device(folder, place, when_held, &never, sink)
        };
        let held = take(&first, WhenHeld::Fail, &ignore).unwrap();
        let message = take(&first, WhenHeld::Fail, &ignore).unwrap_err().to_string();
        assert!(message.starts_with("another run is using GPU 0: process "), "{message}");
        take(&other, WhenHeld::Fail, &ignore).unwrap();
        let events = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let sink = |event: Event| events.lock().unwrap().push(format!("{event:?}"));
            let (take, first) = (&take, &first);
            let second = scope.spawn(move || take(first, WhenHeld::Wait, &sink).unwrap());
            std::thread::sleep(2 * RETRY);
            assert!(!second.is_finished());
            drop(held);
            second.join().unwrap();
        });
        let events = events.into_inner().unwrap();
        assert_eq!(events.len(), 1);
        assert!(events[0].starts_with("WaitingForDevice { device: \"GPU 0\""), "{events:?}");
    }

    #[test]
    fn a_second_run_waits_and_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let events = Mutex::new(Vec::new());
        let held = Lock::acquire(&path(&folder), WhenHeld::Wait, &never, &ignore).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let sink = |event: Event| events.lock().unwrap().push(format!("{event:?}"));
                Lock::acquire(&path(&folder), WhenHeld::Wait, &never, &sink).unwrap()
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
    fn waiting_ends_at_an_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let _held = Lock::acquire(&path(&folder), WhenHeld::Wait, &AtomicBool::new(false), &ignore).unwrap();
        let raised = AtomicBool::new(true);
        let error = Lock::acquire(&path(&folder), WhenHeld::Wait, &raised, &ignore).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(LockError::Interrupted)));
    }

    #[test]
    fn a_lock_file_that_clean_removed_under_a_waiting_run_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let held = Lock::acquire(&path(&folder), WhenHeld::Wait, &never, &ignore).unwrap();
        std::thread::scope(|scope| {
            let second =
                scope.spawn(|| Lock::acquire(&path(&folder), WhenHeld::Wait, &never, &ignore).unwrap());
            std::thread::sleep(2 * RETRY);
            std::fs::remove_dir_all(path(&folder).parent().unwrap()).unwrap();
            drop(held);
            let second = second.join().unwrap();
            assert!(Lock::acquire(&path(&folder), WhenHeld::Fail, &never, &ignore).is_err());
            drop(second);
        });
    }
}
