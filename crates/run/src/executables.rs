//! The executables of this session: each is proven once to be the planned one, and put back if a
//! test deletes it.

use std::collections::HashMap;
use std::fs::File;

use anyhow::Context;
use camino::Utf8PathBuf;

use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_support::guarded_files::put_back;
use memprof_support::regular_file::followed;
use memprof_support::stamp::Stamp;

/// The executables that were proven.
#[derive(Default)]
pub(crate) struct ProvenExecutables(HashMap<Utf8PathBuf, Proven>);

struct Proven {
    /// Open, so that the content stays available after the file is deleted.
    file: File,
    stamp: Stamp,
}

impl ProvenExecutables {
    /// Makes sure that an executable is the planned one, before it runs. Puts it back if an earlier
    /// test deleted or replaced it. Returns `false` if that is necessary and `may_write` is not set.
    pub fn prove(&mut self, entry: &Entry, executable: &Executable, may_write: bool) -> anyhow::Result<bool> {
        let path = entry.folder.join(&executable.file);
        if let Some(proven) = self.0.get_mut(&path) {
            if Stamp::read(&path) == Some(proven.stamp) {
                return Ok(true);
            }
            // While another thread starts a process, that process has the new file open for writing,
            // and the kernel would not execute it.
            if !may_write {
                return Ok(false);
            }
            put_back(&mut proven.file, &path, 0o755).with_context(|| format!("cannot put {path} back"))?;
        }
        entry.verified(executable)?;
        // Builds with the same code share a file, so it may have several names.
        let file = followed::open(&path).with_context(|| format!("cannot open {path}"))?;
        let stamp = Stamp::read(&path).with_context(|| format!("{path} disappeared"))?;
        self.0.insert(path, Proven { file, stamp });
        Ok(true)
    }

    /// Returns what the test did to its executable and its current folder.
    pub(crate) fn harm(&self, entry: &Entry, executable: &Executable) -> Option<String> {
        let path = entry.folder.join(&executable.file);
        match (Stamp::read(&path), self.0.get(&path)) {
            (None, _) => return Some("the test deleted its executable".to_owned()),
            (Some(now), Some(proven)) if now != proven.stamp => {
                return Some("the test changed or replaced its executable".to_owned());
            }
            (Some(_), _) => {}
        }
        let is_there = executable.directory.symlink_metadata().is_ok_and(|found| found.is_dir());
        (!is_there).then(|| "the test deleted its current folder".to_owned())
    }
}
