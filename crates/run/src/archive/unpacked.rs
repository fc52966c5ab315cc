//! An archive's files on this machine, whose content is that of its manifest.

use camino::{Utf8Path, Utf8PathBuf};

use crate::archive::archive_error::ArchiveError;
use crate::archive::machine::machine;
use crate::archive::manifest::{ArchivedLibrary, Manifest, data_path};
use memprof_support::advice::Advice;
use memprof_support::regular_file::followed;

/// The most bytes of one of the archive's own JSON files.
pub(crate) const MOST_OF_JSON: u64 = 1 << 30;

/// An archive's files on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpacked {
    pub archive: Utf8PathBuf,
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
    pub(crate) fn injection_library(&self) -> Result<Utf8PathBuf, String> {
        match &self.manifest.injection {
            ArchivedLibrary::Library(path) => Ok(self.folder.join(path)),
            ArchivedLibrary::Absent(reason) => Err(reason.clone()),
        }
    }

    /// Returns the library that counts the C library's allocator, or why it is missing.
    pub(crate) fn malloc_library(&self) -> Result<Utf8PathBuf, String> {
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
    ///
    /// # Errors
    ///
    /// An `ArchiveError` if it is not there, or cannot be read.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let damaged = |error: &dyn std::fmt::Display| self.damaged(format!("{name}: {error}"));
        let text = followed::read_within(self.folder.join(name), MOST_OF_JSON);
        let text = text.map_err(|error| damaged(&error))?;
        serde_json::from_slice(&text).map_err(|error| damaged(&error))
    }

    /// The error of an archive that asks for what is not allowed.
    pub fn invalid(&self, problem: String) -> anyhow::Error {
        ArchiveError::Invalid { file: self.archive.clone(), problem }.advised()
    }

    /// The error of an archive whose files do not fit together.
    pub(crate) fn damaged(&self, problem: String) -> anyhow::Error {
        ArchiveError::Damaged { file: self.archive.clone(), problem }.advised()
    }

    /// Whether this machine can run the tests.
    pub(crate) fn check_machine(&self, file: &Utf8Path) -> Result<(), ArchiveError> {
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
