//! A copy of this program in the cache, with links to it under the names by which cargo calls it.
//! The installed program may be replaced or removed while a build runs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::shim;
use crate::build::store;
use crate::build::wrapper;
use crate::checkout::cache::Cache;
use crate::support::paths;

/// Returns the folder with the names under which cargo calls this program.
///
/// Its path contains the shim's hash. Cargo fingerprints the wrapper's path, but neither its
/// content nor its environment, so only a new path makes cargo build again after the shim changed.
///
/// # Errors
///
/// This program's file cannot be read or copied.
pub fn links(cache: &Cache) -> anyhow::Result<Utf8PathBuf> {
    let folder = cache.wrapper().join(shim::source_hash());
    fs_err::create_dir_all(&folder)?;
    let copy = copy_into(&folder, &running()?, own_hash()?)?;
    let names =
        [wrapper::WRAP_NAME, wrapper::WRAP_PROGRAM_NAME, wrapper::WRAP_DEPENDENCY_NAME, wrapper::NOTE_NAME];
    for name in names {
        place_link(&folder, name, &copy)?;
    }
    // Other versions of this program left these. The caller holds the cache's lock.
    remove_others(&cache.wrapper(), |name| folder.file_name() == Some(name))?;
    remove_others(&folder, |name| name == copy || !name.starts_with(COPY))?;
    Ok(folder)
}

/// The copy's name begins with this, and ends with its hash.
const COPY: &str = "program-";

/// Returns the file that this process runs.
fn running() -> anyhow::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        // It is the same file even after another one took its path.
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("cannot find this program's own executable")
}

/// Returns the hash of the file that this process runs.
fn own_hash() -> anyhow::Result<&'static str> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(hash) = HASH.get() {
        return Ok(hash);
    }
    let hash = store::hash_file(&paths::utf8(running()?)?)?;
    Ok(HASH.get_or_init(|| hash))
}

/// Copies the program, unless an intact copy is there. Returns the copy's name.
fn copy_into(folder: &Utf8Path, program: &Path, hash: &str) -> anyhow::Result<String> {
    let name = format!("{COPY}{}", &hash[..16]);
    let path = folder.join(&name);
    if store::hash_file(&path).is_ok_and(|found| found == hash) {
        return Ok(name);
    }
    let partial = folder.join("partial");
    store::remove(&partial)?;
    store::remove(&path)?;
    fs_err::copy(program, &partial)?;
    let found = store::hash_file(&partial)?;
    ensure!(found == hash, "cargo-memprof was replaced during this run; start it again");
    fs_err::rename(&partial, &path)?;
    Ok(name)
}

fn place_link(folder: &Utf8Path, name: &str, copy: &str) -> anyhow::Result<()> {
    let link = folder.join(name);
    if fs_err::read_link(&link).is_ok_and(|target| target == Path::new(copy)) {
        return Ok(());
    }
    let partial = folder.join("partial");
    store::remove(&partial)?;
    fs_err::os::unix::fs::symlink(copy, &partial)?;
    fs_err::rename(&partial, &link)?;
    Ok(())
}

fn remove_others(folder: &Utf8Path, is_kept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if !is_kept(entry.file_name()) {
            store::remove(entry.path())?;
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
        let program = folder.join("installed");
        fs_err::write(&program, "one").unwrap();
        let hash = store::hash_file(&program).unwrap();
        let copy = copy_into(folder, program.as_std_path(), &hash).unwrap();
        fs_err::write(folder.join(&copy), "damaged").unwrap();
        assert_eq!(copy_into(folder, program.as_std_path(), &hash).unwrap(), copy);
        assert_eq!(fs_err::read_to_string(folder.join(&copy)).unwrap(), "one");
        fs_err::write(&program, "two").unwrap();
        assert_eq!(copy_into(folder, program.as_std_path(), &hash).unwrap(), copy, "the copy is enough");
        fs_err::remove_file(folder.join(&copy)).unwrap();
        let error = copy_into(folder, program.as_std_path(), &hash).unwrap_err().to_string();
        assert!(error.contains("was replaced during this run"), "{error}");
    }
}
