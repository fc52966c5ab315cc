//! The figures of a test are its body's: other tests in the file change none of them.

use std::fmt::Write;

use crate::support::TestRepository;
use crate::support::traced::memprof;

const TESTS: &str = "
#[test]
fn empty() {}

#[test]
fn keeps() {
    std::mem::forget(vec![1_u8; 20_000]);
}

#[test]
fn calls() {
    many::call();
}
";

/// A function that needs this many bytes while it runs.
fn library(scratch: usize) -> String {
    format!("pub fn call() {{\n    std::hint::black_box(vec![0_u8; {scratch}]);\n}}\n")
}

/// The three tests, and this many that call the function.
fn tests(more: usize) -> String {
    let mut tests = TESTS.to_owned();
    for number in 0..more {
        write!(tests, "\n#[test]\nfn t{number}() {{\n    many::call();\n}}\n").unwrap();
    }
    tests
}

#[test]
fn other_tests_change_no_figure_and_a_change_of_all_is_found_in_all() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = \"many\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"many\"\nversion = \"0.1.0\"\n");
    repository.write("src/lib.rs", library(10_000));
    repository.write("tests/many.rs", tests(0));
    let few = repository.commit("Three tests");
    repository.write("tests/many.rs", tests(60));
    let many = repository.commit("More tests, and no code");
    repository.write("src/lib.rs", library(40_000));
    let hungry = repository.commit("More scratch");

    let added = memprof(&repository, &[&few, &many, "--offline"]);
    assert_eq!(added.code, 0, "{}", added.everything());
    assert!(added.stdout.contains("memory: 3 tests unchanged"), "{}", added.everything());

    let grown = memprof(&repository, &[&many, &hungry, "--offline", "--why=never"]);
    assert_eq!(grown.code, 1, "{}", grown.everything());
    assert!(grown.stdout.contains("memory: 61 of 63 tests regressed"), "{}", grown.everything());
    let row = "heap.peak  9.77 → 39.1 KiB  +29.3 KiB";
    assert!(grown.stdout.contains(row), "{}", grown.everything());

    let metrics = ["--metrics", "heap.peak,heap.live,heap.count", "--format", "csv", "-k", "empty"];
    let figures = memprof(&repository, &[&[hungry.as_str(), "--offline"], &metrics[..]].concat());
    let heap = figures.stdout.lines().filter(|line| line.contains(",heap."));
    let heap: Vec<&str> = heap.filter_map(|line| line.split(',').nth(12)).collect();
    assert_eq!(heap, ["0"; 8], "{}", figures.everything());

    let leak = ["test", "--offline", "--leak", "heap.live=0"];
    let clean = memprof(&repository, &[&leak[..], &["-k", "t1 or empty or calls"]].concat());
    assert_eq!(clean.code, 0, "{}", clean.everything());
    let leaking = memprof(&repository, &[&leak[..], &["-k", "keeps"]].concat());
    assert_eq!(leaking.code, 1, "{}", leaking.everything());
    assert!(leaking.stdout.contains("19.5 KiB"), "{}", leaking.everything());
}

/// A stable cargo takes a nightly's settings with this variable.
const NIGHTLY: [&str; 2] = ["--env", "RUSTC_BOOTSTRAP=1"];

#[test]
fn tests_run_in_the_measured_process_even_if_the_configuration_says_otherwise() {
    let mut repository = TestRepository::new();
    let manifest = "[package]\nname = \"many\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[profile.dev]\npanic = \"abort\"\n";
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"many\"\nversion = \"0.1.0\"\n");
    repository.write("src/lib.rs", library(10_000));
    repository.write("tests/many.rs", TESTS);
    repository.write(".cargo/config.toml", "[unstable]\npanic-abort-tests = true\n");
    repository.commit("Three tests");

    let leak = ["test", "--offline", "--leak", "heap.live=0", "-k", "keeps"];
    let leaking = memprof(&repository, &[&leak[..], &NIGHTLY].concat());
    assert_eq!(leaking.code, 1, "{}", leaking.everything());
    assert!(leaking.stdout.contains("19.5 KiB"), "{}", leaking.everything());

    let flags = ["--env", "RUSTFLAGS=-Zpanic-abort-tests -Cpanic=abort"];
    let refused = memprof(&repository, &[&leak[..], &NIGHTLY, &flags].concat());
    assert_eq!(refused.code, 3, "{}", refused.everything());
    assert!(refused.everything().contains("in a process of its own"), "{}", refused.everything());
}
