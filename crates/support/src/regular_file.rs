//! Reads files that others could have replaced or filled. A folder, a FIFO or a device in the place of a
//! file is never entered, waited for or read, and no file is read beyond a limit.
//!
//! The tool's own files are opened without following links. For the files of a checkout and those that
//! a user names, [`followed`] does the same through links.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use camino::Utf8Path;

use crate::bytes::Bytes;
use crate::folder_removal::remove_folder;
use crate::whole_file::WholeFile;

/// How many bytes of one of the tool's own files are read into memory.
const MOST_OF_OWN: u64 = 2 << 30;

/// Opens a file for reading.
///
/// # Errors
///
/// The path is not a regular file with one name, or the file cannot be opened.
pub fn open(path: &Utf8Path) -> io::Result<File> {
    // Opening a device may already do something.
    check(&path.symlink_metadata()?)?;
    let file = reading().custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file like [`open()`], unless it has more bytes than `most`.
pub fn open_within(path: &Utf8Path, most: u64) -> io::Result<File> {
    let file = open(path)?;
    if file.metadata()?.len() > most { Err(too_large(most)) } else { Ok(file) }
}

/// Reads a whole file that [`open()`] can open.
pub fn read(path: &Utf8Path) -> io::Result<Vec<u8>> {
    read_whole(open(path)?, MOST_OF_OWN)
}

/// Reads a whole text file that [`open()`] can open. The error names the path.
pub fn text(path: &Utf8Path) -> io::Result<String> {
    named(path.as_std_path(), read(path).and_then(utf8))
}

/// Files of a checkout, and files that a user names. They may be links.
pub mod followed {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use memmap2::{MmapMut, MmapOptions};

    use super::{check_kind, named, read_whole, reading, too_large, utf8};

    /// How many bytes of a text are read. Sources, manifests and notebooks have less.
    pub(crate) const MOST_OF_TEXT: u64 = 256 << 20;
    /// How many bytes of an executable or a library are read.
    pub const MOST_OF_BINARY: u64 = 4 << 30;

    /// Opens a regular file for reading. The error names the path, here and below.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        named(path.as_ref(), opened(path.as_ref()))
    }

    /// Opens a file like [`open()`], unless it has more bytes than `most`.
    pub fn open_within(path: impl AsRef<Path>, most: u64) -> io::Result<File> {
        let file = open(path.as_ref())?;
        let is_within = file.metadata()?.len() <= most;
        named(path.as_ref(), if is_within { Ok(file) } else { Err(too_large(most)) })
    }

    /// Reads a whole file of at most `MOST_OF_TEXT` bytes.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        read_within(path, MOST_OF_TEXT)
    }

    /// Reads a whole file of at most so many bytes.
    pub fn read_within(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        named(path.as_ref(), opened(path.as_ref()).and_then(|file| read_whole(file, most)))
    }

    /// Maps a whole file of at most so many bytes, without a copy in memory. What is written to the bytes does not
    /// change the file. The file must not become shorter meanwhile: reading behind its end would end this process.
    #[expect(unsafe_code, reason = "another program may change the file while it is mapped")]
    pub fn mapped_within(path: impl AsRef<Path>, most: u64) -> io::Result<MmapMut> {
        let file = open_within(path.as_ref(), most)?;
        // SAFETY: the caller has the file for itself.
        named(path.as_ref(), unsafe { MmapOptions::new().map_copy(&file) })
    }

    /// Reads a whole text file of at most `MOST_OF_TEXT` bytes.
    pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
        let bytes = opened(path.as_ref()).and_then(|file| read_whole(file, MOST_OF_TEXT));
        named(path.as_ref(), bytes.and_then(utf8))
    }

    /// Copies a regular file, with its permissions, over whatever file is at `to`.
    pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let mut source = open(from.as_ref())?;
        let copied = File::create(to.as_ref()).and_then(|mut target| {
            io::copy(&mut source, &mut target)?;
            target.set_permissions(source.metadata()?.permissions())
        });
        named(to.as_ref(), copied)
    }

    fn opened(path: &Path) -> io::Result<File> {
        // Opening a device may already do something.
        check_kind(&path.metadata()?)?;
        let file = reading().custom_flags(libc::O_NONBLOCK).open(path)?;
        check_kind(&file.metadata()?)?;
        Ok(file)
    }
}

fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

fn read_whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large(most));
    }
    // One more, so that the end is seen without more memory.
    let mut bytes = Vec::with_capacity(usize::try_from(length).map_or(0, |length| length + 1));
    // The file may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

fn too_large(most: u64) -> io::Error {
    let problem = format!("this file is larger than {}, the most that is read", Bytes(most));
    io::Error::new(io::ErrorKind::FileTooLarge, Unsuitable(problem))
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    let not_utf8 = || Unsuitable("this is not UTF-8".to_owned());
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, not_utf8()))
}

fn named<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        let text = format!("{}: {error}", path.display());
        if is_unsuitable(&error) {
            io::Error::new(error.kind(), Unsuitable(text))
        } else {
            io::Error::new(error.kind(), text)
        }
    })
}

/// What is at a path is no file that this program would read: that is no fault of the program.
#[derive(Debug)]
struct Unsuitable(String);

impl std::fmt::Display for Unsuitable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unsuitable {}

/// Whether an error is about what is at a path: a FIFO, a folder, no text, too much.
pub fn is_unsuitable(error: &(dyn std::error::Error + 'static)) -> bool {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.and_then(|inner| inner.downcast_ref::<Unsuitable>()).is_some()
}

/// How many bytes of the end of a file [`shorten()`] keeps.
const KEPT_END: usize = 1 << 20;

/// How long a line may be that goes as a whole where [`shorten()`] cuts it.
const CUT_LINE: usize = 64 << 10;

/// Takes the middle out of a file that is longer than `most` bytes, and says so in its place. Returns
/// whether it was longer. `most` is more than 2 MiB. A cut line goes as a whole: a half of a secret would not be
/// recognized.
pub fn shorten(path: &Utf8Path, most: u64) -> io::Result<bool> {
    check(&path.symlink_metadata()?)?;
    let file = reading().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    check(&found)?;
    let Some(missing) = found.len().checked_sub(most).filter(|missing| *missing > 0) else {
        return Ok(false);
    };
    let marker = |missing| format!("\n[{} are missing here]\n", Bytes(missing)).into_bytes();
    let mut end = vec![0; KEPT_END];
    file.read_exact_at(&mut end, found.len() - KEPT_END as u64)?;
    let most_begin = most - (marker(missing).len() + KEPT_END) as u64;
    let mut before = vec![0; CUT_LINE];
    file.read_exact_at(&mut before, most_begin - CUT_LINE as u64)?;
    let cut_before = memchr::memrchr(b'\n', &before).map_or(0, |at| CUT_LINE - at - 1);
    let cut_behind = memchr::memchr(b'\n', &end[..CUT_LINE]).map_or(0, |at| at + 1);
    let begin = most_begin - cut_before as u64;
    let end = [&marker(missing + (cut_before + cut_behind) as u64), &end[cut_behind..]].concat();
    file.set_len(begin)?;
    file.write_all_at(&end, begin)?;
    Ok(true)
}

/// Creates a file. Nothing may be at the path yet, not even a link.
pub fn create(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes a file whose loss in a power failure costs nothing. What is there and is not a regular file
/// with one name is removed, and an error names the path.
pub fn write(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    named(path.as_std_path(), create_over(path).and_then(|mut file| file.write_all(content)))
}

/// Opens a file for writing, empty, as [`write()`] does.
pub fn create_over(path: &Utf8Path) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| check(&found).is_err()) {
        remove(path)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options.open(path)
}

/// Writes a file atomically, in the place of whatever is there. It outlives a power failure: its
/// content and its name reach the disk.
pub fn replace(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    replacement(path, content)?.finish()
}

/// Like [`replace`], but a power failure within the next seconds may leave an empty or an old file.
pub fn replace_unsynced(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    replacement(path, content)?.finish_unsynced()
}

fn replacement(path: &Utf8Path, content: &[u8]) -> io::Result<WholeFile> {
    let mut file = WholeFile::create(path.as_std_path())?;
    file.write_all(content)?;
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        remove_folder(path)?;
    }
    Ok(file)
}

/// Removes whatever is there, if anything is. Does not follow links.
pub fn remove(path: &Utf8Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) => unless_missing(Err(error)),
        Ok(metadata) if metadata.is_dir() => unless_missing(remove_folder(path)),
        Ok(_) => remove_file_if_there(path),
    }
}

/// Removes a file or a link, if there is one. The error names the path.
pub fn remove_file_if_there(path: impl AsRef<Path>) -> io::Result<()> {
    unless_missing(fs_err::remove_file(path.as_ref()))
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
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
    check_kind(metadata)?;
    match metadata.nlink() {
        0 | 1 => Ok(()),
        names => Err(invalid(format!("this file has {names} names (hard links)"))),
    }
}

fn check_kind(metadata: &Metadata) -> io::Result<()> {
    irregular(metadata).map_or(Ok(()), |kind| Err(invalid(format!("this is {kind}, not a file"))))
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, Unsuitable(problem))
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
    fn a_named_file_may_be_a_link_but_nothing_else_and_not_too_large() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let [file, link, fifo, zero] = ["file", "link", "fifo", "zero"].map(|name| folder.join(name));
        std::fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        symlink("/dev/zero", &zero).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(followed::text(&link).unwrap(), "text");
        let problem = |path: &Utf8Path| followed::read(path).unwrap_err().to_string();
        assert_eq!(problem(&fifo), format!("{fifo}: this is a FIFO, not a file"));
        assert_eq!(problem(&zero), format!("{zero}: this is a device, not a file"));
        assert_eq!(problem(folder), format!("{folder}: this is a folder, not a file"));
        File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
        let too_large = format!("{link}: this file is larger than 256 MiB, the most that is read");
        assert_eq!(problem(&link), too_large);
        assert_eq!(read(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(followed::read(folder.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn lines_that_would_be_cut_go_as_a_whole() {
        let home = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(home.path()).unwrap().join("stdout");
        let line = "a line that ends with a secret: abcdefghijklmnopqrst\n";
        std::fs::write(&file, line.repeat((5 << 20) / line.len())).unwrap();
        assert!(shorten(&file, 3 << 20).unwrap());
        let shortened = std::fs::read_to_string(&file).unwrap();
        let (begin, end) =
            shortened.split_once("\n[2.00 MiB are missing here]\n").expect("the middle is missing");
        for part in [begin, end] {
            assert!(part.starts_with("a line") && part.lines().all(|one| one == line.trim_end()));
        }
    }

    #[test]
    fn a_long_file_loses_its_middle_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(home.path()).unwrap().join("stdout");
        let most = 3 << 20;
        let begin = vec![b'a'; 1 << 21];
        std::fs::write(&file, &begin).unwrap();
        assert!(!shorten(&file, most).unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), begin);
        let open = File::options().write(true).open(&file).unwrap();
        open.set_len(1 << 40).unwrap();
        open.write_all_at(b"the end", 1 << 40).unwrap();
        assert!(shorten(&file, most).unwrap());
        let shortened = std::fs::read(&file).unwrap();
        assert_eq!(shortened.len() as u64, most);
        assert!(shortened.starts_with(&begin[..1 << 20]) && shortened.ends_with(b"the end"));
        let line = b"\n[1.00 TiB are missing here]\n";
        assert!(memchr::memmem::find(&shortened, line).is_some());
    }

    #[test]
    fn a_file_is_written_through_no_link_and_waits_for_no_reader() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let [target, path] = ["target", "path"].map(|name| folder.join(name));
        std::fs::write(&target, "untouched").unwrap();
        let things: [&dyn Fn(); 4] = [
            &|| symlink(&target, &path).unwrap(),
            &|| std::fs::hard_link(&target, &path).unwrap(),
            &|| std::fs::create_dir_all(path.join("inside")).unwrap(),
            &|| assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
        ];
        for make in things {
            make();
            write(&path, b"long text").unwrap();
            write(&path, b"text").unwrap();
            assert_eq!(read(&path).unwrap(), b"text");
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"untouched");
    }

    #[test]
    fn a_missing_file_is_removed_without_an_error_and_other_errors_name_the_path() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let file = folder.join("file");
        for remove in [remove, |path: &Utf8Path| remove_file_if_there(path)] {
            std::fs::write(&file, "").unwrap();
            remove(&file).unwrap();
            assert!(!file.exists());
            remove(&file).unwrap();
        }
        assert!(remove_file_if_there(folder).unwrap_err().to_string().contains(folder.as_str()));
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
