//! Git's list of worktrees in the user's repository: `.git/worktrees`.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use memprof_support::regular_file;

/// Returns the folder of the list.
pub(crate) fn registry(repository: &Repository) -> Utf8PathBuf {
    repository.common_directory().join("worktrees")
}

/// Returns the entries for the worktree at this path: none or one, unless something went wrong
/// before.
pub(crate) fn registered(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let registry = registry(repository);
    if !registry.exists() {
        return Ok(Vec::new());
    }
    let mut entries = Vec::new();
    for entry in registry.read_dir_utf8().with_context(|| registry.to_string())? {
        let entry = entry?.into_path();
        let link = regular_file::text(&entry.join("gitdir")).unwrap_or_default();
        if Utf8Path::new(link.trim_end()) == path.join(".git") {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Removes `.git/worktrees` if it is empty, as git does.
pub(crate) fn remove_empty_registry(repository: &Repository) -> anyhow::Result<()> {
    match std::fs::remove_dir(registry(repository)) {
        Err(error)
            if !matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(error.into())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
