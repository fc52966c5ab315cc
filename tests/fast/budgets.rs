//! Budgets: what `budget write` records of a run, and what a later run exceeds.

use camino::Utf8PathBuf;
use memprof_judge::compare::budget::{self, Margin};
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_support::exit_code::ExitCode;
use serde_json::{Value, json};

use crate::support::synthetic::{Log, Synthetic};
use crate::support::{Printed, tool};

fn log(parsed: i64, peak: i64) -> Log {
    Log::new()
        .checkpoint("parsed", &[("heap.live", parsed), ("heap.peak", peak), ("time", 5)])
        .checkpoint("parsed", &[("heap.live", parsed / 2), ("heap.peak", peak), ("time", 9)])
        .checkpoint("done", &[("heap.live", 0), ("heap.peak", peak), ("time", 9)])
        .event("causes", &json!({"threads": 1}))
}

fn run(refs: &[&str], parsed: i64, peak: i64) -> Synthetic {
    let synthetic = Synthetic::new(refs);
    let synthetic = synthetic.passed("zoo", 0, 0, &log(1_000_000, 2_000_000));
    let synthetic = synthetic.passed_with("bert", &[("batch", "8")], 0, &log(1_000, 2_000));
    if refs.len() == 1 { synthetic } else { synthetic.passed("zoo", 1, 0, &log(parsed, peak)) }
}

fn file(text: &str) -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Utf8PathBuf::from_path_buf(folder.path().join("budget.json")).expect("text");
    fs_err::write(&path, text).expect("written");
    (folder, path)
}

fn written(metrics: &[&str], margin: Margin) -> String {
    let metrics: Vec<String> = metrics.iter().map(|metric| (*metric).to_owned()).collect();
    budget::text(&compare(&run(&["v1"], 0, 0).results()), 0, &metrics, margin).expect("a budget")
}

#[test]
fn a_budget_has_a_sorted_line_for_each_test_checkpoint_and_metric() {
    insta::assert_snapshot!(written(&[], Margin::Usual));
    // The order of the runs does not matter, and the highest figure of a label counts.
    let (_folder, path) = file(&written(&["heap.live"], Margin::Percent(10.0)));
    let read = budget::read(&path, "budget.json").expect("it reads its own file");
    let shown: Vec<String> =
        read.limits.iter().map(|one| format!("{} {} {}", one.line, one.checkpoint, one.limit)).collect();
    assert_eq!(shown, ["5 done 0", "6 parsed 1100", "7 done 0", "8 parsed 1100000"]);
}

#[test]
fn the_usual_limit_of_a_figure_that_varies_is_that_of_a_comparison() {
    let limit = |peaks: &[i64], threads: u32| {
        let passed = |synthetic: Synthetic, (repeat, peak): (u32, &i64)| {
            let log = Log::new().checkpoint("done", &[("heap.peak", *peak)]);
            synthetic.passed("zoo", 0, repeat, &log.event("causes", &json!({"threads": threads})))
        };
        let runs = (0..).zip(peaks).fold(Synthetic::new(&["v1"]), passed);
        let text = budget::text(&compare(&runs.results()), 0, &[], Margin::Usual).expect("a budget");
        let (_folder, path) = file(&text);
        budget::read(&path, "budget.json").expect("it reads its own file").limits[0].limit
    };
    let (tight, wide) = (16 << 10, 64 << 10);
    assert_eq!(limit(&[1_000_000, 1_004_096], 1), 1_004_096 + tight, "a quarter of the limit");
    assert_eq!(limit(&[1_000_000, 1_004_097], 1), 1_004_097 + wide);
    assert_eq!(limit(&[1_000_000, 1_000_000], 3), 1_000_000 + tight);
    assert_eq!(limit(&[1_000_000], 3), 1_000_000 + wide, "another run of several threads may need more");
    assert_eq!(limit(&[1_000_000], 1), 1_000_000 + tight);
}

#[test]
fn a_figure_above_its_line_is_a_failed_gate_that_names_the_line() {
    let text = written(&["heap.peak"], Margin::Percent(0.0));
    let (_folder, path) = file(&text);
    let judged = |peak: i64| {
        let mut results = run(&["main", "pr/7"], 1, peak).results();
        results.plan.request.judging.budget = Some(budget::read(&path, "budget.json").expect("a budget"));
        compare(&results)
    };
    assert_eq!(Conclusion::from_comparison(&judged(2_000_000)).breaches, 0);
    let over = judged(2_000_001);
    assert_eq!(Conclusion::from_comparison(&over).breaches, 3);
    assert_eq!(Conclusion::from_comparison(&over).exit_code(), ExitCode::Regression);
    let pair = over.cells.iter().flat_map(|cell| &cell.pairs).find(|pair| !pair.breaches.is_empty());
    let places: Vec<_> = pair.expect("a breach").breaches.iter().map(|one| one.place.as_deref()).collect();
    let line = |checkpoint: &str| {
        let is_meant = |line: &str| line.contains("zoo\"") && line.contains(&format!("\"{checkpoint}\""));
        Some(format!("budget.json:{}", text.lines().position(is_meant).expect("a line") + 1))
    };
    let (done, parsed) = (line("done"), line("parsed"));
    assert_eq!(places, [done.as_deref(), parsed.as_deref(), parsed.as_deref()]);
}

#[test]
fn two_names_of_one_test_have_limits_of_their_own() {
    let runs = |refs: &[&str], small: i64| {
        let measured = (0..refs.len()).fold(Synthetic::new(refs), |synthetic, revision| {
            let synthetic = synthetic.passed_as("large", "zoo", revision, &log(1, 6_000_000));
            synthetic.passed_as("small", "zoo", revision, &log(1, small))
        });
        measured.results()
    };
    let peaks = vec!["heap.peak".to_owned()];
    let text = budget::text(&compare(&runs(&["v1"], 600_000)), 0, &peaks, Margin::Percent(0.0));
    let text = text.expect("a budget");
    assert!(
        text.contains(
            r#""name":"small","metric":"heap.peak","checkpoint":"done","unit":"bytes","figure":600000"#
        ),
        "{text}"
    );
    let breached = |text: &str| {
        let (_folder, path) = file(text);
        let mut results = runs(&["main", "pr/7"], 6_000_000);
        results.plan.request.judging.budget = Some(budget::read(&path, "budget.json").expect("a budget"));
        let comparison = compare(&results);
        let cells =
            comparison.cells.iter().filter(|cell| cell.pairs.iter().any(|pair| !pair.breaches.is_empty()));
        cells.map(|cell| cell.id.title.clone()).collect::<Vec<_>>()
    };
    assert_eq!(breached(&text), ["small"]);
    // A line without a name is for each cell that has none of its own.
    let unnamed = text.replace(r#""name":"small","#, "");
    assert_eq!(breached(&unnamed), ["small"]);
}

#[test]
fn a_peak_above_the_start_is_computed_for_a_budget() {
    let measured = |peak: i64| {
        let start = Log::new().checkpoint("start", &[("heap.live", 1_000), ("heap.peak", 1_000)]);
        let log = start.checkpoint("done", &[("heap.live", 0), ("heap.peak", peak)]);
        Synthetic::new(&["v1"]).passed("zoo", 0, 0, &log)
    };
    let (folder, path) = file("");
    let old = measured(5_000);
    let mut command = tool();
    command.current_dir(folder.path()).args(["memprof", "budget", "write", "budget.json", "--margin", "0"]);
    command.args(["--metrics", "*.peak_above_start", "--run", old.folder().0.as_str()]);
    let wrote = Printed::of(command);
    assert_eq!(wrote.code, 0, "{}", wrote.everything());
    let text = fs_err::read_to_string(&path).expect("a file");
    assert!(text.contains(r#""metric":"heap.peak_above_start","checkpoint":"done""#), "{text}");
    let judged = |peak: i64| {
        let mut results = measured(peak).results();
        results.plan.request.judging.budget = Some(budget::read(&path, "budget.json").expect("a budget"));
        let comparison = compare(&results);
        (Conclusion::from_comparison(&comparison).breaches, comparison.unchecked)
    };
    assert_eq!(judged(5_000), (0, 0));
    assert_eq!(judged(5_001), (1, 0));
}

#[test]
fn an_entry_without_a_figure_is_not_passed_over() {
    let text = written(&["heap.peak"], Margin::Usual).replace("\"parsed\"", "\"read\"");
    let (_folder, path) = file(&text);
    let mut results = run(&["v1"], 0, 0).results();
    results.plan.request.judging.budget = Some(budget::read(&path, "budget.json").expect("a budget"));
    let comparison = compare(&results);
    assert_eq!((comparison.unchecked, comparison.unchecked_notes.len()), (2, 2));
    assert!(
        comparison.notes.iter().any(|note| note.contains("'read'") && note.contains("budget.json:6")),
        "{:?}",
        comparison.notes
    );
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Incomplete);
}

#[test]
fn a_mistake_in_a_budget_is_named_with_its_line() {
    let refused = |from: &str, to: &str| {
        let text = written(&["heap.peak"], Margin::Usual);
        assert!(text.contains(from), "{text}");
        let (_folder, path) = file(&text.replacen(from, to, 1));
        format!("{:#}", budget::read(&path, "budget.json").expect_err("a mistake"))
    };
    assert!(refused("\"limit\":", "\"limits\":").starts_with("budget.json:5: unknown field"));
    assert!(refused("\"bytes\"", "\"count\"").contains("budget.json:5: heap.peak is in bytes"));
    assert!(refused("\"version\": 1", "\"version\": 9").contains("has format 9, but this cargo-memprof "));
    assert!(refused("{", "").contains("budget.json is not a budget"));
    let long = refused("{", &"x".repeat(1_000_000));
    assert!(long.len() < 500 && long.contains(" at line 1 column 1"), "{long}");
    let text = written(&["heap.peak"], Margin::Usual);
    let line = text.lines().find(|line| line.contains("heap.peak")).expect("an entry").trim_end_matches(',');
    let twice = refused("\"limits\": [\n", &format!("\"limits\": [\n{line},\n"));
    assert!(twice.contains("is in line ") && twice.contains(", too"), "{twice}");
}

#[test]
fn the_command_writes_a_budget_that_a_report_checks() {
    let old = run(&["v1"], 0, 0);
    let (folder, path) = file("");
    let call = |arguments: &[&str]| {
        let mut command = tool();
        command.current_dir(folder.path()).arg("memprof").args(arguments);
        Printed::of(command)
    };
    let wrote = call(&["budget", "write", "budget.json", "--run", old.folder().0.as_str(), "--margin", "0"]);
    assert_eq!(wrote.code, 0, "{}", wrote.everything());
    assert!(fs_err::read_to_string(&path).expect("a file").contains("\"version\": 1"));
    let new = run(&["main", "pr/7"], 1, 9_000_000);
    let new = new.folder().0.as_str();
    let report = |more: &[&str]| {
        call(&[&["report", new, "--budget", "budget.json", "--threshold", "*=off"], more].concat())
    };
    let table = report(&[]);
    assert_eq!(table.code, 1, "{}", table.everything());
    assert!(table.stdout.contains("limit 1.91 MiB (budget.json:"), "{}", table.stdout);
    let json: Value = serde_json::from_str(&report(&["--format", "json"]).stdout).expect("JSON");
    let place = json["breaches"][0]["place"].as_str().expect("a place");
    assert!(place.starts_with("budget.json:"), "{place}");
    assert!(!wrote.stderr.contains("warning"), "{}", wrote.stderr);
    let failing = run(&["v1"], 0, 0).failed("ape", 0, Status::OverLimit, "it asserts", None);
    let wrote = call(&["budget", "write", "--run", failing.folder().0.as_str()]);
    assert_eq!(wrote.code, 0, "{}", wrote.everything());
    assert!(wrote.stderr.contains("1 test did not pass and gets no limit: "), "{}", wrote.stderr);
    assert!(wrote.stderr.contains("ape"), "{}", wrote.stderr);
    let several = call(&["budget", "write", "--run", new, "--ref", "nothing"]);
    assert!(several.stderr.contains("the run has no ref 'nothing'"), "{}", several.everything());
}
