//! `provenance.json`: where a build's executables came from, and what its key is made of.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::build::wrapper::LIBRARY_PATHS;
use crate::plan::request::TargetKind;
use crate::results::trace_facts::TraceFacts;

/// The version of `provenance.json`'s format.
pub const VERSION: u32 = 2;

/// Everything that decides what is built; its hash is the build's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInputs {
    /// Full hash of the revision's tree.
    pub tree: String,
    /// Folder of the workspace in it.
    pub workspace: Utf8PathBuf,
    /// Hash of the lock file given to a revision that has none; absent where the revision has its own.
    pub lock: Option<String>,
    /// `rustc -vV`.
    pub toolchain: String,
    /// Cargo's arguments: profile, features, target, packages, `--config`.
    pub arguments: Vec<String>,
    /// Variables that builds are known to depend on, and all that the user gave.
    pub environment: BTreeMap<String, String>,
    /// Hash of cargo's configuration outside the repository.
    pub configuration: String,
    /// Hash of the shim's source.
    pub shim: String,
    /// Path and hash of every overlay file.
    pub overlay: BTreeMap<String, String>,
    /// Paths left out of the checkout.
    pub sparse_exclude: Vec<String>,
    /// The folder of the checkout: executables have it built in.
    pub checkout: Utf8PathBuf,
    /// The patterns of functions that are traced. Without any, the key is that of a build which knows nothing of tracing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl KeyInputs {
    /// The build's key: 64 hexadecimal digits.
    ///
    /// # Panics
    ///
    /// Never: plain data has a JSON form.
    pub fn key(&self) -> String {
        let text = serde_json::to_vec(self).expect("the ingredients are plain data");
        blake3::hash(&text).to_hex().to_string()
    }
}

/// `provenance.json`: where a build's executables came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The build's key, which is also built into each executable.
    pub key: String,
    /// The commit that was checked out for the build. Others of the same tree share it.
    pub commit: String,
    /// What the key was made of.
    pub ingredients: KeyInputs,
    /// Hash of the lock file as it was after the build.
    pub lock: Option<String>,
    /// Hash over the sources of all crates of the checkout, as compiled.
    pub sources: String,
    /// The test executables.
    pub executables: Vec<Executable>,
    /// Other outputs that tests run or load by the path they were built at.
    pub companions: Vec<Companion>,
    /// What was laid over the checkout, as paths below `injected/` in the entry's folder.
    pub injected: Vec<Utf8PathBuf>,
    /// The user's runner for the test executables, program first; empty if there is none.
    pub runner: Vec<String>,
    /// The target's triple, where it is not that of the machine that builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The functions that were asked for, and what became of each.
    #[serde(default, skip_serializing_if = "TraceFacts::is_empty")]
    pub trace: TraceFacts,
    /// Why adapters for frameworks that the build has are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A test executable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executable {
    /// The package's name.
    pub package: String,
    /// The target's name.
    pub binary: String,
    /// The target's kind.
    pub kind: TargetKind,
    /// Whether libtest's harness runs its tests; without, it is run whole.
    pub harness: bool,
    /// The tests in it, in the harness's order.
    pub tests: Vec<ListedTest>,
    /// Why the harness could not list them.
    pub unlisted: Option<String>,
    /// File in the entry's folder.
    pub file: Utf8PathBuf,
    /// blake3 of the file, with the key built in.
    pub hash: String,
    /// The folder that cargo starts it in.
    pub directory: Utf8PathBuf,
    /// What cargo adds to its environment.
    pub environment: BTreeMap<String, String>,
    /// Why it has no heap metrics.
    pub heap_absent: Option<String>,
}

impl Executable {
    /// The folders in which cargo has the loader look for shared libraries, in its order.
    pub fn library_folders(&self) -> Vec<Utf8PathBuf> {
        let paths = LIBRARY_PATHS.iter().filter_map(|name| self.environment.get(*name));
        let folders = paths.flat_map(|path| path.split(':')).filter(|folder| !folder.is_empty());
        folders.map(Utf8PathBuf::from).collect()
    }
}

/// A test, as the harness lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTest {
    /// Its path.
    pub name: String,
    /// Whether it is marked `#[ignore]`.
    pub ignored: bool,
}

/// A program or shared library of the build that is not a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Companion {
    /// Where tests look for it.
    pub path: Utf8PathBuf,
    /// File in the entry's folder.
    pub file: Utf8PathBuf,
    /// blake3 of the file.
    pub hash: String,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A build's key.
    pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// An executable without tests.
    pub(crate) fn executable() -> Executable {
        Executable {
            package: "p".into(),
            binary: "b".into(),
            kind: TargetKind::Lib,
            harness: true,
            tests: Vec::new(),
            unlisted: None,
            file: "t".into(),
            hash: String::new(),
            directory: "/".into(),
            environment: BTreeMap::new(),
            heap_absent: None,
        }
    }

    /// A build of this executable.
    pub(crate) fn provenance(executable: Executable) -> Provenance {
        let ingredients = KeyInputs {
            tree: "t".into(),
            workspace: "".into(),
            lock: None,
            toolchain: "rustc".into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            configuration: String::new(),
            shim: "s".into(),
            overlay: BTreeMap::new(),
            sparse_exclude: Vec::new(),
            checkout: "/c".into(),
            trace: Vec::new(),
        };
        Provenance {
            version: VERSION,
            key: KEY.into(),
            commit: "c".into(),
            ingredients,
            lock: None,
            sources: "d".into(),
            executables: vec![executable],
            companions: Vec::new(),
            injected: Vec::new(),
            runner: Vec::new(),
            target: None,
            trace: TraceFacts::default(),
            left_out: Vec::new(),
        }
    }
}
