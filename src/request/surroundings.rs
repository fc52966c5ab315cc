//! Where the user is: the folders that relative paths start from.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

/// What a request depends on besides flags and memprof.yaml. Paths are absolute.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The root of the user's working tree.
    pub repository: &'a Utf8Path,
    /// The user's current folder; paths in flags are relative to it.
    pub current: &'a Utf8Path,
    /// The folder of memprof.yaml; paths in the file are relative to it.
    pub matrix: &'a Utf8Path,
    /// Returns whether a file or folder exists.
    pub exists: &'a dyn Fn(&Utf8Path) -> bool,
}

/// Returns the path without `.` and `..`, judged by its text alone.
pub fn normalized(path: &Utf8Path) -> Utf8PathBuf {
    let mut normalized = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}
