//! CSV as tables: a row per checkpoint or scope, columns per metric and ref.

use std::collections::BTreeSet;

use crate::support::synthetic::{Log, Synthetic};
use crate::support::tables::table;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_report::options::Format;

/// A test with parameters, one without any, and one that failed.
fn usual(refs: &[&str]) -> Comparison {
    let mut synthetic = Synthetic::new(refs);
    for revision in 0..refs.len() {
        let more = 50 * i64::try_from(revision).unwrap();
        let log = Log::new()
            .checkpoint("start", &[("heap.peak", 0), ("time", 0)])
            .nested(1, "inner", &[("heap.consumed", 5), ("time", 7)])
            .nested(0, "outer", &[("heap.consumed", 20 + more), ("time", 9)])
            .checkpoint("=loaded", &[("heap.peak", 100 + more), ("time", 10)])
            .checkpoint("done", &[("heap.peak", 40), ("time", 20)]);
        synthetic = synthetic
            .passed_with("hf", &[("batch", "8"), ("metric", "l2")], revision, &log)
            .passed("plain", revision, 0, &log)
            .failed("broken", revision, Status::Failed { exit_code: 1 }, "", None);
    }
    compare(&synthetic.results())
}

#[test]
fn wide_has_a_row_per_checkpoint_with_both_differences() {
    let rows = table(Format::CsvWide, &usual(&["main", "pr/1", "pr/2"]));
    assert_eq!(rows.len(), 7, "three checkpoints of two tests, and the failed one");
    let loaded =
        rows.iter().find(|row| row["checkpoint"] == "'=loaded" && row["param.batch"] == "8").unwrap();
    for (heading, expected) in [
        ("test", "bart::tests::hf"),
        ("param.metric", "l2"),
        ("occurrence", "1"),
        ("change", "matched"),
        ("place", "src/lib.rs:10"),
        ("outcome:pr/1", "ok"),
        ("heap.peak:main", "100"),
        ("heap.peak:pr/2", "200"),
        ("heap.peak:pr/2:delta", "100"),
        ("heap.peak:pr/2:percent", "100.0000"),
        ("heap.peak:pr/1:previous_delta", "150"),
        ("time:main:previous_delta", "10"),
    ] {
        assert_eq!(loaded[heading], expected, "{heading}");
    }
    let broken = rows.iter().find(|row| row["test"].ends_with("broken")).unwrap();
    assert_eq!((&*broken["outcome:main"], &*broken["checkpoint"]), ("failed", ""));
    assert!(!rows[0].contains_key("heap.consumed:main"), "no checkpoint has it");
}

#[test]
fn one_revision_has_no_columns_of_differences_between_revisions() {
    let rows = table(Format::CsvWide, &usual(&["main"]));
    assert!(!rows[0].keys().any(|heading| heading.ends_with(":delta") || heading.ends_with(":percent")));
    assert_eq!(rows.iter().filter(|row| row["heap.peak:main"] == "100").count(), 2);
}

#[test]
fn scopes_has_a_row_per_scope_with_its_depth_and_place() {
    let rows = table(Format::CsvScopes, &usual(&["main", "pr/1"]));
    let outer = rows.iter().find(|row| row["scope"] == "outer" && row["param.batch"].is_empty()).unwrap();
    for (heading, expected) in [
        ("depth", "0"),
        ("place", "src/lib.rs:10"),
        ("heap.consumed:main", "20"),
        ("heap.consumed:pr/1:delta", "50"),
        ("time:pr/1", "9"),
    ] {
        assert_eq!(outer[heading], expected, "{heading}");
    }
    assert!(rows.iter().any(|row| row["scope"] == "inner" && row["depth"] == "1"));
    assert!(!rows[0].contains_key("heap.peak:main"), "no scope has it");
}

#[test]
fn two_names_of_one_test_are_told_apart_in_every_table() {
    let log =
        Log::new().nested(0, "outer", &[("heap.consumed", 20)]).checkpoint("done", &[("heap.peak", 40)]);
    let synthetic =
        Synthetic::new(&["main"]).passed_as("large", "hf", 0, &log).passed_as("small", "hf", 0, &log);
    let comparison = compare(&synthetic.results());
    for format in [Format::Csv, Format::CsvWide, Format::CsvScopes] {
        let rows = table(format, &comparison);
        let names: BTreeSet<&str> = rows.iter().map(|row| &*row["name"]).collect();
        assert_eq!(names, BTreeSet::from(["large", "small"]), "{format:?}");
        assert!(rows.iter().all(|row| row["test"] == "bart::tests::hf"));
    }
}

#[test]
fn long_has_a_column_per_parameter_behind_those_that_scripts_know() {
    let rows = table(Format::Csv, &usual(&["main"]));
    let hf: Vec<_> = rows.iter().filter(|row| row["test"].ends_with("hf")).collect();
    assert!(!hf.is_empty() && hf.iter().all(|row| row["param.batch"] == "8" && row["param.metric"] == "l2"));
    assert!(hf.iter().all(|row| row["params"] == "batch=8;metric=l2"));
    let plain = rows.iter().find(|row| row["test"].ends_with("plain")).unwrap();
    assert_eq!((&*plain["param.batch"], &*plain["metric"]), ("", "heap.peak"));
}
