//! What `--dry-run` says before anything is built.

use serde_json::{Value, json};

use crate::support::TestRepository;

#[test]
fn a_dry_run_names_the_packages_that_differ() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[workspace]\nmembers = ['app', 'leaf', 'other']\n");
    for name in ["app", "leaf", "other"] {
        let manifest = format!("[package]\nname = 'the-{name}'\nversion = '0.1.0'\nedition = '2021'\n");
        repository.write(&format!("{name}/Cargo.toml"), manifest);
        repository.write(&format!("{name}/src/lib.rs"), "");
    }
    repository.write("README.md", "A workspace.\n");
    repository.commit("old");
    repository.write("leaf/src/lib.rs", "pub fn leaf() {}\n");
    repository.write("leaf/data.txt", "1");
    repository.write("README.md", "Three packages.\n");
    repository.write("shared.json", "{}");
    repository.commit("new");
    let mut run = repository.memprof();
    let printed = run.args(["run", "--refs", "HEAD~1,HEAD", "--dry-run"]).assert().success();
    let plan: Value = serde_json::from_slice(&printed.get_output().stdout).expect("JSON");
    assert_eq!(
        plan["candidates"],
        json!([{
            "candidate": "HEAD",
            "changed": {"the-leaf": ["leaf/data.txt", "leaf/src/lib.rs"]},
            "same_sources": 2,
            "elsewhere": ["shared.json"],
            "documentation": 1,
        }])
    );
}

#[test]
fn a_dry_run_says_that_it_writes_no_report() {
    let repository = crate::git::package();
    let mut run = repository.memprof();
    let printed =
        run.args(["run", "HEAD", "--view", "scopes", "--dry-run", "-o", "memory.md"]).assert().success();
    let messages = String::from_utf8_lossy(&printed.get_output().stderr).into_owned();
    assert!(messages.contains("memory.md is not written"), "{messages}");
    assert!(!repository.path("memory.md").exists());
}
