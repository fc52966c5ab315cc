//! A change of one leaf crate in a workspace: a comparison with the last commit, whose build is stored, against
//! `cargo test` of the crate and its dependents. At most 1.2 times. Beside it, the same with `--jobs auto`, and with a
//! saved baseline, whose tests do not run. Each test uses what changes there; the last column is for a change of one
//! function that few tests use, with `--affected`. Also a change of documentation alone: under 2 s.
//!
//! `cargo bench --bench workspace [-- ROUNDS [PACKAGES TESTS]]`. The workspace has 12 packages with 600 tests; `-- 5 40
//! 5000` is a large one.

#![expect(clippy::print_stdout, reason = "a bench prints")]

mod commands;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use commands::{clean, run};

/// The packages below: each one above uses two of them.
const BELOW: usize = 8;
/// The crate that changes.
const LEAF: &str = "p7";

/// How large the workspace is.
#[derive(Clone, Copy)]
struct Size {
    packages: usize,
    /// The tests of each package: four of five in its library, the others in an integration test.
    tests: [usize; 2],
}

impl Size {
    /// `PACKAGES TESTS` of the arguments.
    fn of_arguments(numbers: &[usize]) -> Self {
        let [packages, tests] = *numbers.get(1..3).unwrap_or(&[12, 600]) else { unreachable!("two numbers") };
        assert!(packages > BELOW + 2, "at least {} packages", BELOW + 3);
        let of_one = tests / packages;
        Self { packages, tests: [of_one - of_one / 5, of_one / 5] }
    }

    /// The crate that changes, and the two that use it.
    fn changed(self) -> [String; 3] {
        [LEAF.to_owned(), format!("p{}", self.packages - 2), format!("p{}", self.packages - 1)]
    }
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(3);
    let size = Size::of_arguments(&numbers);
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    write_workspace(&repository, size);
    let cargo = |arguments: &[&str]| {
        let mut cargo = clean(Command::new("cargo"));
        run(cargo.args(arguments).arg("--offline").current_dir(&repository))
    };
    let tool_with = |cache: &str, arguments: &[&str]| {
        let mut tool = clean(Command::new(env!("CARGO_BIN_EXE_cargo-memprof")));
        tool.arg("memprof").args(arguments).current_dir(&repository);
        tool.env("CARGO_MEMPROF_HOME", folder.path().join(cache));
        let output = tool.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
        text
    };
    let tool = |arguments: &[&str]| tool_with("home", arguments);
    // Who uses `--affected` uses it for every push. Changing back and forth would build all packages each time.
    let affected_tool = |arguments: &[&str]| tool_with("affected", arguments);
    // Both are warm: the last commit is built.
    cargo(&["test", "--tests", "--no-run", "--workspace"]);
    tool(&["build", "HEAD", "--workspace", "--offline"]);
    let changed = size.changed();
    let packages: Vec<&str> = changed.iter().flat_map(|name| ["--package", name.as_str()]).collect();
    let usual = ["--workspace", "--offline", "--threshold", "*=off"];
    let save = ["HEAD", "--repeat", "1", "--jobs", "auto", "--save-baseline"];
    tool(&[&save[..], &["saved"], &usual].concat());
    affected_tool(&[&save[..], &["affected", "--affected"], &usual].concat());
    let ways: [&[&str]; 3] = [
        &["--refs", "HEAD,."],
        &["--refs", "HEAD,.", "--jobs", "auto"],
        &[".", "--baseline-run", "saved", "--repeat", "1", "--jobs", "auto"],
    ];
    println!("{} packages, {} tests", size.packages, size.packages * size.tests.iter().sum::<usize>());
    println!(
        "{:<8} {:>12} {:>12} {:>12} {:>14}  built  tests run  same code {:>12}  tests run",
        "round", "cargo test", "memprof", "--jobs auto", "saved baseline", "--affected"
    );
    let mut ratios = [const { Vec::new() }; 4];
    let mut number = 1;
    for round in 0..rounds {
        let mut change = || {
            number += 1;
            write_leaf(&repository, number, size);
        };
        change();
        let by_cargo = timed(|| drop(cargo(&[&["test", "--tests"], &packages[..]].concat())));
        let ours = ways.map(|way| {
            change();
            timed(|| drop(tool(&[way, &usual].concat())))
        });
        let Ran { built, tests, same_code } = Ran::last(&repository);
        let [alone, beside, saved] = ours;
        number += 1;
        write_function(&repository, number, size);
        let affected = timed(|| {
            drop(affected_tool(
                &[&[".", "--baseline-run", "affected", "--affected", "--repeat", "1"], &usual[..]].concat(),
            ));
        });
        let reached = Ran::last(&repository).tests;
        println!(
            "{:<8} {by_cargo:>12.2?} {alone:>12.2?} {beside:>12.2?} {saved:>14.2?}  {built:>5}  {tests:>9}  \
             {same_code:>9} {affected:>12.2?}  {reached:>9}",
            round + 1
        );
        for (ratios, ours) in ratios.iter_mut().zip([alone, beside, saved, affected]) {
            ratios.push(ours.as_secs_f64() / by_cargo.as_secs_f64());
        }
    }
    let [alone, beside, saved, affected] = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[rounds / 2]
    });
    println!(
        "a change of {LEAF} takes {alone:.2} times as long, {beside:.2} with --jobs auto, {saved:.2} with a saved \
         baseline, and a change of one function {affected:.2} with --affected, the medians (goal: at most 1.2)"
    );
    write_leaf(&repository, 1, size);
    fs::write(repository.join("README.md"), "Another text.\n").unwrap();
    let taken = timed(|| drop(tool(&[ways[0], &usual].concat())));
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
fn write_workspace(folder: &Path, size: Size) {
    let names: Vec<String> = (0..size.packages).map(|number| format!("'p{number}'")).collect();
    fs::create_dir_all(folder).unwrap();
    let manifest = format!("[workspace]\nresolver = '2'\nmembers = [{}]\n", names.join(", "));
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join(".gitignore"), "/target\n").unwrap();
    fs::write(folder.join("README.md"), "A workspace.\n").unwrap();
    let changed = size.changed();
    for number in 0..size.packages {
        let package = folder.join(format!("p{number}"));
        fs::create_dir_all(package.join("src")).unwrap();
        fs::create_dir_all(package.join("tests")).unwrap();
        let uses: Vec<usize> = match number {
            0..BELOW => Vec::new(),
            _ if changed.contains(&format!("p{number}")) => vec![BELOW - 1, number % (BELOW - 1)],
            _ => vec![number % (BELOW - 1), (number + 3) % (BELOW - 1)],
        };
        let lines: Vec<String> =
            uses.iter().map(|used| format!("p{used} = {{ path = '../p{used}' }}\n")).collect();
        let manifest = format!(
            "[package]\nname = 'p{number}'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n{}",
            lines.concat()
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        fs::write(package.join("src/lib.rs"), library(number, &uses, 1, size)).unwrap();
        let mut tests = String::new();
        for test in 0..size.tests[1] {
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
fn write_leaf(folder: &Path, bytes: usize, size: Size) {
    fs::write(folder.join(LEAF).join("src/lib.rs"), library(BELOW - 1, &[], bytes, size)).unwrap();
}

/// Changes one function of the leaf crate.
fn write_function(folder: &Path, number: usize, size: Size) {
    let library = library(BELOW - 1, &[], 1, size);
    // As long as before: a dev build shares generic functions between crates, and has one for each length.
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap());
    let changed = library.replacen(" 0 {}", &format!(" {letter} {{}}"), 1);
    assert_ne!(library, changed);
    fs::write(folder.join(LEAF).join("src/lib.rs"), changed).unwrap();
}

/// A library with a function for each of its tests. All of them use `bytes`, and those of the packages below.
fn library(number: usize, uses: &[usize], bytes: usize, size: Size) -> String {
    let below: Vec<String> = uses.iter().map(|used| format!(" + p{used}::size()")).collect();
    let mut code = format!("pub fn size() -> usize {{ {bytes}{} }}\n", below.concat());
    let mut tests = String::new();
    for test in 0..size.tests[0] {
        _ = writeln!(
            code,
            "pub fn f{test}(n: usize) -> Vec<String> {{ (0..n).map(|i| format!(\"{number} {test} {{}}\", i * size())).collect() }}"
        );
        _ = writeln!(tests, "    #[test]\n    fn f{test}() {{ assert_eq!(super::f{test}(7).len(), 7); }}");
    }
    format!("{code}#[cfg(test)]\nmod tests {{\n{tests}}}\n")
}
