//! Removes folders that a test may have filled: deeper than any path may be long, or without rights.
//! The standard library keeps a file open for each level, and its recursion ends with them.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chmodat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Removes a folder with everything in it. Follows no link.
pub fn remove_folder(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let top = opened(CWD, path)?;
    let mut lifted = 0_u64;
    // Until a look finds nothing. What is lifted in one round is removed in the next one.
    while each_entry(&top, |name| {
        if remove_entry(&top, name)? {
            return Ok(());
        }
        // The inner folders are moved up here, so that no more than two levels are ever open.
        let inner = opened(&top, name)?;
        each_entry(&inner, |below| {
            if remove_entry(&inner, below)? {
                return Ok(());
            }
            loop {
                lifted += 1;
                match renameat(&inner, below, &top, format!(".memprof-removed-{lifted}")) {
                    Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {}
                    Err(Errno::ACCESS) => chmodat(&inner, below, Mode::RWXU, AtFlags::empty())?,
                    done => return Ok(done?),
                }
            }
        })?;
        gone(unlinkat(&top, name, AtFlags::REMOVEDIR))
    })? {}
    gone(unlinkat(CWD, path, AtFlags::REMOVEDIR))
}

/// Removes what is not a folder, or is an empty one. Returns whether it did.
fn remove_entry(folder: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        // A folder; which of the two depends on the system.
        Err(Errno::ISDIR | Errno::PERM) => match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            done => gone(done).map(|()| true),
        },
        done => gone(done).map(|()| true),
    }
}

/// Calls `act` for each entry. Returns whether there was any.
fn each_entry(folder: &OwnedFd, mut act: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<bool> {
    let mut is_any = false;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            is_any = true;
            act(entry.file_name())?;
        }
    }
    Ok(is_any)
}

/// Opens a folder, also one that its owner may not read.
fn opened<P: rustix::path::Arg + Copy>(at: impl std::os::fd::AsFd, path: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(&at, path, flags, Mode::empty());
    let folder = match open() {
        Err(Errno::ACCESS) => {
            chmodat(&at, path, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        done => done?,
    };
    // What is in it can be removed only with all three.
    rustix::fs::fchmod(&folder, Mode::RWXU)?;
    Ok(folder)
}

fn gone(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

#[cfg(any(test, feature = "samples"))]
/// Makes a chain of folders in this one, of this depth, and leaves a file in the last one.
///
/// # Panics
/// A folder cannot be made.
pub fn make_deep(folder: &Path, depth: usize) {
    let mut at = opened(CWD, folder).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
        at = opened(&at, c"d").unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    drop(openat(&at, c"file", flags, Mode::RWXU).unwrap());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_deeper_than_any_path_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("folder");
        std::fs::create_dir_all(folder.join("other/.memprof-removed-1")).unwrap();
        std::fs::write(folder.join("other/file"), "").unwrap();
        make_deep(&folder, 5_000);
        make_deep(&folder.join("other"), 10);
        let outside = home.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("other/link")).unwrap();
        remove_folder(&folder).unwrap();
        assert!(!folder.exists() && outside.join("kept").exists());
        assert_eq!(remove_folder(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::os::unix::fs::symlink(&outside, &folder).unwrap();
        assert!(remove_folder(&folder).is_err(), "a link is no folder");
        assert!(outside.join("kept").exists());
    }
}
