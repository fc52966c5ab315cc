//! What the system says of files and folders, to see without reading them whether they were written to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walkdir::WalkDir;

/// Times are those of the clock's last tick, which is at most 10 ms long: a change within the same one shows no other time.
const TICK: Duration = Duration::from_millis(10);

/// Of one file or folder. A folder's changes when something is made in it or taken out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    length: u64,
    /// Of the last change, which no program can set: seconds and nanoseconds since the epoch.
    changed: (i64, i64),
    inode: u64,
}

impl Stamp {
    /// Of what is at the path; of a link, not of what it leads to. `None` if there is nothing that can be seen.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let metadata = path.as_ref().symlink_metadata().ok()?;
        Some(Self {
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        })
    }

    fn time(self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let part = |part: i64| u64::try_from(part).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(part(seconds)) + Duration::from_nanos(part(nanoseconds))
    }
}

/// Of all that is in some folders.
#[derive(Debug)]
pub struct Stamps(Vec<(PathBuf, Stamp)>);

impl Stamps {
    /// Takes them, and returns when whatever is written from then on has another one.
    ///
    /// # Errors
    ///
    /// A folder cannot be read.
    pub fn taken(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> anyhow::Result<Self> {
        let mut stamps = Vec::new();
        for found in folders.into_iter().flat_map(WalkDir::new) {
            let path = found?.into_path();
            if let Some(stamp) = Stamp::of(&path) {
                stamps.push((path, stamp));
            }
        }
        if let Some(newest) = stamps.iter().map(|(_, stamp)| stamp.time()).max() {
            let age = SystemTime::now().duration_since(newest).unwrap_or_default();
            std::thread::sleep(TICK.saturating_sub(age));
        }
        Ok(Self(stamps))
    }

    /// Whether all of it is as it was, and nothing was added.
    pub fn hold(&self) -> bool {
        self.0.iter().all(|(path, stamp)| Stamp::of(path) == Some(*stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_done_in_a_folder_is_seen_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [file, inner] = ["file", "inner"].map(|name| folder.path().join(name));
        let doings: [(&str, &dyn Fn() -> std::io::Result<()>); 6] = [
            ("made a folder", &|| std::fs::create_dir(&inner)),
            ("made a file", &|| std::fs::write(inner.join("file"), "")),
            ("wrote to a file as many bytes", &|| std::fs::write(&file, "other")),
            ("gave a file another mode and no other time", &|| {
                std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            }),
            ("replaced a file", &|| {
                std::fs::write(folder.path().join("inner/file"), "third")?;
                std::fs::rename(folder.path().join("inner/file"), &file)
            }),
            ("removed a folder", &|| std::fs::remove_dir(&inner)),
        ];
        std::fs::write(&file, "first").unwrap();
        for (what, doing) in doings {
            let stamps = Stamps::taken([folder.path()]).unwrap();
            assert_eq!(std::fs::read(&file).unwrap().len(), 5);
            assert!(stamps.hold(), "reading, before one {what}");
            doing().unwrap();
            assert!(!stamps.hold(), "{what}");
        }
    }
}
