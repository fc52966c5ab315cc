//! Which source a crate outside of the repository was compiled from: cargo's own, or an edited copy. Cargo
//! does not see the difference, so a mark next to the library says it. Libraries from another source
//! than a build needs are removed before cargo runs. Cargo then compiles them again, and what
//! depends on them, and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Artifact, TargetKind};
use serde::{Deserialize, Serialize};

use crate::trace::dependency_copies::EditedCopy;
use crate::trace::originals::{self, CopiedCrate, Original};
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

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

/// Calls the compiler for a copy of a folder, and marks the library. Returns the compiler's exit code.
pub(crate) fn compile(
    argv: &[OsString],
    mark: &Path,
    copy: &CopiedCrate,
    original: &Path,
) -> anyhow::Result<i32> {
    // If this process is killed, the library has no mark, and is not used for a traced build.
    if mark.exists() {
        fs_err::remove_file(mark)?;
    }
    let status = Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::inherit()).status();
    let status = status.with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    if status.success() {
        let text = Mark { original: original.join(&copy.root), edits: copy.edits.clone() };
        fs_err::write(mark, serde_json::to_vec(&text)?)?;
    }
    // A compiler that a signal killed has no exit code. Cargo must not take this for success.
    Ok(status.code().unwrap_or(101))
}

/// The copies that a build needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeededCopies {
    /// Those with edits.
    copies: Vec<CopiedCrate>,
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
        // A target may be the path of a specification, which has the name of cargo's folder.
        let folder = target.map(|target| {
            let path = Utf8Path::new(target);
            let is_file = path.extension() == Some("json");
            if is_file { path.file_stem().unwrap_or(target) } else { target }.to_owned()
        });
        Self {
            copies: edited().map(|copy| copy.place.clone()).collect(),
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
        for artifact in artifacts.iter().filter(|artifact| is_library(artifact)) {
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

    /// Checks that cargo compiled the crates where the wrapper expects them.
    ///
    /// # Errors
    /// A crate was compiled elsewhere, so that its copy was not used.
    pub(crate) fn check_places(&self, artifacts: &[Artifact]) -> Result<(), UserError> {
        for copy in &self.copies {
            let Original::Registry { registry, title, .. } = &copy.original else { continue };
            let is_of_crate =
                |one: &&Artifact| is_library(one) && is_of_registry(&one.package_id.repr, title);
            let is_expected =
                |one: &&Artifact| copy.folder_of_root(one.target.src_path.as_std_path()).is_some();
            let compiled: Vec<_> = artifacts.iter().filter(is_of_crate).collect();
            if let Some(first) = compiled.first()
                && !compiled.iter().any(is_expected)
            {
                return Err(UserError::new(format!(
                    "{title} cannot be traced: cargo compiled {}, which is not from an archive in {registry}",
                    first.target.src_path
                ))
                .help(originals::VENDORED));
            }
        }
        Ok(())
    }

    /// Returns the hash of the edits that the crate with this root needs; `None` for the original.
    fn needed(&self, original: &Path, folder: &Utf8Path) -> Option<&String> {
        let mut copies = self.copies.iter().filter(|_| self.is_of_tests(folder));
        copies.find(|copy| copy.folder_of_root(original).is_some()).map(|copy| &copy.edits)
    }

    /// Whether the libraries in a folder are those of the tests.
    fn is_of_tests(&self, folder: &Utf8Path) -> bool {
        self.folder_of_target
            .as_deref()
            .is_none_or(|name| folder.components().any(|part| part.as_str() == name))
    }
}

fn is_library(artifact: &Artifact) -> bool {
    !artifact.target.kind.contains(&TargetKind::CustomBuild)
}

/// Whether this is cargo's id of the registry's crate `NAME-VERSION`. Accepts its ids before and since
/// Rust 1.77.
fn is_of_registry(id: &str, title: &str) -> bool {
    let is_crate = |own: &str| own.replacen(['@', ' '], "-", 1) == title;
    let parts = id.split_once(" (").or_else(|| id.rsplit_once('#').map(|(source, own)| (own, source)));
    let is_index = |source: &str| source.starts_with("registry+") || source.starts_with("sparse+");
    parts.is_some_and(|(own, source)| is_index(source) && is_crate(own))
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

    fn copy(original: Original, edits: &str) -> CopiedCrate {
        let (root, copy) = ("src/lib.rs".into(), "/copies/itoa-1.0.1".into());
        CopiedCrate { original, root, copy, edits: edits.to_owned() }
    }

    /// Cargo's message about the library in a folder.
    fn artifact(root: &Utf8Path, files: &[Utf8PathBuf]) -> Artifact {
        let artifact = serde_json::json!({
            "package_id": "registry+https://github.com/rust-lang/crates.io-index#itoa@1.0.1",
            "manifest_path": root.join("Cargo.toml"),
            "target": {
                "kind": ["lib"], "crate_types": ["lib"], "name": "itoa", "edition": "2021",
                "src_path": root.join("src/lib.rs"), "doc": true, "doctest": true, "test": true,
            },
            "profile": {
                "opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": false,
            },
            "features": [], "fresh": true, "executable": null,
            "filenames": files,
        });
        serde_json::from_value(artifact).unwrap()
    }

    fn needed(edits: Option<&str>, target: Option<&str>) -> NeededCopies {
        NeededCopies {
            copies: edits
                .map(|edits| copy(Original::Folder("/registry/itoa-1.0.1".into()), edits))
                .into_iter()
                .collect(),
            names: edits.iter().map(|_| "itoa".to_owned()).collect(),
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
        let files = [file("libitoa-1.rlib"), file("libitoa-1.rmeta")];
        let artifacts = [artifact(Utf8Path::new("/registry/itoa-1.0.1"), &files)];
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
        let original = Path::new("/registry/itoa-1.0.1");
        let copy = copy(Original::Folder(original.to_owned()), "a");
        let compile =
            |program: &str| super::compile(&[program.into()], mark.as_std_path(), &copy, original).unwrap();
        assert_eq!(compile("true"), 0);
        assert_eq!(read(&mark).unwrap().edits, "a");
        assert_eq!(compile("false"), 1);
        assert!(!mark.exists(), "a library that did not compile is of no source");
    }

    #[test]
    fn a_crate_that_is_compiled_from_elsewhere_is_an_error() {
        let target = Target::new();
        let registry = target.root.join("registry");
        fs_err::create_dir_all(registry.join("cache/new")).unwrap();
        fs_err::write(registry.join("cache/new/itoa-1.0.1.crate"), "abc").unwrap();
        let check = |places: &[&str]| {
            let original = Original::Registry {
                registry: registry.clone(),
                title: "itoa-1.0.1".to_owned(),
                checksum: originals::checksum_of(b"abc"),
            };
            let needed = NeededCopies { copies: vec![copy(original, "a")], ..NeededCopies::default() };
            let compiled: Vec<_> =
                places.iter().map(|place| artifact(&target.root.join(place), &[])).collect();
            needed.check_places(&compiled).map_err(|error| error.to_string())
        };
        let (expected, vendored) = ("registry/src/new/itoa-1.0.1", "vendor/itoa");
        assert_eq!(check(&[]), Ok(()), "of another platform");
        assert_eq!(check(&[expected]), Ok(()));
        assert_eq!(check(&[vendored, expected]), Ok(()), "another registry has the same name");
        let error = check(&[vendored]).unwrap_err();
        assert!(error.contains("itoa-1.0.1 cannot be traced: cargo compiled "), "{error}");
        assert!(error.contains("vendor/itoa/src/lib.rs"), "{error}");
    }

    #[test]
    fn ids_of_all_versions_of_cargo_name_a_crate_of_the_registry() {
        let is_itoa = |id: &str| is_of_registry(id, "itoa-1.0.1");
        assert!(is_itoa("registry+https://github.com/rust-lang/crates.io-index#itoa@1.0.1"));
        assert!(is_itoa("itoa 1.0.1 (registry+https://github.com/rust-lang/crates.io-index)"));
        assert!(is_itoa("sparse+https://example.org/index/#itoa@1.0.1"));
        assert!(!is_itoa("registry+https://github.com/rust-lang/crates.io-index#itoa@1.0.10"));
        assert!(!is_itoa("git+https://example.org/itoa?rev=1#itoa@1.0.1"));
        assert!(!is_itoa("path+file:///itoa#1.0.1"));
    }
}
