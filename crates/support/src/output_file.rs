//! Files that a user names, such as `--output FILE`. Regular files are replaced whole. Links are
//! followed, and devices, pipes and open descriptors are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use camino::Utf8Path;

use crate::user_error::UserError;
use crate::whole_file::WholeFile;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// How long to wait until another program reads a named pipe.
const WAIT_FOR_READER: Duration = Duration::from_secs(10);

/// Where the bytes for a path go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, or one that does not exist yet. Links are resolved.
    File(PathBuf),
    /// An open descriptor of this process, such as that of `/dev/stdout`.
    Descriptor(RawFd),
    /// A character device.
    Device(PathBuf),
    /// A named pipe.
    Pipe(PathBuf),
}

impl Target {
    /// Finds the target of a path, and checks that it can be written.
    ///
    /// # Errors
    /// A folder, a disk, a socket, a link that leads nowhere, and what this user may not write.
    pub fn find(path: &Utf8Path) -> Result<Self, UserError> {
        let target = Self::follow(path)?;
        match &target {
            // The only sure test: access rights, full and read-only file systems are many cases.
            Self::File(file) => drop(begin(file).map_err(|error| refused(path, &error))?),
            Self::Descriptor(number) => {
                duplicate(*number)
                    .and_then(|file| is_writable(&file))
                    .map_err(|error| refused(path, &error))?;
            }
            Self::Device(_) | Self::Pipe(_) => {}
        }
        Ok(target)
    }

    fn follow(path: &Utf8Path) -> Result<Self, UserError> {
        let mut at = path.as_std_path().to_owned();
        for _ in 0..MOST_LINKS {
            let (Some(folder), Some(name)) = (folder_of(&at), at.file_name().map(ToOwned::to_owned)) else {
                return Err(is_a_folder(path));
            };
            let folder = folder.canonicalize().map_err(|error| no_folder(path, folder, &error))?;
            if is_of_descriptors(&folder)
                && let Some(number) = name.to_str().and_then(|name| name.parse().ok())
            {
                return Ok(Self::Descriptor(number));
            }
            let place = folder.join(name);
            let kind = match place.symlink_metadata() {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let is_folder = path.as_str().ends_with('/');
                    return if is_folder { Err(is_a_folder(path)) } else { Ok(Self::File(place)) };
                }
                Err(error) => return Err(no_folder(path, &folder, &error)),
            };
            if kind.is_symlink() {
                let to = place.read_link().map_err(|error| refused(path, &error))?;
                at = folder.join(to);
            } else if kind.is_file() {
                return Ok(Self::File(place));
            } else if kind.is_dir() {
                return Err(is_a_folder(path));
            } else if kind.is_char_device() {
                return Ok(Self::Device(place));
            } else if kind.is_fifo() {
                return Ok(Self::Pipe(place));
            } else {
                let what = if kind.is_block_device() { "a disk" } else { "a socket" };
                return Err(UserError::new(format!("{path} is {what}, which holds no files"))
                    .help("name a file, such as memory.md"));
            }
        }
        Err(UserError::new(format!("{path}: too many links, or links in a circle"))
            .help(format!("show them: namei {path}")))
    }
}

/// Returns the folder that a path lies in.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Whether a folder, such as `/proc/self/fd`, lists the open descriptors of this process.
fn is_of_descriptors(folder: &Path) -> bool {
    let own = Path::new("/proc/self").canonicalize();
    own.is_ok_and(|own| folder.strip_prefix(own).is_ok_and(|rest| rest.ends_with("fd")))
}

fn is_a_folder(path: &Utf8Path) -> UserError {
    UserError::new(format!("{path} is a folder"))
        .help(format!("name a file in it, such as {}", path.join("memory.md")))
}

fn no_folder(path: &Utf8Path, folder: &Path, error: &io::Error) -> UserError {
    if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        return refused(path, error);
    }
    let folder = folder.display();
    UserError::new(format!("{path}: there is no folder {folder}"))
        .help(format!("create it: mkdir -p {folder}"))
}

fn refused(path: &Utf8Path, error: &io::Error) -> UserError {
    UserError::new(format!("{path} cannot be written: {error}"))
        .help(format!("name another file, or see who may write there: namei -l {path}"))
}

/// An output under construction.
pub struct OutputFile(Sink);

enum Sink {
    /// Appears when it is complete. The second file is the one that it replaces.
    Whole(WholeFile, Option<File>),
    /// A regular file that cannot be replaced.
    InPlace(File),
    /// A device or a named pipe.
    Direct(File),
    /// An open descriptor, whose reader may have seen enough.
    Descriptor(File),
}

impl OutputFile {
    /// Opens the output. A regular file stays as it was until [`Self::finish`].
    pub fn create(path: &Utf8Path) -> anyhow::Result<Self> {
        let target = Target::follow(path)?;
        let sink = match &target {
            Target::File(file) => begin(file),
            Target::Descriptor(number) => duplicate(*number).map(Sink::Descriptor),
            Target::Device(device) => {
                OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY).open(device).map(Sink::Direct)
            }
            Target::Pipe(pipe) => open_pipe(pipe).map(Sink::Direct),
        };
        let opened = sink.and_then(|sink| {
            if let Sink::InPlace(file) = &sink {
                file.set_len(0)?;
            }
            Ok(Self(sink))
        });
        opened.with_context(|| format!("could not write {path}"))
    }

    /// Completes the output.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Sink::Whole(whole, None) => whole.finish(),
            Sink::Whole(whole, Some(mut existing)) => match whole.try_finish() {
                // A file that is mounted on its own, as containers do, cannot be replaced.
                Err((error, Some(mut written))) if error.kind() == io::ErrorKind::ResourceBusy => {
                    written.rewind()?;
                    existing.set_len(0)?;
                    io::copy(&mut written, &mut existing)?;
                    existing.sync_data()
                }
                finished => finished.map_err(|(error, _)| error),
            },
            Sink::InPlace(file) => file.sync_data(),
            Sink::Direct(_) | Sink::Descriptor(_) => Ok(()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Sink::Whole(whole, _) => whole.write(bytes),
            Sink::InPlace(file) | Sink::Direct(file) => file.write(bytes),
            // As in `… | head`.
            Sink::Descriptor(file) => match file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
                written => written,
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a file that a user named.
pub fn write(path: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
    let mut output = OutputFile::create(path)?;
    output
        .write_all(content)
        .and_then(|()| output.finish())
        .with_context(|| format!("could not write {path}"))
}

/// Begins to replace a regular file, or to create one. A file whose folder or owner does not let it
/// be replaced is written in place.
fn begin(path: &Path) -> io::Result<Sink> {
    // A file that this user may not write must not be replaced either.
    let existing = match OpenOptions::new().write(true).open(path) {
        Ok(existing) => Some(existing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some(existing) = existing else { return Ok(Sink::Whole(WholeFile::create(path)?, None)) };
    let metadata = existing.metadata()?;
    let replacement = WholeFile::create(path).and_then(|whole| {
        whole.take_after(&metadata)?;
        Ok(whole)
    });
    match replacement {
        // A hard link would be cut off from its other names.
        Ok(whole) if metadata.nlink() == 1 => Ok(Sink::Whole(whole, Some(existing))),
        Ok(_) => Ok(Sink::InPlace(existing)),
        Err(error) if is_about_rights(&error) => Ok(Sink::InPlace(existing)),
        // On a full disk, what is there would be lost, too.
        Err(error) => Err(error),
    }
}

/// Whether only the folder, or the file's owner, does not allow something.
fn is_about_rights(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Opens a named pipe once something reads it. Opening it in the usual way would wait forever, and
/// Ctrl-C would not end that.
fn open_pipe(path: &Path) -> io::Result<File> {
    let start = Instant::now();
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(file) => {
                rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if start.elapsed() > WAIT_FOR_READER {
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, "no program reads this pipe"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Duplicates an open descriptor. The copy shares its position, so `> file` and `>> file` keep
/// their place. Opening `/proc/self/fd/1` again would start at the beginning.
#[expect(unsafe_code, reason = "the standard library takes no descriptor by its number")]
fn duplicate(number: RawFd) -> io::Result<File> {
    // SAFETY: the call reads no memory, and fails if the descriptor is not open.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) }.into())
}

fn is_writable(file: &File) -> io::Result<()> {
    let access = rustix::fs::fcntl_getfl(file)? & rustix::fs::OFlags::ACCMODE;
    if access == rustix::fs::OFlags::RDONLY {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is open for reading only"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use camino::Utf8PathBuf;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> Utf8PathBuf {
            Utf8Path::from_path(self.0.path()).unwrap().join(name)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = std::fs::read_dir(self.0.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }

        /// A character device like `/dev/null` (3) or `/dev/full` (7), if this user may make one.
        fn device(&self, name: &str, minor: u32) -> Option<Utf8PathBuf> {
            let path = self.path(name);
            let kind = rustix::fs::FileType::CharacterDevice;
            let rights = rustix::fs::Mode::from_raw_mode(0o666);
            let device = rustix::fs::makedev(1, minor);
            let made = rustix::fs::mknodat(rustix::fs::CWD, path.as_std_path(), kind, rights, device).is_ok();
            // Temporary folders may be mounted so that devices in them do not open.
            (made && File::open(&path).is_ok()).then_some(path)
        }
    }

    fn text(path: &Utf8Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_regular_file_is_replaced_whole_and_keeps_its_permissions() {
        let folder = Folder::new();
        let path = folder.path("memory.md");
        write(&path, b"first").unwrap();
        let mode = |path: &Utf8Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        std::fs::write(folder.path("usual"), "").unwrap();
        assert_eq!(mode(&path), mode(&folder.path("usual")), "the umask applies");
        std::fs::remove_file(folder.path("usual")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let mut output = OutputFile::create(&path).unwrap();
        output.write_all(b"second").unwrap();
        assert_eq!(text(&path), "first", "until it is complete");
        drop(output);
        assert_eq!((text(&path).as_str(), folder.names()), ("first", vec!["memory.md".to_owned()]));
        write(&path, b"third").unwrap();
        assert_eq!((text(&path).as_str(), mode(&path)), ("third", 0o640));
    }

    #[test]
    fn a_file_with_two_names_keeps_both() {
        let folder = Folder::new();
        let (one, two) = (folder.path("one"), folder.path("two"));
        std::fs::write(&one, "a longer text before").unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        assert_eq!(Target::find(&one).unwrap(), Target::File(one.canonicalize().unwrap()));
        assert_eq!(text(&two), "a longer text before", "looking changes nothing");
        write(&one, b"new").unwrap();
        assert_eq!(text(&two), "new");
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_written() {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("inner")).unwrap();
        let file = folder.path("inner/file.md");
        for (link, to) in [("a", "inner/file.md"), ("b", "a"), ("c", folder.path("b").as_str())] {
            symlink(to, folder.path(link)).unwrap();
        }
        for (link, content) in [("a", "dangling"), ("b", "chain"), ("c", "absolute")] {
            write(&folder.path(link), content.as_bytes()).unwrap();
            assert_eq!(text(&file), content);
            assert!(folder.path(link).is_symlink(), "{link}");
        }
        assert_eq!(folder.names(), ["a", "b", "c", "inner"]);
        symlink("round", folder.path("round")).unwrap();
        symlink("no/such/file", folder.path("nowhere")).unwrap();
        let error = |name: &str| write(&folder.path(name), b"").unwrap_err().to_string();
        assert!(error("round").contains("links in a circle"), "{}", error("round"));
        assert!(error("nowhere").contains("there is no folder"), "{}", error("nowhere"));
    }

    #[test]
    fn devices_are_written_to_and_stay_devices() {
        let folder = Folder::new();
        let (Some(null), Some(full)) = (folder.device("null", 3), folder.device("full", 7)) else {
            // tests/fast/outputs.rs notes this in the summary.
            return;
        };
        symlink("full", folder.path("link")).unwrap();
        write(&null, b"report").unwrap();
        for name in ["full", "link"] {
            let error = write(&folder.path(name), b"report").unwrap_err();
            let shown = format!("{error:#}");
            assert!(shown.contains(&format!("/{name}: ")) && shown.contains("No space left"), "{shown}");
        }
        for device in [null, full] {
            assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
        }
    }

    #[test]
    fn a_named_pipe_takes_the_bytes_to_its_reader() {
        let folder = Folder::new();
        let path = folder.path("pipe.md");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path.as_std_path(), kind, mode, 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || text(&path)
        });
        let long = "a report that is longer than a pipe\n".repeat(10_000);
        write(&path, long.as_bytes()).unwrap();
        assert_eq!(reader.join().unwrap(), long);
        assert!(std::fs::metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn an_open_descriptor_keeps_its_position() {
        use std::os::fd::AsRawFd;
        let folder = Folder::new();
        let path = folder.path("log");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"before ").unwrap();
        let name = Utf8PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        symlink(&name, folder.path("link")).unwrap();
        write(&name, b"report ").unwrap();
        write(&folder.path("link"), b"again ").unwrap();
        file.write_all(b"after").unwrap();
        assert_eq!(text(&path), "before report again after");
        let reading = File::open(&path).unwrap();
        let error =
            Target::find(Utf8Path::new(&format!("/proc/self/fd/{}", reading.as_raw_fd()))).unwrap_err();
        assert!(error.message.contains("for reading only"), "{error}");
    }

    #[test]
    fn a_descriptor_whose_reader_left_is_no_error() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = std::io::pipe().unwrap();
        let name = Utf8PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        write(&name, b"read").unwrap();
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).unwrap();
        drop(reader);
        write(&name, b"unread").unwrap();
    }

    #[test]
    fn what_holds_no_file_is_an_error_with_help() {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("inner")).unwrap();
        std::fs::write(folder.path("file"), "").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
        for (name, said) in [
            ("inner", "is a folder"),
            ("inner/", "is a folder"),
            ("missing/", "is a folder"),
            (".", "is a folder"),
            ("no/file", "there is no folder"),
            ("file/memory.md", "there is no folder"),
            ("socket", "is a socket"),
        ] {
            let error = Target::find(&folder.path(name)).unwrap_err();
            assert!(error.message.contains(said) && error.help.is_some(), "{name}: {error}");
        }
        assert_eq!(folder.names(), ["file", "inner", "socket"]);
    }

    #[test]
    fn what_this_user_may_not_write_is_an_error_and_a_read_only_folder_needs_no_replacement() {
        if rustix::process::geteuid().is_root() {
            // Root may write everywhere; tests/fast/outputs.rs notes this in the summary.
            return;
        }
        let folder = Folder::new();
        let (inner, file) = (folder.path("inner"), folder.path("inner/file"));
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, "a longer text before").unwrap();
        let allow = |path: &Utf8Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(&inner, 0o555);
        write(&file, b"in place").unwrap();
        assert_eq!(text(&file), "in place");
        let error = Target::find(&folder.path("inner/new")).unwrap_err();
        assert!(error.message.contains("cannot be written: permission denied"), "{error}");
        allow(&inner, 0o755);
        allow(&file, 0o444);
        assert!(Target::find(&file).is_err(), "a protected file is not replaced");
    }
}
