//! The working tree alone: `cargo memprof test`, and what is shown of tests while they run.

use crate::support::TestRepository;
use crate::support::traced::memprof;

const TESTS: &str = r#"
#[test]
fn hf_small() {
    let bytes = vec![1_u8; 1 << 20];
    memprof::checkpoint!("filled");
    assert_eq!(bytes.len(), 1 << 20);
}

#[test]
fn fs_small() {
    println!("hello from fs");
    let bytes = vec![1_u8; 3 << 20];
    memprof::checkpoint!("filled");
    drop(bytes);
}

#[test]
fn breaks() {
    assert_eq!(vec![1_u8; 1 << 10].len(), 7);
}
"#;

fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"tiny\"\nversion = \"0.1.0\"\n");
    repository.write("src/lib.rs", "");
    repository.write(".gitignore", "target\n");
    repository.write("tests/mem.rs", TESTS);
    repository.commit("Start");
    repository
}

#[test]
fn test_fails_on_a_broken_limit_and_a_broken_assertion_and_shows_what_runs() {
    let repository = repository();
    let failed = memprof(&repository, &["test", "--offline", "--limit", "heap.peak=2MiB", "--live"]);
    assert_eq!(failed.code, 1, "{}", failed.everything());
    let over = "heap.peak 3.00 MiB at 'filled' (tests/mem.rs:13), 1.00 MiB over the limit of 2.00 MiB";
    for line in ["test hf_small ... ok", "test fs_small ... FAILED", "test breaks   ... FAILED", over] {
        assert!(failed.stdout.contains(line), "{}", failed.everything());
    }
    assert!(failed.stdout.contains("tests/mem.rs:19:5: assertion"), "{}", failed.everything());
    assert!(failed.stdout.contains("test result: FAILED. 1 passed; 2 failed"), "{}", failed.everything());
    assert!(
        failed.stderr.contains("filled: heap 3.") && failed.stderr.contains(", resident "),
        "{}",
        failed.stderr
    );
    assert!(!failed.stderr.contains("hello from fs"), "{}", failed.stderr);

    let passed = memprof(&repository, &["test", "fs", "hf", "--offline", "--", "--nocapture"]);
    assert_eq!(passed.code, 0, "{}", passed.everything());
    assert!(
        passed.stderr.contains("hello from fs") && !passed.stdout.contains("hello"),
        "{}",
        passed.everything()
    );
    assert!(passed.stdout.contains("2 passed; 0 failed"), "{}", passed.everything());
    let broken = memprof(&repository, &["test", "breaks", "--offline"]);
    assert_eq!(broken.code, 3, "{}", broken.everything());
}

#[test]
fn two_implementations_of_one_revision_are_compared() {
    let repository = repository();
    let printed = memprof(&repository, &["-k", "small", "--pair", "hf_*=fs_*", "--offline"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(printed.stdout.contains("hf_small → fs_small"), "{}", printed.everything());
    assert!(printed.stdout.contains("+2.00 MiB"), "{}", printed.everything());
    let several = memprof(&repository, &["HEAD", ".", "--pair", "hf_*=fs_*"]);
    assert_eq!(several.code, 2, "{}", several.everything());
    assert!(several.stderr.contains("cargo memprof . --pair 'hf_*=fs_*'"), "{}", several.everything());
    let none = memprof(&repository, &[".", "--pair", "a_*=b_*", "--offline"]);
    assert!(none.code == 2 && none.stderr.contains("cargo memprof list ."), "{}", none.everything());
}
