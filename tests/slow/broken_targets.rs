//! Builds in which some test targets do not compile, and builds of only the overlay's own target.

use std::path::Path;

use crate::support::csv::{kept, memprof, values};
use crate::support::zoo::ZooRepository;
use crate::support::{Printed, TestRepository, home};

/// A file that does not compile.
const BROKEN: &str = "#[test]\nfn breaks() { missing_function() }\n";

/// Compares the tag `new` with the working tree.
fn compare(root: &Path, home: &Path, arguments: &[&str]) -> Printed {
    let usual = ["--refs", "new,.", "--offline", "--repeat", "1", "--format", "csv"];
    memprof(root, home, &[&usual, arguments].concat())
}

fn report(root: &Path, home: &Path) -> serde_json::Value {
    let printed = memprof(root, home, &["report", "--format", "json"]);
    serde_json::from_str(&printed.stdout).expect("a JSON report")
}

#[test]
fn a_test_file_that_does_not_compile_matters_only_to_those_who_select_its_tests() {
    let repository = ZooRepository::of("single");
    let (root, home) = (repository.root(), home());
    std::fs::write(root.join("tests/broken.rs"), BROKEN).expect("it can be written");
    let test = "single::keep::keeps_through_the_library".to_owned();

    let other = compare(&root, home.path(), &["-k", "keeps_through_the_library"]);
    assert_eq!(other.code, 0, "{}", other.everything());
    let bytes = kept(&values(&other));
    assert_eq!(bytes[&(test.clone(), "new".to_owned())], bytes[&(test.clone(), ".".to_owned())]);
    let notes = report(&root, home.path())["notes"].to_string();
    for text in [&other.stderr, &notes] {
        assert!(text.contains("tests/broken.rs does not compile in . ("), "{text}");
        assert!(text.contains("but has no selected test: error[E0425]: cannot find function"), "{text}");
    }
    let again = compare(&root, home.path(), &["-k", "keeps_through_the_library"]);
    assert!(again.code == 0 && !again.stderr.contains("Built"), "{}", again.everything());

    let all = compare(&root, home.path(), &[]);
    assert_eq!(all.code, 3, "{}", all.everything());
    assert_eq!(kept(&values(&all)).len() % 2, 0, "the other tests are compared: {}", all.everything());
    assert!(kept(&values(&all)).contains_key(&(test, ".".to_owned())), "{}", all.everything());
    let reason = "not measured: single::broken in .: it does not compile: error[E0425]";
    assert!(all.stderr.contains(reason), "{}", all.everything());
    for text in [" --> tests/broken.rs:2:15", "its tests have no figures; full log: "] {
        assert!(all.stderr.contains(text), "{}", all.everything());
    }

    // A repaired file is built again.
    std::fs::write(root.join("tests/broken.rs"), "#[test]\nfn breaks() {}\n").expect("it can be written");
    let repaired = compare(&root, home.path(), &["-k", "breaks"]);
    assert_eq!(repaired.code, 0, "{}", repaired.everything());
    assert_eq!(kept(&values(&repaired)).len(), 2, "{}", repaired.everything());
}

#[test]
fn a_package_that_asks_for_a_newer_compiler_is_built_on_request() {
    let repository = ZooRepository::of("single");
    let (root, home) = (repository.root(), home());
    let manifest = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replace("[package]\n", "[package]\nrust-version = \"1.999\"\n"))
        .expect("written");
    let arguments = ["-k", "keeps_through_the_library"];
    let refused = compare(&root, home.path(), &arguments);
    assert_eq!(refused.code, 3, "{}", refused.everything());
    assert!(refused.stderr.contains("requires rustc 1.999"), "{}", refused.everything());
    assert!(refused.stderr.contains("anyway: --ignore-rust-version"), "{}", refused.everything());
    let built = compare(&root, home.path(), &[&arguments[..], &["--ignore-rust-version"]].concat());
    assert_eq!((built.code, values(&built).is_empty()), (0, false), "{}", built.everything());
    let matrix = repository.beside("memprof.yaml");
    std::fs::write(&matrix, "ignore-rust-version: true\n").expect("written");
    let matrix = matrix.to_str().expect("UTF-8");
    let by_key = compare(&root, home.path(), &[&arguments[..], &["--matrix", matrix]].concat());
    assert!(by_key.code == 0 && !by_key.stderr.contains("Built"), "{}", by_key.everything());
}

#[test]
fn a_build_without_any_target_with_selected_tests_is_a_failed_build_with_all_errors() {
    let repository = ZooRepository::of("single");
    let (root, home) = (repository.root(), home());
    std::fs::write(root.join("tests/broken.rs"), BROKEN).expect("it can be written");
    let arguments = ["-k", "breaks", "--no-auto-overlay"];
    let printed = compare(&root, home.path(), &arguments);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stderr.contains("--> tests/broken.rs:2:15"), "{}", printed.everything());
    assert!(printed.stderr.contains("did not build; full log: "), "{}", printed.everything());
}

#[test]
fn only_the_overlays_target_is_built_if_no_other_can_contain_a_selected_test() {
    let repository = ZooRepository::of("single");
    let (root, home) = (repository.root(), home());
    let file = repository.beside("memprobe.rs");
    std::fs::write(&file, "#[test]\nfn retains() { std::mem::forget(vec![7_u8; 4096]) }\n").expect("written");
    let overlay = format!("{}=tests/memprobe.rs", file.display());
    let build = |arguments: &[&str]| {
        let usual = ["build", "--refs", "old,new", "--offline", "--overlay", &overlay];
        let printed = memprof(&root, home.path(), &[&usual, arguments].concat());
        assert_eq!(printed.code, 0, "{}", printed.everything());
        printed
    };
    for name in ["memprobe", "retains", "memprobe::retains and not slow"] {
        let narrow = build(&["-k", name]);
        assert_eq!(narrow.stdout.matches("single::").count(), 2, "{}", narrow.everything());
        assert_eq!(narrow.stdout.matches("single::memprobe").count(), 2, "{}", narrow.everything());
    }
    let told = "Building only the integration test memprobe, which the overlay contains";
    let all = build(&["-k", "memprobe", "--all-tests"]);
    assert!(all.stdout.contains("single::keep ") && !all.stderr.contains(told), "{}", all.everything());
    let unlike = build(&["-k", "memprobe or keeps"]);
    assert!(unlike.stdout.contains("single::keep "), "{}", unlike.everything());
    let printed = memprof(
        &root,
        home.path(),
        &[
            "--refs",
            "old,new",
            "--offline",
            "--repeat",
            "1",
            "--format",
            "csv",
            "--overlay",
            &overlay,
            "-k",
            "retains",
            "--env",
            "NEW=1",
        ],
    );
    assert!(printed.code == 0 && printed.stderr.contains(told), "{}", printed.everything());
    assert_eq!(printed.stderr.matches(told).count(), 1, "{}", printed.everything());
}

#[test]
fn errors_that_two_revisions_share_are_printed_once() {
    let repository = ZooRepository::of("single");
    let (root, home) = (repository.root(), home());
    let file = repository.beside("memprobe.rs");
    std::fs::write(&file, BROKEN).expect("it can be written");
    let overlay = format!("{}=tests/memprobe.rs", file.display());
    let arguments = ["--refs", "old,new", "--offline", "--overlay", &overlay, "-k", "memprobe"];
    let printed = memprof(&root, home.path(), &arguments);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert_eq!(printed.stderr.matches("E0425").count(), 1, "{}", printed.everything());
    assert_eq!(printed.stderr.matches("did not build; full log: ").count(), 2, "{}", printed.everything());
    assert!(printed.stderr.contains("for the same reason as old\n"), "{}", printed.everything());
    let log = printed.stderr.lines().find_map(|line| line.split_once("full log: ")).expect("a log").1;
    assert!(std::fs::read_to_string(root.join(log)).expect("the log").contains("E0425"));
}

#[test]
fn a_test_may_call_cargo_for_a_crate_that_denies_warnings() {
    let mut repository = TestRepository::new();
    let manifest =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.toml", "[workspace]\nmembers = [\"core\", \"user\"]\nresolver = \"2\"\n");
    repository.write("core/Cargo.toml", manifest("core-mem"));
    repository.write("core/src/main.rs", "#![deny(warnings)]\nfn main() {}\n");
    repository.write("user/Cargo.toml", manifest("user"));
    repository.write("user/src/lib.rs", "");
    let test = "#[test]\nfn builds() {\n    \
         let arguments = [\"check\", \"--offline\", \"--package\", \"core-mem\", \"--target-dir\"];\n    \
         let mut cargo = std::process::Command::new(env!(\"CARGO\"));\n    \
         let status = cargo.args(arguments).arg(env!(\"CARGO_TARGET_TMPDIR\")).status();\n    \
         assert!(status.unwrap().success());\n    std::mem::forget(vec![1_u8; 1000]);\n}\n";
    repository.write("user/tests/ui.rs", test);
    for code in ["pub fn library() {}\n", "#![deny(warnings)]\npub fn library() {}\n"] {
        repository.write("core/src/lib.rs", code);
        repository.commit("a crate");
    }
    let arguments = ["--refs", "HEAD~1,HEAD", "--workspace", "--run-all", "--offline", "--repeat", "1"];
    let printed = memprof(repository.root(), home().path(), &[&arguments[..], &["--format", "csv"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert!(kept(&values(&printed)).into_values().all(|bytes| bytes >= 1000), "{}", printed.everything());
}
