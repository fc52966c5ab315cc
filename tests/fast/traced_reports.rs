//! Traced functions in the reports: as a tree, as annotated source, in a comment on a pull request, and beside scopes.

use std::sync::Arc;

use crate::causes::{changed, difference, explained, explanations};
use crate::support::synthetic::{Log, Synthetic};
use crate::support::tables::table;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_plan::quantity::Threshold;
use memprof_plan::rule::{Growth, Judging, Rule};
use memprof_report::markdown::MOST_CHARACTERS;
use memprof_report::options::{Format, Options, Rows, View};
use serde_json::{Value, json};

const KIB: i64 = 1024;
const MIB: i64 = 1024 * KIB;

fn rendered(format: Format, comparison: &Comparison, options: &Options) -> String {
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn calls(node: u64, parent: Option<u64>, label: &str, at: &str, calls: u64, consumed: i64) -> Value {
    json!({
        "node": node, "parent": parent, "label": label, "at": at, "calls": calls, "recursive": 0, "open": 0,
        "overlapped": 0, "metrics": {"heap.consumed": consumed, "heap.peaked": 0},
        "most": {"heap.consumed": consumed, "heap.peaked": 2 * consumed},
    })
}

fn line(number: u64, times: u64, allocated: i64) -> Value {
    json!({
        "label": "bart::<Layer<T> as Module>::forward", "at": "src/lib.rs:3", "line": number, "times": times,
        "metrics": {"heap.peak": allocated * 2, "heap.allocated": allocated, "heap.grown": 0},
    })
}

fn log(kept: i64) -> Log {
    let layer = "bart::<Layer<T> as Module>::forward";
    let call = [("heap.consumed", kept), ("heap.peaked", 2 * kept), ("heap.used", 3 * kept)];
    Log::new()
        .checkpoint("start", &[("heap.peak", MIB)])
        .call(2, layer, &call)
        .call(2, layer, &call)
        .nested(1, "decoder", &call)
        .call(0, "bart::Encoder::forward", &call)
        .checkpoint("done", &[("heap.peak", MIB)])
        .event("calls", &calls(0, None, "bart::Encoder::forward", "src/lib.rs:40", 1, kept))
        .event("calls", &calls(1, Some(0), layer, "src/lib.rs:3", 6, 6 * kept))
        .event("calls", &calls(2, Some(0), "bart::tick", "src/lib.rs:60", 9, 0))
        .event("line", &line(4, 6, kept))
        .event("line", &line(5, 6, 0))
}

fn facts(statement: &str) -> Value {
    let function = |path: &str, line: u64| json!({"path": path, "file": "src/lib.rs", "line": line});
    let mut forward = function("bart::<Layer<T> as Module>::forward", 3);
    let text =
        format!("    fn forward(&self) -> Vec<u8> {{\n        {statement}\n        out // ```\n    }}");
    forward["text"] = json!({"first": 3, "text": text});
    let mut later = function("bart::later", 70);
    later["untraced"] = json!({"impossible": "it is an `async fn`, whose body interleaves with other tasks"});
    json!({
        "functions": [forward, function("bart::Encoder::forward", 40), function("bart::tick", 60), later],
        "unmet": [],
    })
}

fn usual(judging: Judging) -> Comparison {
    let traces = json!({
        "0": facts("let out = vec![0; 1024];"),
        "1": facts("let out = vec![0; 4096];"),
    });
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .judging(judging)
        .traces(&traces)
        .passed("hf_fwd", 0, 0, &log(MIB))
        .passed("hf_fwd", 0, 1, &log(MIB))
        .passed("hf_fwd", 1, 0, &log(4 * MIB))
        .passed("hf_fwd", 1, 1, &log(4 * MIB));
    compare(&synthetic.results())
}

#[test]
fn a_comment_has_the_tree_and_each_functions_lines_folded() {
    let text = rendered(Format::Markdown, &usual(Judging::default()), &Options::default());
    insta::assert_snapshot!("traced_markdown", text);
}

#[test]
fn only_changed_keeps_what_changed_of_traced_functions() {
    let options = Options { only_changed: true, ..Options::default() };
    let text = rendered(Format::Markdown, &usual(Judging::default()), &options);
    assert!(text.contains("traced functions, 2 of 3 rows changed"), "{text}");
    let traces = json!({"0": facts("a"), "1": facts("a")});
    let synthetic = Synthetic::new(&["main", "pr/3370"]).traces(&traces);
    let synthetic = synthetic.passed("hf_fwd", 0, 0, &log(MIB)).passed("hf_fwd", 1, 0, &log(MIB));
    let text = rendered(Format::Markdown, &compare(&synthetic.results()), &options);
    assert!(!text.contains("traced functions") && !text.contains("lines of"), "{text}");
}

#[test]
fn a_comment_stays_short_enough_for_the_forges_whatever_was_traced() {
    let mut functions = Vec::new();
    let mut lines = Log::new().checkpoint("start", &[("heap.peak", MIB)]);
    for number in 0..300_u64 {
        let path = format!("bart::step_{number}");
        let text =
            "    let a_rather_long_statement = of_some_function(with, several, arguments);\n".repeat(10);
        let place = number * 20 + 1;
        functions.push(json!({
            "path": path, "file": "src/lib.rs", "line": place, "text": {"first": place, "text": text},
        }));
        let at = format!("src/lib.rs:{place}");
        lines = lines.event("calls", &calls(number, None, &path, &at, 1, MIB)).event(
            "line",
            &json!({"label": path, "at": at, "line": place, "times": 1, "metrics": {"heap.peak": 5}}),
        );
    }
    let facts = json!({"functions": functions, "unmet": []});
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .traces(&json!({"0": facts, "1": facts}))
        .passed("long", 0, 0, &lines)
        .passed("long", 1, 0, &lines);
    let text = rendered(Format::Markdown, &compare(&synthetic.results()), &Options::default());
    assert!(text.chars().count() <= MOST_CHARACTERS, "{}", text.chars().count());
    let shown = text.matches("<details>").count();
    assert_eq!(shown, text.matches("</details>").count());
    assert!(shown > 10, "{shown}");
    // One more is the tree; the table of what did not change is of checkpoints.
    let left_out = format!("_{} blocks of traced functions left out: the comment is full._", 301 + 1 - shown);
    assert!(text.contains(&left_out), "{left_out}: {text}");
}

#[test]
fn calls_stand_among_scopes_and_the_sums_of_all_below_them() {
    let options = Options { view: View::Scopes, width: Some(100), ..Options::default() };
    insta::assert_snapshot!("traced_scopes", rendered(Format::Table, &usual(Judging::default()), &options));
}

#[test]
fn one_revision_has_the_sums_of_all_calls_and_the_lines_below_its_scopes() {
    let synthetic = Synthetic::new(&["main"])
        .traces(&json!({"0": facts("let out = vec![0; 1024];")}))
        .passed("hf_fwd", 0, 0, &log(MIB));
    let options = Options { view: View::Scopes, width: Some(100), ..Options::default() };
    insta::assert_snapshot!("traced_one", rendered(Format::Table, &compare(&synthetic.results()), &options));
}

#[test]
fn one_revision_has_its_traced_functions_without_asking_for_a_view() {
    let synthetic = Synthetic::new(&["main"])
        .traces(&json!({"0": facts("let out = vec![0; 1024];")}))
        .passed("hf_fwd", 0, 0, &log(MIB));
    let comparison = compare(&synthetic.results());
    for is_test in [false, true] {
        let usual = Options { is_test, width: Some(100), ..Options::default() };
        let text = rendered(Format::Table, &comparison, &usual);
        assert!(text.contains(" traced function ") && text.contains("let out = vec![0; 1024];"), "{text}");
        for brief in [Options { compact: true, ..usual.clone() }, Options { rows: Rows::None, ..usual }] {
            let text = rendered(Format::Table, &comparison, &brief);
            assert!(text.contains("hf_fwd") && !text.contains(" traced function "), "{text}");
        }
    }
}

#[test]
fn traced_functions_are_shown_of_a_test_with_a_cause() {
    let log = |kib: i64| {
        let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]);
        let log = log.event("calls", &calls(0, None, "bart::tick", "src/lib.rs:60", 7, kib * KIB));
        log.checkpoint("done", &[("heap.peak", kib * KIB)])
    };
    let traces = json!({"0": facts("a"), "1": facts("a")});
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/7"]).traces(&traces), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &log(100)).passed("t", 1, repeat, &log(200))
    });
    let why = explanations(vec![explained("t", 1, difference(&[(9, 100 * KIB, changed(9))]))]);
    let options = Options { width: Some(100), why: Some(Arc::new(why)), ..Options::default() };
    let text = rendered(Format::Table, &compare(&synthetic.results()), &options);
    assert!(text.contains(" ▲ src/lib.rs:9 ") && text.contains("\n bart::tick "), "{text}");
}

#[test]
fn that_no_traced_function_was_called_is_said() {
    let log = Log::new().checkpoint("start", &[("heap.peak", MIB)]).checkpoint("done", &[("heap.peak", MIB)]);
    let traces = json!({"0": facts("let out = vec![0; 1024];"), "1": facts("let out = vec![0; 1024];")});
    let synthetic =
        Synthetic::new(&["a", "b"]).traces(&traces).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    for view in [View::Checkpoints, View::Scopes] {
        let options = Options { view, width: Some(100), ..Options::default() };
        let text = rendered(Format::Table, &compare(&synthetic.results()), &options);
        assert!(text.contains("\n a: no traced function was called\n"), "{text}");
        assert!(!text.contains("no scope was logged"), "{text}");
    }
}

#[test]
fn calls_that_only_one_revision_has_are_no_checkpoints_that_came_or_went() {
    let metrics = [("heap.consumed", KIB), ("heap.peaked", KIB), ("heap.used", KIB)];
    let log = |label: &str, times: usize| {
        let log = Log::new().checkpoint("start", &[("heap.peak", MIB)]);
        (0..times).fold(log, |log, _| log.call(0, label, &metrics)).checkpoint("done", &[("heap.peak", MIB)])
    };
    let synthetic = Synthetic::new(&["a", "b"])
        .passed("t", 0, 0, &log("bart::f", 3))
        .passed("t", 0, 1, &log("bart::f", 2))
        .passed("t", 1, 0, &log("bart::g", 3))
        .passed("t", 1, 1, &log("bart::g", 1));
    let options = Options { width: Some(100), ..Options::default() };
    let text = rendered(Format::Table, &compare(&synthetic.results()), &options);
    assert!(text.starts_with("memory: 1 test unchanged · a "), "{text}");
    assert!(!text.contains("missing in some repeats") && !text.contains("bart::f"), "{text}");
}

#[test]
fn calls_that_are_not_logged_by_themselves_are_in_the_view_of_scopes_all_the_same() {
    let log = Log::new()
        .checkpoint("start", &[("heap.peak", MIB)])
        .event("calls", &calls(0, None, "bart::f", "src/lib.rs:1", 7, 70));
    let synthetic = Synthetic::new(&["a", "b"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let options = Options { view: View::Scopes, width: Some(100), ..Options::default() };
    let text = rendered(Format::Table, &compare(&synthetic.results()), &options);
    assert!(text.contains("bart::f") && !text.contains("Above are the first calls"), "{text}");
    assert!(!text.contains("no scope was logged"), "{text}");
}

#[test]
fn a_verdict_is_the_same_whether_functions_are_traced_or_not() {
    let comparison = usual(Judging::default());
    let text = rendered(Format::Table, &comparison, &Options { width: Some(100), ..Options::default() });
    // `decoder` is a scope of the code's own: it consumed and peaked more.
    assert!(text.starts_with("memory: 1 test regressed"), "{text}");
    assert!(!text.contains("(call)"), "{text}");
    insta::assert_snapshot!("traced_table", text);

    let growth = Some(Growth::Within(Threshold { percent: Some(5.0), bytes: None }));
    let rule = |checkpoint: &str| Rule {
        metric: "heap.consumed".to_owned(),
        checkpoint: Some(checkpoint.to_owned()),
        growth: growth.clone(),
        ..Rule::default()
    };
    let judging = Judging { rules: vec![rule("bart::Encoder::*")], ..Judging::default() };
    let asked = rendered(Format::Table, &usual(judging), &Options { width: Some(100), ..Options::default() });
    assert!(asked.starts_with("memory: 1 test regressed"), "{asked}");
    assert!(asked.contains("bart::Encoder::forward (call)"), "{asked}");
    let judging = Judging { rules: vec![rule("*")], ..Judging::default() };
    let all = rendered(Format::Table, &usual(judging), &Options { width: Some(100), ..Options::default() });
    assert!(all.starts_with("memory: 1 test regressed"), "{all}");
}

#[test]
fn as_csv_a_function_is_a_row_and_so_is_a_line() {
    let comparison = usual(Judging::default());
    let rows = table(Format::CsvCalls, &comparison);
    assert_eq!(rows.len(), 3);
    let layer = rows.iter().find(|row| row["function"].contains("Layer")).unwrap();
    for (heading, expected) in [
        ("callers", "bart::Encoder::forward".to_owned()),
        ("depth", "1".to_owned()),
        ("calls:main", "6".to_owned()),
        ("heap.consumed:main", (6 * MIB).to_string()),
        ("heap.consumed:pr/3370", (24 * MIB).to_string()),
        ("heap.consumed:pr/3370:percent", "300.0000".to_owned()),
        ("heap.peaked.most:main", (12 * MIB).to_string()),
    ] {
        assert_eq!(layer[heading], expected, "{heading}");
    }
    let rows = table(Format::CsvLines, &comparison);
    let of = |text: &str| rows.iter().find(|row| row["text"].contains(text)).unwrap();
    assert_eq!(of("1024")["place:main"], "src/lib.rs:4");
    assert_eq!((&*of("1024")["times:main"], &*of("1024")["times:pr/3370"]), ("6", ""));
    assert_eq!(of("4096")["place:pr/3370"], "src/lib.rs:4");
    assert_eq!(of("out // ```")["times:pr/3370"], "6", "the same line on both sides is one row");
    assert_eq!(of("out // ```")["times:pr/3370:delta"], "0");
}

/// One revision with a traced function, whose second line did not end.
fn of_lines(status: &Status) -> Comparison {
    lines_at(&["main"], status)
}

/// Every side ended with this status.
fn lines_at(refs: &[&str], status: &Status) -> Comparison {
    let line = |number: u64, metrics: Value| {
        json!({
            "site": 0, "label": "bart::<Layer<T> as Module>::forward", "at": "src/lib.rs:3", "line": number,
            "times": 6, "every": 10, "metrics": metrics,
        })
    };
    let figures = json!({
        "heap.peak": 2 * MIB, "heap.live": MIB, "heap.allocated": 7 * KIB, "heap.grown": 0, "time": 5_000_000,
        "gpu.0.peak": 3 * MIB, "gpu.0.live": 9 * KIB, "gpu.0.grown": 0, "pool.cubecl.in_use": 11 * KIB,
    });
    let mut node = calls(0, None, "bart::<Layer<T> as Module>::forward", "src/lib.rs:3", 60, 0);
    node["metrics"]["time"] = 70_000_000.into();
    let log = Log::new()
        .absent("gpu.1.live", "the device was not used")
        .checkpoint("start", &[("heap.peak", MIB), ("heap.live", MIB)])
        .event("calls", &node)
        .event("line", &line(4, json!({})))
        .event("line", &line(4, figures))
        .event("line", &line(5, json!({})));
    let synthetic = Synthetic::new(refs).traces(&json!({"0": facts("let out = vec![0; 1024];")}));
    let synthetic = (0..refs.len()).fold(synthetic, |synthetic, revision| match status {
        Status::Ok => synthetic.passed("t", revision, 0, &log),
        status => synthetic.failed("t", revision, status.clone(), "", Some(&log)),
    });
    compare(&synthetic.results())
}

fn of_metrics(metrics: &[&str]) -> String {
    let metrics = (!metrics.is_empty()).then(|| metrics.iter().map(|&metric| metric.to_owned()).collect());
    let options = Options { metrics, view: View::Scopes, width: Some(160), ..Options::default() };
    rendered(Format::Table, &of_lines(&Status::Ok), &options)
}

#[test]
fn lines_have_the_columns_that_were_chosen() {
    let usual = of_metrics(&[]);
    for heading in ["times", "gpu.0.peak", "heap.peak", "heap.allocated", "heap.freed", "time"] {
        assert!(usual.contains(heading), "{heading}: {usual}");
    }
    assert!(!usual.contains(".live") && !usual.contains("pool."), "{usual}");
    assert!(usual.contains("src/lib.rs:3  (one call in 10)"), "{usual}");
    // The sum of the calls, and that of the line.
    assert!(usual.contains("70.0 ms") && usual.contains("5.00 ms"), "{usual}");

    let chosen = of_metrics(&["heap.live", "gpu.0.*", "pool.*"]);
    for heading in ["heap.live", "gpu.0.live", "gpu.0.peak", "pool.cubecl.in_use"] {
        assert!(chosen.contains(heading), "{heading}: {chosen}");
    }
    assert!(chosen.contains("11.0 KiB") && chosen.contains("9.00 KiB"), "{chosen}");
    assert!(!chosen.contains("heap.peak ") && !chosen.contains("heap.freed"), "{chosen}");
}

#[test]
fn a_chosen_metric_without_figures_of_lines_has_its_reason() {
    let text = of_metrics(&["heap.live", "cpu.rss", "gpu.1.live", "gpu.0.process", "heap.consumed"]);
    for reason in [
        "cpu.rss has no figures of lines: not read at traced calls; measure with --columns cpu",
        "gpu.1.live has no figures of lines: the device was not used",
        "gpu.0.process has no figures of lines: it is read at checkpoints only",
    ] {
        assert!(text.contains(reason), "{reason}: {text}");
    }
    assert!(!text.contains("heap.consumed has no"), "{text}");
    let comparison = usual(Judging::default());
    let options = Options { metrics: Some(vec!["gpu.0.live".to_owned()]), ..Options::default() };
    let text = rendered(Format::Markdown, &comparison, &options);
    let reason = "gpu.0.live has no figures of lines: the test has none, or --columns leaves out gpu";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn what_a_test_measured_until_it_was_stopped_is_shown_as_incomplete() {
    let options = Options { view: View::Scopes, width: Some(160), ..Options::default() };
    for status in [Status::Interrupted, Status::Timeout { limit_seconds: 60 }, Status::Killed { signal: 9 }] {
        let text = rendered(Format::Table, &of_lines(&status), &options);
        assert!(text.contains("main: incomplete ("), "{text}");
        assert!(text.contains("2.00 MiB") && text.contains("out // ```"), "{text}");
    }
    assert!(!rendered(Format::Table, &of_lines(&Status::Ok), &options).contains("incomplete"));
    let of_both = lines_at(&["main", "pr/1"], &Status::Killed { signal: 9 });
    let text = rendered(Format::Table, &of_both, &Options { width: Some(160), ..Options::default() });
    let heading = text.lines().find(|line| line.contains("incomplete")).unwrap_or_default();
    assert!(heading.starts_with(" main and pr/1: incomplete ("), "{text}");
    assert_eq!(text.matches("incomplete").count(), 1, "{text}");
}
