//! What cargo does not look at, although a build script, a procedural macro or a vendored crate may depend on it:
//! files of the repository. They are hashed by git's ids, so none is read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Artifact, TargetKind};
use serde::{Deserialize, Serialize};

use crate::cargo::messages::{self, LocalScript, Messages};
use crate::documentation::is_documentation;
use crate::git::changed_submodules::is_submodule;
use crate::watched::{self, Told};

/// Who may read files that cargo does not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Reader {
    /// A crate of a package of the repository, through its procedural macros.
    Crate,
    /// A build script that names files with `rerun-if-changed`. It may read others of its package and around it, too.
    NamingScript,
    /// A build script that says nothing. Cargo looks at the times in its package.
    SilentScript,
    /// A build script that names only variables. Cargo looks at no file.
    VariableScript,
    /// A crate or a build script of a vendored package. Cargo looks at the package's version.
    Vendored,
}

impl Reader {
    /// Returns what an artifact is; `None` if its sources are not in the repository. `known` is what a fresh one was
    /// before: at an error, cargo ends before it reports what a fresh script told.
    pub fn of_artifact(
        artifact: &Artifact,
        messages: &Messages,
        checkout: &Utf8Path,
        known: Option<Self>,
    ) -> Option<Self> {
        if !messages::is_path_package(artifact) {
            return artifact.manifest_path.starts_with(checkout).then_some(Self::Vendored);
        }
        if !artifact.target.kind.contains(&TargetKind::CustomBuild) {
            return Some(Self::Crate);
        }
        let scripts = messages.scripts.iter().filter(|script| script.package == artifact.package_id);
        Some(scripts.map(Self::of_script).max().or(known).unwrap_or(Self::VariableScript))
    }

    /// Whether this is a build script that is not vendored.
    pub fn is_script(self) -> bool {
        matches!(self, Self::NamingScript | Self::SilentScript | Self::VariableScript)
    }

    fn of_script(script: &LocalScript) -> Self {
        match watched::told_by(script) {
            Some(Told::Files(_)) => Self::NamingScript,
            Some(Told::Nothing) => Self::SilentScript,
            Some(Told::Variables) | None => Self::VariableScript,
        }
    }
}

/// The files of a checkout, by the package that they belong to.
pub(crate) struct UnwatchedFiles {
    checkout: Utf8PathBuf,
    packages: BTreeMap<Utf8PathBuf, Files>,
    known: RefCell<BTreeMap<(Reader, Utf8PathBuf), String>>,
}

/// Hashes of the files of a package.
#[derive(Default)]
struct Files {
    /// The names of all.
    names: blake3::Hasher,
    all: blake3::Hasher,
    /// The manifest and the lock file.
    manifests: blake3::Hasher,
    /// All others that are neither Rust nor documentation.
    data: blake3::Hasher,
    /// Whether git knows only the commit of these files.
    is_submodule: bool,
}

impl UnwatchedFiles {
    /// Takes the files of a checkout, each with what git says about it: mode, type and id.
    pub fn from_files(checkout: &Utf8Path, files: &BTreeMap<Utf8PathBuf, String>) -> Self {
        let is_manifest = |path: &Utf8Path| path.file_name() == Some("Cargo.toml");
        let mut folders = BTreeSet::from([Utf8Path::new("")]);
        folders.extend(files.keys().filter(|path| is_manifest(path)).filter_map(|path| path.parent()));
        folders.extend(files.iter().filter(|(_, facts)| is_submodule(facts)).map(|(path, _)| path.as_path()));
        let mut packages: BTreeMap<Utf8PathBuf, Files> = BTreeMap::new();
        for (path, facts) in files {
            let owner = path.ancestors().find(|folder| folders.contains(folder)).unwrap_or("".into());
            let package = packages.entry(owner.to_owned()).or_default();
            package.is_submodule |= is_submodule(facts);
            let mut add = |hasher: fn(&mut Files) -> &mut blake3::Hasher| {
                hasher(package)
                    .update(path.as_str().as_bytes())
                    .update(&[0])
                    .update(facts.as_bytes())
                    .update(&[0]);
            };
            add(|files| &mut files.all);
            if is_manifest(path) || path.file_name() == Some("Cargo.lock") {
                add(|files| &mut files.manifests);
            } else if path.extension() != Some("rs") && !is_documentation(path, Some(owner)) {
                add(|files| &mut files.data);
            }
            package.names.update(path.as_str().as_bytes()).update(&[0]);
        }
        Self { checkout: checkout.to_owned(), packages, known: RefCell::default() }
    }

    /// Returns a hash of all that this reader in this package may read, and at which cargo does not look.
    ///
    /// Rust sources of other packages do not count: then each commit would run the scripts again. Files outside of the
    /// repository do not count either.
    pub fn hash(&self, reader: Reader, package: &Utf8Path) -> String {
        let Ok(package) = package.strip_prefix(&self.checkout) else { return String::new() };
        let mut known = self.known.borrow_mut();
        known.entry((reader, package.to_owned())).or_insert_with(|| self.hash_of(reader, package)).clone()
    }

    fn hash_of(&self, reader: Reader, package: &Utf8Path) -> String {
        let mut hash = blake3::Hasher::new();
        for (folder, files) in &self.packages {
            let is_own = folder == package || files.is_submodule && package.starts_with(folder);
            let is_inside = is_own || folder.starts_with(package);
            let mut add = |part: &blake3::Hasher| _ = hash.update(part.finalize().as_bytes());
            match reader {
                Reader::Vendored if is_own => add(&files.all),
                // What is around it may belong to no package, such as `migrations` or `csrc` at the root.
                Reader::Crate | Reader::NamingScript if is_inside || package.starts_with(folder) => {
                    add(&files.data);
                }
                Reader::Crate | Reader::NamingScript | Reader::Vendored => {}
                Reader::SilentScript | Reader::VariableScript => {
                    add(&files.data);
                    add(&files.manifests);
                }
            }
            match reader {
                // A macro may list a folder of sources.
                Reader::Crate | Reader::SilentScript if is_own => add(&files.names),
                Reader::VariableScript if is_own => add(&files.all),
                _ => {}
            }
        }
        hash.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a workspace whose root has no package, and of two packages, one in the other.
    const FILES: [&str; 14] = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "migrations/1.sql",
        "db/Cargo.toml",
        "db/build.rs",
        "db/src/lib.rs",
        "db/LICENSE",
        "db/data/a.txt",
        "db/inner/Cargo.toml",
        "db/inner/b.txt",
        "db/inner/src/lib.rs",
        "app/Cargo.toml",
        "app/c.txt",
    ];

    fn files(change: impl FnOnce(&mut BTreeMap<Utf8PathBuf, String>)) -> UnwatchedFiles {
        let mut files = FILES.iter().map(|path| ((*path).into(), "100644 blob 1".to_owned())).collect();
        change(&mut files);
        UnwatchedFiles::from_files("/c".into(), &files)
    }

    /// The readers in `db` that a change concerns.
    fn concerned(change: impl FnOnce(&mut BTreeMap<Utf8PathBuf, String>)) -> Vec<Reader> {
        use Reader::{Crate, NamingScript, SilentScript, VariableScript, Vendored};
        let (before, after) = (files(|_| {}), files(change));
        let hash = |files: &UnwatchedFiles, reader| files.hash(reader, "/c/db".into());
        let all = [Crate, NamingScript, SilentScript, VariableScript, Vendored];
        all.into_iter().filter(|reader| hash(&before, *reader) != hash(&after, *reader)).collect()
    }

    #[test]
    fn a_file_concerns_whoever_may_read_it_without_a_word_to_cargo() {
        use Reader::{Crate, NamingScript, SilentScript, VariableScript, Vendored};
        let changed =
            |path: &str| concerned(|files| _ = files.insert(path.into(), "100644 blob 2".to_owned()));
        let removed = |path: &str| concerned(|files| _ = files.remove(Utf8Path::new(path)));
        let scripts = [SilentScript, VariableScript];
        let data = [Crate, NamingScript, SilentScript, VariableScript];
        assert_eq!(changed("db/data/a.txt"), [&data[..], &[Vendored]].concat());
        assert_eq!(removed("db/data/a.txt"), [&data[..], &[Vendored]].concat());
        assert_eq!(changed("db/inner/b.txt"), data);
        assert_eq!(changed("migrations/1.sql"), data);
        assert_eq!(changed("app/c.txt"), scripts);
        assert_eq!(changed("Cargo.lock"), scripts);
        // Cargo looks at the dep-info and at the manifest.
        assert_eq!(changed("db/src/lib.rs"), [VariableScript, Vendored]);
        assert_eq!(changed("db/src/new.rs"), [Crate, SilentScript, VariableScript, Vendored]);
        assert_eq!(changed("db/Cargo.toml"), [SilentScript, VariableScript, Vendored]);
        assert_eq!(changed("db/LICENSE"), [VariableScript, Vendored]);
        for path in ["README.md", "app/src/lib.rs", "db/inner/src/lib.rs"] {
            assert_eq!(changed(path), [], "{path}");
        }
    }

    #[test]
    fn a_script_of_which_cargo_says_nothing_is_what_it_was() {
        let artifact: Artifact = serde_json::from_str(
            r#"{"package_id": "path+file:///c/db#0.1.0", "manifest_path": "/c/db/Cargo.toml", "filenames": [],
            "target": {"kind": ["custom-build"], "crate_types": ["bin"], "name": "build-script-build",
            "src_path": "/c/db/build.rs"}, "features": [], "fresh": true, "executable": null,
            "profile": {"opt_level": "0", "debug_assertions": true, "overflow_checks": true, "test": false}}"#,
        )
        .unwrap();
        let mut messages = Messages::default();
        let reader =
            |messages: &Messages, known| Reader::of_artifact(&artifact, messages, "/c".into(), known);
        assert_eq!(reader(&messages, Some(Reader::NamingScript)), Some(Reader::NamingScript));
        assert_eq!(reader(&messages, None), Some(Reader::VariableScript));
        let folder = tempfile::tempdir().unwrap();
        let out = Utf8Path::from_path(folder.path()).unwrap().join("out");
        fs_err::write(out.with_file_name("output"), "").unwrap();
        messages.scripts.push(LocalScript { package: artifact.package_id.clone(), out });
        assert_eq!(reader(&messages, Some(Reader::NamingScript)), Some(Reader::SilentScript));
    }

    #[test]
    fn the_commit_of_a_submodule_stands_for_its_files() {
        let with =
            |commit: &str| files(|files| _ = files.insert("sub".into(), format!("160000 commit {commit}")));
        let hash = |commit, reader| with(commit).hash(reader, "/c/sub/crates/x".into());
        for reader in [Reader::Crate, Reader::NamingScript, Reader::SilentScript, Reader::Vendored] {
            assert_ne!(hash("1", reader), hash("2", reader), "{reader:?}");
        }
        assert_eq!(with("1").hash(Reader::Crate, "/elsewhere".into()), "");
    }
}
