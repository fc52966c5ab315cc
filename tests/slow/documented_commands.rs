//! The commands of README and docs, run in the repository of the demo: those that name nothing which it lacks.

use std::collections::BTreeSet;

use cargo_memprof::demo::repository;

use crate::support::pages::{commands, pages, words};
use crate::support::{home_at, tool};

/// What the demo lacks: refs, packages, files, runs, other machines.
#[rustfmt::skip]
const LACKING: [&str; 29] = [
    "$", "serde", "bart", "hf_", "old", "new", "v1", "main feature", "Layer", "checkpoint-at", "checkpoints.patch",
    "tool", "bench", "--test ", "PATH", "archive", "notebook", "merge", "compare", "restore", "yield", "submit",
    "--open", "--resume", "2026", "budget", "bisect", "history", "clean",
];

/// They take minutes, and have tests of their own.
const LONG: [&str; 2] = ["prove", "demo"];

/// The tests of the demo have other names than those on the pages.
fn of_the_demo(word: String) -> String {
    match &*word {
        "decode" | "index" => "finds".to_owned(),
        _ => word,
    }
}

#[test]
fn each_command_that_needs_no_other_repository_does_its_work() {
    let folder = tempfile::tempdir().unwrap();
    let demo = repository::create(folder.path()).unwrap();
    let home = home_at(folder.path().join("home"));
    let pages = pages();
    let of_now = pages.iter().filter(|(page, _)| page.as_os_str() != "CHANGELOG.md");
    let all: BTreeSet<Vec<String>> = of_now
        .flat_map(|(_, text)| commands(text))
        .filter(|command| !LACKING.iter().chain(&LONG).any(|lacking| command.contains(lacking)))
        .map(|command| words(&command).unwrap().into_iter().skip(2).map(of_the_demo).collect())
        .collect();
    assert!(all.len() > 20, "{} commands were found", all.len());
    // Reports need a run.
    let (reports, runs): (Vec<_>, Vec<_>) =
        all.iter().partition(|words| words.first().is_some_and(|word| word == "report"));
    let mut failed = Vec::new();
    for words in runs.into_iter().chain(reports) {
        let mut command = tool();
        command.current_dir(&demo.path).env("CARGO_MEMPROF_HOME", &home).arg("memprof").args(words);
        let output = command.output().unwrap();
        // 1: something regressed, as it does in the demo. 4: runs are inconclusive.
        if !matches!(output.status.code(), Some(0 | 1 | 4)) {
            let told = String::from_utf8_lossy(&output.stderr);
            failed.push(format!("cargo memprof {}: {}\n{told}", words.join(" "), output.status));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The text without what differs with the width of the screen.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "·").collect::<Vec<_>>().join(" ")
}

#[test]
fn the_pages_show_the_causes_that_the_demo_prints() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = tool();
    // The causes need lines.
    demo.env_remove("CARGO_PROFILE_DEV_DEBUG");
    demo.env("CARGO_MEMPROF_HOME", home_at(folder.path().join("home"))).args(["memprof", "demo"]);
    let printed = in_one_line(&String::from_utf8(demo.output().unwrap().stdout).unwrap());
    let mut shown = 0;
    for (page, text) in pages() {
        // A page may fold the second line of a cause.
        let lines: Vec<&str> = text.lines().collect();
        let is_cause = |line: &str| {
            ["builder", "postings"].iter().any(|file| line.starts_with(&format!(" ▲ src/{file}.rs")))
        };
        for at in (0..lines.len()).filter(|&at| is_cause(lines[at])) {
            let rest = lines[at + 1..].iter().take_while(|line| line.starts_with("     "));
            let cause =
                in_one_line(&std::iter::once(&lines[at]).chain(rest).copied().collect::<Vec<_>>().join(" "));
            assert!(printed.contains(&cause), "{}: {cause}\n{printed}", page.display());
            shown += 1;
        }
    }
    assert!(shown >= 8, "{shown} causes were found");
}
