//! What is wrong with a file or a process that is not the planned build.

use camino::Utf8PathBuf;

/// An executable is not the planned build, so its figures do not count.
#[derive(Debug, thiserror::Error)]
pub enum WrongBuild {
    /// The file is not the one that was built.
    #[error(
        "{file} is not the executable that was built: its hash is {found}, but provenance.json says \
         {expected}"
    )]
    OtherExecutable {
        file: Utf8PathBuf,
        /// The hash.
        found: String,
        /// The expected hash.
        expected: String,
    },
    /// The process is another build.
    #[error("the test process reports build {found}, but the plan says {expected}")]
    OtherBuild {
        /// The key that the shim in the process reports.
        found: String,
        /// The planned key.
        expected: String,
    },
}

/// A file that cargo reports as built cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cargo reports a file as built that cannot be read: {0}")]
pub(crate) struct UnreadableArtifact(pub std::io::Error);
