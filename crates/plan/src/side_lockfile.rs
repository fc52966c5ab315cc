//! A lock file that a ref is built with in place of its own.

use serde::{Deserialize, Serialize};

/// The lock file that takes the place of a ref's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SideLockfile {
    /// A file on the disk.
    File {
        /// The absolute path.
        path: String,
        /// The blake3 hash of its content. Empty until the plan is made.
        hash: String,
    },
    /// The lock file that a ref has committed.
    Ref {
        /// The ref.
        spec: String,
        /// The commit. Empty until the plan is made.
        commit: String,
    },
}

impl SideLockfile {
    /// Returns what the user wrote.
    pub fn written(&self) -> &str {
        match self {
            Self::File { path, .. } => path,
            Self::Ref { spec, .. } => spec,
        }
    }
}
