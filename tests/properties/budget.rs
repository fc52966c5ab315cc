//! The file of a budget. It is a file of the repository, and a pull request changes it.

use camino::Utf8Path;
use memprof_judge::compare::budget;

use super::Target;

pub const TARGET: Target = Target {
    name: "budget",
    check,
    seeds,
    words: &[
        "\"version\": 1",
        "\"limits\"",
        "\"test\"",
        "\"params\"",
        "\"metric\": \"heap.peak\"",
        "\"checkpoint\": \"done\"",
        "\"unit\": \"bytes\"",
        "\"figure\": -1",
        "\"limit\": 18446744073709551615",
        "[]",
        "{}",
        "null",
        "\n",
    ],
};

/// An error names the file. What is accepted names lines of it, in order.
pub fn check(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = Utf8Path::from_path(folder.path()).expect("its path is text").join("budget.json");
    std::fs::write(&path, bytes).expect("the folder is there");
    match budget::read(&path, "budget.json") {
        Err(error) => assert!(format!("{error:#}").contains("budget.json"), "{error:#}"),
        Ok(read) => {
            let lines = bytes.split(|byte| *byte == b'\n').count();
            let places: Vec<usize> = read.limits.iter().map(|limit| limit.line).collect();
            assert!(places.iter().all(|line| (1..=lines).contains(line)), "{places:?} of {lines}");
            assert!(places.is_sorted(), "{places:?}");
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = r#"{"test": "a::b", "params": {"n": "1"}, "metric": "heap.peak", "checkpoint": "done", "unit": "bytes", "figure": 5, "limit": 6}"#;
    let budget =
        |entries: &[&str]| format!("{{\"version\": 1, \"limits\": [\n{}\n]}}\n", entries.join(",\n"));
    [budget(&[]), budget(&[entry]), budget(&[entry, entry]), "{\"version\": 9, \"limits\": []}".to_owned()]
        .into_iter()
        .map(String::into_bytes)
        .collect()
}
