//! Finished executables with their provenance, one folder a build: `store/<key>/`.
//!
//! The key is a hash of all that decides what is built; the same key is the same build, and is never made twice.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::provenance::{Executable, Provenance, VERSION};
use crate::build::test_listing;

/// One build in the store.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// What is in it.
    pub provenance: Provenance,
}

/// What must be true of an executable before its figures count.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file is not the one that was built.
    #[error(
        "{file} is not the executable that was built: its hash is {found}, provenance.json says {expected}"
    )]
    OtherExecutable {
        /// The file.
        file: Utf8PathBuf,
        /// Its hash.
        found: String,
        /// The planned hash.
        expected: String,
    },
    /// The process says that it was built for something else.
    #[error("the test process says it is build {found}, the plan says {expected}")]
    OtherBuild {
        /// What the shim in the process says.
        found: String,
        /// The planned key.
        expected: String,
    },
}

/// Text that the shim's executable holds before 64 places for the key.
const STAMP: &[u8] = b"cargo-memprof-build-key:";

/// Writes the key into an executable's bytes.
pub fn stamp(executable: &mut [u8], key: &str) -> anyhow::Result<()> {
    ensure!(key.len() == 64, "a key has 64 digits");
    let places: Vec<usize> = memchr::memmem::find_iter(executable, STAMP).collect();
    let [place] = places[..] else {
        anyhow::bail!(
            "the executable holds the shim's place for the build key {} times, not once; was it linked without the \
             shim?",
            places.len()
        );
    };
    let start = place + STAMP.len();
    let target = executable.get_mut(start..start + 64).context("the place for the build key is cut off")?;
    ensure!(target.iter().all(|byte| *byte == b'-'), "the place for the build key is taken");
    target.copy_from_slice(key.as_bytes());
    Ok(())
}

/// The name of an entry's file with its [`Provenance`].
pub const PROVENANCE: &str = "provenance.json";

/// The folder of a key.
fn folder(store: &Utf8Path, key: &str) -> Utf8PathBuf {
    store.join(&key[..32])
}

/// Looks a build up.
pub fn find(store: &Utf8Path, key: &str) -> Option<Entry> {
    let folder = folder(store, key);
    let text = fs_err::read(folder.join(PROVENANCE)).ok()?;
    let provenance: Provenance = serde_json::from_slice(&text).ok()?;
    (provenance.key == key && provenance.version == VERSION).then_some(Entry { folder, provenance })
}

/// A build's folder under construction; it takes its place in the store whole or not at all.
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

    /// Where a file of the entry lies while it is under construction.
    pub fn path(&self, file: &Utf8Path) -> Utf8PathBuf {
        self.partial.join(file)
    }

    /// Copies a test executable with the key built in; returns its hash.
    pub fn add_executable(&self, built: &Utf8Path, file: &Utf8Path, key: &str) -> anyhow::Result<String> {
        let mut bytes = fs_err::read(built)?;
        stamp(&mut bytes, key).with_context(|| format!("{built} cannot be proven to be this build"))?;
        let path = self.partial.join(file);
        fs_err::write(&path, &bytes)?;
        fs_err::set_permissions(&path, fs_err::metadata(built)?.permissions())?;
        Ok(blake3::hash(&bytes).to_hex().to_string())
    }

    /// Copies any other file; returns its hash.
    pub fn add_companion(&self, built: &Utf8Path, file: &Utf8Path) -> anyhow::Result<String> {
        let path = self.partial.join(file);
        fs_err::copy(built, &path)?;
        hash_file(&path)
    }

    /// Keeps a file that was laid over the checkout.
    pub fn add_injected(&self, relative: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
        let path = self.partial.join("injected").join(relative);
        fs_err::create_dir_all(path.parent().unwrap_or(&self.partial))?;
        fs_err::write(path, content)?;
        Ok(())
    }

    /// Writes the provenance and puts the entry in its place.
    pub fn finish(self, provenance: Provenance) -> anyhow::Result<Entry> {
        fs_err::write(self.partial.join(PROVENANCE), serde_json::to_vec_pretty(&provenance)?)?;
        if self.folder.exists() {
            fs_err::remove_dir_all(&self.folder)?;
        }
        fs_err::rename(&self.partial, &self.folder)?;
        Ok(Entry { folder: self.folder, provenance })
    }
}

impl Entry {
    /// Whether an executable could not be asked for its tests, for want of shared libraries that may be there by now.
    pub fn lacks_libraries(&self) -> bool {
        let reasons =
            self.provenance.executables.iter().filter_map(|executable| executable.unlisted.as_ref());
        reasons.into_iter().any(|reason| reason.contains(test_listing::LOADER_ERROR))
    }

    /// The path of an executable, once its content is proven.
    pub fn verified(&self, executable: &Executable) -> anyhow::Result<Utf8PathBuf> {
        let path = self.folder.join(&executable.file);
        let found = hash_file(&path)?;
        if found != executable.hash {
            return Err(
                Refusal::OtherExecutable { file: path, found, expected: executable.hash.clone() }.into()
            );
        }
        Ok(path)
    }

    /// What was laid over the checkout when this was built.
    pub fn injection(&self) -> anyhow::Result<BTreeMap<Utf8PathBuf, Vec<u8>>> {
        let read =
            |path: &Utf8PathBuf| Ok((path.clone(), fs_err::read(self.folder.join("injected").join(path))?));
        self.provenance.injected.iter().map(read).collect()
    }

    /// Puts programs and shared libraries of this build where its tests look for them: another revision's build may have
    /// left its own there.
    ///
    /// The old file is removed and not written into, because cargo has hard links to it; cargo puts its own back at its next
    /// build.
    pub fn place_companions(&self) -> anyhow::Result<()> {
        for companion in &self.provenance.companions {
            if hash_file(&companion.path).ok().as_ref() == Some(&companion.hash) {
                continue;
            }
            let source = self.folder.join(&companion.file);
            ensure!(hash_file(&source)? == companion.hash, "{source} is not what was built");
            let _ = fs_err::remove_file(&companion.path);
            if let Some(folder) = companion.path.parent() {
                fs_err::create_dir_all(folder)?;
            }
            fs_err::copy(&source, &companion.path)?;
        }
        Ok(())
    }
}

/// blake3 of a file, as hexadecimal digits.
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
    fn the_key_is_written_after_the_magic() {
        let mut bytes = linked();
        stamp(&mut bytes, KEY).unwrap();
        assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_some());
        assert!(stamp(&mut bytes, KEY).unwrap_err().to_string().contains("is taken"));
    }

    #[test]
    fn an_executable_without_the_shim_is_an_error() {
        let error = stamp(&mut b"plain".to_vec(), KEY).unwrap_err().to_string();
        assert!(error.contains("0 times"), "{error}");
        let mut twice = [linked(), linked()].concat();
        assert!(stamp(&mut twice, KEY).is_err());
    }

    #[test]
    fn a_swapped_executable_is_refused() {
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
