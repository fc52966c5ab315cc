//! The folder for temporary files that a run has to itself. With the same random numbers, both sides of a comparison
//! choose the same names for files, and one of them must not find what the other one left.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::regular_file;

/// The variable that names a process's folder for temporary files.
pub(crate) const VARIABLE: &str = "TMPDIR";

/// How many names are tried.
const ATTEMPTS: u32 = 100;

/// An empty folder. It is removed at the end, with everything in it.
pub(crate) struct TemporaryFolder {
    pub path: Utf8PathBuf,
}

impl TemporaryFolder {
    /// Creates the folder of a cell, in the folder for temporary files of this process. `None` if that one has a
    /// relative path or one that is not UTF-8: the test then gets it, too.
    ///
    /// All runs of a cell in a comparison have the same path. It may be in what a test allocates or writes. It is
    /// short, because the path of a socket has a hundred bytes at most.
    pub fn create(comparison: &Utf8Path, cell: &str) -> anyhow::Result<Option<Self>> {
        let above = Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok();
        let Some(above) = above.filter(|path| path.is_absolute()) else { return Ok(None) };
        Self::create_in(&above, comparison, cell).map(Some)
    }

    fn create_in(above: &Utf8Path, comparison: &Utf8Path, cell: &str) -> anyhow::Result<Self> {
        let path = |attempt: u32| {
            let hash = blake3::hash(format!("{attempt} {comparison} {cell}").as_bytes()).to_hex();
            above.join(format!("memprof-{}", &hash[..10]))
        };
        let mut attempt = 0;
        loop {
            let path = path(attempt);
            attempt += 1;
            // What a killed session left, unless it is another user's.
            let _ = regular_file::remove(&path);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {}
                Err(error) => return Err(error).with_context(|| format!("cannot create {path}")),
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed, such as files of another user, stays. The next run gets another folder.
        let _ = regular_file::remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn all_runs_of_a_cell_find_the_same_folder_empty() {
        let above = tempfile::tempdir().unwrap();
        let above = Utf8Path::from_path(above.path()).unwrap();
        let create = |cell| TemporaryFolder::create_in(above, Utf8Path::new("/run"), cell).unwrap();
        let first = create("a::b");
        let (path, other) = (first.path.clone(), create("a::c").path.clone());
        assert_ne!(path, other);
        assert_eq!(path.as_str().len(), other.as_str().len());
        let inner = path.join("inner");
        fs_err::create_dir(&inner).unwrap();
        fs_err::write(inner.join("file"), "left").unwrap();
        for read_only in [&inner, &path] {
            fs_err::set_permissions(read_only, std::fs::Permissions::from_mode(0o500)).unwrap();
        }
        drop(first);
        assert!(!path.exists(), "also if nobody may write there");
        fs_err::create_dir_all(&inner).unwrap();
        let again = create("a::b");
        assert_eq!(again.path, path);
        assert_eq!(fs_err::read_dir(&path).unwrap().count(), 0, "what a killed session left is gone");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
