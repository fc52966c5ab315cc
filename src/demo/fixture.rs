//! Folders of example crates that the program embeds, and how to write them to disk.
//!
//! Cargo leaves folders with a `Cargo.toml` out of the package. So fixtures have `Cargo.toml.in`
//! and `Cargo.lock.in`, and writing them to disk removes the `.in`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use include_dir::{Dir, include_dir};

/// The demo's repository; `fixtures/demo/README.md` explains its layout.
pub static DEMO: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/fixtures/demo");

/// Writes a folder of an embedded fixture to `destination`. It overwrites files of the same name
/// and keeps the others.
pub fn write(fixture: &Dir<'_>, folder: &str, destination: &Path) -> anyhow::Result<()> {
    let folder =
        fixture.get_dir(folder).with_context(|| format!("the program has no fixture folder '{folder}'"))?;
    write_entries(folder, folder.path(), destination)
}

/// Returns the path of a fixture's file relative to the written folder, without the `.in` of
/// manifests and lock files.
pub fn written_path(path: &Path) -> PathBuf {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("Cargo.toml.in" | "Cargo.lock.in") => path.with_extension(""),
        _ => path.to_path_buf(),
    }
}

fn write_entries(folder: &Dir<'_>, root: &Path, destination: &Path) -> anyhow::Result<()> {
    for file in folder.files() {
        let relative = file.path().strip_prefix(root).expect("entries are below their folder");
        let path = destination.join(written_path(relative));
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::write(path, file.contents())?;
    }
    folder.dirs().try_for_each(|inner| write_entries(inner, root, destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_lock_files_lose_their_suffix_and_nothing_else_does() {
        let written = |path: &str| written_path(Path::new(path)).to_string_lossy().into_owned();
        assert_eq!(written("Cargo.toml.in"), "Cargo.toml");
        assert_eq!(written("inner/Cargo.lock.in"), "inner/Cargo.lock");
        assert_eq!(written("src/table.in"), "src/table.in");
    }

    #[test]
    fn a_folder_is_written_over_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        write(&DEMO, "main", directory.path()).unwrap();
        write(&DEMO, "compact-postings", directory.path()).unwrap();
        let text = |path: &str| fs_err::read_to_string(directory.path().join(path)).unwrap();
        assert!(text("Cargo.toml").contains("minisearch"));
        assert_eq!(text(".gitignore"), "/target\n");
        assert!(text("src/postings.rs").contains("bytes: Vec<u8>"));
        assert!(text("src/builder.rs").contains("documents measured"));
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error() {
        let error = write(&DEMO, "mian", Path::new("unused")).unwrap_err();
        assert_eq!(error.to_string(), "the program has no fixture folder 'mian'");
    }
}
