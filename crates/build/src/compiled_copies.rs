//! Which source a crate outside of the repository was compiled from: cargo's own, or an edited copy. Cargo
//! does not see the difference, so a mark next to the library says it. Libraries from another source
//! than a build needs are removed before cargo runs. Cargo then compiles them again, and what
//! depends on them, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Artifact, TargetKind};
use serde::{Deserialize, Serialize};

use crate::trace::dependency_copies::{CopiedCrate, EditedCopy};
use memprof_support::regular_file::followed;

/// The extension of the mark next to a library that was compiled from an edited copy.
pub(crate) const MARK: &str = "memprof-copy";

/// The content of a mark.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// The root source that cargo names.
    original: PathBuf,
    /// The hash of what the copy has in addition to it.
    edits: String,
}

/// Calls the compiler for a copy, and marks the library. Returns the compiler's exit code.
pub(crate) fn compile(argv: &[OsString], mark: &Path, copy: &CopiedCrate) -> anyhow::Result<i32> {
    // If this process is killed, the library has no mark, and is not used for a traced build.
    if mark.exists() {
        fs_err::remove_file(mark)?;
    }
    let status = Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::inherit()).status();
    let status = status.with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    if status.success() {
        let text = Mark { original: copy.original_root(), edits: copy.edits.clone() };
        fs_err::write(mark, serde_json::to_vec(&text)?)?;
    }
    // A compiler that a signal killed has no exit code. Cargo must not take this for success.
    Ok(status.code().unwrap_or(101))
}

/// The copies that a build needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeededCopies {
    /// The hash of a copy's edits, by the root source of the original.
    edits: BTreeMap<PathBuf, String>,
    /// The libraries' names.
    names: BTreeSet<String>,
    /// Cargo's folder for the requested target, in which the tests' libraries are. Build scripts and
    /// procedural macros then use the originals. `None` if they share the libraries of the tests.
    folder_of_target: Option<String>,
}

impl NeededCopies {
    /// Takes the copies that have edits. `target` is the requested target, if there is one.
    pub(crate) fn from_copies(copies: &[EditedCopy], target: Option<&str>) -> Self {
        let edited = || copies.iter().filter(|copy| copy.is_edited());
        let of_copy = |copy: &EditedCopy| (copy.place.original_root(), copy.place.edits.clone());
        // A target may be the path of a specification, which has the name of cargo's folder.
        let folder = target.map(|target| {
            let path = Utf8Path::new(target);
            let is_file = path.extension() == Some("json");
            if is_file { path.file_stem().unwrap_or(target) } else { target }.to_owned()
        });
        Self {
            edits: edited().map(of_copy).collect(),
            names: edited().map(|copy| copy.library.clone()).collect(),
            folder_of_target: folder,
        }
    }

    /// Removes the libraries below cargo's target folder that were compiled from another source than
    /// this build needs. Returns how many.
    pub fn remove_others(&self, target: &Utf8Path) -> anyhow::Result<usize> {
        let mut removed = 0;
        for folder in library_folders(target) {
            let mut units = BTreeSet::new();
            for entry in folder.read_dir_utf8()? {
                let path = entry?.into_path();
                let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else { continue };
                match extension {
                    MARK => _ = units.insert(stem.to_owned()),
                    "rlib" | "rmeta" => {
                        let unit = stem.strip_prefix("lib").unwrap_or(stem);
                        let name = unit.rsplit_once('-').map_or(unit, |(name, _)| name);
                        if self.names.contains(name) {
                            units.insert(unit.to_owned());
                        }
                    }
                    _ => {}
                }
            }
            let is_other = |unit: &&String| {
                let mark = read(&mark_of(&folder, unit));
                match &mark {
                    Some(mark) => self.needed(&mark.original, &folder) != Some(&mark.edits),
                    // A mark without content is of no known source.
                    None => self.is_of_tests(&folder) || mark_of(&folder, unit).exists(),
                }
            };
            for unit in units.iter().filter(is_other) {
                remove(&folder, unit)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes the libraries of cargo's artifacts that were compiled from another source than this
    /// build needs, and returns their root sources. There are none unless cargo keeps them elsewhere
    /// than in `deps`.
    pub(crate) fn remove_other_artifacts(
        &self,
        artifacts: &[Artifact],
    ) -> anyhow::Result<BTreeSet<Utf8PathBuf>> {
        let mut others = BTreeSet::new();
        let is_library = |artifact: &&Artifact| !artifact.target.kind.contains(&TargetKind::CustomBuild);
        for artifact in artifacts.iter().filter(is_library) {
            let source = &artifact.target.src_path;
            let library = artifact.filenames.iter().find(|file| file.extension() == Some("rmeta"));
            let library = library.or_else(|| artifact.filenames.first());
            let Some((folder, stem)) = library.and_then(|file| Some((file.parent()?, file.file_stem()?)))
            else {
                continue;
            };
            let unit = stem.strip_prefix("lib").unwrap_or(stem);
            let needed = self.needed(source.as_std_path(), folder);
            let mark = read(&mark_of(folder, unit));
            if mark.as_ref().map(|mark| &mark.edits) != needed {
                remove(folder, unit)?;
                others.insert(source.clone());
            }
        }
        Ok(others)
    }

    /// Returns the hash of the edits that the crate with this root needs; `None` for the original.
    fn needed(&self, original: &Path, folder: &Utf8Path) -> Option<&String> {
        self.edits.get(original).filter(|_| self.is_of_tests(folder))
    }

    /// Whether the libraries in a folder are those of the tests.
    fn is_of_tests(&self, folder: &Utf8Path) -> bool {
        self.folder_of_target
            .as_deref()
            .is_none_or(|name| folder.components().any(|part| part.as_str() == name))
    }
}

/// Returns the folders in which cargo keeps libraries: `PROFILE/deps` and `TARGET/PROFILE/deps`.
pub(crate) fn library_folders(target: &Utf8Path) -> Vec<Utf8PathBuf> {
    let folders = |of: &Utf8Path| -> Vec<Utf8PathBuf> {
        let entries = of.read_dir_utf8().into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(camino::Utf8DirEntry::into_path).collect()
    };
    let outer = folders(target);
    let inner: Vec<_> = outer.iter().flat_map(|folder| folders(folder)).collect();
    let all = outer.iter().chain(&inner).map(|folder| folder.join("deps"));
    all.filter(|folder| folder.is_dir()).collect()
}

fn mark_of(folder: &Utf8Path, unit: &str) -> Utf8PathBuf {
    folder.join(format!("{unit}.{MARK}"))
}

fn read(mark: &Utf8Path) -> Option<Mark> {
    serde_json::from_slice(&followed::read(mark).ok()?).ok()
}

/// Removes what the compiler wrote for a unit, so that cargo compiles it again. A mark is last, so that nothing is left
/// without one if this process is killed.
pub(crate) fn remove(folder: &Utf8Path, unit: &str) -> anyhow::Result<()> {
    let mark = mark_of(folder, unit);
    for entry in folder.read_dir_utf8()? {
        let path = entry?.into_path();
        let name = path.file_name().unwrap_or_default();
        let of_unit = name.strip_prefix("lib").unwrap_or(name).strip_prefix(unit);
        let of_unit = of_unit.or_else(|| name.strip_prefix(unit));
        if path != mark && of_unit.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            fs_err::remove_file(&path)?;
        }
    }
    if mark.exists() {
        fs_err::remove_file(mark)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Target {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
    }

    impl Target {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Utf8PathBuf::try_from(folder.path().to_owned()).unwrap();
            Self { _folder: folder, root }
        }

        /// A compiled library with its other files. `edits` of `None` is the original.
        fn add(&self, folder: &str, unit: &str, edits: Option<&str>) {
            let folder = self.root.join(folder);
            fs_err::create_dir_all(&folder).unwrap();
            for name in [format!("lib{unit}.rlib"), format!("lib{unit}.rmeta"), format!("{unit}.d")] {
                fs_err::write(folder.join(name), "").unwrap();
            }
            if let Some(edits) = edits {
                let mark =
                    Mark { original: "/registry/itoa-1.0.1/src/lib.rs".into(), edits: edits.to_owned() };
                fs_err::write(mark_of(&folder, unit), serde_json::to_vec(&mark).unwrap()).unwrap();
            }
        }

        fn files(&self) -> Vec<String> {
            let entries = walkdir::WalkDir::new(&self.root).into_iter().filter_map(Result::ok);
            let libraries =
                entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "rlib"));
            let name = |entry: walkdir::DirEntry| {
                entry.path().strip_prefix(&self.root).unwrap().display().to_string()
            };
            let mut names: Vec<String> = libraries.map(name).collect();
            names.sort();
            names
        }
    }

    fn needed(edits: Option<&str>, target: Option<&str>) -> NeededCopies {
        let edits = edits.map(|edits| (PathBuf::from("/registry/itoa-1.0.1/src/lib.rs"), edits.to_owned()));
        let names = edits.iter().map(|_| "itoa".to_owned()).collect();
        NeededCopies {
            edits: edits.into_iter().collect(),
            names,
            folder_of_target: target.map(str::to_owned),
        }
    }

    #[test]
    fn libraries_of_other_sources_are_removed_and_no_others() {
        let target = Target::new();
        target.add("debug/deps", "itoa-1", None);
        target.add("debug/deps", "itoa-2", Some("a"));
        target.add("debug/deps", "itoa-3", Some("b"));
        target.add("debug/deps", "itoa_more-1", None);
        target.add("debug/deps", "bart-1", None);
        let left = |edits: Option<&str>, others: usize| {
            assert_eq!(needed(edits, None).remove_others(&target.root).unwrap(), others);
            target.files().join(" ").replace("debug/deps/lib", "").replace(".rlib", "")
        };
        assert_eq!(left(Some("a"), 2), "bart-1 itoa-2 itoa_more-1");
        assert_eq!(left(Some("a"), 0), "bart-1 itoa-2 itoa_more-1");
        // An untraced build needs the original, which cargo compiles under the same name.
        assert_eq!(left(None, 1), "bart-1 itoa_more-1");
        assert!(!target.root.join("debug/deps/itoa-2.memprof-copy").exists());
        assert_eq!(needed(Some("a"), None).remove_others(&target.root.join("missing")).unwrap(), 0);
    }

    #[test]
    fn build_scripts_keep_the_original_if_a_target_is_requested() {
        let target = Target::new();
        target.add("debug/deps", "itoa-1", None);
        target.add("debug/deps", "itoa-2", Some("a"));
        target.add("musl/debug/deps", "itoa-3", None);
        target.add("musl/debug/deps", "itoa-4", Some("a"));
        assert_eq!(needed(Some("a"), Some("musl")).remove_others(&target.root).unwrap(), 2);
        assert_eq!(target.files(), ["debug/deps/libitoa-1.rlib", "musl/debug/deps/libitoa-4.rlib"]);
    }

    #[test]
    fn cargos_own_artifacts_are_checked_once_more() {
        let target = Target::new();
        target.add("elsewhere", "itoa-1", Some("a"));
        let file = |name: &str| target.root.join("elsewhere").join(name);
        let artifact = serde_json::json!({
            "package_id": "registry+https://github.com/rust-lang/crates.io-index#itoa@1.0.1",
            "manifest_path": "/registry/itoa-1.0.1/Cargo.toml",
            "target": {
                "kind": ["lib"], "crate_types": ["lib"], "name": "itoa", "edition": "2021",
                "src_path": "/registry/itoa-1.0.1/src/lib.rs", "doc": true, "doctest": true, "test": true,
            },
            "profile": {
                "opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": false,
            },
            "features": [], "fresh": true, "executable": null,
            "filenames": [file("libitoa-1.rlib"), file("libitoa-1.rmeta")],
        });
        let artifacts = [serde_json::from_value::<Artifact>(artifact).unwrap()];
        let others = |edits| needed(edits, None).remove_other_artifacts(&artifacts).unwrap().len();
        assert_eq!((others(Some("a")), target.files().len()), (0, 1));
        assert_eq!((others(Some("b")), target.files().len()), (1, 0));
        // Without a mark, it is the original.
        assert_eq!((others(None), others(Some("a"))), (0, 1));
    }

    #[test]
    fn a_mark_says_what_the_library_was_compiled_from() {
        let target = Target::new();
        let mark = target.root.join("itoa-1.memprof-copy");
        let copy = CopiedCrate {
            original: "/registry/itoa-1.0.1".into(),
            root: "src/lib.rs".into(),
            copy: "/copies/itoa-1.0.1".into(),
            edits: "a".to_owned(),
        };
        let compile = |program: &str| super::compile(&[program.into()], mark.as_std_path(), &copy).unwrap();
        assert_eq!(compile("true"), 0);
        assert_eq!(read(&mark).unwrap().edits, "a");
        assert_eq!(compile("false"), 1);
        assert!(!mark.exists(), "a library that did not compile is of no source");
    }
}
