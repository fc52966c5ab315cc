//! Causes of changes: which tests share one, what it moves, and which tests are recorded first.

use std::sync::Arc;

use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::{Cell, Comparison};
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::stack_log::Figures;
use memprof_judge::results::stored;
use memprof_judge::why::causes::{Cause, causes};
use memprof_judge::why::chosen::{Why, choose};
use memprof_judge::why::class::{Caller, Class, Existence};
use memprof_judge::why::difference::{CheckpointName, Difference, Group, GroupKind, Measure};
use memprof_judge::why::explanations::{Explained, ExplainedRow, Explanations};
use memprof_judge::why::grouping::GroupBy;
use memprof_judge::why::hunks::{Hunk, HunkAt};
use memprof_judge::why::reasons::Reason;
use memprof_judge::why::versions::ChangedDependency;

use memprof_judge::why::stored::StoredFile;
use memprof_plan::rule::Judging;
use memprof_report::github;
use memprof_report::json::schema::Report;
use memprof_report::options::{Format, Options, Rows};
use serde_json::{Value, json};

use crate::reports::rendered;
use crate::support::synthetic::{Log, Synthetic, cell};

const KIB: i64 = 1024;

/// One changed line of `src/lib.rs`.
pub(crate) fn hunk(line: u32) -> HunkAt {
    HunkAt { path: "src/lib.rs".to_owned(), hunk: Hunk { old: line..line + 1, new: line..line + 1 } }
}

pub(crate) fn changed(line: u32) -> Class {
    Class::Changed(Existence::Both, hunk(line))
}

fn called(line: u32) -> Class {
    let caller = Caller { function: "a::caller".to_owned(), location: format!("src/lib.rs:{line}") };
    Class::CalledFrom(caller, hunk(line))
}

pub(crate) fn dependency() -> Class {
    let [old, new] = ["1.0.0", "1.1.0"].map(|version| Some(version.to_owned()));
    Class::Dependency(ChangedDependency { name: "serde".to_owned(), old, new })
}

/// A difference of `heap.peak` at `done`, of sites in these lines of `src/lib.rs`.
pub(crate) fn difference(sites: &[(u32, i64, Class)]) -> Difference {
    let figures = |bytes: i64| Figures { at_peak: bytes, live: bytes, allocated: bytes, count: 1 };
    let mut groups: Vec<Group> = Vec::new();
    for (line, bytes, class) in sites {
        let name = format!("a::grow_{line}");
        groups.push(Group {
            kind: GroupKind::Sites { name, location: Some(format!("src/lib.rs:{line}")) },
            figures: [figures((-bytes).max(0)), figures((*bytes).max(0))],
            class: Some(class.clone()),
            stack: Vec::new(),
            first: 0,
            stacks: 1,
            resized: None,
        });
    }
    let total =
        |side: usize| Some(figures(groups.iter().map(|group| group.figures[side].at_peak).sum::<i64>()));
    let totals = [total(0), total(1)];
    let checkpoints = [0, 1].map(|_| Some(CheckpointName { label: "done".to_owned(), occurrence: 1 }));
    let (metric, by) = ("heap.peak".to_owned(), GroupBy::Line);
    let (measure, incomplete) = (Measure::AtPeak, Vec::new());
    let is_growth = false;
    Difference { metric, measure, checkpoints, is_growth, totals, by, groups, sample: None, incomplete }
}

/// A comparison of `main` with other refs: by test, the heap's peak at `done` of each of them.
pub(crate) fn comparison<'a>(
    refs: &[&str],
    tests: impl IntoIterator<Item = (&'a str, Vec<i64>)>,
) -> Comparison {
    let mut synthetic = Synthetic::new(refs);
    for (name, peaks) in tests {
        for (revision, peak) in peaks.into_iter().enumerate() {
            let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
            let log = log.checkpoint("done", &[("heap.peak", peak)]);
            synthetic = synthetic.passed(name, revision, 0, &log).passed(name, revision, 1, &log);
        }
    }
    compare(&synthetic.results())
}

pub(crate) fn explained(test: &str, candidate: usize, difference: Difference) -> Explained {
    Explained {
        cell: cell(test, &[]),
        candidate,
        rows: vec![ExplainedRow { difference, by_line: None, agreements: [None, None] }],
        limits: Vec::new(),
        is_asked: false,
        held: None,
        threads: [None, None],
        remarks: Vec::new(),
        recorded: [None, None],
    }
}

pub(crate) fn explanations(tests: Vec<Explained>) -> Explanations {
    Explanations { tests, frames: 1, ..Explanations::default() }
}

pub(crate) fn shown(comparison: &Comparison, causes: &[Cause]) -> Vec<String> {
    let test = |cause: &Cause| {
        let tests = cause.tests.iter().map(|test| {
            let mark = if test.is_recorded { "" } else { "?" };
            format!("{}{mark} {}", comparison.cells[test.cell].id.title, test.moved[0].amount / KIB)
        });
        tests.collect::<Vec<_>>().join(", ")
    };
    let place = |cause: &Cause| match (&cause.reason, cause.place()) {
        (_, Some((path, line))) => format!("{path}:{line} {}", cause.function()),
        (Reason::Dependency(changed), None) => changed.name.clone(),
        (Reason::Code(place), None) => place.clone(),
        (Reason::Type(resized), None) => resized.name.clone(),
        (Reason::Hunk(_), None) => unreachable!("a hunk has a place"),
    };
    causes.iter().map(|cause| format!("{}: {}", place(cause), test(cause))).collect()
}

#[test]
fn tests_with_one_hunk_are_one_cause_and_improvements_are_causes_too() {
    let tests = [
        ("a", vec![100 * KIB, 200 * KIB]),
        ("b", vec![100 * KIB, 260 * KIB]),
        ("c", vec![300 * KIB, 200 * KIB]),
        ("d", vec![100 * KIB, 400 * KIB]),
        ("same", vec![KIB, KIB]),
    ];
    let comparison = comparison(&["main", "pr/7"], tests);
    let why = explanations(vec![
        explained("a", 1, difference(&[(9, 100 * KIB, changed(9))])),
        explained("b", 1, difference(&[(9, 100 * KIB, changed(9)), (12, 60 * KIB, called(9))])),
        explained("c", 1, difference(&[(20, -100 * KIB, changed(20))])),
        explained("d", 1, difference(&[(30, 300 * KIB, dependency())])),
        explained("same", 1, difference(&[(9, 100 * KIB, changed(9))])),
    ]);
    let causes = causes(&comparison, &why);
    let expected =
        ["serde: d 300", "src/lib.rs:9 a::grow_9: b 160, a 100", "src/lib.rs:20 a::grow_20: c -100"];
    assert_eq!(shown(&comparison, &causes), expected);
    assert!(causes.iter().all(|cause| cause.worst().is_main));
}

#[test]
fn a_test_shows_in_each_of_its_causes_and_sides_have_causes_of_their_own() {
    let tests = [("a", vec![100 * KIB, 200 * KIB, 50 * KIB])];
    let comparison = comparison(&["main", "one", "two"], tests);
    let one = difference(&[(9, 70 * KIB, changed(9)), (20, 30 * KIB, Class::Unchanged)]);
    let two = difference(&[(9, -50 * KIB, changed(9))]);
    let why = explanations(vec![explained("a", 1, one), explained("a", 2, two)]);
    let causes = causes(&comparison, &why);
    let expected = ["src/lib.rs:9 a::grow_9: a 70", "src/lib.rs:20: a 30", "src/lib.rs:9 a::grow_9: a -50"];
    assert_eq!(shown(&comparison, &causes), expected);
    let main: Vec<bool> = causes.iter().map(|cause| cause.worst().is_main).collect();
    assert_eq!(main, [true, false, true]);
}

#[test]
fn each_row_of_a_test_has_its_causes() {
    let mut synthetic = Synthetic::new(&["main", "pr/7"]);
    for (revision, [parsed, done]) in [[100, 90], [200, 150]].into_iter().enumerate() {
        let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
        let log = log.checkpoint("parsed", &[("heap.peak", parsed * KIB)]);
        let log = log.checkpoint("done", &[("heap.peak", done * KIB)]);
        synthetic = synthetic.passed("a", revision, 0, &log).passed("a", revision, 1, &log);
    }
    let comparison = compare(&synthetic.results());
    let at = |label: &str, sites: &[(u32, i64, Class)]| {
        let mut difference = difference(sites);
        difference.checkpoints =
            [0, 1].map(|_| Some(CheckpointName { label: label.to_owned(), occurrence: 1 }));
        ExplainedRow { difference, by_line: None, agreements: [None, None] }
    };
    let rows = vec![
        at("parsed", &[(9, 100 * KIB, changed(9))]),
        at("done", &[(9, 20 * KIB, changed(9)), (20, 40 * KIB, changed(20))]),
    ];
    let why = explanations(vec![Explained { rows, ..explained("a", 1, difference(&[])) }]);
    let causes = causes(&comparison, &why);
    assert_eq!(
        shown(&comparison, &causes),
        ["src/lib.rs:9 a::grow_9: a 100", "src/lib.rs:20 a::grow_20: a 40"]
    );
    let options = Options { why: Some(Arc::new(why)), ..Options::default() };
    let table = rendered(Format::Table, &comparison, &options);
    assert!(table.contains("by two lines") && table.contains("+40.0 KiB of +60.0 KiB heap.peak"), "{table}");
}

#[test]
fn a_cause_is_shown_with_the_test_whose_difference_it_makes() {
    // In `b`, the peak is at another place than before: what was freed there weighs more than the whole.
    let tests = [("a", vec![100 * KIB, 400 * KIB]), ("b", vec![900 * KIB, 1100 * KIB])];
    let comparison = comparison(&["main", "pr/7"], tests);
    let moved = difference(&[(20, 700 * KIB, called(9)), (30, -500 * KIB, Class::Unchanged)]);
    let one = explained("a", 1, difference(&[(9, 300 * KIB, changed(9))]));
    let both = [explained("b", 1, moved), one];
    for tests in [both.clone(), {
        let [b, a] = both;
        [a, b]
    }] {
        let causes = causes(&comparison, &explanations(tests.to_vec()));
        assert_eq!(shown(&comparison, &causes)[0], "src/lib.rs:9 a::grow_9: a 300, b 700");
    }
}

#[test]
fn what_others_outweigh_comes_last_and_is_left_to_json() {
    let tests = [("a", vec![300 * KIB, 200 * KIB])];
    let comparison = comparison(&["main", "pr/7"], tests);
    let sites = difference(&[(9, -150 * KIB, changed(9)), (20, 50 * KIB, changed(20))]);
    let why = explanations(vec![explained("a", 1, sites)]);
    let causes = causes(&comparison, &why);
    assert_eq!(
        shown(&comparison, &causes),
        ["src/lib.rs:9 a::grow_9: a -150", "src/lib.rs:20 a::grow_20: a 50"]
    );
    let outweighed: Vec<bool> = causes.iter().map(Cause::is_outweighed).collect();
    assert_eq!(outweighed, [false, true]);
    let options = Options { why: Some(Arc::new(why)), ..Options::default() };
    let table = rendered(Format::Table, &comparison, &options);
    assert!(table.contains("by one line") && !table.contains("src/lib.rs:20"), "{table}");
    assert!(table.contains("-150 KiB (+50.0 KiB elsewhere) heap.peak in 1 test"), "{table}");
    assert_eq!(github::annotations(&comparison, &options), Vec::<String>::new());
    let json: Value = serde_json::from_str(&rendered(Format::Json, &comparison, &options)).unwrap();
    assert_eq!(json["causes"]["entries"][1]["tests"][0]["is_outweighed"], true);
}

#[test]
fn tests_over_a_limit_have_a_cause_in_common() {
    let log = |peak: i64| {
        let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
        log.checkpoint("done", &[("heap.peak", peak)])
    };
    let message = "tests/a.rs:5:9: assert_heap_peak! at tests/a.rs:5: the heap rose by 200 KiB";
    let mut synthetic = Synthetic::new(&["main", "pr/7"]);
    for test in ["a", "b", "c"] {
        synthetic = synthetic.passed(test, 0, 0, &log(100 * KIB));
        synthetic = synthetic.failed(test, 1, Status::OverLimit, message, Some(&log(200 * KIB)));
    }
    let comparison = compare(&synthetic.results());
    let mut at_peak = difference(&[(9, 190 * KIB, changed(9)), (20, 10 * KIB, Class::Unchanged)]);
    (at_peak.checkpoints[0], at_peak.totals[0]) = (None, None);
    let limits = vec![ExplainedRow { difference: at_peak, by_line: None, agreements: [None, None] }];
    let explained = |test: &str| Explained {
        rows: Vec::new(),
        limits: limits.clone(),
        ..explained(test, 1, difference(&[]))
    };
    let why = explanations(["a", "b", "c"].map(explained).to_vec());
    assert_eq!(
        shown(&comparison, &causes(&comparison, &why)),
        ["src/lib.rs:9 a::grow_9: a 190, b 190, c 190"]
    );
    let options = Options { why: Some(Arc::new(why)), ..Options::default() };
    let table = rendered(Format::Table, &comparison, &options);
    assert!(table.contains("all 3 tests over a limit, by one line"), "{table}");
    assert!(table.contains("190 KiB of 200 KiB heap.peak in 3 tests over a limit"), "{table}");
    assert_eq!(table.matches("at the peak, 200 KiB").count(), 1, "the worst test has all sites: {table}");
    let json: Value = serde_json::from_str(&rendered(Format::Json, &comparison, &options)).unwrap();
    assert_eq!(json["causes"]["entries"][0]["effect"], "limit");
}

#[test]
fn a_scope_with_the_label_of_a_checkpoint_is_another_row() {
    let log = |peak: i64| {
        let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
        let log = log.scope("parsed", &[("heap.consumed", KIB)]).checkpoint("parsed", &[("heap.peak", peak)]);
        log.checkpoint("done", &[("heap.peak", KIB)])
    };
    let compared = |old: i64, judging: Judging| {
        let synthetic = Synthetic::new(&["main", "pr/7"]).judging(judging);
        let synthetic = ["a", "b"].into_iter().fold(synthetic, |synthetic, test| {
            (0..2).fold(synthetic, |synthetic, repeat| {
                let synthetic = synthetic.passed(test, 0, repeat, &log(old));
                synthetic.passed(test, 1, repeat, &log(200 * KIB))
            })
        });
        compare(&synthetic.results())
    };
    let mut of_parsed = difference(&[(9, 100 * KIB, changed(9))]);
    of_parsed.checkpoints =
        [0, 1].map(|_| Some(CheckpointName { label: "parsed".to_owned(), occurrence: 1 }));
    let grown = compared(100 * KIB, Judging::default());
    let why = explanations(vec![explained("a", 1, of_parsed.clone())]);
    assert_eq!(shown(&grown, &causes(&grown, &why)), ["src/lib.rs:9 a::grow_9: a 100, b? 100"]);

    let rules = vec![values::limit("heap.peak=150KiB").unwrap()];
    let limited = compared(200 * KIB, Judging { rules, ..Judging::default() });
    let limits = vec![ExplainedRow { difference: of_parsed, by_line: None, agreements: [None, None] }];
    let of_limit = Explained { rows: Vec::new(), limits, ..explained("a", 1, difference(&[])) };
    let options = Options { why: Some(Arc::new(explanations(vec![of_limit]))), ..Options::default() };
    let table = rendered(Format::Table, &limited, &options);
    assert!(table.contains("a  200 KiB  limit 150 KiB  at 'parsed'"), "{table}");
}

#[test]
fn a_dependency_is_named_at_its_line_and_every_result_of_sarif_has_a_place() {
    let tests = [("a", vec![100 * KIB, 200 * KIB]), ("b", vec![100 * KIB, 300 * KIB])];
    let comparison = comparison(&["main", "pr/7"], tests);
    let mut why = explanations(vec![explained("a", 1, difference(&[(30, 100 * KIB, dependency())]))]);
    let paths = [0, 1].map(|_| Some("Cargo.toml".to_owned()));
    let sources = ["1.0", "1.1"].map(|version| Some(format!("[dependencies]\nserde = \"{version}\"\n")));
    why.changes.of.insert(1, Ok(vec![StoredFile { paths, texts: sources, ..StoredFile::default() }]));
    let options = Options { why: Some(Arc::new(why)), ..Options::default() };
    let annotations = github::annotations(&comparison, &options);
    assert!(
        annotations[0].starts_with("::error file=Cargo.toml,line=2,title=Memory regressed::"),
        "{annotations:?}"
    );
    let log: Value = serde_json::from_str(&rendered(Format::Sarif, &comparison, &options)).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let line = |result: &Value| result["locations"][0]["physicalLocation"]["region"]["startLine"].clone();
    assert_eq!(results.iter().map(line).collect::<Vec<_>>(), [json!(2), json!(1)]);
}

#[test]
fn tests_that_cancel_out_or_were_not_recorded_have_no_cause() {
    let tests = [("a", vec![100 * KIB, 200 * KIB]), ("b", vec![100 * KIB, 300 * KIB])];
    let comparison = comparison(&["main", "pr/7"], tests);
    let cancelled = difference(&[(9, 100 * KIB, changed(9)), (20, -100 * KIB, changed(20))]);
    assert_eq!(causes(&comparison, &explanations(vec![explained("a", 1, cancelled)])), []);
}

/// Tests that grow by one line, all but the first ones without call stacks.
fn many(tests: usize) -> (Comparison, Options) {
    let names: Vec<String> = (0..tests).map(|number| format!("module::grows_{number:04}")).collect();
    let mut comparison = comparison(&["main", "pr/7"], [("one", vec![100 * KIB, 196 * KIB])]);
    let one = comparison.cells.remove(0);
    comparison.cells.extend(names.iter().map(|name| Cell { id: cell(name, &[]), ..one.clone() }));
    let tests =
        names.iter().take(12).map(|name| explained(name, 1, difference(&[(3, 96 * KIB, changed(3))])));
    let mut why = explanations(tests.collect());
    let text = |line: &str| Some(format!("use a;\n\n{line}\n\nfn b() {{}}\n"));
    let paths = [Some("src/lib.rs".to_owned()), Some("src/lib.rs".to_owned())];
    let sources = [1, 97].map(|capacity| text(&format!("fn f() {{ Vec::with_capacity({capacity}) }}")));
    why.changes.of.insert(1, Ok(vec![StoredFile { paths, texts: sources, ..StoredFile::default() }]));
    let options = Options {
        with_source: true,
        width: Some(100),
        why: Some(Arc::new(why)),
        report_path: Some("target/memprof/latest".to_owned()),
        ..Options::default()
    };
    (comparison, options)
}

/// The lines that a reader sees before unfolding anything.
fn unfolded(comment: &str) -> usize {
    let mut depth = 0;
    let mut lines = 0;
    for line in comment.lines() {
        lines += usize::from(depth == 0);
        depth += line.matches("<details>").count();
        depth -= line.matches("</details>").count();
    }
    lines
}

#[test]
fn one_line_and_many_tests_are_one_entry_in_each_report() {
    let (comparison, options) = many(180);
    insta::assert_snapshot!("causes_table", rendered(Format::Table, &comparison, &options));
    let comment = rendered(Format::Markdown, &comparison, &options);
    insta::assert_snapshot!("causes_markdown", comment);
    assert!(unfolded(&comment) <= 40, "{} lines:\n{comment}", unfolded(&comment));
    assert!(comment.contains("\n-fn f() { Vec::with_capacity(1) }\n+fn f()"), "{comment}");
    let without = Options { with_source: false, ..options.clone() };
    assert!(!rendered(Format::Markdown, &comparison, &without).contains("with_capacity"));
    let whole = rendered(Format::Table, &comparison, &Options { rows: Rows::All, ..options });
    assert!(whole.contains("module::grows_0179"), "--rows all lists each test");
}

#[test]
fn a_comment_about_five_thousand_tests_fits() {
    let (comparison, options) = many(5_000);
    let comment = rendered(Format::Markdown, &comparison, &options);
    assert!(comment.chars().count() < 65_536 && unfolded(&comment) <= 40, "{comment}");
    let without = Options { why: None, ..options };
    assert!(rendered(Format::Markdown, &comparison, &without).chars().count() < 65_536);
}

#[test]
fn the_headline_counts_lines_and_changes_of_each_side() {
    let tests = [
        ("a", vec![100 * KIB, 200 * KIB, 50 * KIB]),
        ("b", vec![100 * KIB, 200 * KIB, 50 * KIB]),
        ("other", vec![100 * KIB, 300 * KIB, 100 * KIB]),
    ];
    let comparison = comparison(&["main", "one", "two"], tests);
    let one = difference(&[(9, 70 * KIB, changed(9)), (20, 30 * KIB, called(20))]);
    let two = difference(&[(9, -50 * KIB, dependency())]);
    let why = explanations(vec![explained("a", 1, one), explained("a", 2, two)]);
    let options = Options { width: Some(80), why: Some(Arc::new(why)), ..Options::default() };
    insta::assert_snapshot!("causes_of_sides", rendered(Format::Table, &comparison, &options));
}

#[test]
fn machines_read_the_same_causes() {
    let tests = [
        ("a", vec![100 * KIB, 200 * KIB]),
        ("b", vec![300 * KIB, 400 * KIB]),
        ("c", vec![300 * KIB, 100 * KIB]),
        ("d", vec![100 * KIB, 900 * KIB]),
    ];
    let comparison = comparison(&["main", "pr/7"], tests);
    let a = difference(&[(9, 70 * KIB, changed(9)), (21, 30 * KIB, called(20))]);
    let why = explanations(vec![
        explained("a", 1, a),
        explained("c", 1, difference(&[(30, -200 * KIB, dependency())])),
    ]);
    let options = Options { why: Some(Arc::new(why)), ..Options::default() };
    let json: Value = serde_json::from_str(&rendered(Format::Json, &comparison, &options)).unwrap();
    let report: Report = serde_json::from_value(json.clone()).unwrap();
    let of_refs = report.causes.unwrap();
    assert_eq!((of_refs.schema, of_refs.entries.len()), (1, 3));
    insta::assert_json_snapshot!("causes_json", json["causes"]["entries"][1]);
    insta::assert_snapshot!("causes_csv", rendered(Format::CsvCauses, &comparison, &options));
    let sites = rendered(Format::CsvSites, &comparison, &options);
    let is_joined =
        |line: &str| line.starts_with("bart::tests::a,pr/7,heap.peak,done,") && line.ends_with(",a");
    assert!(sites.lines().any(is_joined), "tables join by the full name: {sites}");
    let annotations = github::annotations(&comparison, &options).join("\n");
    insta::assert_snapshot!("causes_annotations", annotations);
    let junit = rendered(Format::Junit, &comparison, &options);
    assert!(
        junit.contains(
            "cause: src/lib.rs:9 a::grow_9, changed in pr/7: +70.0 KiB of +100 KiB heap.peak at 'done'"
        ),
        "{junit}"
    );
    assert!(junit.contains("cause: serde 1.0.0 → 1.1.0 a::grow_30: -200 KiB heap.peak"), "{junit}");
}

#[test]
fn what_was_live_where_an_assertion_does_not_hold_is_in_each_report() {
    let log = |peak: i64| {
        let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
        log.checkpoint("done", &[("heap.peak", peak)])
    };
    let message = "tests/a.rs:5:9: assert_heap_peak! at tests/a.rs:5: the heap rose by 200 KiB";
    let failed = |synthetic: Synthetic| {
        let at = synthetic.folder().clone();
        let candidate = stored::read(&at).unwrap().plan.revisions.len() - 1;
        synthetic.failed("a", candidate, Status::OverLimit, message, Some(&log(200 * KIB)))
    };
    let mut at_peak =
        difference(&[(9, 196 * KIB, changed(9)), (20, 3 * KIB, Class::Unchanged), (30, KIB, changed(30))]);
    (at_peak.checkpoints[0], at_peak.totals[0]) = (None, None);
    at_peak.groups.iter_mut().for_each(|group| group.figures[0] = Figures::default());
    let limits = vec![ExplainedRow { difference: at_peak, by_line: None, agreements: [None, None] }];
    let told = "at the peak, 200 KiB at 'done': 196 KiB a::grow_9 src/lib.rs:9 (changed in pr/7), \
                3.00 KiB a::grow_20 src/lib.rs:20 (unchanged), 1.00 KiB elsewhere";

    let pair = failed(Synthetic::new(&["main", "pr/7"]).passed("a", 0, 0, &log(100 * KIB)));
    let alone = failed(Synthetic::new(&["pr/7"]));
    for (synthetic, candidate) in [(pair, 1), (alone, 0)] {
        let comparison = compare(&synthetic.results());
        let chosen = choose(&comparison, Why::Changed, usize::MAX);
        assert_eq!(chosen.len(), 1, "it runs with call stacks, although it fails");
        assert!(!chosen[0].is_alone);
        let explained = Explained {
            rows: Vec::new(),
            limits: limits.clone(),
            candidate,
            ..explained("a", 1, difference(&[]))
        };
        let options = Options { why: Some(Arc::new(explanations(vec![explained]))), ..Options::default() };
        let brief = Options { rows: Rows::None, ..options.clone() };
        let whole = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let plain = |text: &str| whole(text).replace('\\', "").replace("&#39;", "'").replace("&apos;", "'");
        for format in [Format::Markdown, Format::Junit, Format::Table] {
            let text = rendered(format, &comparison, if candidate == 1 { &options } else { &brief });
            if candidate == 0 && format == Format::Table {
                continue;
            }
            assert!(plain(&text).contains(told), "{format:?} of {candidate}: {text}");
        }
        let page = rendered(Format::Html, &comparison, &options);
        assert!(page.contains("Over the limit: at the peak, 200 KiB at 'done'"), "{candidate}");
        let json: Value = serde_json::from_str(&rendered(Format::Json, &comparison, &options)).unwrap();
        let row = &json["why"]["rows"][0];
        assert_eq!(
            (&row["is_limit"], &row["baseline"], &row["difference"]),
            (&json!(true), &Value::Null, &json!(200 * KIB))
        );
        if candidate == 1 {
            assert!(github::annotations(&comparison, &options).join("\n").contains(told));
            assert!(rendered(Format::Sarif, &comparison, &options).contains(told));
        } else {
            let table = rendered(Format::Table, &comparison, &options);
            assert!(
                whole(&table).contains("at the peak, 200 KiB at 'done': 196 KiB 98 % a::grow_9 src/lib.rs:9"),
                "{table}"
            );
        }
    }

    // A baseline that fails otherwise is left out.
    let broken =
        Synthetic::new(&["main", "pr/7"]).failed("a", 0, Status::Timeout { limit_seconds: 1 }, "", None);
    assert!(choose(&compare(&failed(broken).results()), Why::Changed, usize::MAX)[0].is_alone);
}

#[test]
fn sarif_has_what_its_schema_requires_and_a_result_for_each_cause() {
    let (comparison, options) = many(30);
    let log: Value = serde_json::from_str(&rendered(Format::Sarif, &comparison, &options)).unwrap();
    // Required by the schema of 2.1.0: version and runs; a run's tool, its driver, the driver's name; a rule's
    // id; a result's message with a text.
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "cargo-memprof");
    let rules: Vec<&str> =
        driver["rules"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let results = runs[0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "one cause in 30 tests: {results:#?}");
    let result = &results[0];
    assert!(result["message"]["text"].as_str().unwrap().starts_with("+96.0 KiB heap.peak in 30 tests"));
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index], result["ruleId"].as_str().unwrap());
    assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&json!("src/lib.rs"), &json!(3))
    );
    // Without call stacks, each test is a result.
    let without = Options { why: None, ..options };
    let log: Value = serde_json::from_str(&rendered(Format::Sarif, &comparison, &without)).unwrap();
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 30);
}

#[test]
fn code_quality_has_what_gitlab_requires_with_fingerprints_that_stay() {
    let (comparison, options) = many(30);
    let report = |comparison: &Comparison, options: &Options| -> Vec<Value> {
        serde_json::from_str(&rendered(Format::Gitlab, comparison, options)).unwrap()
    };
    let [entry] = report(&comparison, &options).try_into().unwrap();
    assert!(entry["description"].as_str().unwrap().starts_with("+96.0 KiB heap.peak in 30 tests"), "{entry}");
    assert_eq!(
        (&entry["check_name"], &entry["severity"], &entry["location"]),
        (&json!("memory-regressed"), &json!("major"), &json!({"path": "src/lib.rs", "lines": {"begin": 3}}))
    );
    let [of_another] = report(&many(29).0, &many(29).1).try_into().unwrap();
    assert_eq!(entry["fingerprint"], of_another["fingerprint"], "it depends on no figure");
    // Without call stacks, each test is an entry of its own.
    let without = report(&comparison, &Options { why: None, ..options });
    let fingerprints: std::collections::BTreeSet<&str> =
        without.iter().map(|entry| entry["fingerprint"].as_str().unwrap()).collect();
    assert_eq!((without.len(), fingerprints.len()), (30, 30));
}

#[test]
fn the_page_begins_with_the_causes() {
    let (comparison, options) = many(30);
    let page = rendered(Format::Html, &comparison, &options);
    let body = page.split_once("<body>").unwrap().1;
    let at = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("all 30 tests regressed, by one line") < at("id=\"causes\""));
    assert!(at("id=\"causes\"") < at("id=\"tests\""));
    let causes = body.split_once("id=\"causes\"").unwrap().1.split_once("id=\"tests\"").unwrap().0;
    assert_eq!(causes.matches("<article").count(), 1, "{causes}");
    assert!(causes.contains("<details class=\"hunk\" open>") && causes.contains("+fn f()"), "{causes}");
    assert!(causes.contains("href=\"#module::grows_0029\""), "each test is linked: {causes}");
    assert_eq!(body.matches("<details open>").count(), 1, "one test is unfolded");
}
