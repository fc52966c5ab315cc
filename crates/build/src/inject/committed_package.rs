//! Finds a package's folder in a commit, without checking it out.

use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item};

use crate::git::repository::Repository;

/// Returns the folder of the package of this name, relative to the repository's root; `None` if the
/// commit has no such package.
pub fn folder(repository: &Repository, commit: &str, name: &str) -> anyhow::Result<Option<Utf8PathBuf>> {
    for path in repository.files(commit, "")? {
        let path = Utf8PathBuf::from(path);
        if path.file_name() != Some("Cargo.toml") {
            continue;
        }
        // A link or an LFS pointer is no manifest that cargo could read here.
        let Ok(Some(text)) = repository.show(commit, path.as_str()) else { continue };
        if is_of_package(&String::from_utf8_lossy(&text), name) {
            return Ok(Some(path.parent().unwrap_or(Utf8Path::new("")).to_owned()));
        }
    }
    Ok(None)
}

fn is_of_package(manifest: &str, name: &str) -> bool {
    let Ok(document) = manifest.parse::<DocumentMut>() else { return false };
    let package = document.get("package").or_else(|| document.get("project"));
    package.and_then(|package| package.get("name")).and_then(Item::as_str) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_the_packages_by_its_name() {
        assert!(is_of_package("[package]\nname = \"engine\"\n", "engine"));
        assert!(!is_of_package("[package]\nname = \"engine\"\n", "other"));
        assert!(!is_of_package("[workspace]\nmembers = [\"engine\"]\n", "engine"));
        assert!(!is_of_package("not TOML at all [", "engine"));
    }
}
