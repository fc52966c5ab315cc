//! The path of a source file from the repository's root, as forges and editors take it.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use memprof_judge::compare::comparison::Comparison;

/// Returns the path of a file of the workspace from the repository's root. `None` for a file of another
/// crate.
pub(crate) fn from_root(comparison: &Comparison, file: &str) -> Option<Utf8PathBuf> {
    let file = Utf8Path::new(file);
    let is_inside = file.components().all(|part| matches!(part, Utf8Component::Normal(_)));
    is_inside.then(|| comparison.workspace.join(file))
}
