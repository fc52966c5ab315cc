//! Reports of a single revision.

use crate::judging::program;
use crate::support::synthetic::{Log, Synthetic};
use crate::support::tables::table as table_of;
use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_plan::request::{Ignored, Request, Selection, TestRequest};
use memprof_plan::rule::{Judging, Rule};
use memprof_report::github;
use memprof_report::options::{Format, Options, Rows, View};
use memprof_support::exit_code::ExitCode;

const MIB: i64 = 1024 * 1024;

fn at(heap: i64, milliseconds: i64) -> [(&'static str, i64); 4] {
    [
        ("heap.peak", heap),
        ("cpu.peak", heap + 2 * MIB),
        ("heap.count", heap / 100_000),
        ("time", milliseconds * 1_000_000),
    ]
}

/// Two tests, the second of them over the limit of 4 MiB and with a leak, under these rules.
fn limited(rules: Vec<Rule>) -> Comparison {
    let log = |peak: i64, left: i64| {
        Log::new()
            .checkpoint("start", &[("heap.peak", 0), ("heap.live", 0)])
            .checkpoint("postings collected", &[("heap.peak", peak), ("heap.live", peak)])
            .checkpoint("done", &[("heap.peak", peak), ("heap.live", left)])
    };
    let synthetic = Synthetic::new(&["main"])
        .judging(Judging { rules, ..Judging::default() })
        .passed("finds_nothing", 0, 0, &log(3 * MIB, 0))
        .passed("index_by_stage", 0, 0, &log(9 * MIB, MIB));
    compare(&synthetic.results())
}

fn shown(format: Format, comparison: &Comparison) -> String {
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, &Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn limits_and_leaks_of_one_revision_fail_in_every_format() {
    let rules = vec![values::limit("heap.peak=4MiB").unwrap(), values::leak("heap.live=64KiB").unwrap()];
    let comparison = limited(rules);
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Regression);
    let table = shown(Format::Table, &comparison);
    assert!(table.starts_with("memory of 2 tests in main 0aa2c1f, 1 over a limit\n"), "{table}");
    assert!(table.contains("▲ index_by_stage") && !table.contains("▲ finds_nothing"), "{table}");
    let over = "heap.peak 9.00 MiB at 'postings collected' (src/lib.rs:10), and 1 later one: limit 4.00 MiB";
    let leak = "; also heap.live +1.00 MiB at 'done', not freed since 'start', limit 64.0 KiB";
    for line in [over, leak] {
        for format in [Format::Table, Format::Markdown] {
            let text = shown(format, &comparison).replace(['\\', '*'], "");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(line), "{text}");
        }
        let annotations = github::annotations(&comparison, &Options::default()).join("\n");
        assert!(annotations.contains(line), "{annotations}");
        let place = "::error file=src/lib.rs,line=10,title=Memory over its limit::index_by_stage: ";
        assert!(annotations.starts_with(place), "{annotations}");
    }
    for view in [View::Scopes, View::Top, View::Tensors] {
        let mut out = Vec::new();
        let options = Options { view, ..Options::default() };
        memprof_report::render::render(Format::Table, &comparison, &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(" ▲ index_by_stage  heap.peak  9.00 MiB"), "{text}");
    }
    let junit = shown(Format::Junit, &comparison);
    assert!(junit.contains("tests=\"2\" failures=\"1\" errors=\"0\"") && junit.contains(over), "{junit}");
    let json: serde_json::Value = serde_json::from_str(&shown(Format::Json, &comparison)).unwrap();
    assert_eq!(json["breaches"].as_array().unwrap().len(), 3);
    assert_eq!(json["breaches"][0]["limit"], 4 * MIB);
    assert_eq!(json["verdict"]["breaches"], 3);
}

#[test]
fn a_limit_that_holds_passes_and_one_that_was_not_checked_does_not() {
    let code = |rule: Rule| Conclusion::from_comparison(&limited(vec![rule])).exit_code();
    assert_eq!(code(values::limit("heap.peak=9MiB").unwrap()), ExitCode::Success);
    assert_eq!(code(values::leak("heap.live=1MiB").unwrap()), ExitCode::Success);
    // No test has this metric or this checkpoint, so nothing was checked.
    for rule in ["gpu.0.peak=4MiB", "heap.peak=99MiB,checkpoint=dnoe"] {
        let comparison = limited(vec![values::limit(rule).unwrap()]);
        assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Incomplete, "{rule}");
        for format in [Format::Table, Format::Markdown] {
            let text = shown(format, &comparison);
            assert!(text.contains("was not checked: no test has a figure for it"), "{text}");
        }
    }
    assert_eq!(code(values::limit("heap.peak=99MiB,test=bwd").unwrap()), ExitCode::Incomplete);
}

#[test]
fn a_limit_of_the_file_must_be_checked_if_all_tests_ran() {
    let unchecked = |rule: &str, request: Request| {
        let rule = Rule { must_check: false, ..values::limit(rule).unwrap() };
        let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(MIB, 7));
        let mut results = Synthetic::new(&["main"]).passed("grows", 0, 0, &log).results();
        results.plan.request =
            Request { judging: Judging { rules: vec![rule], ..Judging::default() }, ..request };
        compare(&results).unchecked
    };
    let selected = |selection: Selection| {
        let tests = vec![TestRequest { selection, ..TestRequest::default() }];
        Request { tests, ..Request::default() }
    };
    let filtered = || selected(Selection { expression: Some("grows".to_owned()), ..Selection::default() });
    let mut of_package = Request::default();
    of_package.build.settings.packages.push("bart".to_owned());
    for rule in ["heap.peak=5MiB,checkpoint=kept", "gpu.*.peak=1KiB,test=grows"] {
        assert_eq!(unchecked(rule, selected(Selection::default())), 1, "{rule}");
        assert_eq!(unchecked(rule, filtered()), 0, "{rule}: another test may fit");
        assert_eq!(unchecked(rule, of_package.clone()), 0, "{rule}: a test of another package may fit");
    }
    let within =
        |flags: Selection| selected(Selection { within: Some(Box::new(flags)), ..Selection::default() });
    let narrowed = within(Selection { expression: Some("grows".to_owned()), ..Selection::default() });
    let rule = "heap.peak=5MiB,checkpoint=kept";
    assert_eq!(unchecked(rule, narrowed), 0, "flags narrow the file's entry");
    let ignored = within(Selection { ignored: Ignored::Include, ..Selection::default() });
    assert_eq!(unchecked(rule, ignored), 1, "with ignored tests");
    let of_another = "heap.peak=1KiB,test=elsewhere";
    assert_eq!(unchecked(of_another, Request::default()), 0, "perhaps behind a feature that is off");
}

#[test]
fn only_what_a_level_keeps_is_a_leak() {
    let breaches = |rule: &str| {
        let comparison = limited(vec![values::leak(rule).unwrap()]);
        let breaches = comparison.alone().flat_map(|view| &view.pair.breaches);
        let breaches: Vec<String> = breaches.map(|breach| breach.metric.clone()).collect();
        (breaches, comparison.unchecked)
    };
    assert_eq!(breaches("heap.*=64KiB"), (vec!["heap.live".to_owned()], 0));
    assert!(values::leak("heap.pea*=64KiB").is_err(), "no level fits");
}

#[test]
fn an_expected_figure_above_its_limit_does_not_count() {
    let rules = vec![values::limit("heap.peak=4MiB").unwrap()];
    let allow = vec![values::allow("test=index,reason=see #7").unwrap()];
    let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(9 * MIB, 7));
    let synthetic = Synthetic::new(&["main"])
        .judging(Judging { rules, allow, ..Judging::default() })
        .passed("index", 0, 0, &log);
    let comparison = compare(&synthetic.results());
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Success);
    assert!(shown(Format::Table, &comparison).contains("limit 4.00 MiB, expected: see #7"));
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
    memprof_report::render::render(format, &compare(&synthetic.results()), &options, &mut out).unwrap();
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
        memprof_report::render::render(Format::Table, &comparison, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = shown(false);
    assert!(text.lines().count() < 50, "{text}");
    assert!(text.contains("memory of 900 tests") && text.contains("… 860 more tests with less"), "{text}");
    assert!(text.contains("test_899") && text.contains("test_860 ") && !text.contains("test_859 "), "{text}");
    assert!(shown(true).lines().count() > 900);
}

#[test]
fn a_comment_on_very_many_tests_says_how_many_are_left_out() {
    let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(MIB, 7));
    let padding = "a".repeat(120);
    let synthetic = (0..400).fold(Synthetic::new(&["main"]), |synthetic, number| {
        let failed = Status::Failed { exit_code: 101 };
        synthetic.passed(&format!("{padding}_{number}"), 0, 0, &log).failed(
            &format!("fails_{number}"),
            0,
            failed,
            &padding,
            None,
        )
    });
    let comment = shown(Format::Markdown, &compare(&synthetic.results()));
    assert!(comment.chars().count() < 65_000, "{}", comment.chars().count());
    let failure = format!("\nfails\\_0: main failed (exit code 101)\n<pre>{padding}</pre>\n");
    assert!(comment.contains(&failure), "{comment}");
    assert!(comment.contains("more failures left out: the comment is full."), "{comment}");
    assert!(comment.contains("rows left out: the comment is full;"), "{comment}");
}

#[test]
fn test_lists_results_and_explains_failures_with_place_and_figure() {
    let passed = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(3 * MIB, 7));
    let large = Log::new().checkpoint("start", &at(0, 0)).checkpoint("decoded", &at(9 * MIB, 7));
    let synthetic = Synthetic::new(&["."])
        .judging(Judging { rules: vec![values::limit("heap.peak=4MiB").unwrap()], ..Judging::default() })
        .passed("finds_nothing", 0, 0, &passed)
        .passed("index_by_stage", 0, 0, &large)
        .failed(
            "breaks",
            0,
            Status::Failed { exit_code: 101 },
            "tests/a.rs:3:5: assertion failed: a == b",
            None,
        )
        .failed("slow", 0, Status::Ignored, "", None);
    let list = |synthetic: &Synthetic| {
        let options = Options { is_test: true, ..Options::default() };
        let mut out = Vec::new();
        memprof_report::render::render(Format::Table, &compare(&synthetic.results()), &options, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    };
    insta::assert_snapshot!("test_list", list(&synthetic));
    let all_passed = Synthetic::new(&["."]).passed("finds_nothing", 0, 0, &passed);
    assert!(list(&all_passed).contains("test result: ok. 1 passed; 0 failed; 0 ignored"));
    assert!(!list(&all_passed).contains("failures:"));
}

#[test]
fn the_peak_above_start_is_computed_where_it_is_named() {
    let log = Log::new()
        .checkpoint("start", &[("heap.live", MIB), ("heap.peak", MIB), ("cpu.rss", 5 * MIB)])
        .checkpoint("loaded", &[("heap.live", 3 * MIB), ("heap.peak", 6 * MIB)])
        .checkpoint("done", &[("heap.live", MIB), ("heap.peak", 3 * MIB)]);
    let folder = |rules: Vec<Rule>| {
        let judging = Judging { rules, ..Judging::default() };
        Synthetic::new(&["main"]).judging(judging).passed("index", 0, 0, &log)
    };
    let named = |comparison: &Comparison| {
        let names = comparison.metrics.iter().map(|metric| metric.name.clone());
        names.filter(|name| name.ends_with("above_start")).collect::<Vec<_>>()
    };
    assert!(named(&compare(&folder(vec![]).results())).is_empty());
    // A rule over all heap metrics does not ask for it.
    assert!(named(&compare(&folder(vec![values::limit("heap.*=99MiB").unwrap()]).results())).is_empty());

    let comparison = compare(&folder(vec![values::limit("heap.peak_above_start=4MiB").unwrap()]).results());
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Regression);
    let table = shown(Format::Table, &comparison);
    assert!(table.contains("index  heap.peak_above_start  5.00 MiB  at 'loaded'"), "{table}");

    let mut results = folder(vec![]).results();
    results.plan.request.derived =
        ["heap.peak_above_start", "cpu.peak_above_start"].map(str::to_owned).to_vec();
    let comparison = compare(&results);
    assert_eq!(named(&comparison), ["heap.peak_above_start"]);
    let rows = table_of(Format::CsvWide, &comparison);
    let above: Vec<&str> = rows.iter().map(|row| &*row["heap.peak_above_start:main"]).collect();
    assert_eq!(above, ["0", "5242880", "2097152"]);
    let side = &comparison.cells[0].sides[0];
    assert_eq!(side.source("heap.peak_above_start"), Some("tracking allocator"));
}

#[test]
fn a_gpu_that_is_not_in_use_yet_holds_nothing_of_the_process() {
    let log = Log::new()
        .checkpoint("start", &[("heap.live", 0)])
        .checkpoint("loaded", &[("heap.live", 0), ("gpu.0.live", 64 * MIB)])
        .checkpoint("done", &[("heap.live", 0), ("gpu.0.live", 2 * MIB)]);
    let judging = |limit: &str| {
        let rules = vec![values::leak(&format!("gpu.0.live={limit}")).unwrap()];
        let judging = Judging { rules, ..Judging::default() };
        let synthetic = Synthetic::new(&["main"]).judging(judging).passed("gpu", 0, 0, &log);
        Conclusion::from_comparison(&compare(&synthetic.results())).exit_code()
    };
    assert_eq!((judging("1MiB"), judging("2MiB")), (ExitCode::Regression, ExitCode::Success));
}

#[test]
fn a_limit_that_looks_like_its_figure_is_shown_with_its_bytes() {
    let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(1_572_864, 7));
    let comparison = |limit: &str| {
        let judging = Judging { rules: vec![values::limit(limit).unwrap()], ..Judging::default() };
        compare(&Synthetic::new(&["main"]).judging(judging).passed("t", 0, 0, &log).results())
    };
    let near = comparison("heap.peak=1572863B");
    for format in [Format::Table, Format::Markdown, Format::Junit] {
        let text = shown(format, &near);
        assert!(text.contains("limit 1.50 MiB (1572863 B, exceeded by 1 B)"), "{text}");
    }
    let text = shown(Format::Table, &comparison("heap.peak=1MiB"));
    assert!(text.contains("limit 1.00 MiB") && !text.contains("exceeded"), "{text}");
}

#[test]
fn failed_and_unmeasured_tests_of_one_revision_are_annotated() {
    let cut = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(3 * MIB, 7)).without_end();
    let failed = || Status::Failed { exit_code: 101 };
    let held = "tests/a.rs:5:9: too much memory";
    let mut synthetic = Synthetic::new(&["main"])
        .passed("exits", 0, 0, &cut)
        .passed("whole", 0, 0, &at_done())
        .failed("is_ignored", 0, Status::Ignored, "", None)
        .failed("holds", 0, Status::OverLimit, held, None)
        .failed("breaks", 0, failed(), "assertion failed: a == b", None)
        .failed("breaks_too", 0, failed(), "assertion failed: a == b", None);
    let annotations =
        |synthetic: &Synthetic| github::annotations(&compare(&synthetic.results()), &Options::default());
    assert_eq!(
        annotations(&synthetic),
        [
            "::error title=Memory not measured::main failed (exit code 101): breaks, breaks_too%0Aassertion failed: a == b",
            "::error title=Memory not measured::main: passed, but its log has no end, so checkpoints may be lost; did it call _exit or exec?: exits",
            &format!("::error title=Memory over its limit::main is over its limit: holds%0A{held}"),
        ]
    );
    for number in 0..20 {
        let name = format!("fails_{number}");
        synthetic = synthetic.failed(&name, 0, failed(), &format!("no file {number}"), None);
    }
    assert_eq!(annotations(&synthetic).len(), 10);
}

#[test]
fn the_headline_counts_memory_assertions_that_do_not_hold() {
    let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(3 * MIB, 7));
    let judging = Judging { rules: vec![values::limit("heap.peak=2MiB").unwrap()], ..Judging::default() };
    let synthetic = Synthetic::new(&["main"]).judging(judging).passed("whole", 0, 0, &at_done());
    let synthetic = synthetic.passed("grew", 0, 0, &log);
    let comparison = compare(&synthetic.failed("holds", 0, Status::OverLimit, "", Some(&log)).results());
    let headline = "memory of 3 tests in main 0aa2c1f, 2 over a limit";
    for format in [Format::Table, Format::Markdown] {
        let text = shown(format, &comparison).replace('`', "");
        assert!(text.contains(headline), "{text}");
    }
}

#[test]
fn a_test_that_passed_without_the_end_of_its_log_is_not_checked() {
    let log = Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(64 * MIB, 7));
    let code = |log: &Log| {
        let judging = Judging { rules: vec![values::limit("heap.peak=1GiB").unwrap()], ..Judging::default() };
        let synthetic = Synthetic::new(&["main"]).judging(judging).passed("exits", 0, 0, log);
        let synthetic =
            synthetic.passed("whole", 0, 0, &at_done()).failed("slow", 0, Status::Ignored, "", None);
        program(&["report", synthetic.folder().0.as_str()]).get_output().status.code()
    };
    assert_eq!(code(&log), Some(0));
    assert_eq!(code(&log.without_end()), Some(3));
}

fn at_done() -> Log {
    Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(MIB, 7))
}
