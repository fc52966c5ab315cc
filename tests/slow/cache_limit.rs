//! The disk's space while a search adds a build for each commit, and builds that fail through no fault of their commit.

use std::path::Path;
use std::process::Command;

use crate::support::{Printed, TestRepository, home_at, tool};

/// A repository of a crate with one test, with these bodies.
fn repository(bodies: &[String]) -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = \"grows\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"grows\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    for body in bodies {
        repository.write("src/lib.rs", format!("#[test]\nfn grows() {{ {body} }}\n"));
        repository.commit(body);
    }
    repository
}

fn keeps(kilobytes: usize) -> String {
    format!("std::hint::black_box(vec![1_u8; {kilobytes} * 1000]);")
}

fn tool_of(repository: &TestRepository, arguments: &[&str]) -> Command {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("cache")));
    command.arg("memprof").args(arguments);
    command
}

fn history(repository: &TestRepository, range: &str) -> Command {
    tool_of(repository, &["history", range, "-k", "grows", "--offline"])
}

#[test]
fn a_search_removes_builds_that_it_can_make_again() {
    let repository = repository(&[100, 200, 300, 400, 500, 600].map(keeps));
    let mut command = history(&repository, "HEAD~5..HEAD");
    command.env("CARGO_MEMPROF_CACHE_SIZE", "1MiB").arg("--output").arg(repository.beside("history.html"));
    let printed = Printed::of(command);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_eq!(printed.stderr.matches("Measured [").count(), 6, "{}", printed.everything());
    let removed = "of old builds from the cache (limit 1.00 MiB)";
    assert!(printed.stderr.contains(removed), "{}", printed.everything());
    let files = |folder: &Path, name: &str| {
        let files = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
        files.filter(|entry| entry.file_name() == name).count()
    };
    // Both builds of each step are needed again for the call stacks of the page.
    let steps = repository.root().join("target/memprof/latest/steps");
    assert_eq!(files(&steps, "log.jsonl"), 10, "{}", printed.everything());
    let builds = files(&repository.beside("cache"), "provenance.json");
    assert!((2..=4).contains(&builds), "the ends, and what a step needs: {builds}");
}

#[test]
fn a_search_keeps_a_build_that_stands_for_another_commit() {
    let mut repository = repository(&[keeps(100), keeps(100) + " std::hint::black_box(1);"]);
    repository.write("docs/guide.md", "A guide.\n");
    repository.commit("guide");
    for body in [keeps(300), keeps(400)] {
        repository.write("src/lib.rs", format!("#[test]\nfn grows() {{ {body} }}\n"));
        repository.commit(&body);
    }
    let mut command = history(&repository, "HEAD~4..HEAD");
    command.env("CARGO_MEMPROF_CACHE_SIZE", "1MiB").arg("--output").arg(repository.beside("history.html"));
    let printed = Printed::of(command);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    // The guide has the build of the commit before, and is needed again for the call stacks of the first step.
    assert!(printed.stdout.contains("5 of 5 commits measured · 4 builds"), "{}", printed.everything());
    assert_eq!(printed.stderr.matches("Explained 1 test").count(), 2, "{}", printed.everything());
}

#[test]
fn the_build_of_a_saved_baseline_stays_for_its_causes() {
    let repository = repository(&[100, 300].map(keeps));
    let run = |arguments: &[&str]| {
        let mut command = tool_of(&repository, arguments);
        command.env("CARGO_MEMPROF_CACHE_SIZE", "1MiB").arg("--offline");
        Printed::of(command)
    };
    let saved = run(&["HEAD~1", "--save-baseline", "b"]);
    assert_eq!(saved.code, 0, "{}", saved.everything());
    let printed = run(&["HEAD", "--baseline-run", "b"]);
    assert!(printed.stderr.contains("Explained 1 test"), "{}", printed.everything());
    assert!(!printed.stdout.contains("cannot be recorded"), "{}", printed.everything());
}

#[test]
fn a_failure_of_the_machine_ends_a_search_and_a_commit_is_skipped_if_it_may_be_the_cause() {
    let no_space = "free some space (`cargo memprof clean` shows what it would remove), then";
    let network = "failed to download: Could not connect to server";
    for (failure, first, again) in [
        ("No space left on device (os error 28)", no_space, 101),
        (network, "once the network works again,", 3),
    ] {
        let repository = repository(&[keeps(100), format!("compile_error!({failure:?});"), keeps(300)]);
        let printed = Printed::of(history(&repository, "HEAD~2..HEAD"));
        assert_eq!(printed.code, 101, "{}", printed.everything());
        let expected = format!("{first} continue (finished runs are kept): cargo memprof history --resume");
        assert!(printed.stderr.contains(&expected), "{}", printed.everything());
        let printed = Printed::of(tool_of(&repository, &["history", "--resume", "--offline"]));
        assert_eq!(printed.code, again, "{}", printed.everything());
        let is_skipped = printed.stderr.contains("its build failed again for the same reason (network down)");
        assert_eq!(is_skipped, again == 3, "{}", printed.everything());
        assert_eq!(
            printed.stdout.contains("skipped: does not build"),
            is_skipped,
            "{}",
            printed.everything()
        );
    }
    // An end is not skipped.
    let repository = repository(&[keeps(100), format!("compile_error!({network:?});")]);
    for arguments in
        [&["history", "HEAD~1..HEAD", "-k", "grows", "--offline"][..], &["history", "--resume", "--offline"]]
    {
        let printed = Printed::of(tool_of(&repository, arguments));
        assert_eq!(printed.code, 101, "{}", printed.everything());
    }
}

#[test]
fn a_commit_that_was_built_before_is_not_skipped_if_it_no_longer_builds() {
    let mut repository = repository(&[]);
    let outside = repository.beside("outside.rs");
    std::fs::write(&outside, "()").expect("it is written");
    let includes = |rest: &str| format!("include!({outside:?}); {rest}");
    let full = "compile_error!(\"No space left on device (os error 28)\");";
    for body in [includes(&keeps(100)), full.to_owned(), includes(&keeps(300))] {
        repository.write("src/lib.rs", format!("#[test]\nfn grows() {{ {body} }}\n"));
        repository.commit(&body);
    }
    let printed = Printed::of(history(&repository, "HEAD~2..HEAD"));
    assert_eq!(printed.code, 101, "{}", printed.everything());
    std::fs::remove_dir_all(repository.beside("cache")).expect("the builds are gone");
    std::fs::remove_file(&outside).expect("it is gone");
    let printed = Printed::of(tool_of(&repository, &["history", "--resume", "--offline"]));
    assert_eq!(printed.code, 2, "{}", printed.everything());
    for expected in ["was built before, and does not build now", "cargo memprof history --resume"] {
        assert!(printed.stderr.contains(expected), "{}", printed.everything());
    }
}
