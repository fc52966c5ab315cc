//! A file that differs between two commits.

/// A file that differs, is on one side alone, or was renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path before; `None` if it is new.
    pub old: Option<String>,
    /// The path after; `None` if it was deleted.
    pub new: Option<String>,
}
