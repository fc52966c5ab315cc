//! The path of a source file from the repository's root, as forges and editors take it.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use memprof_judge::compare::comparison::Comparison;

/// Returns the path of a file of the workspace from the repository's root. `None` for a file of another
/// crate.
pub(crate) fn from_root(comparison: &Comparison, file: &str) -> Option<Utf8PathBuf> {
    Some(comparison.workspace.join(inside(file)?))
}

/// Returns a path from the repository's root, if it leads to a file below it. The diff and call sites name
/// files in this way.
pub(crate) fn inside(file: &str) -> Option<&Utf8Path> {
    let file = Utf8Path::new(file);
    file.components().all(|part| matches!(part, Utf8Component::Normal(_))).then_some(file)
}
