//! Files that builds in the store have in common.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::store::{self, Stored};

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
    /// Reads the builds in these folders, whose files were checked.
    pub fn of_builds(folders: &[Utf8PathBuf]) -> Self {
        let mut files = HashMap::new();
        for folder in folders {
            let Stored::Complete(entry) = store::find_in(folder) else { continue };
            for executable in &entry.provenance.executables {
                let Some(code) = executable.code.clone() else { continue };
                let key = entry.provenance.key_in(executable).to_owned();
                let path = folder.join(&executable.file);
                files.insert(code, SharedFile { path, hash: executable.hash.clone(), key });
            }
        }
        Self(files)
    }

    /// Puts the file with this code at a path, if a build has one. Some file systems have no hard links.
    pub fn link(&self, code: &str, path: &Utf8Path) -> Option<&SharedFile> {
        self.0.get(code).filter(|file| std::fs::hard_link(&file.path, path).is_ok())
    }
}
