//! Why an archive cannot be used, and what to do about it.

use camino::Utf8PathBuf;

use crate::archive::manifest::VERSION;
use memprof_support::advice::Advice;
use memprof_support::format_version;

/// An archive that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// Is another kind of file.
    #[error("{file} is not a cargo-memprof archive")]
    NotAnArchive { file: Utf8PathBuf },
    /// The end is missing.
    #[error("{file} is incomplete: the last line of the archive is missing")]
    CutOff { file: Utf8PathBuf },
    /// Another version of this tool made it.
    #[error(
        "{file} has archive format {found}{by}, but this cargo-memprof {here} reads format {VERSION}",
        by = format_version::written_by(tool.as_deref()),
        here = env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        file: Utf8PathBuf,
        /// The format version.
        found: u32,
        /// The version of the tool, if the manifest still says that.
        tool: Option<String>,
    },
    /// Some bytes differ from those that were written.
    #[error("{file} was changed: its blake3 is {found}, but was {expected} when it was written")]
    Changed {
        file: Utf8PathBuf,
        /// The hash.
        found: String,
        /// The hash at its end.
        expected: String,
    },
    /// The manifest and the files do not agree.
    #[error("{file} contains '{path}' with blake3 {found}, but its manifest says {expected}")]
    OtherContent {
        /// The archive.
        file: Utf8PathBuf,
        /// The file in it.
        path: Utf8PathBuf,
        /// The hash.
        found: String,
        /// The manifest's hash.
        expected: String,
    },
    /// Would write or read outside of its folder. This tool does not make such archives.
    #[error("{file} is refused: {problem}")]
    Invalid {
        /// The archive.
        file: Utf8PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The bytes are those that were written, but nothing can read them.
    #[error("{file} is damaged: {problem}")]
    Damaged {
        /// The archive.
        file: Utf8PathBuf,
        /// What cannot be read.
        problem: String,
    },
    /// The executables are for another machine.
    #[error("{file} was built for {target}, but this machine is {here}")]
    OtherMachine {
        /// The archive.
        file: Utf8PathBuf,
        /// The target triple.
        target: String,
        /// This machine's architecture and system.
        here: String,
    },
    /// The executables need a dynamic loader that is missing.
    #[error("the executables in {file} need the loader {loader}, which this machine does not have")]
    NoLoader {
        /// The archive.
        file: Utf8PathBuf,
        /// The missing loader.
        loader: Utf8PathBuf,
    },
}

impl Advice for ArchiveError {
    fn help(&self) -> Option<String> {
        let text = match self {
            Self::NotAnArchive { .. } => "make an archive with `cargo memprof build --archive FILE`",
            Self::CutOff { .. } | Self::Changed { .. } | Self::Damaged { .. } => {
                "copy the file again from the machine that made it, or build it again there"
            }
            Self::OtherVersion { tool, .. } => return Some(format_version::other_version(tool.as_deref())),
            Self::OtherMachine { .. } => {
                "build the archive on such a machine, or for this one with `--target TRIPLE`"
            }
            Self::NoLoader { .. } => {
                "this machine has another C library; build for it, for example with \
                 `--target x86_64-unknown-linux-musl`"
            }
            Self::Invalid { .. } => {
                "run archives only from people whom you trust: an archive's tests run with your rights"
            }
            Self::OtherContent { .. } => return None,
        };
        Some(text.to_owned())
    }
}
