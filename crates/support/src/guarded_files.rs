//! Files that must outlive the tests: each is open, so its content stays available after a test has
//! deleted it, and it can be put back.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, Seek};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::regular_file;
use crate::stamp::is_at;

/// How many files are kept open. The usual limit of a process is 1024.
const MOST: usize = 400;

/// Files that are put back if a test removes or replaces them.
#[derive(Default)]
pub struct GuardedFiles(BTreeMap<Utf8PathBuf, File>);

impl GuardedFiles {
    /// Opens the files that exist, the first ones if there are too many.
    pub fn open(paths: impl IntoIterator<Item = Utf8PathBuf>) -> Self {
        let open = paths.into_iter().filter_map(|path| {
            let file = regular_file::open(&path).ok()?;
            Some((path, file))
        });
        Self(open.take(MOST).collect())
    }

    /// Puts back what is missing, or is another file.
    pub fn restore(&mut self) -> anyhow::Result<()> {
        for (path, file) in &mut self.0 {
            if !is_at(file, path) {
                let mode = file.metadata()?.mode() & 0o777;
                put_back(file, path, mode).with_context(|| format!("cannot put {path} back"))?;
            }
        }
        Ok(())
    }
}

/// Writes the content of a file that is still open, although it may have no name any more, with these
/// permissions. The file is then the copy.
pub fn put_back(file: &mut File, path: &Utf8Path, mode: u32) -> io::Result<()> {
    make_folder(path.parent().unwrap_or(path))?;
    regular_file::remove(path)?;
    file.rewind()?;
    let mut copy = regular_file::create(path)?;
    io::copy(file, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(mode))?;
    *file = regular_file::open(path)?;
    Ok(())
}

/// Makes a folder, also where a test has put something else.
fn make_folder(folder: &Utf8Path) -> io::Result<()> {
    if folder.metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
    }
    regular_file::remove(folder)?;
    std::fs::create_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_removes_or_replaces_is_put_back_with_its_rights() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap().join("store/key");
        let paths = ["a", "injected/b", "program"].map(|name| folder.join(name));
        std::fs::create_dir_all(folder.join("injected")).unwrap();
        for path in &paths {
            std::fs::write(path, path.as_str()).unwrap();
        }
        std::fs::set_permissions(&paths[2], Permissions::from_mode(0o755)).unwrap();
        let mut guarded = GuardedFiles::open(paths.iter().cloned().chain([folder.join("none")]));
        let inode = || paths[0].metadata().unwrap().ino();
        let first = inode();
        guarded.restore().unwrap();
        assert_eq!(inode(), first, "what is there stays");
        for _ in 0..2 {
            std::fs::remove_dir_all(home.path().join("store")).unwrap();
            std::fs::write(home.path().join("store"), "a file").unwrap();
            guarded.restore().unwrap();
            for path in &paths {
                assert_eq!(std::fs::read_to_string(path).unwrap(), path.as_str());
            }
            assert_eq!(paths[2].metadata().unwrap().mode() & 0o777, 0o755);
        }
        std::fs::rename(&paths[1], &paths[0]).unwrap();
        guarded.restore().unwrap();
        assert_eq!(std::fs::read_to_string(&paths[0]).unwrap(), paths[0].as_str());
        assert!(!folder.join("none").exists());
    }
}
