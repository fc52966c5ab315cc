//! Commits that the tool writes itself: of the working tree, and of another commit with further files.
//! Their hashes follow from their content alone, so that builds of earlier runs are found again.

use anyhow::Context;
use camino::Utf8Path;

use crate::git::repository::Repository;

/// Writes a commit of a tree. `time` is in seconds since the epoch.
pub(crate) fn of_tree(
    repository: &Repository,
    tree: &str,
    parent: Option<&str>,
    time: i64,
    message: &str,
) -> anyhow::Result<String> {
    // The `@` keeps git from reading small numbers as years.
    let date = format!("@{time} +0000");
    let mut command = repository
        .git()
        .args(["-c", "i18n.commitEncoding=UTF-8", "commit-tree", "--no-gpg-sign", tree])
        .args(["-m", message]);
    for role in ["AUTHOR", "COMMITTER"] {
        command = command
            .env(format!("GIT_{role}_NAME"), "cargo memprof")
            .env(format!("GIT_{role}_EMAIL"), "memprof@localhost")
            .env(format!("GIT_{role}_DATE"), &date);
    }
    if let Some(parent) = parent {
        command = command.args(["-p", parent]);
    }
    Ok(command.run()?.text())
}

/// Writes a commit that has the files of `base`, if there is one, and these files, by their paths
/// from the root. Returns its hash. Nothing but the commit's objects is written.
pub fn with_files(
    repository: &Repository,
    base: Option<&str>,
    files: &[(String, Vec<u8>)],
    message: &str,
) -> anyhow::Result<String> {
    let entry = |(path, content): &(String, Vec<u8>)| {
        let blob = blob(repository, content)?;
        Ok((path.clone(), Some(TreeEntry { mode: REGULAR_FILE, blob })))
    };
    let entries: Vec<_> = files.iter().map(entry).collect::<anyhow::Result<_>>()?;
    with_entries(repository, base, &entries, message)
}

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Git's mode: `0o100644` for a usual file.
    pub mode: u32,
    /// The hash of its content.
    pub blob: String,
}

/// The mode of a file that is neither executable nor a link.
const REGULAR_FILE: u32 = 0o100_644;

/// Writes a file's content, and returns its hash.
pub fn blob(repository: &Repository, content: &[u8]) -> anyhow::Result<String> {
    Ok(repository.git().args(["hash-object", "-w", "--stdin"]).input(content.to_vec()).run()?.text())
}

/// Writes a commit that has the files of `base`, if there is one, with these entries in their place;
/// `None` removes a file.
pub fn with_entries(
    repository: &Repository,
    base: Option<&str>,
    entries: &[(String, Option<TreeEntry>)],
    message: &str,
) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("could not create a temporary folder for git's index")?;
    let folder = Utf8Path::from_path(folder.path()).context("the temporary folder's path is not UTF-8")?;
    let index = folder.join("index");
    let git = |arguments: &[&str]| {
        let settings = ["-c", "core.splitIndex=false", "-c", "index.sparse=false"];
        repository.git().args(settings).env("GIT_INDEX_FILE", &index).args(arguments)
    };
    git(&["read-tree", base.unwrap_or("--empty")]).run()?;
    let mut lines = String::new();
    // A file may take the place of a folder, so what goes comes first.
    for (path, _) in entries.iter().filter(|(_, entry)| entry.is_none()) {
        // Git knows no mode 0, and removes the entry.
        let nothing = "0".repeat(base.map_or(40, str::len));
        lines.extend(["0 ", &nothing, "\t", path, "\0"]);
    }
    for (path, entry) in entries {
        let Some(TreeEntry { mode, blob }) = entry else { continue };
        lines.extend([&format!("{mode:06o} "), blob.as_str(), "\t", path, "\0"]);
    }
    git(&["update-index", "-z", "--index-info"]).input(lines).run()?;
    let tree = git(&["write-tree"]).run()?.text();
    let time = base.map(|base| repository.commit(base)).transpose()?.map_or(0, |commit| commit.time);
    of_tree(repository, &tree, base, time, message)
}
