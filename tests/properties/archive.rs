//! Archives. A machine that runs one gets it from another machine, or from a stranger.
//!
//! An input describes an archive, one entry a line: a letter, a path, and a text. See [`Recipe::line`]. If it begins with `=`, the
//! rest is the file itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use camino::{Utf8Path, Utf8PathBuf};
use memprof_build::attempts::Build;
use memprof_build::test_tree::TestTree;
use memprof_run::archive::extracted_tree::ExtractedTree;
use memprof_run::archive::file::Archive;
use memprof_run::archive::manifest::VERSION;
use memprof_run::archive::unpacked::Unpacked;
use memprof_support::advice;
use memprof_support::event::Event;
use memprof_support::file_lock::WhenHeld;
use memprof_support::sealed;
use memprof_support::user_error::UserError;
use serde_json::{Value, json};

use super::Target;

pub const TARGET: Target = Target {
    name: "archive",
    check,
    seeds,
    words: &[
        "\nf ",
        "\nl ",
        "\nh ",
        "\np ",
        "\nk ",
        "\nc ",
        "\nd ",
        "\nr ",
        "\nb ",
        "\nm ",
        "../",
        "/canary",
        "worktree/",
        "target/",
        "store/",
        "data/",
        "archive.json",
        "made-for-an-archive",
        "./",
        "//",
        "\\",
    ],
};

/// Extracting changes nothing outside of the archives' folder and the folder that the archive is for, and in the end only the former is
/// left.
pub fn check(bytes: &[u8]) {
    let guard = tempfile::tempdir().expect("a temporary folder");
    // No number of `..` that a recipe may have leads out of the guard.
    let outside = Utf8Path::from_path(guard.path()).expect("its path is text").join("1/2/3/4/5/6/7/8");
    std::fs::create_dir_all(outside.join("canary/folder")).expect("the folder is new");
    std::fs::write(outside.join("canary/file"), "alive").expect("the folder is there");
    let archives = outside.join("archives");
    let file = outside.join("a.tar.zst");
    let (content, root) = if let Some(raw) = bytes.strip_prefix(b"=") {
        (raw.to_vec(), outside.join("root/r"))
    } else {
        let recipe = Recipe::read(bytes, &outside);
        (recipe.archive(), recipe.root)
    };
    std::fs::write(&file, content).expect("the folder is there");
    // A folder that is there already is not for an archive.
    let mut without = vec![&*archives];
    without.extend(Some(&*root).filter(|root| !root.exists()));
    let before = everything(guard.path(), &without);
    let unpacked = Archive::open(&file).and_then(|archive| archive.unpack(&archives, &|_: Event| {}));
    if let Err(error) = &unpacked {
        assert_names_the_file(advice::is_usage(error) || error.is::<UserError>(), &error.to_string(), &file);
    }
    if let Ok(unpacked) = unpacked {
        for name in ["plan.json", "cells.json"] {
            if let Err(error) = unpacked.read_json::<Value>(name) {
                assert_names_the_file(advice::is_usage(&error), &error.to_string(), &file);
            }
        }
        if let Ok(mut tree) = open(&unpacked) {
            for (revision, build) in tree.builds().unwrap_or_default().iter().enumerate() {
                if let Build::Done(entry) = build {
                    drop(tree.bring_to(revision, entry));
                    assert_same(&before, &everything(guard.path(), &without), &root);
                }
            }
        }
        assert_same(&before, &everything(guard.path(), &[&archives]), &root);
    }
    assert_same(&before, &everything(guard.path(), &without), &root);
}

/// What is wrong with an archive is no fault of the program or of the machine.
fn assert_names_the_file(is_usage: bool, error: &str, file: &Utf8Path) {
    assert!(is_usage && error.contains(file.as_str()), "{error}");
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What lies below a folder, without some folders in it.
fn everything(folder: &Path, without: &[&Utf8Path]) -> Files {
    let mut files = Files::new();
    let walk = walkdir::WalkDir::new(folder).into_iter();
    for entry in
        walk.filter_entry(|entry| !without.iter().any(|one| entry.path() == one.as_std_path())).flatten()
    {
        let content = match entry.file_type() {
            kind if kind.is_file() => std::fs::read(entry.path()).unwrap_or_default(),
            kind if kind.is_symlink() => b"a link".to_vec(),
            _ => b"a folder".to_vec(),
        };
        files.insert(entry.into_path(), content);
    }
    files
}

fn assert_same(before: &Files, after: &Files, root: &Utf8Path) {
    for (path, content) in before {
        assert_eq!(after.get(path), Some(content), "{} changed", path.display());
    }
    // The folders above the root are made, and removed in the end.
    let added =
        after.keys().filter(|path| !before.contains_key(*path) && !root.as_std_path().starts_with(path));
    let added: BTreeSet<_> = added.collect();
    assert!(added.is_empty(), "written outside: {added:?}");
}

/// The text of an archive's own JSON files, whose hash is right.
fn sealed(object: &Value) -> String {
    String::from_utf8(sealed::sealed(object).expect("it is JSON")).expect("JSON is UTF-8")
}

/// What an archive is to hold.
struct Recipe {
    outside: Utf8PathBuf,
    root: Utf8PathBuf,
    tar: tar::Builder<Vec<u8>>,
    contents: serde_json::Map<String, Value>,
    revisions: Vec<serde_json::Map<String, Value>>,
    companions: Vec<Value>,
    directory: Utf8PathBuf,
    key: String,
    manifest: Option<String>,
}

impl Recipe {
    fn read(bytes: &[u8], outside: &Utf8Path) -> Self {
        let root = outside.join("root/r");
        let mut recipe = Self {
            outside: outside.to_owned(),
            directory: root.join("worktree"),
            root,
            tar: tar::Builder::new(Vec::new()),
            contents: serde_json::Map::new(),
            revisions: vec![serde_json::Map::new()],
            companions: Vec::new(),
            key: "0123456789abcdef".repeat(4),
            manifest: None,
        };
        for line in String::from_utf8_lossy(bytes).lines().take(200) {
            recipe.line(line);
        }
        recipe
    }

    /// Takes a line of the recipe.
    fn line(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (letter, path, text) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let safe = self.tamed(path);
        let revision = self.revisions.last_mut().expect("there is one");
        match letter {
            // Entries of the tar archive: a file, a symbolic link, a hard link.
            "f" => self.entry(tar::EntryType::Regular, &safe, text, ""),
            "l" | "h" => {
                let kind = if letter == "l" { tar::EntryType::Symlink } else { tar::EntryType::Link };
                let target = self.tamed(text);
                self.entry(kind, &safe, "", &target);
            }
            // A file that is placed before tests run, and a link.
            "p" => {
                let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
                revision.insert(safe, json!({"file": {"blake3": hash}}));
                self.entry(tar::EntryType::Regular, &format!("data/{hash}"), text, "");
            }
            "P" => {
                let hash = self.tamed(text);
                self.revisions
                    .last_mut()
                    .expect("there is one")
                    .insert(safe, json!({"file": {"blake3": hash}}));
            }
            "k" => {
                let target = self.tamed(text);
                self.revisions.last_mut().expect("there is one").insert(safe, json!({"link": target}));
            }
            // A file that tests load from where it was built.
            "c" => {
                let file = format!("companion-{}", self.companions.len());
                let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
                let path = self.outside.join("root/r").join(safe);
                self.companions.push(json!({"path": path, "file": file, "hash": hash}));
                self.entry(tar::EntryType::Regular, &format!("store/{}/{file}", head(&self.key)), text, "");
            }
            "d" => self.directory = self.root.join(safe),
            "r" => self.root = self.outside.join("root").join(safe),
            "b" => path.clone_into(&mut self.key),
            "m" => self.manifest = Some(format!("{path} {text}")),
            "n" => self.revisions.push(serde_json::Map::new()),
            _ => {}
        }
    }

    /// A path that leads at most six folders up, and that begins at the canary if it is absolute: these properties run with the rights of
    /// whoever runs the tests.
    fn tamed(&self, path: &str) -> String {
        let mut up = 0;
        let parts = path.split('/').filter(|part| {
            up += usize::from(*part == "..");
            *part != ".." || up <= 6
        });
        let tamed = parts.collect::<Vec<_>>().join("/").replace('\0', "");
        match tamed.strip_prefix('/') {
            Some(absolute) => format!("{}/{}", self.outside, absolute.trim_start_matches('/')),
            None => tamed,
        }
    }

    fn entry(&mut self, kind: tar::EntryType, path: &str, text: &str, target: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        // The library itself refuses paths with `..`.
        let name = &mut header.as_gnu_mut().expect("it is new").name;
        if path.len() > name.len() || target.len() > 100 {
            return;
        }
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_gnu_mut().expect("it is new").linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        if self.tar.append(&header, text.as_bytes()).is_ok() && kind == tar::EntryType::Regular {
            let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
            self.contents.insert(path.to_owned(), json!({"blake3": hash, "bytes": text.len()}));
        }
    }

    /// The bytes of the archive, whose hash is right.
    fn archive(&self) -> Vec<u8> {
        let mut recipe = Self { tar: tar::Builder::new(self.tar.get_ref().clone()), ..self.copied() };
        let provenance = sealed(&recipe.provenance());
        recipe.entry(
            tar::EntryType::Regular,
            &format!("store/{}/provenance.json", head(&self.key)),
            &provenance,
            "",
        );
        let manifest = recipe.manifest.clone().unwrap_or_else(|| sealed(&recipe.manifest()));
        recipe.entry(tar::EntryType::Regular, "archive.json", &manifest, "");
        let tar = recipe.tar.into_inner().expect("a vector takes everything");
        let body = zstd::encode_all(&*tar, 1).expect("a vector takes everything");
        let hash = blake3::hash(&body).to_hex().to_string();
        let line = format!("cargo-memprof archive {VERSION:08} {hash}\n");
        let size = u32::try_from(line.len()).expect("it is short").to_le_bytes();
        [&body[..], &0x184D_2A5E_u32.to_le_bytes(), &size, line.as_bytes()].concat()
    }

    fn copied(&self) -> Self {
        Self {
            outside: self.outside.clone(),
            root: self.root.clone(),
            tar: tar::Builder::new(Vec::new()),
            contents: self.contents.clone(),
            revisions: self.revisions.clone(),
            companions: self.companions.clone(),
            directory: self.directory.clone(),
            key: self.key.clone(),
            manifest: self.manifest.clone(),
        }
    }

    fn manifest(&self) -> Value {
        let build = json!({"done": self.key});
        let revisions: Vec<Value> =
            self.revisions.iter().map(|files| json!({"build": build, "files": files})).collect();
        json!({
            "tool": "0", "target": "any", "has_runner": true, "loaders": [], "root": self.root, "injection": {"absent": "none"},
            "metrics": [], "revisions": revisions, "contents": self.contents,
        })
    }

    fn provenance(&self) -> Value {
        json!({
            "version": memprof_build::provenance::VERSION, "key": self.key, "commit": "c", "lock": null, "sources": "s",
            "ingredients": {
                "tree": "t", "workspace": "", "lock": null, "toolchain": "host: any", "arguments": [], "environment": {},
                "configuration": "", "shim": "", "overlay": {}, "sparse_exclude": [], "checkout": self.root.join("worktree"),
            },
            "executables": [{
                "package": "p", "binary": "b", "kind": "test", "harness": true, "tests": [], "unlisted": null, "file": "0-b",
                "hash": "h", "directory": self.directory, "environment": {}, "heap_absent": null,
            }],
            "companions": self.companions, "injected": [], "injected_hash": "", "runner": [],
        })
    }
}

/// Checks that the recipes make archives that are read, so that the property is about more than
/// refusals.
pub fn assert_recipes_are_read() {
    let guard = tempfile::tempdir().expect("a temporary folder");
    let outside = Utf8PathBuf::try_from(guard.path().to_owned()).expect("it is UTF-8");
    let recipe = Recipe::read(&seeds()[0], &outside);
    let file = outside.join("a.tar.zst");
    std::fs::write(&file, recipe.archive()).expect("the folder is there");
    let unpacked =
        Archive::open(&file).and_then(|archive| archive.unpack(&outside.join("archives"), &|_: Event| {}));
    let unpacked = unpacked.expect("a whole archive");
    let tree = open(&unpacked).expect("a place for its files");
    assert_eq!(tree.builds().expect("its builds").len(), 2);
}

fn open(unpacked: &Unpacked) -> anyhow::Result<ExtractedTree<'_>> {
    ExtractedTree::open(unpacked, WhenHeld::Fail, &AtomicBool::new(false), &|_: Event| {})
}

/// The name of a build's folder.
fn head(key: &str) -> &str {
    key.get(..32).unwrap_or(key)
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "f plan.json {}\nf store/0/program text\np worktree/a.txt old\np worktree/folder/b.txt b\nk worktree/link a.txt\nc target/debug/tool tool\nn\np worktree/a.txt new\n",
        "f ../canary/file dead\n",
        "f plan.json {}\nf plan.json {}\n",
        "f plan.json {}\nf plan.json/inside {}\n",
        "f /canary/file dead\n",
        "l store /canary\nf store/file dead\n",
        "h store /canary/file\nf store dead\n",
        "k worktree/x /canary\np worktree/x/file dead\n",
        "k target/x /canary\nn\np target/x/file dead\n",
        "p ../../canary/file dead\n",
        "P worktree/a /canary/file\n",
        "c ../../canary/file dead\n",
        "c /canary/file dead\n",
        "d ../../canary/new\n",
        "r ../canary\np file dead\n",
        "r a/../../canary/new\np file text\n",
        "b short\n",
        "b ../../../../canary/0123456789abcdef0123456789abcdef\n",
        "m {} \n",
        "=\u{28}no",
    ]
    .map(Into::into)
    .into()
}
