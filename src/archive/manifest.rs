//! An archive's manifest: the machine that it is for, what to run, and the hash of each file.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::build::failure::BuildFailure;

/// The manifest's file name.
pub const MANIFEST: &str = "archive.json";

/// The version of the archive format: the manifest, and everything that it refers to.
pub const VERSION: u32 = 2;

/// What an archive contains, and for which machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The tool's version.
    pub tool: String,
    /// The target triple of the executables.
    pub target: String,
    /// Whether the user configured a runner, such as an emulator. The executables may then be for
    /// another machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_runner: bool,
    /// The dynamic loaders that the executables name.
    pub loaders: Vec<Utf8PathBuf>,
    /// The folder on the build host that holds the checkout and the target folder. Paths below it
    /// are compiled into the executables.
    pub root: Utf8PathBuf,
    /// The library that the CUDA driver loads into test processes.
    pub injection: ArchivedInjection,
    /// The metrics that `memprof.yaml` shows.
    pub metrics: Vec<String>,
    /// The revisions, in the plan's order.
    pub revisions: Vec<ArchivedRevision>,
    /// Every file of the archive, except the manifest.
    pub contents: BTreeMap<Utf8PathBuf, Content>,
}

/// A revision's part of an archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedRevision {
    /// The result of its build.
    pub build: ArchivedBuild,
    /// The files below [`Manifest::root`] while its tests run.
    pub files: BTreeMap<Utf8PathBuf, Placed>,
}

/// The result of a revision's build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchivedBuild {
    /// It succeeded and is in the archive's store, under this key.
    Done(String),
    /// It failed on the build host.
    Failed(BuildFailure),
}

/// The library that counts a test's GPU memory. The machine that builds need not have a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchivedInjection {
    /// A file of the archive.
    Library(Utf8PathBuf),
    /// It is missing, for this reason.
    Absent(String),
}

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Hash of its content.
    pub blake3: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it is run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// What tests find at a path.
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

/// Returns the path in the archive of the file with this hash. Tests and the loader find it at
/// another path.
pub(crate) fn data_path(blake3: &str) -> Utf8PathBuf {
    Utf8Path::new("data").join(blake3)
}
