//! Which file is at a path, and its stamp, which shows without reading the content whether it was changed.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, statat};

/// The device and the inode of a file or folder.
pub type FileId = (u64, u64);

/// Returns which file or folder this is, whatever its name.
pub fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Whether an open file is still the one at a path, and no link to it.
pub fn is_at(file: &File, path: impl AsRef<Path>) -> bool {
    let (open, found) = (file.metadata(), path.as_ref().symlink_metadata());
    matches!((open, found), (Ok(open), Ok(found)) if file_id(&open) == file_id(&found))
}

/// What changes when a file is changed or replaced. A folder's stamp changes when an entry is added or
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: FileId,
    length: u64,
    /// The time of the last change, which no program can set: seconds and nanoseconds since the epoch.
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a path, or of the link itself if it is one; `None` if the path cannot be
    /// read.
    pub fn read(path: impl AsRef<Path>) -> Option<Self> {
        let metadata = path.as_ref().symlink_metadata().ok()?;
        Some(Self {
            file: file_id(&metadata),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Returns the same of a path below an open folder. The system looks up only the rest of the path.
    #[allow(
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "platforms have numbers of different types"
    )]
    pub fn read_below(folder: &File, path: impl AsRef<Path>) -> Option<Self> {
        let found = statat(folder, path.as_ref(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Self {
            file: (found.st_dev as u64, found.st_ino as u64),
            length: found.st_size as u64,
            changed: (found.st_ctime as i64, found.st_ctime_nsec as i64),
        })
    }

    /// Returns when the file was changed.
    pub fn time(self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let part = |part: i64| u64::try_from(part).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(part(seconds)) + Duration::from_nanos(part(nanoseconds))
    }
}
