//! Notices changed filters, line endings and attributes. Git converts a file when it writes it, and
//! writes only files whose content differs. So files that were written with other settings, or with
//! the attributes of another revision, would silently stay as they are.

use anyhow::Context;
use camino::Utf8Path;

use crate::git::repository::Repository;
use memprof_support::process::Command;
use memprof_support::regular_file;
use memprof_support::regular_file::followed;

/// The settings that decide how git writes a file.
const SETTINGS: &str = r"^(filter\..*|core\.(autocrlf|eol|attributesfile|symlinks))$";

/// The name of the record in a git directory.
const RECORD: &str = "cargo-memprof-conversion";

/// The user's side of the conversion. The revision's side is in its `.gitattributes`.
pub(crate) struct Conversion {
    settings: blake3::Hash,
}

impl Conversion {
    /// Reads the user's settings. `git` runs in the checkout, and `lfs` says why Git LFS is unavailable,
    /// if it is.
    pub(crate) fn of_user(git: &Command, repository: &Repository, lfs: Option<&str>) -> anyhow::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{lfs:?}\0").as_bytes());
        let settings = git.clone().args(["config", "-z", "--get-regexp", SETTINGS]).capture()?;
        hasher.update(&settings.stdout);
        let global = git.clone().args(["config", "--type=path", "--get", "core.attributesFile"]).capture()?;
        let attributes = repository.common_directory().join("info/attributes");
        for file in [attributes.into_std_path_buf(), attributes_file(&global.text())] {
            // A missing file has no attributes.
            hasher.update(&followed::read(file).unwrap_or_default());
            hasher.update(b"\0");
        }
        Ok(Self { settings: hasher.finalize() })
    }

    /// Makes git write every file at the next checkout, if the files in the work tree were written with
    /// other settings or attributes than `commit` gets now. Returns whether it did.
    ///
    /// `git` runs in the work tree, and `git_directory` is its own one.
    pub(crate) fn forget_files_if_changed(
        &self,
        git: &Command,
        git_directory: &Utf8Path,
        commit: &str,
    ) -> anyhow::Result<bool> {
        // Git reads these files, too. A build may have left one that git ignores.
        git.clone().args(["clean", "-ffdxq", "--", ":(glob)**/.gitattributes"]).run()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.settings.as_bytes());
        let tree = git.clone().args(["ls-tree", "-r", "-z", "--full-tree", commit]).run()?.stdout;
        for line in tree.split_inclusive(|byte| *byte == 0).filter(|line| is_attributes(line)) {
            hasher.update(line);
        }
        let now = hasher.finalize().to_hex().to_string();
        let record = git_directory.join(RECORD);
        if regular_file::read(&record).is_ok_and(|before| before == now.as_bytes()) {
            return Ok(false);
        }
        // A new checkout has no index, and no files.
        let has_files = git_directory.join("index").exists();
        if has_files {
            forget_files(git)?;
        }
        regular_file::replace(&record, now.as_bytes())
            .with_context(|| format!("could not write {record}"))?;
        Ok(has_files)
    }
}

/// Takes the times and sizes of the files out of the index. Git takes every file for changed then.
pub(crate) fn forget_files(git: &Command) -> anyhow::Result<()> {
    git.clone().args(["read-tree", "HEAD"]).run()?;
    Ok(())
}

/// Whether a line of `ls-tree -z` names a file of attributes, in any folder.
fn is_attributes(line: &[u8]) -> bool {
    line.ends_with(b"\t.gitattributes\0") || line.ends_with(b"/.gitattributes\0")
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
