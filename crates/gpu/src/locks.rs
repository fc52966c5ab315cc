//! Lock files, one for each device, so that only one run at a time uses a device. Their folder
//! serves all users of the machine.
//!
//! The folder is open to all users and sticky, like `/tmp`, so that nobody can remove another
//! user's file. In such a folder the kernel refuses `O_CREAT` for a file of another user
//! (`fs.protected_regular`), and a link may lead anywhere. So a file is opened without `O_CREAT`
//! first, created only if it is missing, and links are not followed.

use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::devices::CudaDevice;
use memprof_support::file_lock::LockFile;
use memprof_support::run_identity::{own_user, user_name};

/// The variable that names the folder, for containers that share a device but not `/tmp`.
pub(crate) const VARIABLE: &str = "MEMPROF_DEVICE_LOCKS";

/// Returns the folder of the lock files. It is not in `TMPDIR`, which may differ between users.
pub fn folder() -> Utf8PathBuf {
    match std::env::var(VARIABLE) {
        Ok(folder) if !folder.is_empty() => folder.into(),
        _ => "/tmp/cargo-memprof-devices".into(),
    }
}

/// Returns how the names of a device's files begin.
pub(crate) fn stem(device: &CudaDevice) -> String {
    // `MIG-GPU-…/1/0` has slashes.
    device.uuid.replace('/', "-")
}

/// Returns the path of a device's lock file.
pub fn path(folder: &Utf8Path, device: &CudaDevice) -> Utf8PathBuf {
    folder.join(format!("{}.lock", stem(device)))
}

/// Creates the folder, for all users, if it is missing.
pub(crate) fn make_folder(folder: &Utf8Path) -> anyhow::Result<()> {
    if let Err(error) = std::fs::create_dir(folder) {
        ensure!(error.kind() == ErrorKind::AlreadyExists, "{folder}: {error}");
        let found = folder.symlink_metadata().with_context(|| format!("cannot look at {folder}"))?;
        // In `/tmp`, any user may make a link that leads to a folder of this user.
        let is_foreign = ![0, own_user()].contains(&found.uid());
        ensure!(!(found.is_symlink() && is_foreign), "{folder} is a link of {}", user_name(found.uid()));
    } else {
        std::fs::set_permissions(folder, Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

/// Returns the lock file of a device in this folder.
pub fn lock_file(folder: &Utf8Path, device: &CudaDevice) -> LockFile {
    LockFile { path: path(folder, device), subject: device.to_string(), open: |path| open(path).map(Some) }
}

/// Opens the file, creating it if necessary.
fn open(path: &Utf8Path) -> anyhow::Result<File> {
    make_folder(path.parent().context("a lock file has a folder")?)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = loop {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => break opened.with_context(|| format!("could not open {path}"))?,
        }
        match options.clone().create_new(true).mode(0o666).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                let made = made.with_context(|| format!("could not create {path}"))?;
                // The next user must be able to open the file, regardless of this user's umask.
                made.set_permissions(Permissions::from_mode(0o666))?;
                break made;
            }
        }
    };
    let metadata = file.metadata()?;
    ensure!(metadata.is_file() && metadata.nlink() <= 1, "{path} is a link or not a regular file");
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> CudaDevice {
        CudaDevice { index: 0, part: Some(1), uuid: "MIG-GPU-a/1/0".into() }
    }

    #[test]
    fn a_lock_file_is_anybodys_to_open_and_nobodys_but_its_makers_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap().join("devices");
        let path = path(&folder, &device());
        assert_eq!(path.file_name(), Some("MIG-GPU-a-1-0.lock"));
        for _ in 0..2 {
            assert_eq!(open(&path).unwrap().metadata().unwrap().mode() & 0o7777, 0o666);
        }
        assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_folder_that_is_a_link_of_another_user_is_not_used() {
        let own = tempfile::tempdir().unwrap();
        let (own, link) = (Utf8Path::from_path(own.path()).unwrap(), own.path().with_extension("link"));
        let link = Utf8Path::from_path(&link).unwrap();
        std::os::unix::fs::symlink(own, link).unwrap();
        make_folder(link).unwrap();
        // Only root can give a file away. Others see the rest of this test only.
        if std::os::unix::fs::lchown(link, Some(65_534), None).is_ok() {
            let error = open(&path(link, &device())).unwrap_err().to_string();
            assert!(error.contains(" is a link of "), "{error}");
            assert_eq!(std::fs::read_dir(own).unwrap().count(), 0);
        }
        std::fs::remove_file(link).unwrap();
    }

    #[test]
    fn a_link_in_a_files_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let (victim, link, second) = (folder.join("victim"), folder.join("a.lock"), folder.join("b.lock"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::fs::hard_link(&victim, &second).unwrap();
        assert!(open(&link).is_err());
        assert!(open(&second).unwrap_err().to_string().contains("a link or not a regular file"));
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }
}
