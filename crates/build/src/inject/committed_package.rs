//! Finds the packages of a commit, without checking it out.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use crate::git::workspace_folder;

/// Returns the folder of the package of this name, relative to the repository's root; `None` if the
/// commit has no such package.
pub fn folder(repository: &Repository, commit: &str, name: &str) -> anyhow::Result<Option<Utf8PathBuf>> {
    let packages = packages(repository, commit)?;
    Ok(packages.into_iter().find(|(_, found)| found == name).map(|(folder, _)| folder))
}

/// Returns the names of all packages of a commit by their folders, relative to the repository's root.
pub fn packages(repository: &Repository, commit: &str) -> anyhow::Result<BTreeMap<Utf8PathBuf, String>> {
    let mut packages = BTreeMap::new();
    for path in repository.files(commit, "")? {
        let path = Utf8PathBuf::from(path);
        if path.file_name() != Some("Cargo.toml") {
            continue;
        }
        // A link or an LFS pointer is no manifest that cargo could read here.
        let Ok(Some(text)) = repository.show(commit, path.as_str()) else { continue };
        if let Some(name) = package_name(&String::from_utf8_lossy(&text)) {
            packages.insert(path.parent().unwrap_or(Utf8Path::new("")).to_owned(), name);
        }
    }
    Ok(packages)
}

fn package_name(manifest: &str) -> Option<String> {
    workspace_folder::package_name(&manifest.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_the_packages_by_its_name() {
        assert_eq!(package_name("[package]\nname = \"engine\"\n").as_deref(), Some("engine"));
        assert_eq!(package_name("[workspace]\nmembers = [\"engine\"]\n"), None);
        assert_eq!(package_name("not TOML at all ["), None);
    }
}
