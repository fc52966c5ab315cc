//! Files that a test could have replaced. A link, a folder or a FIFO in the place of such a file is
//! never followed, entered or waited for.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use camino::Utf8Path;

use crate::support::whole_file::WholeFile;

/// Opens a file for reading.
///
/// # Errors
///
/// The path is not a regular file with one name, or the file cannot be opened.
pub fn open(path: &Utf8Path) -> io::Result<File> {
    // Opening a device may already do something.
    check(&path.symlink_metadata()?)?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole file that [`open()`] can open.
pub fn read(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a file. Nothing may be at the path yet, not even a link.
pub fn create(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes a file atomically, in the place of whatever is there. It outlives a power failure: its
/// content and its name reach the disk.
pub fn replace(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path.as_std_path())?;
    file.write_all(content)?;
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        std::fs::remove_dir_all(path)?;
    }
    file.finish()?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// Removes whatever is there. Does not follow links.
pub fn remove(path: &Utf8Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    }
}

/// Says in two words what is there, unless it is a regular file.
pub fn irregular(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    Some(match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_symlink() => "a symlink",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    })
}

fn check(metadata: &Metadata) -> io::Result<()> {
    let problem = match irregular(metadata) {
        Some(kind) => format!("this is {kind}, not a file"),
        None if metadata.nlink() > 1 => format!("this file has {} names (hard links)", metadata.nlink()),
        None => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_regular_file_with_one_name_is_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let [file, link, fifo, twin] = ["file", "link", "fifo", "twin"].map(|name| folder.join(name));
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read(&file).unwrap(), b"text");
        symlink(&file, &link).unwrap();
        let mkfifo = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(mkfifo.success());
        let problem = |path: &Utf8Path| read(path).unwrap_err().to_string();
        assert_eq!(problem(&link), "this is a symlink, not a file");
        assert_eq!(problem(&fifo), "this is a FIFO, not a file");
        assert_eq!(problem(folder), "this is a folder, not a file");
        std::fs::hard_link(&file, &twin).unwrap();
        assert_eq!(problem(&file), "this file has 2 names (hard links)");
        assert_eq!(read(&folder.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_replaces_a_link_or_a_folder_and_nothing_is_written_through_them() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let [target, path] = ["target", "path"].map(|name| folder.join(name));
        std::fs::write(&target, "untouched").unwrap();
        symlink(&target, &path).unwrap();
        assert!(create(&path).is_err());
        replace(&path, b"first").unwrap();
        assert_eq!(read(&path).unwrap(), b"first");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir_all(path.join("inside")).unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(read(&path).unwrap(), b"second");
        assert_eq!(std::fs::read(&target).unwrap(), b"untouched");
    }
}
