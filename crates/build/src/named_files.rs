//! Files outside of the checkout that build scripts name. Cargo compares only times, and a file that took the place of
//! another, with `mv` or `cp -p`, may be older. So their hashes are kept, and a script runs again if one differs.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::known_files::KnownFiles;

/// The hashes of the files that each script named when it ran, by the file that has the script's output.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct NamedFiles(BTreeMap<Utf8PathBuf, Hashes>);

/// `None` for a file that cannot be read, and for one that changed since the script ran.
type Hashes = BTreeMap<Utf8PathBuf, Option<String>>;

impl NamedFiles {
    /// Removes the output of each script whose files changed, so that cargo runs the script again. Returns whether
    /// something changed.
    pub fn remove_outdated(&mut self, known: &KnownFiles) -> anyhow::Result<bool> {
        let before = self.0.len();
        self.0.retain(|output, _| output.parent().is_some_and(Utf8Path::is_dir));
        let mut has_changed = self.0.len() < before;
        for (output, hashes) in &mut self.0 {
            if *hashes == hashes_of(hashes.keys().cloned(), known) {
                continue;
            }
            if output.exists() {
                fs_err::remove_file(output)?;
            }
            // If this process is killed before the next note, nothing tells which file the script read.
            for hash in hashes.values_mut() {
                *hash = None;
            }
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Keeps the hashes of what scripts name that ran or are fresh.
    pub fn note(&mut self, named: BTreeMap<Utf8PathBuf, BTreeSet<Utf8PathBuf>>, known: &KnownFiles) {
        for (output, files) in named {
            if files.is_empty() {
                self.0.remove(&output);
            } else {
                self.0.insert(output, hashes_of(files, known));
            }
        }
    }
}

fn hashes_of(files: impl IntoIterator<Item = Utf8PathBuf>, known: &KnownFiles) -> Hashes {
    files.into_iter().map(|file| (file.clone(), known.hash_followed(&file).ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_runs_again_if_a_file_outside_differs_whatever_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let (output, file) = (folder.join("build/app-1/output"), folder.join("model.bin"));
        fs_err::create_dir_all(output.parent().unwrap()).unwrap();
        let known = KnownFiles::default();
        let named = || BTreeMap::from([(output.clone(), BTreeSet::from([file.clone()]))]);
        let mut files = NamedFiles::default();
        let run = |files: &mut NamedFiles| {
            fs_err::write(&output, "").unwrap();
            files.note(named(), &known);
        };
        fs_err::write(&file, "one").unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        run(&mut files);
        assert!(!files.remove_outdated(&known).unwrap() && output.exists());
        fs_err::write(&file, "two").unwrap();
        fs_err::OpenOptions::new().write(true).open(&file).unwrap().file().set_modified(time).unwrap();
        assert!(files.remove_outdated(&known).unwrap() && !output.exists());
        // The script ran, and the session was killed before its note.
        fs_err::write(&output, "").unwrap();
        assert!(files.remove_outdated(&known).unwrap() && !output.exists());
        run(&mut files);
        assert!(!files.remove_outdated(&known).unwrap() && output.exists());
        fs_err::remove_dir_all(folder.join("build")).unwrap();
        assert!(files.remove_outdated(&known).unwrap());
        assert!(files.0.is_empty());
    }
}
