//! Notices changed filters and line endings. Git converts a file when it writes it, so files that
//! were written with other settings would silently stay as they are.

use camino::Utf8Path;

use crate::git::repository::Repository;
use crate::support::process::Command;

/// The settings that decide how git writes a file.
const SETTINGS: &str = r"^(filter\..*|core\.(autocrlf|eol|attributesfile|symlinks))$";

/// Makes git write every file again at the next checkout, if the user's settings have changed since
/// the last call. `git` runs in the checkout, `entry` is its git directory, and `lfs` says why Git LFS
/// is unavailable, if it is.
pub fn forget_files_if_changed(
    git: &Command,
    repository: &Repository,
    entry: &Utf8Path,
    lfs: Option<&str>,
) -> anyhow::Result<()> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{lfs:?}\0").as_bytes());
    let settings = git.clone().args(["config", "-z", "--get-regexp", SETTINGS]).capture()?;
    hasher.update(&settings.stdout);
    let global = git.clone().args(["config", "--type=path", "--get", "core.attributesFile"]).capture()?;
    let attributes = repository.common_directory().join("info/attributes");
    for file in [attributes.into_std_path_buf(), attributes_file(&global.text())] {
        // A missing file has no attributes.
        hasher.update(&std::fs::read(file).unwrap_or_default());
        hasher.update(b"\0");
    }
    let now = hasher.finalize().to_hex().to_string();
    let record = entry.join("cargo-memprof-conversion");
    if fs_err::read_to_string(&record).is_ok_and(|before| before == now) {
        return Ok(());
    }
    if entry.join("index").exists() {
        // An index without the files' times and sizes: git takes every file for changed.
        git.clone().args(["read-tree", "HEAD"]).run()?;
    }
    fs_err::write(record, now)?;
    Ok(())
}

/// Returns the user's file of attributes: the configured one, or git's default.
fn attributes_file(configured: &str) -> std::path::PathBuf {
    if !configured.is_empty() {
        return configured.into();
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME").map(std::path::PathBuf::from);
    let home = || Some(std::path::PathBuf::from(variable("HOME")?).join(".config"));
    config.or_else(home).unwrap_or_default().join("git/attributes")
}
