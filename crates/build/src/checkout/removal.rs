//! Removes what may be missing, and never follows a link.

use anyhow::Context;
use camino::Utf8Path;

use memprof_support::folder_removal::remove_folder;
use memprof_support::regular_file::remove_file_if_there;

/// Removes a file, a link, or a folder with everything in it, if there is one.
pub(crate) fn remove_whatever_is_at(path: &Utf8Path) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => match remove_folder(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("cannot remove {path}")),
        },
        Ok(_) => Ok(remove_file_if_there(path)?),
        Err(_) => Ok(()),
    }
}
