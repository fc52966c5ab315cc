//! Which files are for people alone, and not for the compiler or a test.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

/// Folders of documentation, at the root of a repository.
pub const FOLDERS: [&str; 3] = ["docs", "doc", ".github"];

/// What the name of a licence begins with.
pub const LICENCES: [&str; 3] = ["LICENSE", "LICENCE", "COPYING"];

/// Returns the folder of the package that a file belongs to.
pub fn owner_of<'p>(path: &Utf8Path, packages: &'p BTreeSet<Utf8PathBuf>) -> Option<&'p Utf8Path> {
    let owner = packages.iter().filter(|package| path.starts_with(package));
    owner.max_by_key(|package| package.components().count()).map(Utf8PathBuf::as_path)
}

/// Whether a file is for people alone: a text or a licence at the root of the repository or of a package, a
/// text in a folder for documentation, or a workflow.
pub fn is_documentation(path: &Utf8Path, owner: Option<&Utf8Path>) -> bool {
    let name = path.file_name().unwrap_or_default();
    let folder = path.parent().unwrap_or(Utf8Path::new(""));
    let is_at_root = folder == "" || owner == Some(folder);
    let top = path.components().next().map(|first| first.as_str()).unwrap_or_default();
    let is_text = path.extension() == Some("md");
    let is_licence = LICENCES.iter().any(|word| name.starts_with(word));
    (is_text || is_licence && path.extension() != Some("rs")) && is_at_root
        || is_text && FOLDERS.contains(&top)
        || top == ".github" && folder != ""
}
