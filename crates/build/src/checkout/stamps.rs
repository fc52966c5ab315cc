//! Stamps of all files in some folders.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walkdir::WalkDir;

use memprof_support::stamp::Stamp;

/// The longest tick of the kernel's clock, 10 ms. Two changes within a tick have the same time.
const TICK: Duration = Duration::from_millis(10);

/// The stamps of everything in some folders.
#[derive(Debug)]
pub(crate) struct Stamps(Vec<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    open: File,
    own: Option<Stamp>,
    /// What is in it, by the path from here.
    inner: Vec<(PathBuf, Stamp)>,
}

impl Folder {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let open = fs_err::File::open(path)?.into_parts().0;
        let mut inner = Vec::new();
        for found in WalkDir::new(path).min_depth(1) {
            let found = match found {
                Ok(found) => found.into_path(),
                // A test that runs beside may remove what it made. Its folder has another stamp then.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            let below = found.strip_prefix(path).unwrap_or(&found);
            if let Some(stamp) = Stamp::read_below(&open, below) {
                inner.push((below.to_owned(), stamp));
            }
        }
        Ok(Self { path: path.to_owned(), own: Stamp::read(path), open, inner })
    }

    fn holds(&self) -> bool {
        Stamp::read(&self.path) == self.own
            && self.inner.iter().all(|(path, stamp)| Stamp::read_below(&self.open, path) == Some(*stamp))
    }
}

impl Stamps {
    /// Takes the stamps. Returns only when every later change gives another stamp.
    ///
    /// # Errors
    ///
    /// A folder cannot be read.
    pub fn taken(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> anyhow::Result<Self> {
        let folders: Vec<Folder> =
            folders.into_iter().map(|folder| Folder::read(folder.as_ref())).collect::<anyhow::Result<_>>()?;
        let stamps = folders
            .iter()
            .flat_map(|folder| folder.own.iter().chain(folder.inner.iter().map(|(_, stamp)| stamp)));
        if let Some(newest) = stamps.map(|stamp| stamp.time()).max() {
            let age = SystemTime::now().duration_since(newest).unwrap_or_default();
            std::thread::sleep(TICK.saturating_sub(age));
        }
        Ok(Self(folders))
    }

    /// Whether nothing was changed, removed or added.
    pub fn hold(&self) -> bool {
        self.0.iter().all(Folder::holds)
    }
}

/// Whether a folder below disappeared after its name was read.
fn is_gone(error: &walkdir::Error) -> bool {
    error.depth() > 0 && error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_make_and_remove_meanwhile_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::create_dir_all(inner.join("deep")).unwrap();
                    std::fs::remove_dir_all(&inner).unwrap();
                }
            });
            let taken: Vec<_> = (0..50).map(|_| Stamps::taken([folder.path()])).collect();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(taken.iter().all(Result::is_ok), "{taken:?}");
        });
        assert!(Stamps::taken([&inner]).is_err(), "the folder itself must be there");
    }

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
