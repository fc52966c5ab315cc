//! A change of one leaf crate in a workspace of 40 packages and 5,000 tests: a comparison with the last commit,
//! whose build is stored, against `cargo test` of the crate and its dependents. At most 1.2 times. Also a change of
//! documentation alone: under 2 s.
//!
//! `cargo bench --bench workspace [-- ROUNDS]`

#![expect(clippy::print_stdout, reason = "a bench prints")]

mod commands;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use commands::{clean, run};

const PACKAGES: usize = 40;
/// The tests of each package: 100 in its library, and 25 in an integration test.
const TESTS: [usize; 2] = [100, 25];
/// The packages below: each one above uses two of them.
const BELOW: usize = 8;
/// The crate that changes, and those that use it.
const LEAF: &str = "p7";
const CHANGED: [&str; 3] = [LEAF, "p38", "p39"];

fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    write_workspace(&repository);
    let cargo = |arguments: &[&str]| {
        let mut cargo = clean(Command::new("cargo"));
        run(cargo.args(arguments).arg("--offline").current_dir(&repository))
    };
    let tool = |arguments: &[&str]| {
        let mut tool = clean(Command::new(env!("CARGO_BIN_EXE_cargo-memprof")));
        tool.arg("memprof").args(arguments).current_dir(&repository);
        tool.env("CARGO_MEMPROF_HOME", folder.path().join("home"));
        let output = tool.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
        text
    };
    // Both are warm: the last commit is built.
    cargo(&["test", "--tests", "--no-run", "--workspace"]);
    tool(&["build", "HEAD", "--workspace", "--offline"]);
    let packages: Vec<&str> = CHANGED.into_iter().flat_map(|name| ["--package", name]).collect();
    let compare = ["--refs", "HEAD,.", "--workspace", "--offline", "--threshold", "*=off"];
    println!(
        "{:<8} {:>12} {:>12} {:>7}  built  tests run  same code",
        "round", "cargo test", "memprof", "ratio"
    );
    let mut ratios = Vec::new();
    for round in 0..rounds {
        write_leaf(&repository, round + 2);
        let by_cargo = timed(|| drop(cargo(&[&["test", "--tests"], &packages[..]].concat())));
        let ours = timed(|| drop(tool(&compare)));
        let ratio = ours.as_secs_f64() / by_cargo.as_secs_f64();
        let Ran { built, tests, same_code } = Ran::last(&repository);
        println!(
            "{:<8} {by_cargo:>12.2?} {ours:>12.2?} {ratio:>7.2}  {built:>5}  {tests:>9}  {same_code:>9}",
            round + 1
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "a change of {LEAF} takes {:.2} times as long, the median (goal: at most 1.2)",
        ratios[rounds / 2]
    );
    write_leaf(&repository, 1);
    fs::write(repository.join("README.md"), "Another text.\n").unwrap();
    let taken = timed(|| drop(tool(&compare)));
    let Ran { built, tests, .. } = Ran::last(&repository);
    println!(
        "a change of README.md takes {taken:.2?}: {built} packages built, {tests} tests run (goal: under 2 s)"
    );
}

/// What the last comparison did.
struct Ran {
    /// The packages that cargo compiled.
    built: usize,
    tests: usize,
    same_code: u64,
}

impl Ran {
    fn last(repository: &Path) -> Self {
        let folder = repository.join("target/memprof/latest");
        let logs = fs::read_dir(folder.join("builds")).into_iter().flatten();
        let logs = logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap());
        let compiled =
            logs.map(|log| log.lines().filter(|line| line.trim_start().starts_with("Compiling")).count());
        let cells = fs::read_dir(folder.join("cells")).into_iter().flatten();
        let of_one = cells.map(|revision| fs::read_dir(revision.unwrap().path()).unwrap().count());
        let builds: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("builds.json")).unwrap()).unwrap();
        let mut same_code = 0;
        count_same_code(&builds, &mut same_code);
        Self { built: compiled.sum(), tests: of_one.max().unwrap_or(0), same_code }
    }
}

/// Adds the tests of all lists `same_code`, wherever they are.
fn count_same_code(value: &Value, sum: &mut u64) {
    match value {
        Value::Object(fields) => {
            let own = fields.get("same_code").and_then(Value::as_array).into_iter().flatten();
            *sum += own.filter_map(|package| package["tests"].as_u64()).sum::<u64>();
            fields.values().for_each(|field| count_same_code(field, sum));
        }
        Value::Array(all) => all.iter().for_each(|one| count_same_code(one, sum)),
        _ => {}
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Writes and commits the workspace.
fn write_workspace(folder: &Path) {
    let names: Vec<String> = (0..PACKAGES).map(|number| format!("'p{number}'")).collect();
    fs::create_dir_all(folder).unwrap();
    let manifest = format!("[workspace]\nresolver = '2'\nmembers = [{}]\n", names.join(", "));
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join(".gitignore"), "/target\n").unwrap();
    fs::write(folder.join("README.md"), "A workspace.\n").unwrap();
    for number in 0..PACKAGES {
        let package = folder.join(format!("p{number}"));
        fs::create_dir_all(package.join("src")).unwrap();
        fs::create_dir_all(package.join("tests")).unwrap();
        let uses: Vec<usize> = match number {
            0..BELOW => Vec::new(),
            _ if CHANGED.contains(&&*format!("p{number}")) => vec![BELOW - 1, number % (BELOW - 1)],
            _ => vec![number % (BELOW - 1), (number + 3) % (BELOW - 1)],
        };
        let lines: Vec<String> =
            uses.iter().map(|used| format!("p{used} = {{ path = '../p{used}' }}\n")).collect();
        let manifest = format!(
            "[package]\nname = 'p{number}'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n{}",
            lines.concat()
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        fs::write(package.join("src/lib.rs"), library(number, &uses, 1)).unwrap();
        let mut tests = String::new();
        for test in 0..TESTS[1] {
            _ = writeln!(
                tests,
                "#[test]\nfn whole_{test}() {{ assert_eq!(p{number}::f{test}(9).len(), 9); }}"
            );
        }
        fs::write(package.join("tests/whole.rs"), tests).unwrap();
    }
    run(clean(Command::new("cargo")).args(["generate-lockfile", "--offline"]).current_dir(folder));
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        run(Command::new("git").current_dir(folder).args(identity).args(arguments));
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "a workspace"]);
}

/// Changes the leaf crate.
fn write_leaf(folder: &Path, size: usize) {
    fs::write(folder.join(LEAF).join("src/lib.rs"), library(BELOW - 1, &[], size)).unwrap();
}

/// A library with a function for each of its tests. All of them use `size`, and those of the packages below.
fn library(number: usize, uses: &[usize], size: usize) -> String {
    let below: Vec<String> = uses.iter().map(|used| format!(" + p{used}::size()")).collect();
    let mut code = format!("pub fn size() -> usize {{ {size}{} }}\n", below.concat());
    let mut tests = String::new();
    for test in 0..TESTS[0] {
        _ = writeln!(
            code,
            "pub fn f{test}(n: usize) -> Vec<String> {{ (0..n).map(|i| format!(\"{number} {test} {{}}\", i * size())).collect() }}"
        );
        _ = writeln!(tests, "    #[test]\n    fn f{test}() {{ assert_eq!(super::f{test}(7).len(), 7); }}");
    }
    format!("{code}#[cfg(test)]\nmod tests {{\n{tests}}}\n")
}
