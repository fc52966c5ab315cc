//! The store of finished executables with their provenance. Each build has a folder:
//! `store/<key>/`.
//!
//! The key is a hash of everything that affects the build, so that the same build is never made
//! twice.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::provenance::{Executable, Provenance, VERSION};
use crate::build::test_listing;
use crate::support::redaction;

/// One build in the store.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// Its content.
    pub provenance: Provenance,
}

/// An executable is not the planned build, so its figures do not count.
#[derive(Debug, thiserror::Error)]
pub enum WrongBuild {
    /// The file is not the one that was built.
    #[error(
        "{file} is not the executable that was built: its hash is {found}, but provenance.json says \
         {expected}"
    )]
    OtherExecutable {
        /// The file.
        file: Utf8PathBuf,
        /// Its hash.
        found: String,
        /// The expected hash.
        expected: String,
    },
    /// The process is another build.
    #[error("the test process reports build {found}, but the plan says {expected}")]
    OtherBuild {
        /// The key that the shim in the process reports.
        found: String,
        /// The planned key.
        expected: String,
    },
}

/// The text in the shim that precedes 64 bytes for the key.
const STAMP: &[u8] = b"cargo-memprof-build-key:";

/// Writes the key into an executable's bytes.
///
/// # Errors
///
/// The executable does not contain exactly one unused place for the key.
pub fn stamp(executable: &mut [u8], key: &str) -> anyhow::Result<()> {
    ensure!(key.len() == 64, "a key has 64 digits");
    let places: Vec<usize> = memchr::memmem::find_iter(executable, STAMP).collect();
    let [place] = places[..] else {
        anyhow::bail!(
            "the executable contains the shim's place for the build key {} times instead of once; it may be \
             linked without the shim",
            places.len()
        );
    };
    let start = place + STAMP.len();
    let target =
        executable.get_mut(start..start + 64).context("the place for the build key is incomplete")?;
    ensure!(target.iter().all(|byte| *byte == b'-'), "the place for the build key is already in use");
    target.copy_from_slice(key.as_bytes());
    Ok(())
}

/// The file in an entry's folder with its [`Provenance`].
pub const PROVENANCE: &str = "provenance.json";

/// Returns the folder of a key.
fn folder(store: &Utf8Path, key: &str) -> Utf8PathBuf {
    store.join(&key[..32])
}

/// Returns the build with this key, if the store has it.
pub fn find(store: &Utf8Path, key: &str) -> Option<Entry> {
    let folder = folder(store, key);
    let text = fs_err::read(folder.join(PROVENANCE)).ok()?;
    let provenance: Provenance = serde_json::from_slice(&text).ok()?;
    (provenance.key == key && provenance.version == VERSION).then_some(Entry { folder, provenance })
}

/// A store entry under construction. It appears in the store only when it is complete.
#[derive(Debug)]
pub struct Draft {
    partial: Utf8PathBuf,
    folder: Utf8PathBuf,
}

impl Draft {
    /// Begins an entry.
    pub fn new(store: &Utf8Path, key: &str) -> anyhow::Result<Self> {
        let folder = folder(store, key);
        let partial = folder.with_extension("partial");
        if partial.exists() {
            fs_err::remove_dir_all(&partial)?;
        }
        fs_err::create_dir_all(&partial)?;
        Ok(Self { partial, folder })
    }

    /// Returns the path of a file while the entry is under construction.
    pub fn path(&self, file: &Utf8Path) -> Utf8PathBuf {
        self.partial.join(file)
    }

    /// Copies a test executable and writes the key into the copy. Returns the copy's hash.
    pub fn add_executable(&self, built: &Utf8Path, file: &Utf8Path, key: &str) -> anyhow::Result<String> {
        let mut bytes = fs_err::read(built)?;
        stamp(&mut bytes, key).with_context(|| format!("cannot write the build key into {built}"))?;
        let path = self.partial.join(file);
        fs_err::write(&path, &bytes)?;
        fs_err::set_permissions(&path, fs_err::metadata(built)?.permissions())?;
        Ok(blake3::hash(&bytes).to_hex().to_string())
    }

    /// Copies any other file. Returns its hash.
    pub fn add_companion(&self, built: &Utf8Path, file: &Utf8Path) -> anyhow::Result<String> {
        let path = self.partial.join(file);
        fs_err::copy(built, &path)?;
        hash_file(&path)
    }

    /// Stores a file that was injected into the checkout.
    pub fn add_injected(&self, relative: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
        let path = self.partial.join("injected").join(relative);
        fs_err::create_dir_all(path.parent().unwrap_or(&self.partial))?;
        fs_err::write(path, content)?;
        Ok(())
    }

    /// Writes the provenance without secrets, and moves the entry into the store.
    pub fn finish(self, provenance: Provenance) -> anyhow::Result<Entry> {
        // Tests may print what cargo's `[env]` and build scripts give them.
        redaction::change(|redactor| {
            for (name, value) in provenance.executables.iter().flat_map(|one| &one.environment) {
                redactor.learn(name, value);
            }
        });
        fs_err::write(self.partial.join(PROVENANCE), serde_json::to_vec_pretty(&provenance.redacted())?)?;
        if self.folder.exists() {
            fs_err::remove_dir_all(&self.folder)?;
        }
        fs_err::rename(&self.partial, &self.folder)?;
        Ok(Entry { folder: self.folder, provenance })
    }
}

impl Entry {
    /// Whether an executable could not list its tests because shared libraries were missing. They
    /// may exist by now.
    pub fn lacks_libraries(&self) -> bool {
        let reasons =
            self.provenance.executables.iter().filter_map(|executable| executable.unlisted.as_ref());
        reasons.into_iter().any(|reason| reason.contains(test_listing::LOADER_ERROR))
    }

    /// Whether its tests need a secret that is not stored. Cargo gives it again.
    pub fn lacks_secrets(&self) -> bool {
        self.provenance.is_runner_redacted() || !self.provenance.redacted_variables().is_empty()
    }

    /// Returns the path of an executable, after checking its hash.
    ///
    /// # Errors
    ///
    /// [`WrongBuild::OtherExecutable`] if the file has another hash.
    pub fn verified(&self, executable: &Executable) -> anyhow::Result<Utf8PathBuf> {
        let path = self.folder.join(&executable.file);
        let found = hash_file(&path)?;
        if found != executable.hash {
            return Err(
                WrongBuild::OtherExecutable { file: path, found, expected: executable.hash.clone() }.into()
            );
        }
        Ok(path)
    }

    /// Reads the files that were injected into the checkout for this build.
    pub fn injection(&self) -> anyhow::Result<BTreeMap<Utf8PathBuf, Vec<u8>>> {
        let read =
            |path: &Utf8PathBuf| Ok((path.clone(), fs_err::read(self.folder.join("injected").join(path))?));
        self.provenance.injected.iter().map(read).collect()
    }

    /// Copies programs and shared libraries of this build to where its tests look for them. Another
    /// revision's build may have left its own there.
    ///
    /// The old file is removed rather than overwritten, because cargo has hard links to it. Cargo
    /// restores its own file at its next build.
    pub fn place_companions(&self) -> anyhow::Result<()> {
        for companion in &self.provenance.companions {
            if hash_file(&companion.path).ok().as_ref() == Some(&companion.hash) {
                continue;
            }
            let source = self.folder.join(&companion.file);
            ensure!(hash_file(&source)? == companion.hash, "{source} is not the file that was built");
            let _ = fs_err::remove_file(&companion.path);
            if let Some(folder) = companion.path.parent() {
                fs_err::create_dir_all(folder)?;
            }
            fs_err::copy(&source, &companion.path)?;
        }
        Ok(())
    }
}

/// Returns the blake3 hash of a file, as hexadecimal digits.
pub fn hash_file(path: &Utf8Path) -> anyhow::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs_err::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::provenance::tests::{KEY, executable, provenance};

    fn linked() -> Vec<u8> {
        [b"ELF", STAMP, &[b'-'; 64], b"rest"].concat()
    }

    #[test]
    fn the_key_is_written_after_the_stamp() {
        let mut bytes = linked();
        stamp(&mut bytes, KEY).unwrap();
        assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_some());
        assert!(stamp(&mut bytes, KEY).unwrap_err().to_string().contains("is already in use"));
    }

    #[test]
    fn an_executable_without_the_shim_is_an_error() {
        let error = stamp(&mut b"plain".to_vec(), KEY).unwrap_err().to_string();
        assert!(error.contains("0 times"), "{error}");
        let mut twice = [linked(), linked()].concat();
        assert!(stamp(&mut twice, KEY).is_err());
    }

    #[test]
    fn a_replaced_executable_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        let built = store.join("built");
        fs_err::write(&built, linked()).unwrap();
        let draft = Draft::new(store, KEY).unwrap();
        let hash = draft.add_executable(&built, Utf8Path::new("t"), KEY).unwrap();
        let executable = Executable { hash, ..executable() };
        let entry = Entry { folder: draft.partial.clone(), provenance: provenance(executable.clone()) };
        entry.verified(&executable).unwrap();
        fs_err::write(entry.folder.join("t"), "another").unwrap();
        let error = entry.verified(&executable).unwrap_err().to_string();
        assert!(error.contains("is not the executable that was built"), "{error}");
    }
}
