//! `bisect --lockfile`: which update changed a figure? Checked against a sweep over all single updates.

use std::path::Path;
use std::process::Command;

use crate::lockfiles::{EARLY, Registry};
use crate::support::csv::command;
use crate::support::{Printed, TestRepository, home};

fn kept(bytes: usize) -> String {
    format!("pub fn kept() -> Vec<u8> {{ vec![1; {bytes}] }}\n")
}

const NAMES: [&str; 6] = ["hoard", "plain", "front", "taker", "base", "user"];

/// Crates with an old and a new version. `hoard` made the large change. `front` and its `inner` only
/// move together, and `taker` brings a new crate with it. The new `base` does not compile with the old
/// `user`.
fn shop() -> TestRepository {
    let mut repository = TestRepository::new();
    let registry = Registry::of(&repository);
    let publish = |name: &str, version: &str, needs: &[(&str, &str)], bytes: usize, more: &str| {
        registry.publish_with(needs, name, version, EARLY, &(kept(bytes) + more), false);
    };
    for (version, [hoard, plain, inner, front, base]) in
        [("1.0.0", [1000, 2000, 100, 200, 500]), ("1.0.1", [900_000, 2100, 150, 250, 600])]
    {
        let is_old = version == "1.0.0";
        publish("hoard", version, &[], hoard, "");
        publish("plain", version, &[], plain, "");
        publish("inner", version, &[], inner, "");
        publish("front", version, &[("inner", &format!("={version}"))], front, "");
        publish("taker", version, if is_old { &[] } else { &[("fresh", "1")] }, 300, "");
        publish("base", version, &[], base, if is_old { "pub fn old() {}\n" } else { "" });
        let user = if is_old { "pub fn used() { base::old() }\n" } else { "" };
        publish("user", version, &[("base", "1")], 400, user);
    }
    publish("fresh", "1.0.0", &[], 50, "");
    let dependencies = NAMES.map(|name| format!("{name} = '1'\n")).concat();
    repository.write(
        "Cargo.toml",
        format!(
            "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n{dependencies}"
        ),
    );
    let all: Vec<String> = NAMES.iter().map(|name| format!("{name}::kept()")).collect();
    repository.write("src/lib.rs", "");
    let test = format!("#[test]\nfn keeps() {{ std::mem::forget(vec![{}]) }}\n", all.join(", "));
    repository.write("tests/keeps.rs", test);
    repository.write(".gitignore", "/target\n*.lock\n");
    cargo(&repository, &["generate-lockfile", "--offline"]);
    std::fs::copy(repository.path("Cargo.lock"), repository.path("new.lock")).expect("a copy");
    for name in NAMES {
        cargo(&repository, &["update", "--offline", "-p", name, "--precise", "1.0.0"]);
    }
    std::fs::rename(repository.path("Cargo.lock"), repository.path("old.lock")).expect("renamed");
    repository.commit("a shop");
    repository
}

fn cargo(repository: &TestRepository, arguments: &[&str]) {
    let mut cargo = repository.command("cargo");
    cargo.args(arguments).env("CARGO_HOME", repository.beside("cargo-home"));
    let printed = Printed::of(cargo);
    assert_eq!(printed.code, 0, "{}", printed.everything());
}

fn tool(repository: &TestRepository, home: &Path, arguments: &[&str]) -> Command {
    let mut command = command(repository.root(), home, arguments);
    command.env("CARGO_HOME", repository.beside("cargo-home"));
    command
}

fn json(printed: &Printed) -> serde_json::Value {
    serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("{}", printed.everything()))
}

#[test]
fn a_lock_file_search_names_the_update_that_a_sweep_over_all_updates_names() {
    let repository = shop();
    let home = home();
    let search = ["bisect", ".", "--lockfile", "old.lock..new.lock", "-k", "keeps"];
    let printed = Printed::of(tool(&repository, home.path(), &search));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let begin = "8 changed packages in 6 steps from old.lock to new.lock: about 5 builds, at most 7";
    assert!(printed.stderr.contains(begin), "{}", printed.everything());
    assert!(
        printed.stdout.contains("hoard 1.0.0 → 1.0.1 made the largest change: "),
        "{}",
        printed.everything()
    );
    assert!(printed.stdout.contains("  why: cargo memprof "), "{}", printed.everything());
    // The step is compared with its neighbour, and there is nothing left to search.
    assert!(!printed.stdout.contains("cargo memprof bisect "), "{}", printed.everything());

    // The sweep: every single update, beside the old versions.
    repository.write("Cargo.lock", repository.read("old.lock"));
    let mut largest = (0, String::new());
    for name in ["hoard", "plain", "front", "taker", "user"] {
        let change = format!("{name}@1.0.1");
        let arguments = ["deps", &change, "-k", "keeps", "--format", "json", "--threshold", "*=off"];
        let report = json(&Printed::of(tool(&repository, home.path(), &arguments)));
        let rows = report["rows"].as_array().expect("rows").iter();
        let mut rows = rows.filter(|row| row["metric"] == "heap.peak" && row["checkpoint"] == "done");
        let value = &rows.next().expect("a row")["values"];
        let [old, new] = [".", change.as_str()].map(|side| value[side]["value"].as_i64().expect("a figure"));
        largest = largest.max((new - old, name.to_owned()));
    }
    assert_eq!(largest.1, "hoard", "{largest:?}");

    let again = [&search[..], &["--format", "json"]].concat();
    let again = Printed::of(tool(&repository, home.path(), &again));
    let found = json(&again);
    assert_eq!(found["steps"][0]["subject"], "hoard 1.0.0 → 1.0.1");
    assert_eq!(found["steps"][0]["files"], serde_json::json!(["Cargo.lock"]));
    assert_eq!(found["lockfile"], serde_json::json!({"code": ".", "updates": 6, "packages": 8}));
    // A build that fails is not in the store.
    let is_of_build = |line: &&str| line.contains("Built ") || line.contains("did not build");
    let built: Vec<&str> = again.stderr.lines().filter(is_of_build).collect();
    assert!(built.iter().all(|line| line.contains("base@1.0.1")), "{}", again.everything());
}

#[test]
fn what_does_not_build_is_skipped_and_a_group_is_named_whole() {
    let repository = shop();
    let home = home();
    let all = ["--find", "all", "--threshold", "1B", "-k", "keeps", "--format", "json"];
    let search = [&["bisect", ".", "--lockfile", "old.lock..new.lock"][..], &all].concat();
    let found = Printed::of(tool(&repository, home.path(), &search));
    assert_eq!(found.code, 3, "one answer is a range: {}", found.everything());
    let steps = json(&found)["steps"].clone();
    let steps = steps.as_array().expect("steps");
    let subject = |step: &serde_json::Value| step["subject"].as_str().unwrap_or_default().to_owned();
    let subjects: Vec<String> = steps.iter().map(subject).collect();
    for single in ["front 1.0.0 → 1.0.1, inner 1.0.0 → 1.0.1", "hoard 1.0.0 → 1.0.1", "plain 1.0.0 → 1.0.1"]
    {
        assert!(subjects.iter().any(|subject| subject == single), "{single}: {subjects:?}");
    }
    // `base` grew, and it can only be measured with the new `user`.
    let range = steps.iter().find(|step| step["kind"] == "skipped").expect("a range");
    let candidates = range["candidates"].as_array().expect("candidates");
    let named: Vec<String> = candidates.iter().map(subject).collect();
    assert_eq!(named, ["base 1.0.0 → 1.0.1", "user 1.0.0 → 1.0.1"]);
    assert!(
        candidates[0]["skipped"].as_str().is_some_and(|reason| reason.contains("does not build")),
        "{range}"
    );
    let text = Printed::of(tool(&repository, home.path(), &["report"])).stdout;
    assert!(text.contains("One of 2 updates changed it: "), "{text}");
}

#[test]
fn two_lock_files_with_the_same_packages_are_refused() {
    let repository = shop();
    let home = home();
    let same = ["bisect", "--lockfile", "old.lock..old.lock", "-k", "keeps"];
    let printed = Printed::of(tool(&repository, home.path(), &same));
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains("have the same packages"), "{}", printed.everything());
    let missing = ["bisect", "--lockfile", "old.lock..never", "-k", "keeps"];
    let printed = Printed::of(tool(&repository, home.path(), &missing));
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains("help: "), "{}", printed.everything());
}

#[test]
fn the_code_of_a_lock_file_search_is_that_of_its_ref_whatever_the_baseline_of_the_file_is() {
    let mut repository = shop();
    let home = home();
    repository.git(["switch", "--quiet", "--create", "feature"]);
    repository.write("src/feature.rs", "");
    repository.commit("a feature");
    repository.git(["switch", "--quiet", "main"]);
    repository.write("memprof.yaml", "baseline: main\n");
    let search = ["bisect", "feature", "--lockfile", "old.lock..new.lock", "-k", "keeps", "--dry-run"];
    let planned = json(&Printed::of(tool(&repository, home.path(), &search)));
    let revisions = planned["plan"]["revisions"].as_array().expect("revisions");
    assert_eq!(revisions.len(), 7, "{planned}");
    for revision in revisions {
        let commit = revision["commit"].as_str().expect("a commit");
        let files = repository.git(["ls-tree", "-r", "--name-only", commit]);
        assert!(files.contains("src/feature.rs"), "{files}");
    }
    assert_eq!(planned["search"]["lockfile"]["code"], "feature");
}
