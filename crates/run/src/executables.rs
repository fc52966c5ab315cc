//! The executables of this session: each is proven once to be the planned one, and put back if a
//! test deletes it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_support::guarded_files::put_back;
use memprof_support::regular_file::followed;
use memprof_support::stamp::Stamp;

/// How many executables are kept open. The usual limit of a process is 1024 files, and 400 others are guarded.
const MOST: usize = 200;

/// The executables that were proven.
#[derive(Default)]
pub(crate) struct ProvenExecutables {
    stamps: HashMap<Utf8PathBuf, Stamp>,
    /// Those that were used last, the newest at the end. Open, so that the content stays available after the file is
    /// deleted.
    open: VecDeque<(Utf8PathBuf, File)>,
}

impl ProvenExecutables {
    /// Makes sure that an executable is the planned one, before it runs. Puts it back if an earlier
    /// test deleted or replaced it. Returns `false` if that is necessary and `may_write` is not set.
    pub fn prove(&mut self, entry: &Entry, executable: &Executable, may_write: bool) -> anyhow::Result<bool> {
        let path = entry.folder.join(&executable.file);
        let at = self.open.iter().position(|(open, _)| *open == path);
        if let Some(stamp) = self.stamps.get(&path) {
            if Stamp::read(&path) == Some(*stamp) {
                let file = match at.and_then(|at| self.open.remove(at)) {
                    Some((_, file)) => file,
                    None => opened(&path)?,
                };
                self.keep_open(path, file);
                return Ok(true);
            }
            // While another thread starts a process, that process has the new file open for writing,
            // and the kernel would not execute it.
            if !may_write {
                return Ok(false);
            }
        }
        if let Some((_, mut file)) = at.and_then(|at| self.open.remove(at)) {
            put_back(&mut file, &path, 0o755).with_context(|| format!("cannot put {path} back"))?;
        }
        entry.verified(executable)?;
        let file = opened(&path)?;
        let stamp = Stamp::read(&path).with_context(|| format!("{path} disappeared"))?;
        self.stamps.insert(path.clone(), stamp);
        self.keep_open(path, file);
        Ok(true)
    }

    fn keep_open(&mut self, path: Utf8PathBuf, file: File) {
        if self.open.len() == MOST {
            self.open.pop_front();
        }
        self.open.push_back((path, file));
    }

    /// Returns what the test did to its executable and its current folder.
    pub(crate) fn harm(&self, entry: &Entry, executable: &Executable) -> Option<String> {
        let path = entry.folder.join(&executable.file);
        match (Stamp::read(&path), self.stamps.get(&path)) {
            (None, _) => return Some("the test deleted its executable".to_owned()),
            (Some(now), Some(proven)) if now != *proven => {
                return Some("the test changed or replaced its executable".to_owned());
            }
            (Some(_), _) => {}
        }
        let is_there = executable.directory.symlink_metadata().is_ok_and(|found| found.is_dir());
        (!is_there).then(|| "the test deleted its current folder".to_owned())
    }
}

/// Opens an executable. Builds with the same code share a file, so it may have several names.
fn opened(path: &Utf8Path) -> anyhow::Result<File> {
    followed::open(path).with_context(|| format!("cannot open {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_build::provenance::samples;

    #[test]
    fn a_bounded_number_is_open_and_what_was_used_last_is_put_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(home.path()).unwrap();
        let all: Vec<Executable> = (0..=MOST)
            .map(|number| {
                let name = number.to_string();
                std::fs::write(folder.join(&name), &name).unwrap();
                let hash = blake3::hash(name.as_bytes()).to_hex().to_string();
                Executable { file: name.into(), hash, ..samples::executable() }
            })
            .collect();
        let entry = Entry {
            folder: folder.to_owned(),
            provenance: samples::provenance(samples::executable()),
            unselected: [].into(),
            hints: Vec::new(),
        };
        let mut proven = ProvenExecutables::default();
        for executable in &all {
            assert!(proven.prove(&entry, executable, true).unwrap());
        }
        assert_eq!((proven.stamps.len(), proven.open.len()), (MOST + 1, MOST));
        let path = |number: usize| folder.join(number.to_string());
        std::fs::remove_file(path(MOST)).unwrap();
        assert!(!proven.prove(&entry, &all[MOST], false).unwrap(), "the others go on before that");
        assert!(proven.prove(&entry, &all[MOST], true).unwrap());
        assert_eq!(std::fs::read_to_string(path(MOST)).unwrap(), MOST.to_string());
        // The first one was closed, and is open again when it is used.
        assert!(proven.prove(&entry, &all[0], false).unwrap());
        std::fs::remove_file(path(0)).unwrap();
        assert!(proven.harm(&entry, &all[0]).is_some());
        assert!(proven.prove(&entry, &all[0], true).unwrap());
        // The second one was closed for it.
        std::fs::remove_file(path(1)).unwrap();
        proven.prove(&entry, &all[1], true).unwrap_err();
        std::fs::remove_file(path(2)).unwrap();
        std::fs::write(path(2), "another").unwrap();
        assert!(proven.prove(&entry, &all[2], true).unwrap());
        assert_eq!((std::fs::read_to_string(path(2)).unwrap(), proven.open.len()), ("2".to_owned(), MOST));
    }
}
