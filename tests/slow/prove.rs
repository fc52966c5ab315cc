//! `prove`: what each part of a diff costs. The costs of the hunks are known.

use std::process::Command;

use crate::support::{Printed, TestRepository, home_at, tool};
use serde_json::Value;

const LIB: &str = "\
//! A shop.

pub mod config;

/// Fills shelves.
pub fn shelves() -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(100);
    for _ in 0..100 {
        all.push(vec![0; config::SHELF]);
    }
    all
}

/// Opens tills.
pub fn tills() -> Vec<u8> {
    vec![1; config::TILLS]
}

/// Writes a list.
pub fn list() -> Vec<u8> {
    vec![2; 1000]
}

/// The name.
pub fn name() -> &'static str {
    \"shop\"
}
";

const CONFIG: &str = "\
//! Settings.

/// Bytes of a shelf.
pub const SHELF: usize = 100;

/// Bytes of a till.
pub const TILLS: usize = 100;
";

const TEST: &str = "\
#[test]
fn a_day() {
    let all = (shop::shelves(), shop::tills(), shop::list());
    assert!(all.1.len() >= 100);
}
";

/// Six hunks: a constant that costs 190,000 bytes, one that the test needs and that costs 50,000, a function
/// with a caller that cost 80,000, a name, and a text.
fn shop() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[lib]\ndoctest = false\n",
    );
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", LIB);
    repository.write("src/config.rs", CONFIG);
    repository.write("tests/memory.rs", TEST);
    repository.commit("a shop");
    let lib = LIB.replace("    vec![2; 1000]\n", "    longer(81_000)\n").replace("\"shop\"", "\"store\"");
    let lib = lib.replace(
        "/// Opens tills.",
        "/// Makes room.\nfn longer(size: usize) -> Vec<u8> {\n    vec![2; size]\n}\n\n/// Opens tills.",
    );
    repository.write("src/lib.rs", lib);
    let config = CONFIG.replace("SHELF: usize = 100", "SHELF: usize = 2000");
    repository.write("src/config.rs", config.replace("TILLS: usize = 100", "TILLS: usize = 50_100"));
    repository.write("tests/memory.rs", TEST.replace(">= 100", ">= 50_000"));
    repository.write("README.md", "A shop.\n");
    repository.commit("More of everything");
    repository
}

fn command(repository: &TestRepository, arguments: &[&str]) -> Command {
    let mut command = tool();
    let home = home_at(repository.beside("cache"));
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home).arg("prove").args(arguments);
    command
}

#[test]
fn each_part_of_a_diff_has_its_cost_and_the_costs_add_up_to_the_byte() {
    let repository = shop();
    let printed = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "a_day", "--format", "json"]));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert_eq!((&report["schema"], &report["version"]), (&"cargo-memprof-proof".into(), &1.into()));
    let parts = report["parts"].as_array().expect("parts");
    let figure = |of: &Value| of["difference"].as_i64().expect("a figure");
    let what = |part: &Value| part["hunks"][0]["what"].as_str().expect("a text").to_owned();
    let shown: Vec<(String, i64)> = parts.iter().map(|part| (what(part), figure(part))).collect();
    let expected = [("SHELF: 100 → 2000", 190_000), ("list", 80_000), ("TILLS: 100 → 50_100", 50_000)];
    assert_eq!(shown, expected.map(|(what, figure)| (what.to_owned(), figure)), "{report:#}");
    // The test asks for it.
    let reason = parts[2]["reason"].as_str().expect("a reason");
    assert!(reason.contains("failed (exit code 101)"), "{reason}");
    assert_eq!(parts[0]["reason"], Value::Null);
    assert_eq!(parts[0]["shows_in"], "shop::shelves");
    let sum: i64 = parts.iter().map(figure).sum();
    let together = report["together"].as_i64().expect("a figure");
    assert_eq!(sum + figure(&report["rest"]) + together, figure(&report));
    assert_eq!((figure(&report), figure(&report["rest"]), together), (320_000, 0, 0));
    assert_eq!(report["open"], Value::Array(Vec::new()));

    // The same answer without a build, as text.
    let again = Printed::of(command(&repository, &["--resume"]));
    assert_eq!(again.code, 0, "{}", again.everything());
    assert!(!again.stderr.contains("Measured [3]"), "{}", again.everything());
    assert!(
        again.stdout.contains("+186 KiB  src/config.rs:4")
            && again.stdout.contains("proven: without it -186 KiB"),
        "{}",
        again.everything()
    );
    // No branch of the user points to the variants.
    assert_eq!(repository.git(["for-each-ref", "--format=%(refname:short)", "refs/heads"]).trim(), "main");
}

#[test]
fn a_diff_without_a_difference_and_a_noisy_metric_are_answers() {
    let mut repository = shop();
    repository.write("README.md", "The shop.\n");
    repository.commit("A text");
    let same = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "a_day"]));
    assert_eq!(same.code, 5, "{}", same.everything());
    assert!(same.stdout.contains("HEAD~1 and HEAD do not differ by more than"), "{}", same.everything());
    let noisy = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "a_day", "--metric", "cpu.rss"]));
    assert_eq!(noisy.code, 2, "{}", noisy.everything());
    assert!(noisy.stderr.contains("prove judges exact figures only"), "{}", noisy.everything());
}
