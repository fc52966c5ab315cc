//! `--affected`: a test is left out only if nothing that it can reach was changed, also in an executable that differs.

use std::path::Path;

use serde_json::Value;

use crate::same_code::Numbers;
use crate::support::csv::memprof;
use crate::support::{Printed, TestRepository, home};

/// The files of `fixtures/affected`: a package with a number for each way in which code reaches a test, and one with
/// a test for each.
const FILES: [(&str, &str); 3] = [
    ("granite.rs", "granite/src/lib.rs"),
    ("text.txt", "granite/src/text.txt"),
    ("app.rs", "app/src/lib.rs"),
];

const GRANITE: &str = "granite/src/lib.rs";

/// Each number, and what is before it.
const SIZE: &str = "SIZE!(40";

fn workspace() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[workspace]\nmembers = [\"app\", \"granite\"]\nresolver = \"2\"\n");
    let manifest = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n")
    };
    repository.write("granite/Cargo.toml", manifest("granite"));
    repository.write("app/Cargo.toml", manifest("app") + "granite = { path = \"../granite\" }\n");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/affected");
    for (file, path) in FILES {
        repository.write(path, std::fs::read_to_string(folder.join(file)).expect("the fixture"));
    }
    repository.write(".gitignore", "target\nCargo.lock\n");
    repository.commit("old");
    repository
}

struct Compared {
    printed: Printed,
    report: Value,
}

impl Compared {
    /// Compares the last commit with the working tree.
    fn with(repository: &TestRepository, home: &Path, arguments: &[&str]) -> Self {
        let usual = ["--refs", "HEAD,.", "--offline", "--workspace", "--repeat", "1"];
        let printed = memprof(repository.root(), home, &[&usual, arguments].concat());
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let report = memprof(repository.root(), home, &["report", "--format", "json"]);
        Self { printed, report: serde_json::from_str(&report.stdout).expect("a JSON report") }
    }

    /// The tests that ran.
    fn ran(&self) -> Vec<&str> {
        let cells = self.report["cells"].as_array().into_iter().flatten();
        let mut titles: Vec<&str> = cells.filter_map(|cell| cell["title"].as_str()).collect();
        titles.sort_unstable();
        titles.dedup();
        titles
    }

    /// The tests whose heap differs.
    fn differing(&self) -> Vec<&str> {
        let rows = self.report["rows"].as_array().into_iter().flatten();
        let differs = |row: &&Value| {
            let differences = row["delta"].as_object().expect("a difference for each candidate");
            row["metric"].as_str().is_some_and(|metric| metric.starts_with("heap."))
                && differences.values().any(|difference| *difference != 0)
        };
        let mut titles: Vec<&str> = rows.filter(differs).filter_map(|row| row["title"].as_str()).collect();
        titles.sort_unstable();
        titles.dedup();
        titles
    }
}

#[test]
fn a_test_runs_if_a_change_can_reach_it() {
    let (repository, home) = (workspace(), home());
    let ran = |change: &dyn Fn(String) -> String, file: &str, ran: &[&str]| {
        let text = repository.read(file);
        let changed = change(text.clone());
        assert_ne!(text, changed, "{file}");
        repository.write(file, changed);
        let compared = Compared::with(&repository, home.path(), &["--affected"]);
        assert_eq!(compared.ran(), ran, "{}", compared.printed.everything());
        repository.write(file, text);
    };
    let second = |text: String| {
        text.replace(
            "fn second() -> usize {\n    black_box(SIZE!(40",
            "fn second() -> usize {\n    black_box(SIZE!(90",
        )
    };
    ran(&second, GRANITE, &["function_pointer"]);
    let weight = |text: String| {
        text.replace(
            "impl Stone for Boulder {\n    fn weight(&self) -> usize {\n        black_box(SIZE!(40",
            "impl Stone for Boulder {\n    fn weight(&self) -> usize {\n        black_box(SIZE!(90",
        )
    };
    ran(&weight, GRANITE, &["trait_object"]);
    let nested = |text: String| text.replace("Inner { size: SIZE!(40)", "Inner { size: SIZE!(90)");
    ran(&nested, GRANITE, &["nested_constants"]);
    let merged =
        |text: String| text.replace("black_box(3.0_f64) * SIZE!(40)", "black_box(3.0_f64) * SIZE!(90)");
    ran(&merged, GRANITE, &["merged_constants"]);
    // A new test, which is only there, moves no other.
    let new = "#[test]\nfn new() {\n    keep(5);\n}\n";
    ran(&|text| text + new, "app/src/lib.rs", &["new"]);
    // The tests of another package may read a file that is included, and what begins each process is in all tests.
    let all_run = |file: &str, more: &str| {
        let text = repository.read(file);
        repository.write(file, format!("{text}{more}"));
        let compared = Compared::with(&repository, home.path(), &["--affected"]);
        assert_eq!(compared.ran().len(), 31, "{}", compared.printed.everything());
        repository.write(file, text);
    };
    all_run("granite/src/text.txt", "more");
    let called = "#[used]\n#[link_section = \".init_array\"]\nstatic CALLED: extern \"C\" fn() = called;\nextern \"C\" fn called() {}\n";
    all_run(GRANITE, called);
}

#[test]
fn with_another_linker_all_tests_of_changed_executables_run_and_a_warning_says_why() {
    let (mut repository, home) = (workspace(), home());
    repository.write(".cargo/config.toml", "[build]\nrustflags = [\"-Clink-arg=-fuse-ld=bfd\"]\n");
    repository.commit("another linker");
    let text = repository.read(GRANITE);
    repository.write(GRANITE, text.replacen(SIZE, "SIZE!(90", 1));
    // The second time, both builds are stored.
    for _ in 0..2 {
        let compared = Compared::with(&repository, home.path(), &["--affected"]);
        assert_eq!(compared.ran().len(), 31, "{}", compared.printed.everything());
        let warning = "reach is not known: the linker is not lld, the only one whose map is read";
        assert!(compared.printed.stderr.contains(warning), "{}", compared.printed.everything());
    }
}

/// Makes this many changes. Each is run twice: with `--affected`, and with all tests.
#[expect(clippy::print_stderr, reason = "a run of many changes says what it found")]
fn no_affected_test_is_left_out(changes: usize, seed: u64) {
    let (repository, home) = (workspace(), home());
    let text = repository.read(GRANITE);
    let places: Vec<usize> = text.match_indices(SIZE).map(|(at, _)| at + SIZE.len() - 2).collect();
    let mut numbers = Numbers(seed);
    let (mut left_out, mut differing) = (0, 0);
    for _ in 0..changes {
        let mut source = text.clone();
        // From the last to the first, so that no place moves.
        for place in places.iter().rev() {
            if numbers.below(12) > 0 {
                continue;
            }
            source.replace_range(*place..place + 2, &(41 + numbers.below(50)).to_string());
        }
        if numbers.below(3) == 0 {
            source = format!("//! A line more.\n{source}");
        }
        repository.write(GRANITE, &source);
        let release: &[&str] = if numbers.below(2) == 0 { &["--release"] } else { &[] };
        let usual = Compared::with(&repository, home.path(), &[&["--affected"], release].concat());
        let all = Compared::with(&repository, home.path(), &[&["--run-all"], release].concat());
        let (ran, differ) = (usual.ran(), all.differing());
        let missed: Vec<&&str> = differ.iter().filter(|test| !ran.contains(test)).collect();
        assert!(missed.is_empty(), "{missed:?} was left out:\n{source}");
        left_out += all.ran().len() - ran.len();
        differing += differ.len();
    }
    let found = format!("{left_out} tests left out, {differing} differ");
    eprintln!("{changes} changes of seed {seed}: {found}");
    assert!(left_out > 0 && differing > 0, "{found}");
}

#[test]
fn a_few_random_changes_leave_out_no_affected_test() {
    no_affected_test_is_left_out(4, 1);
}

/// `MEMPROF_CHANGES=1000 cargo test --test slow random_changes -- --ignored`
#[test]
#[ignore = "each change takes some seconds"]
fn many_random_changes_leave_out_no_affected_test() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let changes: u64 = number("MEMPROF_CHANGES").unwrap_or(1000);
    let seed = number("MEMPROF_SEED").unwrap_or(7);
    no_affected_test_is_left_out(usize::try_from(changes).expect("a number of changes"), seed);
}
