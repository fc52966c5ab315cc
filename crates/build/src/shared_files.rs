//! Files that builds in the store have in common.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::provenance::Provenance;

/// The executables of stored builds, by the hash of the file as it was linked. A build with the same code shares the
/// file: most of a workspace is the same after a change, and copies of it fill the disk.
#[derive(Default)]
pub(crate) struct SharedFiles(HashMap<String, SharedFile>);

pub(crate) struct SharedFile {
    pub path: Utf8PathBuf,
    pub hash: String,
    pub key: String,
}

impl SharedFiles {
    /// Adds the executables of a build, whose files were checked.
    pub fn add(&mut self, folder: &Utf8Path, build: &Provenance) {
        for executable in &build.executables {
            let Some(code) = executable.code.clone() else { continue };
            let key = build.key_in(executable).to_owned();
            let path = folder.join(&executable.file);
            self.0.insert(code, SharedFile { path, hash: executable.hash.clone(), key });
        }
    }

    /// Puts the file with this code at a path, if a build has one. Some file systems have no hard links.
    pub fn link(&self, code: &str, path: &Utf8Path) -> Option<&SharedFile> {
        self.0.get(code).filter(|file| std::fs::hard_link(&file.path, path).is_ok())
    }
}
