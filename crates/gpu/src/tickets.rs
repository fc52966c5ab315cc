//! Tickets: the files by which runs that wait for a device know who came first. They are in the
//! folder of the lock files.
//!
//! A ticket is one file with a name for each of its devices, so that a run has the same place in
//! all of its queues. It counts while its process holds a lock on it, which the kernel releases when
//! the process ends. The order is that of the files' change times, which only the kernel sets. So
//! nothing depends on what is in the file of another user: its content is only shown.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use anyhow::{Context, bail};
use camino::{Utf8Path, Utf8PathBuf};

use crate::devices::CudaDevice;
use crate::locks;
use memprof_support::run_identity::{RunIdentity, own_user, user_name};
use memprof_support::stamp::is_at;

/// How every ticket's name ends.
const ENDING: &str = ".ticket";
/// How the name of a ticket begins before it counts.
const UNFINISHED: &str = ".new-ticket-";
/// How much of a ticket is read.
const MOST_OF_TICKET: u64 = 1 << 13;
/// How often a ticket is made anew if another process of this user removes it before it is locked.
const ATTEMPTS: usize = 10;

/// When a ticket was completed. The file's number orders tickets of the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    seconds: i64,
    nanoseconds: i64,
    file: u64,
}

/// This run's ticket. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    file: File,
    names: Vec<Utf8PathBuf>,
}

/// Another run that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRun {
    /// When it came.
    pub arrival: Arrival,
    /// The user, by the owner of its ticket.
    pub user: String,
    /// What its ticket says; `None` if that cannot be read.
    pub identity: Option<RunIdentity>,
}

impl Arrival {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self { seconds: metadata.ctime(), nanoseconds: metadata.ctime_nsec(), file: metadata.ino() }
    }
}

impl WaitingRun {
    /// Returns `alice: cargo memprof main..pr/7, process 4711, since 14:02`.
    pub fn shown(&self) -> String {
        match &self.identity {
            Some(identity) => identity.shown(&jiff::Zoned::now()),
            None => format!("{}: an unknown command", self.user),
        }
    }
}

impl Ticket {
    /// Takes a place behind all runs that wait for one of these devices.
    pub fn draw(folder: &Utf8Path, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<Self> {
        locks::make_folder(folder)?;
        sweep(folder);
        for _ in 0..ATTEMPTS {
            if let Some(ticket) = Self::attempt(folder, devices)? {
                return Ok(ticket);
            }
        }
        bail!("{folder}: another process removes the tickets")
    }

    /// Makes a ticket. `None` if another process took its file for one that is left over.
    fn attempt(folder: &Utf8Path, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<Option<Self>> {
        let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        // Others must be able to try the lock.
        unfinished.as_file().set_permissions(Permissions::from_mode(0o644))?;
        match unfinished.as_file().try_lock() {
            Ok(()) => {}
            // Another process looks whether it is left over, and is about to remove it.
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock a ticket"),
        }
        unfinished.as_file().write_all(RunIdentity::of_this_process().line().as_bytes())?;
        let path = Utf8Path::from_path(unfinished.path()).context("a path that is not UTF-8")?;
        let number = path.file_name().unwrap_or_default().trim_start_matches(UNFINISHED).to_owned();
        let mut ticket = Self { file: unfinished.as_file().try_clone()?, names: Vec::new() };
        for device in devices {
            let name = folder.join(format!("{}.{number}{ENDING}", locks::stem(device)));
            match std::fs::hard_link(path, &name) {
                Ok(()) => ticket.names.push(name),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).with_context(|| format!("cannot create {name}")),
            }
        }
        drop(unfinished);
        Ok(Some(ticket))
    }

    /// Ends as a process that is killed. Returns a name that stays behind.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) -> Utf8PathBuf {
        std::mem::take(&mut self.names).remove(0)
    }

    /// When it was completed.
    pub(crate) fn arrival(&self) -> anyhow::Result<Arrival> {
        Ok(Arrival::from_metadata(&self.file.metadata()?))
    }

    /// Whether others see it. A program that cleans up `/tmp` may have removed it.
    pub(crate) fn is_in_place(&self) -> bool {
        self.names.iter().all(|name| is_at(&self.file, name))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        for name in &self.names {
            // Closing the file ends the wait. A name that stays behind counts for nothing.
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Returns who waits for a device, in order. Creates and changes nothing.
pub fn waiting(folder: &Utf8Path, device: &CudaDevice) -> Vec<WaitingRun> {
    let stem = locks::stem(device);
    let is_of_device = |name: &str| {
        let number = name.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(ENDING));
        number.is_some_and(|number| !number.contains('.'))
    };
    let mut waiting: Vec<WaitingRun> = entries(folder)
        .filter(|path| path.file_name().is_some_and(is_of_device))
        .filter_map(|path| read(&path))
        .collect();
    waiting.sort_by_key(|run| run.arrival);
    waiting
}

fn entries(folder: &Utf8Path) -> impl Iterator<Item = Utf8PathBuf> {
    let entries = folder.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    entries.map(camino::Utf8DirEntry::into_path)
}

/// Reads a ticket whose process lives. `None` for anything else that has such a name: it may be
/// anybody's.
fn read(path: &Utf8Path) -> Option<WaitingRun> {
    let (file, metadata) = open(path)?;
    // Only a lock of another process refuses a shared one.
    let Err(TryLockError::WouldBlock) = file.try_lock_shared() else { return None };
    let mut bytes = Vec::new();
    let read = file.take(MOST_OF_TICKET).read_to_end(&mut bytes);
    let identity = read.ok().and_then(|_| RunIdentity::read(&String::from_utf8_lossy(&bytes)));
    let user = user_name(metadata.uid());
    let identity = identity.map(|identity| RunIdentity { user: user.clone(), ..identity });
    Some(WaitingRun { arrival: Arrival::from_metadata(&metadata), user, identity })
}

/// Opens a regular file, without following links or waiting for a pipe's other end.
fn open(path: &Utf8Path) -> Option<(File, Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    Some((file, metadata))
}

/// Removes this user's tickets whose processes ended without doing so. Only their owner may.
fn sweep(folder: &Utf8Path) {
    for path in entries(folder) {
        let name = path.file_name().unwrap_or_default();
        if !name.ends_with(ENDING) && !name.starts_with(UNFINISHED) {
            continue;
        }
        if let Some((file, metadata)) = open(&path)
            && metadata.uid() == own_user()
            && file.try_lock().is_ok()
        {
            // What stays counts for nothing.
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32) -> CudaDevice {
        CudaDevice { index, part: None, uuid: format!("GPU-{index}") }
    }

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("devices")).unwrap();
        (folder, path)
    }

    fn names(folder: &Utf8Path) -> usize {
        entries(folder).count()
    }

    #[test]
    fn tickets_are_in_the_order_of_their_arrival_and_disappear() {
        let (_temporary, folder) = folder();
        assert_eq!(waiting(&folder, &device(0)), []);
        let tickets: Vec<Ticket> =
            (0..3).map(|_| Ticket::draw(&folder, &BTreeSet::from([device(0)])).unwrap()).collect();
        let arrivals: Vec<Arrival> = tickets.iter().map(|ticket| ticket.arrival().unwrap()).collect();
        let queue = waiting(&folder, &device(0));
        assert_eq!(queue.iter().map(|run| run.arrival).collect::<Vec<_>>(), arrivals);
        assert!(arrivals.is_sorted());
        assert_eq!(queue[0].identity.as_ref().unwrap().process, std::process::id());
        assert!(queue[0].shown().starts_with(&format!("{}: ", user_name(own_user()))), "{queue:?}");
        drop(tickets);
        assert_eq!(names(&folder), 0);
    }

    #[test]
    fn a_ticket_for_two_devices_has_one_place_in_both_queues() {
        let (_temporary, folder) = folder();
        let both = Ticket::draw(&folder, &BTreeSet::from([device(0), device(1)])).unwrap();
        let arrival = both.arrival().unwrap();
        for device in [device(0), device(1)] {
            assert_eq!(
                waiting(&folder, &device).iter().map(|run| run.arrival).collect::<Vec<_>>(),
                [arrival]
            );
        }
        assert_eq!(waiting(&folder, &device(10)), []);
        assert!(both.is_in_place());
        std::fs::remove_file(&both.names[0]).unwrap();
        assert!(!both.is_in_place());
    }

    #[test]
    fn what_is_no_living_runs_ticket_is_ignored() {
        let (_temporary, folder) = folder();
        locks::make_folder(&folder).unwrap();
        let path = |name: &str| folder.join(format!("GPU-0.{name}{ENDING}"));
        std::fs::write(path("ended"), "process 1 (x) of root since 1990-01-01T00:00:00Z\n").unwrap();
        std::fs::write(path("secret"), "").unwrap();
        std::fs::set_permissions(path("secret"), Permissions::from_mode(0o0)).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe").as_std_path(),
            rustix::fs::FileType::Fifo,
            0o666.into(),
            0,
        )
        .unwrap();
        assert_eq!(waiting(&folder, &device(0)), []);

        // Somebody may hold a lock on anything. Its content is shown as unknown.
        std::fs::write(path("garbage"), vec![0xff; 100_000]).unwrap();
        let held = File::open(path("garbage")).unwrap();
        held.try_lock().unwrap();
        let queue = waiting(&folder, &device(0));
        assert_eq!(queue.len(), 1);
        assert_eq!(queue[0].shown(), format!("{}: an unknown command", user_name(own_user())));

        // A new ticket removes what this user's processes left, and nothing else.
        let _ticket = Ticket::draw(&folder, &BTreeSet::from([device(0)])).unwrap();
        let left = |name: &str| path(name).symlink_metadata().is_ok();
        assert!(!left("ended"));
        assert!(left("folder") && left("link") && left("pipe") && left("garbage"));
    }
}
