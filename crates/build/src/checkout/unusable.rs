//! What a test or a build script leaves in the checkout and no program can work with: FIFOs, sockets
//! and devices, which git and cargo would wait for, and folders whose paths are too long for the system.

use std::fs::{DirEntry, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memprof_support::folder_removal::remove_folder;

/// The longest path of a folder whose files the system can name.
const MOST_OF_PATH: usize = libc::PATH_MAX.unsigned_abs() as usize - 256 - 1;

/// Removes everything unusable below a folder. Its owner can then read all folders in it.
pub fn remove(root: &Path) -> io::Result<()> {
    each(
        root,
        |entry, is_folder| {
            if is_folder { remove_folder(entry.path()) } else { std::fs::remove_file(entry.path()) }
        },
    )
}

/// Whether there is anything unusable below a folder, or it cannot be told.
pub(crate) fn is_any(root: &Path) -> bool {
    each(root, |_, _| Err(io::ErrorKind::Other.into())).is_err()
}

/// Calls `act` for everything that is unusable, with whether it is a folder.
fn each(root: &Path, mut act: impl FnMut(&DirEntry, bool) -> io::Result<()>) -> io::Result<()> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.path().as_os_str().len() <= MOST_OF_PATH {
                folders.push(entry.path());
            } else if kind.is_dir() || !kind.is_file() && !kind.is_symlink() {
                act(&entry, kind.is_dir())?;
            }
        }
    }
    Ok(())
}

/// Reads a folder, also one that its owner may not read.
fn entries(folder: &PathBuf) -> io::Result<std::fs::ReadDir> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            std::fs::set_permissions(folder, Permissions::from_mode(0o755))?;
            std::fs::read_dir(folder)
        }
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use memprof_support::folder_removal::make_deep;

    #[test]
    fn only_what_nobody_can_use_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("src")).unwrap();
        std::fs::write(root.join("src/lib.rs"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("src/link")).unwrap();
        make_deep(&root.join("src"), 100);
        assert!(!is_any(root));
        for (what, make) in [
            (
                "fifo",
                &(|path: &Path| {
                    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
                }) as &dyn Fn(&Path),
            ),
            ("socket", &|path| drop(UnixListener::bind(path).unwrap())),
            ("deep", &|path| {
                std::fs::create_dir(path).unwrap();
                make_deep(path, 3_000);
            }),
        ] {
            make(&root.join("src").join(what));
            assert!(is_any(root), "{what}");
            remove(root).unwrap();
            assert!(!is_any(root), "{what}");
        }
        assert!(root.join("src/lib.rs").is_file() && root.join("src/link").is_symlink());
        assert!(root.join("src/d/d/d").is_dir());
    }
}
