//! A copy of this program in the cache, with links to it under the names by which cargo calls it.
//! The installed program may be replaced or removed while a build runs. All repositories share one
//! copy of each version, where the file system has hard links.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use crate::checkout::cache::Cache;
use crate::known_files::KnownFiles;
use crate::shim;
use crate::store;
use crate::wrapper;
use memprof_support::paths;
use memprof_support::regular_file;

/// Returns the folder with the names under which cargo calls this program.
///
/// Its path contains the shim's hash. Cargo fingerprints the wrapper's path, but neither its
/// content nor its environment, so only a new path makes cargo build again after the shim changed.
///
/// # Errors
///
/// This program's file cannot be read or copied.
pub(crate) fn links(cache: &Cache) -> anyhow::Result<Utf8PathBuf> {
    let folder = cache.wrapper().join(shim::source_hash());
    fs_err::create_dir_all(&folder)?;
    let shared = cache.programs();
    let known = KnownFiles::read(shared.join(KNOWN));
    let program = OwnProgram { shared: &shared, path: &running()?, hash: own_hash(&known)?, known: &known };
    let copy = program.place_in(&folder)?;
    let names = [
        wrapper::WRAP_NAME,
        wrapper::WRAP_PROGRAM_NAME,
        wrapper::WRAP_REACHED_NAME,
        wrapper::WRAP_DEPENDENCY_NAME,
        wrapper::NOTE_NAME,
    ];
    for name in names {
        place_link(&folder, name, &copy)?;
    }
    // Other versions of this program left these. The caller holds the cache's lock.
    remove_others(&cache.wrapper(), |name| folder.file_name() == Some(name))?;
    remove_others(&folder, |name| name == copy || !name.starts_with(COPY))?;
    remove_unlinked(&shared)?;
    Ok(folder)
}

/// The program as cargo's runner.
pub(crate) struct Runner {
    /// Without whitespace, at which cargo splits it.
    pub path: Utf8PathBuf,
    /// The folder of a link, if the cache's own path has whitespace.
    _link: Option<TempDir>,
}

impl Runner {
    /// Takes the runner among these links.
    pub(crate) fn in_folder(links: &Utf8Path) -> anyhow::Result<Self> {
        let path = links.join(wrapper::NOTE_NAME);
        if !path.as_str().contains(char::is_whitespace) {
            return Ok(Self { path, _link: None });
        }
        let folder = tempfile::tempdir_in("/tmp")?;
        let link = paths::utf8(folder.path().join(wrapper::NOTE_NAME))?;
        fs_err::os::unix::fs::symlink(path, &link)?;
        Ok(Self { path: link, _link: Some(folder) })
    }
}

/// The copy's name begins with this, and ends with its hash.
const COPY: &str = "program-";

/// The file beside the shared copies with the hashes of those that did not change since they were read.
const KNOWN: &str = "known-files.json";

/// Returns the file that this process runs.
fn running() -> anyhow::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        // This path leads to the same file even after another one took its place.
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("cannot find this program's own executable")
}

/// Returns the hash of the file that this process runs.
fn own_hash(known: &KnownFiles) -> anyhow::Result<&'static str> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(hash) = HASH.get() {
        return Ok(hash);
    }
    let running = paths::utf8(running()?)?;
    let read = || store::hash_file(&running);
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let is_there = |path: &Utf8PathBuf| {
        let found = path.symlink_metadata().map(id);
        found.is_ok_and(|found| running.metadata().map(id).is_ok_and(|own| own == found))
    };
    let hash = match std::env::current_exe().ok().and_then(|path| paths::utf8(path).ok()).filter(is_there) {
        Some(path) => match known.known(&path) {
            Some(hash) => hash,
            None => known.note(&path, read)?,
        },
        None => read()?,
    };
    Ok(HASH.get_or_init(|| hash))
}

/// The file that this process runs, and where all repositories share its copies.
struct OwnProgram<'a> {
    shared: &'a Utf8Path,
    path: &'a Path,
    hash: &'a str,
    known: &'a KnownFiles,
}

impl OwnProgram<'_> {
    /// Puts the program into a folder, unless an intact copy is there. Returns the copy's name.
    fn place_in(&self, folder: &Utf8Path) -> anyhow::Result<String> {
        let name = format!("{COPY}{}", &self.hash[..16]);
        let place = folder.join(&name);
        if !self.is_in(&place) {
            regular_file::remove(&place)?;
            // A file system without hard links, or another process that has just removed the copy.
            if self.known.link(&self.shared_copy(&name)?, &place).is_err() {
                let partial = folder.join("partial");
                regular_file::remove(&partial)?;
                self.copy_to(&partial)?;
                fs_err::rename(&partial, &place)?;
            }
        }
        Ok(name)
    }

    /// Returns the copy that all repositories share.
    fn shared_copy(&self, name: &str) -> anyhow::Result<Utf8PathBuf> {
        let path = self.shared.join(name);
        if !self.is_in(&path) {
            fs_err::create_dir_all(self.shared)?;
            let partial =
                tempfile::Builder::new().prefix("partial-").tempfile_in(self.shared)?.into_temp_path();
            self.copy_to(Utf8Path::from_path(&partial).context("the cache's path is not Unicode")?)?;
            partial.persist(&path)?;
        }
        Ok(path)
    }

    fn is_in(&self, path: &Utf8Path) -> bool {
        self.known.hash(path).is_ok_and(|found| found == self.hash)
    }

    fn copy_to(&self, path: &Utf8Path) -> anyhow::Result<()> {
        fs_err::copy(self.path, path)?;
        ensure!(self.is_in(path), "cargo-memprof was replaced during this run; start it again");
        Ok(())
    }
}

/// Removes shared copies that no repository links to any more.
fn remove_unlinked(shared: &Utf8Path) -> anyhow::Result<()> {
    let Ok(entries) = shared.read_dir_utf8() else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().starts_with(COPY) {
            continue;
        }
        let removed = fs_err::symlink_metadata(entry.path()).and_then(|metadata| match metadata.nlink() {
            1 => fs_err::remove_file(entry.path()),
            _ => Ok(()),
        });
        match removed {
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn place_link(folder: &Utf8Path, name: &str, copy: &str) -> anyhow::Result<()> {
    let link = folder.join(name);
    if fs_err::read_link(&link).is_ok_and(|target| target == Path::new(copy)) {
        return Ok(());
    }
    let partial = folder.join("partial");
    regular_file::remove(&partial)?;
    fs_err::os::unix::fs::symlink(copy, &partial)?;
    fs_err::rename(&partial, &link)?;
    Ok(())
}

fn remove_others(folder: &Utf8Path, is_kept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if !is_kept(entry.file_name()) {
            regular_file::remove(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_copy_is_replaced_and_another_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let path = folder.join("installed");
        fs_err::write(&path, "one").unwrap();
        let (hash, known) = (store::hash_file(&path).unwrap(), KnownFiles::default());
        let shared = folder.join("shared");
        let program = OwnProgram { shared: &shared, path: path.as_std_path(), hash: &hash, known: &known };
        let copy = program.place_in(folder).unwrap();
        // The shared copy is the same file, so it is damaged, too.
        fs_err::write(folder.join(&copy), "damaged").unwrap();
        assert_eq!(program.place_in(folder).unwrap(), copy);
        assert_eq!(fs_err::read_to_string(folder.join(&copy)).unwrap(), "one");
        fs_err::write(&path, "two").unwrap();
        assert_eq!(program.place_in(folder).unwrap(), copy, "the copy is enough");
        fs_err::remove_file(folder.join(&copy)).unwrap();
        assert_eq!(program.place_in(folder).unwrap(), copy, "the shared copy is enough");
        fs_err::remove_file(folder.join(&copy)).unwrap();
        fs_err::write(shared.join(&copy), "damaged").unwrap();
        let error = program.place_in(folder).unwrap_err().to_string();
        assert!(error.contains("was replaced during this run"), "{error}");
    }

    #[test]
    fn repositories_share_one_copy_until_none_links_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let (path, shared) = (folder.join("installed"), folder.join("shared"));
        fs_err::write(&path, "one").unwrap();
        let (hash, known) = (store::hash_file(&path).unwrap(), KnownFiles::default());
        let program = OwnProgram { shared: &shared, path: path.as_std_path(), hash: &hash, known: &known };
        let repositories = ["a", "b"].map(|name| folder.join(name));
        let mut copy = String::new();
        for repository in &repositories {
            fs_err::create_dir(repository).unwrap();
            copy = program.place_in(repository).unwrap();
        }
        let inode = |folder: &Utf8Path| fs_err::metadata(folder.join(&copy)).unwrap().ino();
        assert_eq!(inode(&repositories[0]), inode(&repositories[1]));
        fs_err::remove_dir_all(&repositories[0]).unwrap();
        remove_unlinked(&shared).unwrap();
        assert!(shared.join(&copy).exists());
        fs_err::remove_dir_all(&repositories[1]).unwrap();
        remove_unlinked(&shared).unwrap();
        assert!(!shared.join(&copy).exists());
    }
}
