//! Builds that a pull request or the machine spoils: changed executables, damaged files in the cache, symbolic links, and
//! the tool replaced while it runs. Nothing is silently left out, and nothing is written outside the checkout.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::csv::{command, memprof};
use crate::support::{Printed, TestRepository, home_at, isolated, succeed};

/// A repository of a crate whose one test keeps memory.
struct Kept {
    repository: TestRepository,
    home: PathBuf,
}

impl Kept {
    fn new() -> Self {
        let repository = TestRepository::new();
        repository
            .write("Cargo.toml", "[package]\nname = \"kept\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"kept\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        repository.write("src/lib.rs", "");
        // Its executable has no shim, and nothing to measure.
        repository.write("tests/gated.rs", "#![cfg(not(all()))]\n#[test]\nfn never() {}\n");
        let home = home_at(repository.beside("cache"));
        Self { repository, home }
    }

    /// Commits the test `keeps` in `tests/keep.rs`, and names the commit.
    fn commit(&mut self, name: &str, kilobytes: usize) {
        let test = format!("#[test]\nfn keeps() {{ std::mem::forget(vec![1u8; {kilobytes} * 1000]); }}\n");
        self.repository.write("tests/keep.rs", test);
        self.commit_as_is(name);
    }

    fn commit_as_is(&mut self, name: &str) {
        self.repository.commit(name);
        self.repository.git(["tag", name]);
    }

    fn memprof(&self, arguments: &[&str]) -> Printed {
        memprof(self.repository.root(), &self.home, arguments)
    }

    fn compare(&self, arguments: &[&str]) -> Printed {
        self.memprof(&[&["--refs", "old,new", "--offline"], arguments].concat())
    }

    /// Files of the store with this in their name.
    fn stored(&self, part: &str) -> Vec<PathBuf> {
        let files =
            walkdir::WalkDir::new(&self.home).into_iter().map(|entry| entry.expect("a file").into_path());
        let is_stored = |path: &Path| path.components().any(|folder| folder.as_os_str() == "store");
        let is_named =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
        files.filter(|path| is_stored(path) && is_named(path)).collect()
    }
}

/// The text in one line: tables break lines between words.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_not_measured(told: &str) -> bool {
    told.contains("new was not measured") && told.contains("kept::keep: its file has no place")
}

/// A linker that removes the place for the build key from the tests in `tests/`.
const LINKER: &str = "#!/bin/sh
cc \"$@\" || exit
while [ \"$1\" != -o ]; do shift; done
case $2 in */keep-*) LC_ALL=C sed -i s/cargo-memprof-build-key:/cargo-memprof-build-kex:/ \"$2\";; esac
";

#[test]
fn a_test_that_the_linker_changes_is_not_measured_and_never_missing() {
    let mut kept = Kept::new();
    kept.commit("old", 10);
    let version = String::from_utf8(succeed(isolated("rustc").arg("-vV")).stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    kept.repository.write("cc.sh", LINKER);
    let linker = kept.repository.path("cc.sh");
    fs::set_permissions(linker, fs::Permissions::from_mode(0o755)).expect("it exists");
    kept.repository.write(".cargo/config.toml", format!("[target.{host}]\nlinker = \"./cc.sh\"\n"));
    kept.commit("new", 80);
    let first = kept.compare(&[]);
    let later = kept.compare(&["--format", "json"]);
    assert_eq!((first.code, later.code), (3, 3), "{}\n{}", first.everything(), later.everything());
    let told = unbroken(&first.stdout);
    assert!(is_not_measured(&told), "{}", first.everything());
    assert!(!told.contains("no such test"), "{}", first.everything());
    assert!(later.stderr.contains("Fresh new"), "{}", later.everything());
    assert!(later.stderr.contains("not measured: kept::keep in new"), "{}", later.everything());
    let json: Value = serde_json::from_str(&later.stdout).expect("a report");
    assert_eq!(json["not_measured"][0]["executable"], "kept::keep");

    // On another machine.
    let file = kept.repository.beside("kept.tar.zst");
    let file = file.to_str().expect("text");
    let packed = kept.memprof(&["build", "--refs", "old,new", "--offline", "--archive", file]);
    assert_eq!(packed.code, 3, "{}", packed.everything());
    let home = home_at(kept.repository.beside("other-cache"));
    let folder = kept.repository.beside("elsewhere");
    fs::create_dir(&folder).expect("it is new");
    let run = memprof(&folder, &home, &["run", "--archive", file]);
    assert_eq!(run.code, 3, "{}", run.everything());
    assert!(is_not_measured(&unbroken(&run.stdout)), "{}", run.everything());

    // In a search.
    fs::remove_file(kept.repository.path(".cargo/config.toml")).expect("it exists");
    kept.commit("last", 80);
    let search = |bad: &str| {
        kept.memprof(&[
            "bisect",
            "--good",
            "old",
            "--bad",
            bad,
            "--offline",
            "-k",
            "keeps",
            "--format",
            "json",
        ])
    };
    let found = search("last");
    assert!(
        found.stdout.contains("it is not measured: kept::keep: its file has no place"),
        "{}",
        found.everything()
    );
    let refused = search("new");
    assert_ne!(refused.code, 0, "{}", refused.everything());
    assert!(refused.stderr.contains("it is not measured: kept::keep"), "{}", refused.everything());
}

#[test]
fn a_damaged_build_in_the_store_is_built_again() {
    let mut kept = Kept::new();
    kept.commit("old", 10);
    kept.commit("new", 20);
    let first = kept.compare(&[]);
    assert_eq!(first.code, 0, "{}", first.everything());
    assert!(!first.stderr.contains("gated"), "{}", first.everything());
    for executable in kept.stored("keep-") {
        fs::write(executable, "ELF").expect("it can be written");
    }
    let second = kept.compare(&[]);
    assert_eq!(second.code, 0, "{}", second.everything());
    let warned = "the stored build of new is damaged, so it is built again";
    assert!(second.stderr.contains(warned) && second.stderr.contains("Built new"), "{}", second.everything());
    for provenance in kept.stored("provenance.json") {
        fs::write(provenance, "{}").expect("it can be written");
    }
    let third = kept.compare(&[]);
    assert!(third.code == 0 && third.stderr.contains(warned), "{}", third.everything());
    assert!(!kept.compare(&[]).stderr.contains("damaged"));
}

#[test]
fn a_program_that_is_replaced_during_a_build_finishes_it() {
    let mut kept = Kept::new();
    let script = r#"fn main() {
        let program = std::env::var("REPLACED").expect("a path");
        std::fs::remove_file(&program).expect("it exists");
        std::fs::write(&program, "another program").expect("it can be written");
    }"#;
    kept.repository.write("build.rs", script);
    kept.commit("old", 10);
    fs::remove_file(kept.repository.path("build.rs")).expect("it exists");
    kept.commit("new", 20);
    let program = kept.repository.beside("cargo-memprof");
    fs::copy(assert_cmd::cargo::cargo_bin("cargo-memprof"), &program).expect("it can be copied");
    let usual = command(kept.repository.root(), &kept.home, &["--refs", "old,new", "--offline"]);
    let mut copied = isolated(&program);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => copied.env(name, value),
            None => copied.env_remove(name),
        };
    }
    copied.args(usual.get_args()).env("REPLACED", &program).current_dir(kept.repository.root());
    let printed = Printed::of(copied);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_eq!(fs::read(&program).expect("it was replaced"), b"another program");
}

#[test]
fn tests_behind_a_link_are_measured_and_a_link_that_leads_outside_fails_its_revision() {
    let mut kept = Kept::new();
    kept.commit("old", 10);
    kept.repository.git(["mv", "tests", "checks"]);
    symlink("checks", kept.repository.path("tests")).expect("the place is free");
    let test = kept.repository.read("checks/keep.rs");
    kept.repository.write("checks/keep.rs", test.replace("10", "20"));
    kept.commit_as_is("new");
    let inside = kept.compare(&["--format", "json"]);
    assert_eq!(inside.code, 0, "{}", inside.everything());
    assert!(inside.stdout.contains("kept::keep::keeps"), "{}", inside.everything());

    let outside = kept.repository.beside("outside");
    fs::create_dir(&outside).expect("it is new");
    fs::write(outside.join("keep.rs"), &test).expect("it can be written");
    fs::remove_file(kept.repository.path("tests")).expect("it is a link");
    symlink(&outside, kept.repository.path("tests")).expect("the place is free");
    kept.commit_as_is("led");
    let led = kept.memprof(&["--refs", "old,led", "--offline"]);
    assert_eq!(led.code, 3, "{}", led.everything());
    let reason = "'tests' leads out of the checkout";
    assert!(led.stdout.contains("led did not build") && led.stderr.contains(reason), "{}", led.everything());
    assert_eq!(fs::read_to_string(outside.join("keep.rs")).expect("it is there"), test);
}

#[test]
fn a_lock_file_behind_a_link_is_never_written_through() {
    let mut kept = Kept::new();
    kept.commit("old", 10);
    let lock = kept.repository.read("Cargo.lock");
    kept.repository.write("locks/Cargo.lock", &lock);
    fs::remove_file(kept.repository.path("Cargo.lock")).expect("it exists");
    symlink("locks/Cargo.lock", kept.repository.path("Cargo.lock")).expect("the place is free");
    kept.commit("new", 20);
    let inside = kept.compare(&[]);
    assert_eq!(inside.code, 0, "{}", inside.everything());
    assert!(!inside.stderr.contains("has no Cargo.lock"), "{}", inside.everything());

    // Cargo would write this old and incomplete file anew.
    let outside = kept.repository.beside("outside.lock");
    fs::write(&outside, "version = 3\n").expect("it can be written");
    fs::remove_file(kept.repository.path("Cargo.lock")).expect("it is a link");
    symlink(&outside, kept.repository.path("Cargo.lock")).expect("the place is free");
    kept.commit("led", 30);
    let led = kept.memprof(&["--refs", "old,led", "--offline"]);
    assert_eq!(led.code, 0, "{}", led.everything());
    assert!(led.stderr.contains("led has no Cargo.lock: using the one of old"), "{}", led.everything());
    let alone = kept.memprof(&["--refs", "led", "--offline", "--view", "top"]);
    assert_eq!(alone.code, 0, "{}", alone.everything());
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "version = 3\n");
}
