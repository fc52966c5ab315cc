//! Benchmarks are tests, too: each runs once, in a process of its own.

use serde_json::Value;

use crate::support::TestRepository;
use crate::support::traced::memprof;

/// A stand-in with criterion's command line: `--help`, `--list --format terse`, `--test --exact NAME`.
/// It lists one benchmark that it does not run.
const CRITERION: &str = r#"
pub fn run(benches: &[(&str, fn())]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--help") {
        println!("--exact --format");
    } else if has("--list") {
        for (name, _) in benches {
            println!("{name}: benchmark");
        }
        println!("lost: benchmark");
    } else {
        assert!(has("--test") && has("--exact"), "the whole would run: {arguments:?}");
        for (name, bench) in benches.iter().filter(|(name, _)| has(name)) {
            println!("Testing {name}");
            bench();
            println!("Success\n");
        }
    }
}
"#;

const BENCH: &str = r#"
fn fill(bytes: usize) {
    drop(std::hint::black_box(vec![1_u8; bytes]));
    memprof::checkpoint!("filled");
}

fn main() {
    criterion::run(&[("fill/1", || fill(1 << 20)), ("fill/10", || fill(10 << 20))]);
}
"#;

#[test]
fn each_benchmark_runs_alone_and_one_that_did_not_run_is_refused() {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = \"fills\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\nmembers = [\"criterion\"]\n\n\
         [dev-dependencies]\ncriterion = { path = \"criterion\" }\n\n[[bench]]\nname = \"fill\"\nharness = false\n",
    );
    repository.write(
        "criterion/Cargo.toml",
        "[package]\nname = \"criterion\"\nversion = \"0.5.1\"\nedition = \"2021\"\n",
    );
    repository.write("criterion/src/lib.rs", CRITERION);
    repository.write("src/lib.rs", "");
    repository.write("benches/fill.rs", BENCH);
    repository.commit("benchmarks");

    let listed = memprof(&repository, &["list", "--benches", "--offline"]);
    for name in ["fill/1", "fill/10", "lost"] {
        assert!(listed.stdout.contains(name), "{}", listed.everything());
    }
    let ran = memprof(&repository, &["HEAD", "--benches", "--offline", "--format", "json"]);
    assert_eq!(ran.code, 3, "{}", ran.everything());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let cell = |test: &str| {
        let found = cells.iter().find(|cell| cell["test"].as_str().unwrap().ends_with(test));
        found.unwrap_or_else(|| panic!("no {test}: {}", ran.everything()))
    };
    let table = memprof(&repository, &["report", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(table.stdout.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let peak = |test: &str| -> i64 {
        let field = |row: &csv::StringRecord, name: &str| {
            row[columns.iter().position(|column| column == name).unwrap()].to_owned()
        };
        let is_meant = |row: &&csv::StringRecord| {
            field(row, "test").ends_with(test)
                && field(row, "checkpoint") == "filled"
                && field(row, "metric") == "heap.peak"
        };
        field(rows.iter().find(is_meant).unwrap(), "value").parse::<i64>().unwrap() >> 20
    };
    assert_eq!([peak("fill/1"), peak("fill/10")], [1, 10], "each has its own process");
    let lost = cell("lost").to_string();
    assert!(lost.contains("the executable did not say that it ran 'lost'"), "{lost}");

    let one = memprof(&repository, &["HEAD", "--bench", "fill", "--exact", "fill/10", "--offline"]);
    assert_eq!(one.code, 0, "{}", one.everything());
    assert!(one.stdout.contains("fill/10") && !one.stdout.contains("lost"), "{}", one.everything());
}
