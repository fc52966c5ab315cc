//! Brings what was written to the disk, so that it outlives a power failure. `whole_file` does it for
//! single files.

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs the names in a folder: files that were created, renamed or removed.
pub fn sync_names(folder: &Path) -> io::Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    match synced {
        // A folder may be one that users write to and cannot list, and some network file systems know
        // no sync of a folder.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Syncs all files and names below a folder, and whatever else is on its file system. With thousands of
/// files, this takes less than a sync of each.
#[expect(unsafe_code, reason = "the standard library has no such call")]
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open.
        if unsafe { libc::syncfs(folder.as_raw_fd()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        // SAFETY: it takes nothing, and cannot fail.
        unsafe { libc::sync() };
    }
    drop(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_synced_and_missing_ones_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        sync_names(folder.path()).unwrap();
        sync_tree(folder.path()).unwrap();
        let missing = folder.path().join("none");
        assert_eq!(sync_names(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(sync_tree(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
