//! The stamp of a file or folder, which shows without reading the content whether it was changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What changes when a file is changed or replaced. A folder's stamp changes when an entry is added or
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Device and inode.
    file: (u64, u64),
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
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Returns when the file was changed.
    pub fn time(self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let part = |part: i64| u64::try_from(part).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(part(seconds)) + Duration::from_nanos(part(nanoseconds))
    }
}
