//! What an archive says of itself: for which machine it is, what is to run, and the hash of each of its files.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::build::failure::BuildFailure;

/// The manifest's name.
pub const MANIFEST: &str = "archive.json";

/// The version of the format: of the manifest and of all that it refers to.
pub const VERSION: u32 = 1;

/// What the archive holds, and for which machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The tool's version.
    pub tool: String,
    /// The target triple of the executables.
    pub target: String,
    /// Whether a runner of the user's starts the executables, such as an emulator: they may then be for another machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_runner: bool,
    /// The loaders that the executables name.
    pub loaders: Vec<Utf8PathBuf>,
    /// The folder of the build host that holds checkout and target folder; executables have paths below it built in.
    pub root: Utf8PathBuf,
    /// What the CUDA driver is to load into test processes.
    pub injection: Injection,
    /// The metrics that `memprof.yaml` wants shown.
    pub metrics: Vec<String>,
    /// One a revision, in the plan's order.
    pub revisions: Vec<ArchivedRevision>,
    /// Every file of the archive but the manifest.
    pub contents: BTreeMap<Utf8PathBuf, Content>,
}

/// A revision's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedRevision {
    /// What became of its build.
    pub build: ArchivedBuild,
    /// What lies below [`Manifest::root`] while its tests run.
    pub files: BTreeMap<Utf8PathBuf, Placed>,
}

/// What became of a revision's build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchivedBuild {
    /// It is in the archive's store, under this key.
    Done(String),
    /// It failed on the build host.
    Failed(BuildFailure),
}

/// The library that counts a test's GPU memory. The machine that builds need not have a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Injection {
    /// A file of the archive.
    Library(Utf8PathBuf),
    /// There is none, for this reason.
    Absent(String),
}

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Hash of the content.
    pub blake3: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it is run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// What lies at a path while tests run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placed {
    /// The file `data/<hash>`.
    File {
        /// Its hash.
        blake3: String,
        /// Whether it is run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A symbolic link with this target.
    Link(Utf8PathBuf),
}

/// Where a file of this hash lies, that tests and the loader find by another path.
pub(crate) fn data_path(blake3: &str) -> Utf8PathBuf {
    Utf8Path::new("data").join(blake3)
}
