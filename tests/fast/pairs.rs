//! Two implementations within one revision, in every format.

use std::collections::BTreeMap;

use crate::support::synthetic::{Log, Synthetic, cell};
use crate::support::tables::table;
use crate::support::{Printed, tool};
use cargo_memprof::arguments::values;
use memprof_judge::compare::budget;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::repeats;
use memprof_judge::results::outcome::Status;
use memprof_plan::budget::{Budget, BudgetLimit};
use memprof_plan::rule::Judging;
use memprof_report::github;
use memprof_report::options::{Format, Options, View};
use memprof_support::exit_code::ExitCode;

const MIB: i64 = 1024 * 1024;

fn log(peak: i64) -> Log {
    Log::new().checkpoint("start", &[("heap.peak", 7)]).checkpoint("done", &[("heap.peak", peak)])
}

/// Two pairs, of which one regresses, and two tests without a partner.
fn synthetic(refs: &[&str], runs: u32) -> Synthetic {
    let mut synthetic = Synthetic::new(refs).pairs(&["hf_*=fs_*"]);
    for repeat in 0..runs {
        synthetic = synthetic
            .passed("hf_fwd", 0, repeat, &log(4 * MIB))
            .passed("fs_fwd", 0, repeat, &log(6 * MIB))
            .passed("hf_bwd", 0, repeat, &log(4 * MIB))
            .passed("fs_bwd", 0, repeat, &log(4 * MIB));
    }
    synthetic.passed("hf_only", 0, 0, &log(MIB)).passed("other", 0, 0, &log(MIB))
}

fn shown(format: Format, view: View, comparison: &Comparison) -> String {
    let options = Options { width: Some(160), view, ..Options::default() };
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_pair_is_compared_like_two_revisions_in_every_format() {
    let comparison = compare(&synthetic(&["main"], 2).results());
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Regression);
    assert_eq!(comparison.cells.len(), 2);
    let formats = [Format::Table, Format::Markdown, Format::Json, Format::Junit];
    for format in formats {
        let text = shown(format, View::Checkpoints, &comparison).replace('\\', "");
        assert!(text.contains("hf_fwd → fs_fwd"), "{format:?}: {text}");
    }
    let text = shown(Format::Table, View::Checkpoints, &comparison);
    assert!(text.contains("+2.00 MiB") && text.contains("+50.0 %"), "{text}");
    assert!(text.contains("2 tests without a partner: hf_only, other"), "{text}");
    assert!(shown(Format::Table, View::Top, &comparison).contains("hf_fwd → fs_fwd"));
    let rows = table(Format::CsvWide, &comparison);
    let is_it = |row: &&BTreeMap<String, String>| row["test"].contains("fwd") && row["checkpoint"] == "done";
    let done = rows.iter().find(is_it).unwrap();
    assert_eq!(done["test"], "bart::tests::hf_fwd → fs_fwd");
    assert_eq!((&*done["heap.peak:hf_*"], &*done["heap.peak:fs_*:delta"]), ("4194304", "2097152"));
    let json: serde_json::Value =
        serde_json::from_str(&shown(Format::Json, View::Checkpoints, &comparison)).unwrap();
    assert_eq!(json["plan"]["baseline"], "hf_*");
}

#[test]
fn both_tests_of_an_open_pair_run_again() {
    let comparison = compare(&synthetic(&["main"], 1).results());
    let wanted = repeats::wanted(&comparison, false);
    let mut tests: Vec<_> = wanted.keys().map(|(id, revision)| (id.test.name.as_str(), *revision)).collect();
    tests.sort_unstable();
    assert_eq!(tests, [("fs_fwd", 0), ("hf_fwd", 0)], "the other pair is equal to the byte");
    assert!(wanted.values().all(|runs| *runs == 2));
    assert!(wanted.contains_key(&(&cell("hf_fwd", &[]), 0)));
}

#[test]
fn a_failed_test_without_a_partner_is_not_hidden() {
    let passed = Synthetic::new(&["main"]).pairs(&["hf_*=fs_*"]).passed("hf_a", 0, 0, &log(MIB)).passed(
        "fs_a",
        0,
        0,
        &log(MIB),
    );
    assert_eq!(Conclusion::from_comparison(&compare(&passed.results())).exit_code(), ExitCode::Success);
    let failed = passed.failed("other", 0, Status::Failed { exit_code: 1 }, "", None);
    let comparison = compare(&failed.results());
    assert_eq!(Conclusion::from_comparison(&comparison).exit_code(), ExitCode::Incomplete);
    let text = shown(Format::Table, View::Checkpoints, &comparison);
    let note = "1 test without a partner, 1 of them failed: other";
    assert!(text.contains(note), "{text}");
    assert_eq!(comparison.unchecked_notes, [note]);
}

#[test]
fn limits_and_budgets_hold_for_each_test_alone() {
    let budget = |test: &str| BudgetLimit {
        test: format!("bart::tests::{test}"),
        kind: None,
        name: None,
        params: BTreeMap::new(),
        checkpoint: "done".to_owned(),
        metric: "heap.peak".to_owned(),
        limit: 5 << 20,
        line: 5,
    };
    let judged = |limit: &str, budget: Vec<BudgetLimit>| {
        let limit = values::limit(limit).unwrap();
        let budget = Budget { file: "budget.json".to_owned(), limits: budget };
        let judging = Judging { rules: vec![limit], budget: Some(budget), ..Judging::default() };
        let comparison = compare(&synthetic(&["main"], 2).judging(judging).results());
        let conclusion = Conclusion::from_comparison(&comparison);
        let text = shown(Format::Table, View::Checkpoints, &comparison);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (conclusion.breaches, conclusion.exit_code(), text)
    };
    let (breaches, code, notes) = judged("heap.peak=5MiB", Vec::new());
    assert_eq!((breaches, code), (1, ExitCode::Regression), "fs_fwd: {notes}");
    let (breaches, _, notes) = judged("heap.peak=3MiB", Vec::new());
    assert_eq!(breaches, 4, "both tests of both pairs: {notes}");
    let line = "over its limit: hf_fwd, heap.peak 4.00 MiB at 'done', limit 3.00 MiB";
    assert!(notes.contains(line) && notes.contains("over its limit: hf_bwd"), "{notes}");
    let (breaches, _, notes) = judged("heap.peak=900KiB,test=hf_only", Vec::new());
    assert!(breaches == 1 && notes.contains("over its limit: hf_only"), "no partner: {notes}");
    let (breaches, _, notes) = judged("heap.peak=1GiB", vec![budget("fs_fwd"), budget("hf_fwd")]);
    assert_eq!(breaches, 1, "a line of fs_fwd: {notes}");
    let lacks = BudgetLimit { checkpoint: "read".to_owned(), ..budget("hf_only") };
    let (.., notes) = judged("heap.peak=1GiB", vec![lacks]);
    assert!(
        notes.contains("the budget of heap.peak at 'read'") && notes.contains("budget.json:5"),
        "{notes}"
    );
    let (.., notes) = judged("heap.count=7", Vec::new());
    assert!(notes.contains("the limit of heap.count was not checked"), "{notes}");
}

#[test]
fn a_test_that_is_no_candidate_and_over_its_limit_is_in_every_format() {
    let loops = |peak: i64| {
        (0..40).fold(Log::new(), |log, _| log.checkpoint("step", &[("heap.peak", peak), ("heap.live", 7)]))
    };
    let compared = |allow: &[&str]| {
        let allow = allow.iter().map(|text| values::allow(text).unwrap()).collect();
        let rules = vec![values::limit("heap.peak=8MiB").unwrap()];
        let synthetic = Synthetic::new(&["main"]).pairs(&["hf_*=fs_*"]);
        let synthetic = synthetic.judging(Judging { rules, allow, ..Judging::default() });
        let synthetic = (0..2).fold(synthetic, |synthetic, repeat| {
            let synthetic = synthetic.passed("hf_fwd", 0, repeat, &loops(9 * MIB));
            synthetic.passed("fs_fwd", 0, repeat, &loops(4 * MIB))
        });
        compare(&synthetic.results())
    };
    let json = |comparison: &Comparison| -> serde_json::Value {
        serde_json::from_str(&shown(Format::Json, View::Checkpoints, comparison)).unwrap()
    };
    let comparison = compared(&[]);
    let report = json(&comparison);
    let breaches = report["breaches"].as_array().unwrap();
    assert_eq!((breaches.len(), &report["verdict"]["breaches"]), (40, &40.into()));
    let last = &breaches[39];
    assert_eq!((&last["test"], &last["title"]), (&"bart::tests::hf_fwd".into(), &"hf_fwd".into()));
    assert_eq!((&last["checkpoint"], &last["occurrence"]), (&"step".into(), &40.into()));
    let line = "over its limit: hf_fwd, heap.peak 9.00 MiB at 'step', and 39 later ones, limit 8.00 MiB";
    for (format, view) in [
        (Format::Table, View::Checkpoints),
        (Format::Table, View::Top),
        (Format::Markdown, View::Checkpoints),
        (Format::Junit, View::Checkpoints),
        (Format::Sarif, View::Checkpoints),
        (Format::Gitlab, View::Checkpoints),
    ] {
        let text = shown(format, view, &comparison).replace('\\', "");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let times = if format == Format::Junit { 2 } else { 1 };
        assert_eq!(text.matches("over its limit: hf_fwd").count(), times, "{format:?}: {text}");
        assert!(text.contains(line), "{format:?}: {text}");
    }
    let junit = shown(Format::Junit, View::Checkpoints, &comparison);
    assert!(junit.contains("tests=\"2\" failures=\"1\""), "{junit}");
    let sarif: serde_json::Value =
        serde_json::from_str(&shown(Format::Sarif, View::Checkpoints, &comparison)).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<_> = results.iter().map(|result| &result["ruleId"]).collect();
    assert_eq!(rules, ["memory-improved", "memory-over-limit"]);
    let annotations = github::annotations(&comparison, &Options::default()).join("\n");
    assert_eq!(annotations.matches("over its limit: hf_fwd").count(), 1, "{annotations}");

    let allowed = compared(&["test=hf_fwd,reason=known"]);
    assert_eq!(Conclusion::from_comparison(&allowed).exit_code(), ExitCode::Success);
    let report = json(&allowed);
    assert_eq!((&report["verdict"]["breaches"], &report["verdict"]["expected"]), (&0.into(), &40.into()));
    assert_eq!(report["breaches"][0]["expected"], "known");
    let junit = shown(Format::Junit, View::Checkpoints, &allowed);
    assert!(junit.contains("failures=\"0\""), "{junit}");
    let sarif = shown(Format::Sarif, View::Checkpoints, &allowed);
    assert!(!sarif.contains("over its limit: hf_fwd"), "{sarif}");
}

#[test]
fn a_budget_that_a_run_of_pairs_wrote_holds_for_each_test() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = camino::Utf8PathBuf::from_path_buf(folder.path().join("budget.json")).expect("text");
    let old = synthetic(&["main"], 2);
    let mut command = tool();
    command.current_dir(folder.path()).args(["memprof", "budget", "write", "budget.json"]);
    command.args(["--run", old.folder().0.as_str()]);
    let wrote = Printed::of(command);
    assert_eq!(wrote.code, 0, "{}", wrote.everything());
    let read = || budget::read(&path, "budget.json").expect("a budget");
    let judged = |synthetic: Synthetic| {
        let judging = Judging { budget: Some(read()), ..Judging::default() };
        let comparison = compare(&synthetic.judging(judging).results());
        (Conclusion::from_comparison(&comparison).breaches, comparison.unchecked)
    };
    assert_eq!(judged(synthetic(&["main"], 2)), (0, 0));
    let grown = synthetic(&["main"], 2).passed("hf_only", 0, 1, &log(9 * MIB));
    let grown = grown.passed("fs_fwd", 0, 2, &log(9 * MIB));
    assert_eq!(judged(grown), (2, 0));
}

#[test]
fn a_test_without_a_partner_and_without_the_end_of_its_log_is_not_checked() {
    let unchecked = |log: &Log| {
        let synthetic = synthetic(&["main"], 2).passed("hf_more", 0, 0, log);
        let ignored = synthetic.failed("hf_slow", 0, Status::Ignored, "", None);
        compare(&ignored.results()).unchecked
    };
    assert_eq!(unchecked(&log(MIB)), 0);
    assert_eq!(unchecked(&log(MIB).without_end()), 1);
}

#[test]
fn without_a_pair_and_with_several_revisions_nothing_changes() {
    let alone = Synthetic::new(&["main"]).pairs(&["x_*=y_*"]).passed("a", 0, 0, &log(MIB));
    assert_eq!(compare(&alone.results()).revisions.len(), 1);
    let several = synthetic(&["main", "pr/1"], 1);
    let comparison = compare(&several.results());
    assert_eq!(comparison.revisions[1].name, "pr/1");
    assert_eq!(comparison.cells.len(), 6);
}
