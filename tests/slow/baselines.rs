//! `--save-baseline` and `--baseline-run`: a baseline that is measured once, and refused where it does
//! not fit.

use camino::Utf8Path;
use memprof_support::sealed;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Printed, TestRepository, home, tool};

struct Machine {
    repository: TestRepository,
    home: TempDir,
}

/// The tests of a revision, each with how many bytes it takes.
fn tests(all: &[(&str, usize)]) -> String {
    let test = |(name, bytes): &(&str, usize)| {
        format!("#[test]\nfn {name}() {{ std::hint::black_box(vec![1_u8; {bytes}]); }}\n")
    };
    all.iter().map(test).collect()
}

impl Machine {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository
            .write("Cargo.toml", "[package]\nname = \"kept\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"kept\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        repository.write("src/lib.rs", "");
        repository.write("tests/memory.rs", tests(&[("grows", 1 << 20), ("stays", 1 << 19), ("goes", 9)]));
        repository.commit("old");
        repository.git(["tag", "old"]);
        repository.write("tests/memory.rs", tests(&[("grows", 4 << 20), ("stays", 1 << 19), ("comes", 9)]));
        repository.commit("new");
        repository.git(["tag", "new"]);
        Self { repository, home: home() }
    }

    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Printed {
        let mut command = tool();
        command.current_dir(self.repository.root()).env("CARGO_MEMPROF_HOME", self.home.path());
        command.envs(variables.iter().copied()).arg("memprof").args(arguments);
        Printed::of(command)
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        self.run_with(&[], arguments)
    }
}

#[test]
fn a_finished_run_is_saved_with_as_many_runs_as_a_new_one() {
    let machine = Machine::new();
    let once = machine.run(&["old", "--offline", "--test", "memory", "-k", "stays"]);
    assert!(once.stderr.contains("1/1"), "{}", once.everything());
    let saved = machine.run(&["run", "--resume", "--save-baseline", "v1"]);
    assert_eq!(saved.code, 0, "{}", saved.everything());
    let cells = machine.repository.root().join("target/memprof/baselines/v1/cells");
    let files = walkdir::WalkDir::new(cells).into_iter().map(|entry| entry.expect("it is read"));
    assert_eq!(files.filter(|entry| entry.file_name() == "outcome.json").count(), 5);
}

#[test]
fn tests_in_files_that_a_saved_baseline_lacks_are_counted() {
    let mut machine = Machine::new();
    let saved = machine.run(&["old", "--offline", "--save-baseline", "v1", "--repeat", "1"]);
    assert_eq!(saved.code, 0, "{}", saved.everything());
    let compared = |machine: &Machine, settings: &[&str]| {
        machine.run(&[&["HEAD", "--offline", "--baseline-run", "v1", "--repeat", "1"], settings].concat())
    };
    let note = "is in a test file that the saved baseline v1 lacks, and cannot be put into it";
    let same_file = compared(&machine, &[]);
    assert!(!same_file.everything().contains(note), "{}", same_file.everything());
    machine.repository.write("tests/other.rs", tests(&[("another", 9)]));
    machine.repository.commit("another file");
    let other_file = compared(&machine, &[]);
    assert!(other_file.stdout.contains(&format!("1 test {note}")), "{}", other_file.everything());
    let alone = compared(&machine, &["--no-auto-overlay"]);
    assert!(!alone.everything().contains(note), "{}", alone.everything());
}

/// `grows heap.peak regressed`: the verdicts on the last checkpoint, without the noisy metrics.
fn verdicts(printed: &Printed) -> Vec<String> {
    let report: Value = serde_json::from_str(&printed.stdout).unwrap_or_else(|error| {
        panic!("{error}\n{}", printed.everything());
    });
    let rows = report["rows"].as_array().expect("rows").iter();
    let heap = rows.filter(|row| row["metric"].as_str().is_some_and(|metric| metric.starts_with("heap.")));
    let mut verdicts: Vec<String> = heap
        .map(|row| {
            let verdict = &row["judged"]["new"]["verdict"];
            [&row["test"], &row["checkpoint"], &row["metric"], &row["delta"], verdict]
                .map(Value::to_string)
                .join(" ")
        })
        .collect();
    verdicts.sort();
    verdicts
}

/// The lines that name a function.
fn cause_lines(printed: &Printed) -> Vec<&str> {
    printed.stdout.lines().filter(|line| line.contains("▲ memory::")).collect()
}

#[test]
fn a_saved_baseline_gives_the_verdicts_of_a_run_of_both_and_is_refused_where_it_does_not_fit() {
    let machine = Machine::new();
    // In CI, a push has the threshold of the pull requests, too.
    let threshold = ["--threshold", "heap.peak=2%,1MiB"];
    let old = ["old", "--test", "memory", "--offline", "--save-baseline", "v1"];
    let saved = machine.run(&[&old[..], &threshold].concat());
    assert_eq!(saved.code, 0, "{}", saved.everything());
    assert!(saved.stderr.contains("baselines/v1, the baseline v1"), "{}", saved.stderr);
    assert!(saved.stderr.contains("15/15"), "three tests, five times: {}", saved.stderr);

    let json = ["--test", "memory", "--offline", "--format", "json", "--repeat", "2"];
    let with = |more: &[&str]| machine.run(&[more, &json].concat());
    let kept = with(&["new", "--baseline-run", "v1"]);
    assert!(!kept.stderr.contains("Built old") && !kept.stderr.contains("old 1/"), "{}", kept.stderr);
    let both = with(&["old", "new"]);
    assert_eq!((kept.code, both.code), (1, 1), "{}\n{}", kept.everything(), both.everything());
    assert_eq!(verdicts(&kept), verdicts(&both));
    let note = "was measured earlier, at 2";
    assert!(kept.stdout.contains(note) && !both.stdout.contains(note), "{}", kept.stdout);
    // The stored build of the old side runs once more, for the cause.
    let causes = |run: &[&str]| machine.run(&[run, &["--test", "memory", "--offline"]].concat());
    let kept = causes(&["new", "--baseline-run", "v1"]);
    assert!(kept.stdout.contains("\n ▲ memory::grows"), "{}", kept.everything());
    assert_eq!(cause_lines(&kept), cause_lines(&causes(&["old", "new"])), "{}", kept.everything());
    // Naming the commit is a check.
    let named = with(&["old", "new", "--baseline-run", "v1"]);
    assert_eq!(verdicts(&named), verdicts(&both));
    // A report of the run says the same.
    let report = machine.run(&["report", "--format", "json"]);
    assert_eq!(verdicts(&report), verdicts(&both));
    // One test of those that were kept.
    let one = with(&["new", "--baseline-run", "v1", "-k", "stays"]);
    assert_eq!(one.code, 0, "{}", one.everything());
    assert!(!one.stdout.contains("\"goes\""), "{}", one.stdout);

    let refused = |variables: &[(&str, &str)], arguments: &[&str], what: &str| {
        let printed = machine.run_with(variables, &[arguments, &["--test", "memory", "--offline"]].concat());
        assert_eq!(printed.code, 2, "{}", printed.everything());
        assert!(printed.stderr.contains("the saved baseline v1 does not fit: "), "{}", printed.stderr);
        assert!(printed.stderr.contains(what), "{what}: {}", printed.stderr);
        // Figures of `new` are not advised under the name of those of `old`.
        let name = if arguments.contains(&"old") { "NAME" } else { "v1" };
        let advice = format!("--save-baseline {name}\n");
        assert!(printed.stderr.contains(&advice), "{}", printed.stderr);
    };
    refused(
        &[],
        &["new", "old", "--baseline-run", "v1"],
        "to measure both, with the same options: cargo memprof new old",
    );
    refused(&[], &["new", "--baseline-run", "v1", "--release"], "`build.profile`: none / release");
    refused(&[], &["new", "--baseline-run", "v1", "--env", "A=b"], "`env.A`: none / b");
    let arenas = [("MALLOC_ARENA_MAX", "1")];
    refused(&arenas, &["new", "--baseline-run", "v1"], "the variables MALLOC_ARENA_MAX: none / 1");
    let flags = [("RUSTFLAGS", "-Cdebug-assertions=off")];
    refused(&flags, &["new", "--baseline-run", "v1"], "RUSTFLAGS: none / -Cdebug-assertions=off");

    machine.run(&["clean", "--yes"]);
    let without = causes(&["new", "--baseline-run", "v1"]);
    let message = "warning: no causes: the cache has no build of old ";
    assert!(without.stderr.contains(message), "{}", without.everything());
    let commit = machine.repository.git(["rev-parse", "old"]);
    let help = format!("with the same options: cargo memprof {} new", &commit[..7]);
    assert!(without.stderr.contains(&help), "{}", without.everything());
    assert_eq!((without.code, cause_lines(&without)), (1, Vec::new()), "{}", without.everything());

    let builds = machine.repository.root().join("target/memprof/baselines/v1/builds.json");
    let builds = Utf8Path::from_path(&builds).unwrap();
    let own: Value = sealed::read(builds).unwrap();
    let mut other = own.clone();
    other["0"]["shim"] = "of an earlier version".into();
    sealed::write(builds, &other).unwrap();
    let arguments = ["new", "--baseline-run", "v1", "--test", "memory", "--offline"];
    let printed = machine.run(&arguments);
    let message = "error: the saved baseline v1 does not fit: the version of cargo-memprof";
    assert!(printed.stderr.contains(message), "{}", printed.everything());
    assert!(!printed.stderr.contains("Built"), "nothing is built before: {}", printed.stderr);
    sealed::write(builds, &own).unwrap();

    let unknown = machine.run(&["new", "--baseline-run", "v2"]);
    assert!(unknown.stderr.contains("saved baselines: v1"), "{}", unknown.everything());

    let cleaned = machine.run(&["clean", "--yes"]);
    assert!(cleaned.stdout.contains("kept saved baselines: v1"), "{}", cleaned.everything());
    let left = std::fs::read_dir(machine.repository.root().join("target/memprof")).expect("a folder");
    let mut left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, [".gitignore", "baselines"]);
    let again = with(&["new", "--baseline-run", "v1"]);
    assert_eq!(verdicts(&again), verdicts(&both));
    let removed = machine.run(&["clean", "--yes", "--baseline", "v1"]);
    assert_eq!(removed.code, 0, "{}", removed.everything());
    assert_eq!(machine.run(&["new", "--baseline-run", "v1"]).code, 2);
}
