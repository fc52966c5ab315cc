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

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::archive::format::{TRAILER_BYTES, WINDOW_LOG, ZSTD, parse_trailer};
use crate::archive::manifest::{ArchivedLibrary, MANIFEST, Manifest, VERSION, data_path, stays_inside};
use crate::archive::writer::is_executable;
use crate::build::store;
use crate::support::advice::Advice;
use crate::support::event::{Event, Sink};
use crate::support::regular_file::followed;
use crate::support::sealed_json;
use crate::support::user_error::UserError;

/// An archive that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is another kind of file.
    #[error("{file} is not a cargo-memprof archive")]
    NotAnArchive {
        /// The file.
        file: Utf8PathBuf,
    },
    /// Its end is missing.
    #[error("{file} is incomplete: the last line of the archive is missing")]
    CutOff {
        /// The file.
        file: Utf8PathBuf,
    },
    /// Another version of this tool made it.
    #[error("{file} has archive format {found}, but this cargo-memprof reads format {VERSION}")]
    OtherVersion {
        /// The file.
        file: Utf8PathBuf,
        /// Its format version.
        found: u32,
    },
    /// Some bytes differ from those that were written.
    #[error("{file} was changed: its blake3 is {found}, but was {expected} when it was written")]
    Changed {
        /// The file.
        file: Utf8PathBuf,
        /// Its hash.
        found: String,
        /// The hash at its end.
        expected: String,
    },
    /// The manifest and the files do not agree.
    #[error("{file} contains '{path}' with blake3 {found}, but its manifest says {expected}")]
    OtherContent {
        /// The archive.
        file: Utf8PathBuf,
        /// The file in it.
        path: Utf8PathBuf,
        /// Its hash, or the error on reading it.
        found: String,
        /// The manifest's hash.
        expected: String,
    },
    /// It would write or read outside of its folder. This tool does not make such archives.
    #[error("{file} is refused: {problem}")]
    Invalid {
        /// The archive.
        file: Utf8PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The executables are for another machine.
    #[error("{file} was built for {target}, but this machine is {here}")]
    OtherMachine {
        /// The archive.
        file: Utf8PathBuf,
        /// Its target triple.
        target: String,
        /// This machine's architecture and system.
        here: String,
    },
    /// The executables need a dynamic loader that is missing.
    #[error("the executables in {file} need the loader {loader}, which this machine does not have")]
    NoLoader {
        /// The archive.
        file: Utf8PathBuf,
        /// The missing loader.
        loader: Utf8PathBuf,
    },
}

impl Advice for ArchiveError {
    fn help(&self) -> Option<String> {
        let text = match self {
            Self::NotAnArchive { .. } => "make an archive with `cargo memprof build --archive FILE`",
            Self::CutOff { .. } | Self::Changed { .. } => "copy the file again from the machine that made it",
            Self::OtherVersion { .. } => "use the same version of cargo-memprof on both machines",
            Self::OtherMachine { .. } => {
                "build the archive on such a machine, or for this one with `--target TRIPLE`"
            }
            Self::NoLoader { .. } => {
                "this machine has another C library; build for it, for example with \
                 `--target x86_64-unknown-linux-musl`"
            }
            Self::Invalid { .. } => {
                "run archives only from people whom you trust: an archive's tests run with your rights"
            }
            Self::OtherContent { .. } => return None,
        };
        Some(text.to_owned())
    }
}

/// An archive whose bytes are exactly those that were written.
#[derive(Debug)]
pub struct Archive {
    file: Utf8PathBuf,
    /// blake3 of everything but the last line.
    pub hash: String,
    /// Number of bytes before the last line.
    bytes: u64,
}

impl Archive {
    /// Opens an archive and checks its hash.
    ///
    /// # Errors
    ///
    /// An [`ArchiveError`] if the file is not a complete, unchanged archive of this version.
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
            return Err(ArchiveError::OtherVersion { file: file.to_owned(), found: version }.advised());
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
    /// The archive has no such file, or it cannot be read.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let mut tar = self.tar()?;
        for entry in tar.entries()? {
            let entry = entry?;
            if entry.path()?.as_os_str() == name {
                return serde_json::from_reader(BufReader::new(entry))
                    .with_context(|| format!("cannot read {name} in {}", self.file));
            }
        }
        anyhow::bail!("{} has no {name}", self.file)
    }

    /// Opens the tar file in it.
    fn tar(&self) -> anyhow::Result<tar::Archive<impl Read>> {
        let input = followed::open(&self.file)?.take(self.bytes);
        let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 17, input))?;
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
        store::remove(&folder)?;
        store::remove(&partial)?;
        fs_err::create_dir_all(&partial)?;
        if let Err(error) = self.unpack_to(&partial) {
            // It may be what filled the disk.
            let _ = store::remove(&partial);
            return Err(error);
        }
        fs_err::rename(&partial, &folder)?;
        let unpacked = self.unpacked(&folder)?;
        unpacked.check_machine(&self.file)?;
        Ok(unpacked)
    }

    fn unpack_to(&self, folder: &Utf8Path) -> anyhow::Result<()> {
        let mut tar = self.tar()?;
        for entry in tar.entries()? {
            let mut entry = entry?;
            let path = Utf8PathBuf::from_path_buf(entry.path()?.into_owned()).map_err(|path| {
                anyhow::anyhow!("{} contains an invalid path: {}", self.file, path.display())
            })?;
            let is_file = entry.header().entry_type() == tar::EntryType::Regular;
            ensure!(is_file && stays_inside(&path), "{} contains an invalid entry: '{path}'", self.file);
            let destination = folder.join(&path);
            fs_err::create_dir_all(destination.parent().unwrap_or(folder))?;
            let executable = entry.header().mode()? & 0o111 != 0;
            let mut output = fs_err::File::create(&destination)?;
            io::copy(&mut entry, &mut output)?;
            drop(output);
            if executable {
                set_executable(&destination)?;
            }
        }
        Ok(())
    }

    /// Returns the archive's files in the folder, after checking their hashes.
    fn unpacked(&self, folder: &Utf8Path) -> anyhow::Result<Unpacked> {
        let text = followed::read_within(folder.join(MANIFEST), followed::MOST_OF_BINARY)?;
        let manifest: Manifest = sealed_json::unsealed(&text)
            .with_context(|| format!("cannot read the manifest of {}", self.file))?;
        manifest
            .check()
            .map_err(|problem| ArchiveError::Invalid { file: self.file.clone(), problem }.advised())?;
        for (path, content) in &manifest.contents {
            let unpacked = folder.join(path);
            let found = store::hash_file(&unpacked).unwrap_or_else(|error| error.to_string());
            if found != content.blake3 {
                let expected = content.blake3.clone();
                let (file, path) = (self.file.clone(), path.clone());
                return Err(ArchiveError::OtherContent { file, path, found, expected }.advised());
            }
            let can_run = !content.executable || is_executable(&fs_err::metadata(&unpacked)?);
            ensure!(can_run, "{unpacked} is not executable");
        }
        Ok(Unpacked { folder: folder.to_owned(), hash: self.hash.clone(), manifest })
    }
}

/// Makes a file executable for everyone who may read it.
pub fn set_executable(path: &Utf8Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs_err::metadata(path)?.permissions().mode();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode | ((mode & 0o444) >> 2)))?;
    Ok(())
}

/// An archive's files on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpacked {
    /// The folder with the files.
    pub folder: Utf8PathBuf,
    /// blake3 of the archive.
    pub hash: String,
    /// The manifest, which describes them.
    pub manifest: Manifest,
}

impl Unpacked {
    /// Returns the path of the file with this hash.
    pub fn data(&self, blake3: &str) -> Utf8PathBuf {
        self.folder.join(data_path(blake3))
    }

    /// Returns the library that counts a test's GPU memory, or why it is missing.
    pub fn injection_library(&self) -> Result<Utf8PathBuf, String> {
        match &self.manifest.injection {
            ArchivedLibrary::Library(path) => Ok(self.folder.join(path)),
            ArchivedLibrary::Absent(reason) => Err(reason.clone()),
        }
    }

    /// Returns the library that counts the C library's allocator, or why it is missing.
    pub fn malloc_library(&self) -> Result<Utf8PathBuf, String> {
        match &self.manifest.malloc {
            Some(ArchivedLibrary::Library(path)) => Ok(self.folder.join(path)),
            Some(ArchivedLibrary::Absent(reason)) => Err(reason.clone()),
            None => {
                Err("the archive was built without a request for a metric malloc.*; add it to `metrics:` in \
                         memprof.yaml, and build the archive again"
                    .to_owned())
            }
        }
    }

    /// Reads one of the archive's JSON files.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let path = self.folder.join(name);
        serde_json::from_slice(&followed::read_within(&path, followed::MOST_OF_BINARY)?)
            .with_context(|| format!("cannot read {path}"))
    }

    fn check_machine(&self, file: &Utf8Path) -> Result<(), ArchiveError> {
        let here = (std::env::consts::ARCH, std::env::consts::OS);
        let Manifest { target, loaders, has_runner, .. } = &self.manifest;
        if *has_runner {
            return Ok(());
        }
        if machine(target) != here {
            let here = format!("{}, {}", here.0, here.1);
            return Err(ArchiveError::OtherMachine { file: file.to_owned(), target: target.clone(), here });
        }
        match loaders.iter().find(|loader| !loader.exists()) {
            Some(loader) => Err(ArchiveError::NoLoader { file: file.to_owned(), loader: loader.clone() }),
            None => Ok(()),
        }
    }
}

/// Returns architecture and system of a target triple, named as in [`std::env::consts`].
fn machine(target: &str) -> (&str, &str) {
    let mut parts = target.split('-');
    let architecture = match parts.next().unwrap_or_default() {
        "i386" | "i486" | "i586" | "i686" => "x86",
        arm if arm.starts_with("arm") && !arm.starts_with("arm64") || arm.starts_with("thumb") => "arm",
        riscv if riscv.starts_with("riscv64") => "riscv64",
        "powerpc64le" => "powerpc64",
        same => same,
    };
    let system = match parts.find(|part| !["unknown", "pc", "apple"].contains(part)) {
        Some("darwin") => "macos",
        system => system.unwrap_or_default(),
    };
    (architecture, system)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::archive::format::trailer;
    use crate::archive::manifest::Placed;
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
            // It stays valid JSON.
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
        assert_eq!(folder.refusal(&file), "FILE has archive format 7, but this cargo-memprof reads format 2");
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

    #[test]
    fn triples_are_translated_to_the_standard_librarys_names() {
        assert_eq!(machine("x86_64-unknown-linux-musl"), ("x86_64", "linux"));
        assert_eq!(machine("i686-unknown-linux-gnu"), ("x86", "linux"));
        assert_eq!(machine("aarch64-apple-darwin"), ("aarch64", "macos"));
        assert_eq!(machine("armv7-unknown-linux-gnueabihf"), ("arm", "linux"));
        assert_eq!(machine("riscv64gc-unknown-linux-gnu"), ("riscv64", "linux"));
    }
}
