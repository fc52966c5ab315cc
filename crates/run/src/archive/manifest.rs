//! An archive's manifest: the machine that it is for, what to run, and the hash of each file.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use memprof_build::failure::BuildFailure;

/// The manifest's file name.
pub(crate) const MANIFEST: &str = "archive.json";

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
    pub injection: ArchivedLibrary,
    /// The library that counts the C library's allocator, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malloc: Option<ArchivedLibrary>,
    /// The metrics that `memprof.yaml` shows.
    pub metrics: Vec<String>,
    /// The revisions, in the plan's order.
    pub revisions: Vec<ArchivedRevision>,
    /// Every file of the archive, except the manifest.
    pub contents: BTreeMap<Utf8PathBuf, Content>,
}

/// The folders below the manifest's root that exist while tests run.
pub(crate) mod subfolder {
    /// The checkout.
    pub(crate) const CHECKOUT: &str = "worktree";
    /// The crate for external overlays.
    pub(crate) const EXTERNAL: &str = "external";
    /// Cargo's target folder.
    pub const TARGET: &str = "target";
    /// Libraries of the toolchain.
    pub(crate) const LIBRARIES: &str = "libraries";
    /// All of them.
    pub(crate) const ALL: [&str; 4] = [CHECKOUT, EXTERNAL, TARGET, LIBRARIES];
}

impl Manifest {
    /// Checks that no path in the manifest leads out of its folder.
    ///
    /// # Errors
    ///
    /// What is wrong, with the path.
    pub(crate) fn check(&self) -> Result<(), String> {
        let check = |is_valid: bool, what: &str, path: &str| {
            if is_valid { Ok(()) } else { Err(format!("{what}: '{path}'")) }
        };
        let root = self.root.strip_prefix("/").is_ok_and(stays_inside);
        check(root, "its folder is not an absolute path", self.root.as_str())?;
        for path in self.contents.keys() {
            check(stays_inside(path), "it contains an invalid path", path.as_str())?;
        }
        for library in std::iter::once(&self.injection).chain(&self.malloc) {
            if let ArchivedLibrary::Library(path) = library {
                check(self.contents.contains_key(path), "it does not contain its library", path.as_str())?;
            }
        }
        for ArchivedRevision { build, files } in &self.revisions {
            if let ArchivedBuild::Done(key) = build {
                check(is_hash(key), "the key of a build is invalid", key)?;
            }
            for (path, placed) in files {
                let first = path.components().next().map_or("", |part| part.as_str());
                let is_below =
                    stays_inside(path) && path.as_str() != first && subfolder::ALL.contains(&first);
                check(is_below, "it places a file at an invalid path", path.as_str())?;
                let is_link = |folder: &Utf8Path| matches!(files.get(folder), Some(Placed::Link(_)));
                let through_link = path.ancestors().skip(1).any(is_link);
                check(!through_link, "it places a file behind a link", path.as_str())?;
                if let Placed::File { blake3, .. } = placed {
                    let is_known = is_hash(blake3) && self.contents.contains_key(&data_path(blake3));
                    check(is_known, "it does not contain the file for", path.as_str())?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a relative path stays below its folder, and is no path of a folder (`a/`, `a/.`).
pub(crate) fn stays_inside(path: &Utf8Path) -> bool {
    let is_file = !["", "."].contains(&path.as_str().rsplit('/').next().unwrap_or_default());
    is_file && path.components().all(|part| matches!(part, Utf8Component::Normal(_)))
}

/// Whether a text is a hash, 64 hexadecimal digits.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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
    /// Succeeded and is in the archive's store, under this key.
    Done(String),
    /// Failed on the build host.
    Failed(BuildFailure),
}

/// A library that counts memory in a test's process. For GPU memory, the machine that builds need not
/// have a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchivedLibrary {
    /// A file of the archive.
    Library(Utf8PathBuf),
    /// Is missing, for this reason.
    Absent(String),
}

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Hash of its content.
    pub blake3: String,
    /// The size in bytes.
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
        /// The hash.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_paths_without_dots_stay_in_their_folder() {
        assert!(stays_inside("a/b".into()));
        for path in ["", "/a", "../a", "a/../../b", ".", "a/", "a/.", "a/./"] {
            assert!(!stays_inside(path.into()), "{path}");
        }
    }

    /// What is wrong with an archive that places these files, and has this root, library and key.
    fn problem(files: &[(&str, Placed)], root: &str, library: &str, key: &str) -> Option<String> {
        let content = Content { blake3: "h".to_owned(), bytes: 1, executable: false };
        let contents = [data_path(&"a".repeat(64)), "injection/lib.so".into()];
        let files = files.iter().map(|(path, placed)| ((*path).into(), placed.clone()));
        let manifest = Manifest {
            tool: "0".to_owned(),
            target: "any".to_owned(),
            has_runner: false,
            loaders: Vec::new(),
            root: root.into(),
            injection: ArchivedLibrary::Absent(String::new()),
            malloc: Some(ArchivedLibrary::Library(library.into())),
            metrics: Vec::new(),
            revisions: vec![ArchivedRevision {
                build: ArchivedBuild::Done(key.to_owned()),
                files: files.collect(),
            }],
            contents: contents.into_iter().map(|path| (path, content.clone())).collect(),
        };
        manifest.check().err()
    }

    #[test]
    fn what_leads_out_of_an_archive_is_refused() {
        let file = |digit: &str| Placed::File { blake3: digit.repeat(64), executable: false };
        let link = || Placed::Link("/etc".into());
        let (root, library, key) = ("/home/r", "injection/lib.so", &*"0".repeat(64));
        let usual = [("worktree/a", file("a")), ("worktree/link", link())];
        assert_eq!(problem(&usual, root, library, key), None);
        for files in [
            &[("worktree/link", link()), ("worktree/link/passwd", file("a"))][..],
            &[("../a", file("a"))],
            &[("/etc/a", file("a"))],
            &[("worktree", link())],
            &[("made-for-an-archive", file("a"))],
            &[("worktree/a", file("b"))],
            &[("worktree/a", Placed::File { blake3: "/etc/passwd".to_owned(), executable: false })],
        ] {
            assert!(problem(files, root, library, key).is_some(), "{files:?}");
        }
        for root in ["", "/", "r", "/home/../etc"] {
            assert!(problem(&usual, root, library, key).is_some(), "{root}");
        }
        assert!(problem(&usual, root, "../lib.so", key).is_some());
        assert!(problem(&usual, root, library, "short").is_some());
    }
}
