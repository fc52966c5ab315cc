//! Reports of a single revision.

use crate::support::synthetic::{Log, Synthetic};
use cargo_memprof::compare::from_results::compare;
use cargo_memprof::report;
use cargo_memprof::report::options::{Format, Options, Rows};
use cargo_memprof::results::outcome::Status;

const MIB: i64 = 1024 * 1024;

fn at(heap: i64, milliseconds: i64) -> [(&'static str, i64); 4] {
    [
        ("heap.peak", heap),
        ("cpu.peak", heap + 2 * MIB),
        ("heap.count", heap / 100_000),
        ("time", milliseconds * 1_000_000),
    ]
}

fn rendered(format: Format, width: usize) -> String {
    let plain = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(3 * MIB, 7));
    let staged = Log::new()
        .checkpoint("start", &at(0, 0))
        .checkpoint("postings collected", &at(9 * MIB, 100))
        .checkpoint("done", &at(4 * MIB, 200));
    let synthetic = Synthetic::new(&["main"])
        .passed("finds_nothing", 0, 0, &plain)
        .passed("index_by_stage", 0, 0, &staged)
        .failed("breaks", 0, Status::Failed { exit_code: 101 }, "assertion failed: a == b", None);
    let options = Options { width: Some(width), ..Options::default() };
    let mut out = Vec::new();
    report::render::render(format, &compare(&synthetic.results()), &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn tests_are_listed_then_checkpoints_then_failures() {
    insta::assert_snapshot!("one_revision_80", rendered(Format::Table, 80));
    insta::assert_snapshot!("one_revision_120", rendered(Format::Table, 120));
}

#[test]
fn a_narrow_terminal_gets_the_columns_in_blocks() {
    let text = rendered(Format::Table, 60);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn markdown_junit_and_csv_have_the_same_tests() {
    insta::assert_snapshot!("one_revision_markdown", rendered(Format::Markdown, 100));
    insta::assert_snapshot!("one_revision_junit", rendered(Format::Junit, 100));
    let csv = rendered(Format::Csv, 100);
    for test in ["finds_nothing", "index_by_stage", "breaks"] {
        assert!(csv.contains(test), "{csv}");
    }
}

#[test]
fn of_very_many_tests_the_largest_are_shown() {
    let log = |heap: i64| Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(heap, 7));
    let synthetic = (0..900).fold(Synthetic::new(&["main"]), |synthetic, number| {
        synthetic.passed(&format!("test_{number}"), 0, 0, &log(number * MIB))
    });
    let comparison = compare(&synthetic.results());
    let shown = |all_rows| {
        let mut out = Vec::new();
        let rows = if all_rows { Rows::All } else { Rows::Changed };
        let options = Options { rows, ..Options::default() };
        report::render::render(Format::Table, &comparison, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = shown(false);
    assert!(text.lines().count() < 50, "{text}");
    assert!(text.contains("memory of 900 tests") && text.contains("… 860 more tests with less"), "{text}");
    assert!(text.contains("test_899") && text.contains("test_860 ") && !text.contains("test_859 "), "{text}");
    assert!(shown(true).lines().count() > 900);
}
