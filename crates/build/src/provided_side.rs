//! What a revision with other dependencies is built with.

use crate::inject::outside_paths::NamedFolder;

/// What a revision is built with in place of its own lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedSide {
    /// The lock file.
    pub lockfile: Vec<u8>,
    /// Settings for cargo that replace packages by folders or git repositories.
    pub patches: Vec<String>,
    /// Folders in the places of path dependencies that lead out of the repository.
    pub folders: Vec<NamedFolder>,
}
