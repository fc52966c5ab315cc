//! An archive file: builds and their files, for a machine without toolchain, repository and
//! network.
//!
//! It is a tar archive in a zstd frame, which any `tar` unpacks. A skippable frame after it holds
//! one line with the hash of the rest. The tar archive contains:
//!
//! ```text
//! plan.json  cells.json  times.json  what to run, and how long it took before
//! run/{builds,trace,changes}.json    copied to the run's folder
//! run/builds/*.log                   the same
//! injection/libmemprof_inject.so     counts GPU memory
//! injection/libmemprof_malloc.so     counts the C library's allocator, on request
//! store/<key>/                       provenance.json, executables, companions
//! data/<hash>                        files that tests and the loader find by path, each once
//! archive.json                       the manifest: every other file, its hash, and its purpose
//! ```

use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use camino::{Utf8Path, Utf8PathBuf};

use crate::archive::archive_error::ArchiveError;
use crate::archive::format::{TRAILER_BYTES, WINDOW_LOG, ZSTD, parse_trailer};
use crate::archive::manifest::{MANIFEST, Manifest, VERSION, stays_inside};
use crate::archive::unpacked::{MOST_OF_JSON, Unpacked};
use crate::archive::writer::is_executable;
use memprof_build::store;
use memprof_support::advice::Advice;
use memprof_support::bytes::Bytes;
use memprof_support::event::{Event, Sink};
use memprof_support::regular_file::{self, followed};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// An archive's files may have this many bytes together, or this many times the bytes of the archive.
const MOST_UNPACKED: u64 = 64 << 30;
const MOST_TIMES: u64 = 1000;

/// An archive whose bytes are exactly those that were written.
#[derive(Debug)]
pub struct Archive {
    file: Utf8PathBuf,
    /// blake3 of everything but the last line.
    pub hash: String,
    /// Number of bytes before the last line.
    bytes: u64,
}

/// What is read of the manifest of another format.
#[derive(serde::Deserialize)]
struct Written {
    tool: String,
}

impl Archive {
    /// Opens an archive and checks its hash.
    ///
    /// # Errors
    ///
    /// An `ArchiveError` if the file is not a complete, unchanged archive of this version.
    pub fn open(file: &Utf8Path) -> anyhow::Result<Self> {
        let mut input = followed::open(file).map_err(|error| {
            UserError::new(format!("cannot open the archive {error}"))
                .help("make one with `cargo memprof build --refs main,. --archive FILE`")
        })?;
        let length = input.metadata()?.len();
        let mut begin = Vec::new();
        Read::by_ref(&mut input).take(4).read_to_end(&mut begin)?;
        if begin != ZSTD {
            return Err(ArchiveError::NotAnArchive { file: file.to_owned() }.advised());
        }
        let bytes = length.saturating_sub(TRAILER_BYTES);
        let mut end = Vec::new();
        input.seek(SeekFrom::Start(bytes))?;
        input.read_to_end(&mut end)?;
        let Some((version, expected)) = parse_trailer(&end) else {
            return Err(ArchiveError::CutOff { file: file.to_owned() }.advised());
        };
        if version != VERSION {
            let other = Self { file: file.to_owned(), hash: expected, bytes };
            let tool = other.read_json(MANIFEST).ok().map(|Written { tool }| tool);
            return Err(ArchiveError::OtherVersion { file: other.file, found: version, tool }.advised());
        }
        input.seek(SeekFrom::Start(0))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(input.take(bytes))?;
        let found = hasher.finalize().to_hex().to_string();
        if found != expected {
            return Err(ArchiveError::Changed { file: file.to_owned(), found, expected }.advised());
        }
        Ok(Self { file: file.to_owned(), hash: found, bytes })
    }

    /// Reads one of the JSON files without unpacking the others. It is checked with the whole file's hash.
    ///
    /// # Errors
    ///
    /// An `ArchiveError` if the archive has no such file, or it cannot be read.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let mut tar = self.tar()?;
        let mut room = self.most_unpacked();
        for entry in tar.entries().map_err(|error| self.damaged(&error))? {
            let entry = entry.map_err(|error| self.damaged(&error))?;
            let is_wanted = entry.path().map_err(|error| self.damaged(&error))?.as_os_str() == name;
            room = self.room_after(room, entry.size())?;
            if is_wanted {
                let mut text = Vec::new();
                entry.take(MOST_OF_JSON).read_to_end(&mut text).map_err(|error| self.damaged(&error))?;
                return serde_json::from_slice(&text)
                    .map_err(|error| self.damaged(&format!("{name}: {error}")));
            }
        }
        Err(self.damaged(&format!("it has no {name}")))
    }

    /// The error of an archive that cannot be read, though its hash is right.
    fn damaged(&self, problem: &dyn std::fmt::Display) -> anyhow::Error {
        ArchiveError::Damaged { file: self.file.clone(), problem: problem.to_string() }.advised()
    }

    fn invalid(&self, problem: String) -> anyhow::Error {
        ArchiveError::Invalid { file: self.file.clone(), problem }.advised()
    }

    /// The most bytes of all files together: a few bytes can become any number of zeros.
    fn most_unpacked(&self) -> u64 {
        MOST_UNPACKED.max(self.bytes.saturating_mul(MOST_TIMES))
    }

    /// How many bytes may come after an entry of this size.
    fn room_after(&self, room: u64, bytes: u64) -> anyhow::Result<u64> {
        room.checked_sub(bytes).ok_or_else(|| {
            let most = Bytes(self.most_unpacked());
            self.invalid(format!("its files have more than {most}, the most that is unpacked"))
        })
    }

    /// Opens the tar file in it.
    fn tar(&self) -> anyhow::Result<tar::Archive<impl Read>> {
        let input = followed::open(&self.file)?.take(self.bytes);
        let input = BufReader::with_capacity(1 << 17, input);
        let mut decoder = zstd::Decoder::with_buffer(input).map_err(|error| self.damaged(&error))?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(tar::Archive::new(decoder))
    }

    /// Unpacks the archive to its own folder below `archives`, unless that exists already. Either
    /// way, the files in the folder have the hashes of the manifest. Warns of a damaged folder, and
    /// unpacks it again.
    ///
    /// # Errors
    ///
    /// A file does not match the manifest, or the archive is for another machine.
    pub fn unpack(&self, archives: &Utf8Path, sink: &dyn Sink) -> anyhow::Result<Unpacked> {
        let folder = archives.join(&self.hash[..32]);
        if folder.symlink_metadata().is_ok() {
            match self.unpacked(&folder) {
                Ok(unpacked) => {
                    unpacked.check_machine(&self.file)?;
                    return Ok(unpacked);
                }
                Err(error) => {
                    let message = format!("{folder} is damaged, so it is unpacked again: {error:#}");
                    sink.emit(Event::Warning { message, help: None });
                }
            }
        }
        let partial = folder.with_extension("partial");
        regular_file::remove(&folder)?;
        regular_file::remove(&partial)?;
        fs_err::create_dir_all(&partial)?;
        let unpacked = self.unpack_to(&partial).and_then(|()| self.unpacked(&partial)).and_then(|unpacked| {
            unpacked.check_machine(&self.file)?;
            fs_err::rename(&partial, &folder)?;
            Ok(Unpacked { folder, ..unpacked })
        });
        if unpacked.is_err() {
            // The partial copy may be what filled the disk.
            let _ = regular_file::remove(&partial);
        }
        unpacked
    }

    fn unpack_to(&self, folder: &Utf8Path) -> anyhow::Result<()> {
        let mut tar = self.tar()?;
        let mut room = self.most_unpacked();
        for entry in tar.entries().map_err(|error| self.damaged(&error))? {
            let mut entry = entry.map_err(|error| self.damaged(&error))?;
            let path = entry.path().map_err(|error| self.damaged(&error))?.into_owned();
            let path = Utf8PathBuf::from_path_buf(path)
                .map_err(|path| self.invalid(format!("it contains an invalid path: {}", path.display())))?;
            let is_file = entry.header().entry_type() == tar::EntryType::Regular;
            if !is_file || !stays_inside(&path) {
                return Err(self.invalid(format!("it contains an invalid entry: '{path}'")));
            }
            room = self.room_after(room, entry.size())?;
            let executable = entry.header().mode().map_err(|error| self.damaged(&error))? & 0o111 != 0;
            let destination = folder.join(&path);
            let made = fs_err::create_dir_all(destination.parent().unwrap_or(folder))
                .and_then(|()| fs_err::File::create_new(&destination));
            let mut output = made.map_err(|error| match error.kind() {
                // The path is there twice, as a file and as a folder, or it is too long.
                io::ErrorKind::AlreadyExists
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidFilename => {
                    self.invalid(format!("it contains '{path}', which cannot be written: {error}"))
                }
                _ => error.into(),
            })?;
            self.copy(&mut entry, &mut output)?;
            drop(output);
            if executable {
                set_executable(&destination)?;
            }
        }
        Ok(())
    }

    /// Copies an entry. What cannot be read is the archive's fault, what cannot be written the disk's.
    fn copy(&self, entry: &mut impl Read, output: &mut fs_err::File) -> anyhow::Result<()> {
        let mut buffer = vec![0; 1 << 17];
        loop {
            match entry.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => output.write_all(&buffer[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.damaged(&error)),
            }
        }
    }

    /// Returns the archive's files in the folder, after checking their hashes.
    fn unpacked(&self, folder: &Utf8Path) -> anyhow::Result<Unpacked> {
        let damaged = |error: &dyn std::fmt::Display| self.damaged(&format!("{MANIFEST}: {error}"));
        let text = followed::read_within(folder.join(MANIFEST), MOST_OF_JSON);
        let text = text.map_err(|error| damaged(&error))?;
        let manifest: Manifest = sealed::unsealed(&text).map_err(|error| damaged(&error))?;
        manifest.check().map_err(|problem| self.invalid(problem))?;
        for (path, content) in &manifest.contents {
            let unpacked = folder.join(path);
            let found = store::hash_file(&unpacked)
                .map_err(|error| self.damaged(&format!("its manifest names '{path}': {error:#}")))?;
            if found != content.blake3 {
                let expected = content.blake3.clone();
                let (file, path) = (self.file.clone(), path.clone());
                return Err(ArchiveError::OtherContent { file, path, found, expected }.advised());
            }
            if content.executable && !is_executable(&fs_err::metadata(&unpacked)?) {
                return Err(self.damaged(&format!("'{path}' is not executable")));
            }
        }
        Ok(Unpacked {
            archive: self.file.clone(),
            folder: folder.to_owned(),
            hash: self.hash.clone(),
            manifest,
        })
    }
}

/// Makes a file executable for everyone who may read it.
pub(crate) fn set_executable(path: &Utf8Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs_err::metadata(path)?.permissions().mode();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode | ((mode & 0o444) >> 2)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::archive::format::trailer;
    use crate::archive::manifest::{ArchivedLibrary, Placed};
    use crate::archive::writer::ArchiveWriter;

    fn here() -> String {
        let system = match std::env::consts::OS {
            "macos" => "apple-darwin",
            _ => "unknown-linux-gnu",
        };
        format!("{}-{system}", std::env::consts::ARCH)
    }

    fn manifest(target: &str) -> Manifest {
        Manifest {
            tool: "0".to_owned(),
            target: target.to_owned(),
            has_runner: false,
            loaders: Vec::new(),
            root: "/r".into(),
            injection: ArchivedLibrary::Absent("not built".to_owned()),
            malloc: None,
            metrics: Vec::new(),
            revisions: Vec::new(),
            contents: BTreeMap::new(),
        }
    }

    struct TestFolder {
        folder: tempfile::TempDir,
    }

    impl TestFolder {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> Utf8PathBuf {
            Utf8Path::from_path(self.folder.path()).unwrap().join(name)
        }

        /// An archive of two files, one of them executable and too large for a single buffer.
        fn archive(&self, target: &str) -> Utf8PathBuf {
            let program = self.path("program");
            fs_err::write(&program, vec![7; 300_000]).unwrap();
            set_executable(&program).unwrap();
            let file = self.path("a.tar.zst");
            let mut writer = ArchiveWriter::begin(&file).unwrap();
            writer.add_file("store/program", &program).unwrap();
            writer.add_bytes("plan.json", b"{}").unwrap();
            writer.finish(manifest(target)).unwrap();
            file
        }

        fn unpacked(&self, file: &Utf8Path) -> anyhow::Result<Unpacked> {
            Archive::open(file)?.unpack(&self.path("archives"), &|_: Event| {})
        }

        fn refusal(&self, file: &Utf8Path) -> String {
            self.unpacked(file).unwrap_err().to_string().replace(file.as_str(), "FILE")
        }
    }

    #[test]
    fn unpacking_restores_the_files_and_the_same_files_make_the_same_archive() {
        let folder = TestFolder::new();
        let file = folder.archive(&here());
        let first = fs_err::read(&file).unwrap();
        let unpacked = folder.unpacked(&file).unwrap();
        assert_eq!(fs_err::read(unpacked.folder.join("store/program")).unwrap(), vec![7; 300_000]);
        assert!(is_executable(&fs_err::metadata(unpacked.folder.join("store/program")).unwrap()));
        assert!(!is_executable(&fs_err::metadata(unpacked.folder.join("plan.json")).unwrap()));
        folder.archive(&here());
        assert_eq!(fs_err::read(&file).unwrap(), first);
    }

    #[test]
    fn an_unfinished_archive_leaves_no_file() {
        let folder = TestFolder::new();
        let file = folder.path("a.tar.zst");
        let mut writer = ArchiveWriter::begin(&file).unwrap();
        writer.add_bytes("plan.json", b"{}").unwrap();
        drop(writer);
        assert_eq!(fs_err::read_dir(folder.folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_added_with_its_current_content_and_equal_ones_once() {
        let folder = TestFolder::new();
        let (file, data) = (folder.path("a.tar.zst"), folder.path("data.txt"));
        let mut writer = ArchiveWriter::begin(&file).unwrap();
        let placed = ["old", "new", "old"].map(|text| {
            fs_err::write(&data, text).unwrap();
            writer.place_file(&data).unwrap()
        });
        assert_eq!(placed[0], placed[2]);
        writer.finish(manifest(&here())).unwrap();
        let unpacked = folder.unpacked(&file).unwrap();
        assert_eq!(unpacked.manifest.contents.len(), 2);
        for (placed, text) in placed.iter().zip(["old", "new"]) {
            let Placed::File { blake3, .. } = placed else { panic!("{placed:?} is a file") };
            assert_eq!(fs_err::read_to_string(unpacked.data(blake3)).unwrap(), text);
        }
    }

    #[test]
    fn a_damaged_folder_is_unpacked_again_with_a_warning() {
        let folder = TestFolder::new();
        let file = folder.archive(&here());
        let unpacked = folder.unpacked(&file).unwrap();
        let program = unpacked.folder.join("store/program");
        let damages: [&dyn Fn(); 6] = [
            &|| fs_err::write(&program, "another").unwrap(),
            &|| fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap(),
            &|| {
                fs_err::remove_file(&program).unwrap();
                fs_err::create_dir(&program).unwrap();
            },
            // The manifest stays valid JSON.
            &|| {
                let text = fs_err::read_to_string(unpacked.folder.join(MANIFEST)).unwrap();
                fs_err::write(unpacked.folder.join(MANIFEST), text.replace("\"/r\"", "\"/s\"")).unwrap();
            },
            &|| fs_err::remove_dir_all(&unpacked.folder).unwrap(),
            &|| {
                fs_err::remove_dir_all(&unpacked.folder).unwrap();
                fs_err::write(&unpacked.folder, "a file").unwrap();
            },
        ];
        for (index, damage) in damages.iter().enumerate() {
            damage();
            let warnings = RefCell::new(Vec::new());
            let note = |event: Event| match event {
                Event::Warning { message, .. } => warnings.borrow_mut().push(message),
                other => panic!("{other:?}"),
            };
            let again = Archive::open(&file).unwrap().unpack(&folder.path("archives"), &note).unwrap();
            assert_eq!(fs_err::read(&program).unwrap(), vec![7; 300_000]);
            assert!(is_executable(&fs_err::metadata(&program).unwrap()));
            assert_eq!(again, unpacked);
            // A folder that is gone is not a damaged one.
            let expected = usize::from(index != 4);
            let warnings = warnings.into_inner();
            assert_eq!(warnings.len(), expected, "{index}: {warnings:?}");
            assert!(warnings.iter().all(|warning| warning.contains("is damaged, so it is unpacked again")));
        }
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let folder = TestFolder::new();
        let file = folder.archive(&here());
        let good = fs_err::read(&file).unwrap();
        for index in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[index] ^= 0x10;
            fs_err::write(&file, &bad).unwrap();
            assert!(Archive::open(&file).is_err(), "byte {index} of {}", good.len());
        }
        let mut bad = good.clone();
        bad[40] ^= 1;
        fs_err::write(&file, &bad).unwrap();
        let message = folder.refusal(&file);
        assert!(message.starts_with("FILE was changed: its blake3 is "), "{message}");
        let (_, hash) = parse_trailer(&good[good.len() - trailer(VERSION, &"0".repeat(64)).len()..]).unwrap();
        assert!(message.contains(&format!("was {hash} when it was written")), "{message}");
    }

    #[test]
    fn an_incomplete_archive_another_file_and_another_version_have_their_own_errors() {
        let folder = TestFolder::new();
        let file = folder.archive(&here());
        let good = fs_err::read(&file).unwrap();
        fs_err::write(&file, &good[..good.len() / 2]).unwrap();
        assert_eq!(folder.refusal(&file), "FILE is incomplete: the last line of the archive is missing");
        for other in [&b"no archive at all, but a text"[..], b""] {
            fs_err::write(&file, other).unwrap();
            assert_eq!(folder.refusal(&file), "FILE is not a cargo-memprof archive");
        }
        let body = &good[..good.len() - usize::try_from(TRAILER_BYTES).unwrap()];
        fs_err::write(&file, [body, &trailer(7, &"0".repeat(64))].concat()).unwrap();
        let here = env!("CARGO_PKG_VERSION");
        assert_eq!(
            folder.refusal(&file),
            format!(
                "FILE has archive format 7 of cargo-memprof 0, but this cargo-memprof {here} reads format 2"
            )
        );
        fs_err::write(&file, [&good[..4], &trailer(7, &"0".repeat(64))].concat()).unwrap();
        assert_eq!(
            folder.refusal(&file),
            format!("FILE has archive format 7, but this cargo-memprof {here} reads format 2")
        );
    }

    #[test]
    fn an_archive_for_another_machine_is_refused() {
        let folder = TestFolder::new();
        let file = folder.archive("s390x-unknown-linux-gnu");
        let message = folder.refusal(&file);
        assert!(
            message.starts_with("FILE was built for s390x-unknown-linux-gnu, but this machine is "),
            "{message}"
        );
    }

    /// The bytes of an archive whose hash is right, whatever its content is.
    fn with_trailer(body: &[u8]) -> Vec<u8> {
        [body, &trailer(VERSION, &blake3::hash(body).to_hex())].concat()
    }

    #[test]
    fn a_file_that_the_manifest_names_is_there() {
        let folder = TestFolder::new();
        let file = folder.archive(&here());
        let good = fs_err::read(&file).unwrap();
        let body = &good[..good.len() - usize::try_from(TRAILER_BYTES).unwrap()];
        let tar = zstd::decode_all(body).unwrap();
        let mut smaller = tar::Builder::new(Vec::new());
        for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
            let entry = entry.unwrap();
            if entry.path().unwrap() != std::path::Path::new("plan.json") {
                smaller.append(&entry.header().clone(), entry).unwrap();
            }
        }
        let body = zstd::encode_all(&*smaller.into_inner().unwrap(), 1).unwrap();
        fs_err::write(&file, with_trailer(&body)).unwrap();
        let error = folder.unpacked(&file).unwrap_err();
        assert!(memprof_support::advice::is_usage(&error), "{error:?}");
        assert!(error.to_string().contains("its manifest names 'plan.json': "), "{error}");
    }

    #[test]
    fn what_cannot_be_read_though_its_hash_is_right_is_damaged_and_no_bug() {
        let folder = TestFolder::new();
        let file = folder.path("a.tar.zst");
        let body = |files: &[(&str, &str)]| {
            let mut tar = tar::Builder::new(Vec::new());
            for (path, text) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(text.len() as u64);
                header.set_mode(0o644);
                tar.append_data(&mut header, path, text.as_bytes()).unwrap();
            }
            zstd::encode_all(&*tar.into_inner().unwrap(), 1).unwrap()
        };
        let huge = || {
            let mut header = tar::Header::new_gnu();
            header.set_path("data/zeros").unwrap();
            header.set_size(65 << 30);
            header.set_cksum();
            zstd::encode_all(&header.as_bytes()[..], 1).unwrap()
        };
        let whole = body(&[("archive.json", "{}")]);
        for (body, problem) in [
            (ZSTD.to_vec(), "FILE is damaged: "),
            (whole[..whole.len() - 4].to_vec(), "FILE is damaged: "),
            (zstd::encode_all(&b"no tar archive"[..], 1).unwrap(), "FILE is damaged: "),
            (body(&[]), "FILE is damaged: archive.json: "),
            (whole, "FILE is damaged: archive.json: "),
            (body(&[("archive.json", &"[".repeat(100_000))]), "FILE is damaged: archive.json: "),
            (body(&[("a", ""), ("a", "")]), "FILE is refused: it contains 'a', which cannot be written"),
            (body(&[("a", ""), ("a/b", "")]), "FILE is refused: it contains 'a/b', which cannot be written"),
            (huge(), "FILE is refused: its files have more than 64.0 GiB"),
        ] {
            fs_err::write(&file, with_trailer(&body)).unwrap();
            let error = folder.unpacked(&file).unwrap_err();
            assert!(memprof_support::advice::is_usage(&error), "{error:?}");
            let message = error.to_string().replace(file.as_str(), "FILE");
            assert!(message.starts_with(problem), "{message} instead of {problem}");
            let error =
                Archive::open(&file).unwrap().read_json::<serde_json::Value>("plan.json").unwrap_err();
            assert!(memprof_support::advice::is_usage(&error), "{error:?}");
            let left: Vec<_> = folder.path("archives").read_dir_utf8().unwrap().flatten().collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
