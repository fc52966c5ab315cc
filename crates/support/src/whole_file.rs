//! Files that are complete or absent: written beside their place, then renamed to it. For the
//! tool's own folders; `output_file` writes where a user points.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use camino::Utf8Path;
use tempfile::NamedTempFile;

use crate::durable::sync_names;

/// How the temporary names of files under construction begin and end.
const PREFIX: &str = ".memprof-";
const SUFFIX: &str = ".partial";

/// A file under construction. Dropping it removes what was written.
pub(crate) struct WholeFile {
    partial: NamedTempFile,
    path: PathBuf,
}

impl WholeFile {
    /// Begins a file. Its temporary name is new, so that no link that a test planted is followed.
    pub fn create(path: &Path) -> io::Result<Self> {
        // The system takes the umask off these permissions.
        let partial = tempfile::Builder::new()
            .prefix(PREFIX)
            .suffix(SUFFIX)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder_of(path))
            // The caller names the path; that of the temporary file helps nobody.
            .map_err(|error| io::Error::from(error.kind()))?;
        Ok(Self { partial, path: path.to_owned() })
    }

    /// Gives the file the owner and the permissions of the one that it replaces.
    pub(crate) fn take_after(&self, existing: &Metadata) -> io::Result<()> {
        let file = self.partial.as_file();
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (existing.uid(), existing.gid()) {
            std::os::unix::fs::fchown(file, Some(existing.uid()), Some(existing.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(existing.mode() & 0o7777))
    }

    /// Moves the file to its path. A file or a link there is replaced, and a link is not followed.
    ///
    /// The content reaches the disk first. Otherwise a power failure could leave an empty file. Then the
    /// name does.
    pub fn finish(self) -> io::Result<()> {
        self.try_finish().map_err(|(error, _)| error)
    }

    /// Like [`Self::finish`], but the system decides when the file reaches the disk.
    pub fn finish_unsynced(self) -> io::Result<()> {
        self.partial.persist(&self.path).map(drop).map_err(|failed| failed.error)
    }

    /// Like [`Self::finish`]. If the rename fails, returns the written content as well.
    pub(crate) fn try_finish(self) -> Result<(), (io::Error, Option<File>)> {
        self.partial.as_file().sync_data().map_err(|error| (error, None))?;
        match self.partial.persist(&self.path) {
            Ok(_) => sync_names(folder_of(&self.path)).map_err(|error| (error, None)),
            Err(failed) => Err((failed.error, Some(failed.file.into_file()))),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.partial.as_file_mut().flush()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what killed processes left of files under construction in a folder. The caller knows that
/// no process writes there.
pub fn sweep(folder: &Utf8Path) -> io::Result<()> {
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        let is_partial = entry.file_name().starts_with(PREFIX) && entry.file_name().ends_with(SUFFIX);
        if is_partial && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file of the tool's own folders: it is complete, or it does not exist.
pub fn write_whole(path: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
    write_streamed(path, &|out| out.write_all(content))
}

/// Writes a file as [`write_whole`] does, while its content is produced.
pub fn write_streamed(
    path: &Utf8Path,
    produce: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let write = || {
        let mut file = BufWriter::with_capacity(1 << 16, WholeFile::create(path.as_std_path())?);
        produce(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    };
    write().with_context(|| format!("could not write {path}"))
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    fn names(folder: &Utf8Path) -> Vec<String> {
        let mut names: Vec<String> =
            folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let path = folder.join("plan.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "new");
        drop(WholeFile::create(path.as_std_path()).unwrap());
        assert_eq!(names(folder), ["plan.json"]);
        let error = write_whole(&folder.join("no/plan.json"), b"").unwrap_err();
        assert!(error.to_string().ends_with("no/plan.json"), "{error:#}");
    }

    #[test]
    fn links_that_a_test_planted_in_the_tools_folder_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let victim: Utf8PathBuf = folder.join("victim");
        fs_err::write(&victim, "precious").unwrap();
        for planted in ["outcome.json", "outcome.json.partial"] {
            fs_err::os::unix::fs::symlink(&victim, folder.join(planted)).unwrap();
        }
        write_whole(&folder.join("outcome.json"), b"{}").unwrap();
        assert_eq!(fs_err::read_to_string(&victim).unwrap(), "precious");
        assert!(!folder.join("outcome.json").is_symlink());
    }
}
