//! From a run's folder to a comparison: what is matched, put together, refused and noted.

use crate::support::synthetic::{self, Log, Synthetic};
use cargo_memprof::arguments::values;
use memprof_judge::compare::aggregate::Availability;
use memprof_judge::compare::comparison::{Comparability, Comparison, PairView};
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::{compare, merge};
use memprof_judge::compare::matching::RowChange;
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::build_facts::Fact;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::run_folder::file;
use memprof_judge::results::same_code::SameCode;
use memprof_judge::results::stored::{self, Results};
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::budget::{Budget, BudgetLimit};
use memprof_plan::listing::NotMeasured;
use memprof_plan::request::CellPattern;
use memprof_plan::rule::Judging;
use memprof_plan::shard::Shard;
use memprof_report::options::{Format, Options};
use memprof_support::user_error::UserError;
use proptest::prelude::*;
use serde_json::json;

fn heap(checkpoints: &[(&str, i64)]) -> Log {
    let log = Log::new();
    checkpoints.iter().fold(log, |log, (label, bytes)| log.checkpoint(label, &[("heap.peak", *bytes)]))
}

fn only_pair(comparison: &Comparison) -> PairView<'_> {
    let pairs: Vec<_> = comparison.pairs().collect();
    assert_eq!(pairs.len(), 1);
    pairs[0]
}

/// The differences of a metric, by row.
fn differences(view: &PairView, metric: &str) -> Vec<Option<i128>> {
    let column = view.column(metric);
    view.rows.iter().map(|row| column.at(row).delta.map(|delta| delta.difference)).collect()
}

#[test]
fn repeats_are_put_together_as_median_least_and_greatest() {
    let mut synthetic = Synthetic::new(&["main", "pr/1"]);
    for (repeat, bytes) in [(0, 30), (1, 10), (2, 26)] {
        synthetic = synthetic.passed("t", 0, repeat, &heap(&[("start", 5), ("done", bytes)])).passed(
            "t",
            1,
            repeat,
            &heap(&[("start", 5), ("done", bytes + 7)]),
        );
    }
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    let column = view.column("heap.peak");
    let entry = column.at(&view.rows[1]);
    let baseline = entry.baseline.unwrap();
    assert_eq!((baseline.value, baseline.min, baseline.max, baseline.runs), (26, 10, 30, 3));
    assert!(!baseline.is_exact());
    assert!(column.at(&view.rows[0]).baseline.unwrap().is_exact());
    assert_eq!(entry.delta.unwrap().difference, 7);
}

#[test]
fn one_run_alone_is_not_called_exact() {
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &heap(&[("a", 1)])).passed(
        "t",
        1,
        0,
        &heap(&[("a", 1)]),
    );
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert!(!view.column("heap.peak").at(&view.rows[0]).baseline.unwrap().is_exact());
}

#[test]
fn a_checkpoint_that_only_some_repeats_reach_keeps_its_place_and_is_counted() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &heap(&[("a", 1), ("c", 3)]))
        .passed("t", 0, 1, &heap(&[("a", 1), ("b", 2), ("c", 5)]))
        .passed("t", 1, 0, &heap(&[("a", 1), ("b", 2), ("c", 4)]));
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(differences(&view, "heap.peak"), [Some(0), Some(0), Some(0)]);
    assert_eq!(view.baseline.unsteady, 1);
    let runs: Vec<u32> =
        view.rows.iter().map(|row| view.column("heap.peak").at(row).baseline.unwrap().runs).collect();
    assert_eq!(runs, [2, 1, 2]);
}

#[test]
fn a_failed_repeat_leaves_the_figures_to_those_that_passed() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .failed("t", 0, Status::Killed { signal: 9 }, "", Some(&heap(&[("a", 1_000)])))
        .passed("t", 0, 1, &heap(&[("a", 1)]))
        .passed("t", 1, 0, &heap(&[("a", 3)]));
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(differences(&view, "heap.peak"), [Some(2)]);
    assert_eq!((view.baseline.runs.len(), view.baseline.failed.len()), (1, 1));
}

#[test]
fn a_failed_side_is_shown_and_never_compared() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &heap(&[("a", 1), ("b", 2), ("c", 3)]))
        .failed("t", 1, Status::OutOfMemory, "", Some(&heap(&[("a", 9), ("x", 9)])));
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(view.candidate.availability, Availability::CutOff);
    assert_eq!(differences(&view, "heap.peak"), [None; 4]);
    assert!(view.rows.iter().all(|row| view.change(row).is_none()), "what was not reached was not removed");
    let shown = view.column("heap.peak").at(&view.rows[0]);
    assert_eq!((shown.baseline.unwrap().value, shown.candidate.unwrap().value), (1, 9));
}

#[test]
fn a_run_that_passed_but_logged_nothing_is_not_compared() {
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &heap(&[("a", 1)])).passed(
        "t",
        1,
        0,
        &Log::new(),
    );
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert!(!view.is_compared());
    assert_eq!(comparison.runs[1].trouble().unwrap(), "passed, but logged no checkpoint");
}

#[test]
fn a_run_that_passed_but_whose_log_has_no_end_is_not_compared() {
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &heap(&[("a", 1), ("b", 2)])).passed(
        "t",
        1,
        0,
        &heap(&[("a", 1), ("b", 2)]),
    );
    let log = synthetic.folder().0.join(&synthetic.results().runs[1].folder).join(file::LOG);
    let text = fs_err::read_to_string(&log).unwrap();
    fs_err::write(&log, text.split_inclusive('\n').take(2).collect::<String>()).unwrap();
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(view.candidate.availability, Availability::CutOff);
    assert!(view.rows.iter().all(|row| view.change(row).is_none()), "what was lost was not removed");
}

#[test]
fn a_scopes_figures_are_compared_only_if_what_they_are_made_of_has_one_source() {
    let log =
        |source: &str| heap(&[("a", 1)]).scope("s", &[("heap.consumed", 3)]).source("heap.peak", source);
    let synthetic =
        Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log("one")).passed("t", 1, 0, &log("two"));
    let comparison = compare(&synthetic.results());
    assert_eq!(only_pair(&comparison).column("heap.consumed").comparability, Comparability::SourcesDiffer);
}

#[test]
fn a_metric_that_was_lost_on_the_way_keeps_its_figures_and_its_reason() {
    let log =
        heap(&[("a", 1)]).absent("heap.peak", "descriptors were closed").checkpoint("b", &[("time", 5)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed(
        "t",
        1,
        0,
        &heap(&[("a", 1), ("b", 2)]),
    );
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(differences(&view, "heap.peak"), [Some(0), None]);
    assert_eq!(view.baseline.why_absent("heap.peak"), Some("descriptors were closed"));
}

#[test]
fn a_log_that_cannot_be_read_is_that_runs_trouble_and_names_the_line() {
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &heap(&[("a", 1)])).passed(
        "t",
        1,
        0,
        &heap(&[("a", 1)]),
    );
    let results = synthetic.results();
    let log = synthetic.folder().0.join(&results.runs[1].folder).join(file::LOG);
    fs_err::write(&log, "{\"v\":3,\"event\":\"begin\"}\n").unwrap();
    let comparison = compare(&synthetic.results());
    let trouble = comparison.runs[1].trouble().unwrap();
    assert!(trouble.contains("log.jsonl:1: log format 3 is newer"), "{trouble}");
    assert!(!only_pair(&comparison).is_compared());
}

#[test]
fn a_torn_log_keeps_what_came_before_and_is_noted_with_its_folder() {
    let synthetic = Synthetic::new(&["main", "pr/1"]).failed(
        "t",
        1,
        Status::Killed { signal: 9 },
        "",
        Some(&heap(&[("a", 1), ("b", 2)])),
    );
    let results = synthetic.results();
    let log = synthetic.folder().0.join(&results.runs[0].folder).join(file::LOG);
    let text = fs_err::read_to_string(&log).unwrap();
    let end_of_third_line = text.match_indices('\n').nth(2).unwrap().0;
    fs_err::write(&log, &text[..end_of_third_line - 9]).unwrap();
    let comparison = compare(&synthetic.results());
    assert_eq!(only_pair(&comparison).candidate.keys.len(), 1);
    assert_eq!(comparison.notes.len(), 1);
    assert!(comparison.notes[0].starts_with("cells/1-pr-1/tests-t-"), "{}", comparison.notes[0]);
    assert!(
        comparison.notes[0].ends_with("/0: line 3 is cut off: the process ended while it was being written")
    );
}

#[test]
fn figures_from_different_sources_are_shown_and_not_compared() {
    let log = |source: &str| heap(&[("a", 1)]).source("heap.peak", source);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log("tracking allocator")).passed(
        "t",
        1,
        0,
        &log("malloc interposition"),
    );
    let comparison = compare(&synthetic.results());
    let view = only_pair(&comparison);
    assert_eq!(view.column("heap.peak").comparability, Comparability::SourcesDiffer);
    let entry = view.column("heap.peak").at(&view.rows[0]);
    assert!(entry.baseline.is_some() && entry.candidate.is_some() && entry.delta.is_none());
}

#[test]
fn cells_are_ordered_by_test_and_by_the_value_of_numbers() {
    let log = heap(&[("a", 1)]);
    let synthetic =
        ["16", "auto", "4", "1x"].into_iter().fold(Synthetic::new(&["main"]), |synthetic, batch| {
            synthetic.passed_with("t", &[("batch", batch)], 0, &log)
        });
    let results = synthetic.results();
    let order: Vec<&str> = results.runs.iter().map(|run| run.record.cell.params[0].1.as_str()).collect();
    assert_eq!(order, ["4", "16", "1x", "auto"]);
}

#[test]
fn runs_that_have_not_finished_are_not_in_the_results() {
    let synthetic = Synthetic::new(&["main"]).passed("t", 0, 0, &heap(&[("a", 1)]));
    let results = synthetic.results();
    fs_err::remove_file(synthetic.folder().0.join(&results.runs[0].folder).join(file::OUTCOME)).unwrap();
    assert_eq!(synthetic.results().runs.len(), 0);
}

#[test]
fn differing_builds_are_noted_and_equal_facts_are_not() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .builds(&json!({
            "0": {"toolchain": "1.95.0", "profile": "test", "features": "", "executable": "a"},
            "1": {"toolchain": "1.94.1", "profile": "test", "features": "cuda", "executable": "b"},
        }))
        .passed("t", 0, 0, &heap(&[("a", 1)]));
    let notes = compare(&synthetic.results()).notes;
    assert_eq!(
        notes,
        ["differs: toolchain 1.95.0 / 1.94.1 (main / pr/1)", "differs: features none / cuda (main / pr/1)"]
    );
}

#[test]
fn what_the_builds_of_several_candidates_share_is_one_note() {
    let build = |toolchain: &str| json!({"toolchain": toolchain, "profile": "test", "features": ""});
    let synthetic = Synthetic::new(&["main", "pr/1", "pr/2", "pr/3"])
        .builds(
            &json!({"0": build("1.95.0"), "1": build("1.94.1"), "2": build("1.94.1"), "3": build("1.93.0")}),
        )
        .passed("t", 0, 0, &heap(&[("a", 1)]));
    let notes = compare(&synthetic.results()).notes;
    assert_eq!(
        notes,
        [
            "differs: toolchain 1.95.0 / 1.94.1 (main / pr/1, pr/2)",
            "differs: toolchain 1.95.0 / 1.93.0 (main / pr/3)"
        ]
    );
}

#[test]
fn two_runs_are_merged_with_their_names_told_apart_and_their_hosts_compared() {
    let run = |host: &str, bytes| {
        Synthetic::new(&["main"]).environment(&json!({"host": {"name": host, "cpus": 8}})).passed(
            "t",
            0,
            0,
            &heap(&[("a", bytes)]),
        )
    };
    let (a, b) = (run("left", 10), run("right", 25));
    let merged = merge(a.results(), b.results());
    let comparison = compare(&merged);
    let names: Vec<&str> = comparison.revisions.iter().map(|revision| revision.name.as_str()).collect();
    assert_eq!(names, ["a:main", "b:main"]);
    assert_eq!(differences(&only_pair(&comparison), "heap.peak"), [Some(15)]);
    assert_eq!(comparison.notes, ["differs: host.name left / right (first / second run)"]);
    assert!(comparison.runs.iter().all(|run| run.folder.starts_with("20250302T101500Z/cells")));
}

#[test]
fn a_test_that_only_one_of_two_runs_has_does_not_exist_in_the_other() {
    use Standing::{NotCompared, OnlyInBaseline, OnlyInCandidate, Unchanged};
    let run = |name: &str, own: &str| {
        let log = heap(&[("a", 10)]);
        let mut results = Synthetic::new(&[name]).passed("t", 0, 0, &log).passed(own, 0, 0, &log).results();
        results.plan.id = format!("run of {name}");
        results
    };
    let standings = |change: &dyn Fn(&mut Results, &mut Results)| -> Vec<Standing> {
        let (mut a, mut b) = (run("main", "old_name"), run("pr/1", "renamed"));
        change(&mut a, &mut b);
        let comparison = compare(&merge(a, b));
        comparison.pairs().map(|view| Standing::for_pair(&comparison, &view)).collect()
    };
    assert_eq!(standings(&|_, _| {}), [OnlyInBaseline, OnlyInCandidate, Unchanged]);

    // The test may exist without a run.
    let not_run = [NotCompared, NotCompared, Unchanged];
    let same_code = || vec![SameCode { package: "leaf".to_owned(), tests: 3 }];
    assert_eq!(standings(&|_, b| b.same_code = same_code()), not_run);
    assert_eq!(standings(&|a, _| a.lacks_tests = true), not_run);
    assert_eq!(standings(&|a, _| a.plan.request.shard = Some(Shard { number: 1, count: 2 })), not_run);
    assert_eq!(standings(&|_, b| b.plan.request.build.tests.push("tests".to_owned())), not_run);
    let only_at_main = CellPattern { r#ref: Some("main".to_owned()), ..CellPattern::default() };
    let excludes = |run: &mut Results| run.plan.request.exclude.push(only_at_main.clone());
    assert_eq!(standings(&|a, b| [a, b].map(excludes).into_iter().collect()), not_run);
    let cell = synthetic::cell("old_name", &[]);
    let gap = NotMeasured {
        package: cell.test.package,
        binary: cell.test.binary,
        kind: cell.test.kind,
        reason: "it does not compile".to_owned(),
    };
    let with_gap = [NotCompared, OnlyInCandidate, Unchanged];
    assert_eq!(standings(&|_, b| drop(b.not_measured.insert(0, vec![gap.clone()]))), with_gap);
}

#[test]
fn two_runs_are_judged_by_the_rules_of_the_second() {
    let run = |limit: &str, bytes| {
        let rules = vec![values::limit(&format!("heap.peak={limit}")).unwrap()];
        let synthetic = Synthetic::new(&["main"]).judging(Judging { rules, ..Judging::default() });
        synthetic.passed("t", 0, 0, &heap(&[("a", bytes)]))
    };
    let compared = |old: &str, new: &str| {
        let [mut a, mut b] = [run(old, 900).results(), run(new, 900).results()];
        (a.plan.id, b.plan.id) = ("first".to_owned(), "second".to_owned());
        let comparison = compare(&merge(a, b));
        (Conclusion::from_comparison(&comparison).breaches, comparison.notes)
    };
    let note = "judged by the rules of second: those of first differ".to_owned();
    assert_eq!(compared("1GiB", "100B"), (1, vec![note.clone()]));
    assert_eq!(compared("100B", "1GiB"), (0, vec![note]));
    assert_eq!(compared("100B", "100B"), (1, vec![]));
}

#[test]
fn an_expected_change_ends_on_the_day_of_the_second_run() {
    let run = |bytes, day: &str| {
        let allow = values::allow("metric=heap.peak,until=2026-02-01,reason=a cache").unwrap();
        let synthetic =
            Synthetic::new(&["main"]).judging(Judging { allow: vec![allow], ..Judging::default() });
        let log = heap(&[("a", bytes)]);
        let mut results = synthetic.passed("t", 0, 0, &log).passed("t", 0, 1, &log).results();
        results.plan.created = format!("{day}T10:15:00Z");
        results
    };
    let compared = |day: &str| {
        let comparison = compare(&merge(run(1 << 20, "2026-01-10"), run(2 << 20, day)));
        (Conclusion::from_comparison(&comparison).exit_code() as i32, comparison.notes)
    };
    let note = "allow: 'a cache' expired on 2026-02-01: its changes count as regressions again".to_owned();
    assert_eq!(compared("2026-03-01"), (1, vec![note]));
    assert_eq!(compared("2026-02-01"), (0, vec![]));
}

#[test]
fn two_runs_have_the_metrics_that_either_asked_for() {
    let run = |asked: &[&str], file: &str, line| {
        let limit = BudgetLimit { line, metric: "heap.peak".to_owned(), ..BudgetLimit::default() };
        let budget = Budget { file: file.to_owned(), limits: vec![limit] };
        let asked = asked.iter().map(|&metric| metric.to_owned()).collect();
        let judging = Judging { asked, budget: Some(budget), ..Judging::default() };
        Synthetic::new(&["main"]).judging(judging).passed("t", 0, 0, &heap(&[("a", 10)])).results()
    };
    let (a, b) = (run(&["heap.total", "heap.peak"], "old.json", 3), run(&["heap.peak"], "new.json", 7));
    let merged = merge(a, b);
    assert_eq!(merged.plan.request.judging.asked, ["heap.peak", "heap.total"]);
    assert!(merged.notes.is_empty(), "{:?}", merged.notes);
}

#[test]
fn on_another_kernel_resident_memory_is_not_compared_and_heap_is() {
    let run = |kernel: &str| {
        let log = Log::new().checkpoint("a", &[("heap.peak", 10), ("cpu.peak", 20)]);
        Synthetic::new(&["main"]).environment(&json!({"kernel": kernel})).passed("t", 0, 0, &log)
    };
    let (a, b) = (run("5.10"), run("6.1"));
    let comparison = compare(&merge(a.results(), b.results()));
    let view = only_pair(&comparison);
    assert_eq!(view.column("cpu.peak").comparability, Comparability::Apart);
    assert_eq!(differences(&view, "cpu.peak"), [None]);
    assert_eq!(differences(&view, "heap.peak"), [Some(0)]);
    let verdict = |metric| view.judged(metric).unwrap().at(&view.rows[0]).unwrap().verdict;
    assert_eq!((verdict("cpu.peak"), verdict("heap.peak")), (Verdict::Missing, Verdict::Unchanged));
    let mut text = Vec::new();
    memprof_report::render::render(Format::Table, &comparison, &Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("cpu.* not compared: the kernels differ: 5.10 / 6.1 (a:main / b:main)"), "{text}");
}

#[test]
fn a_plan_or_an_outcome_of_a_newer_format_is_refused_with_its_path() {
    let synthetic = Synthetic::new(&["main"]).passed("t", 0, 0, &heap(&[("a", 1)]));
    let results = synthetic.results();
    let outcome = synthetic.folder().0.join(&results.runs[0].folder).join(file::OUTCOME);
    let newer = fs_err::read_to_string(&outcome).unwrap().replace("\"version\": 1", "\"version\": 9");
    fs_err::write(&outcome, newer).unwrap();
    let error = memprof_judge::results::stored::read(synthetic.folder()).unwrap_err().to_string();
    assert!(error.contains("outcome.json has format 9, but this cargo-memprof "), "{error}");
}

#[test]
fn a_record_that_a_power_failure_cut_off_is_measured_again() {
    let synthetic = Synthetic::new(&["main"]).passed("a", 0, 0, &Log::new());
    let results = synthetic.results();
    let outcome = synthetic.folder().0.join(&results.runs[0].folder).join(file::OUTCOME);
    let whole = fs_err::read(&outcome).unwrap();
    for cut in [&whole[..0], b"\0\0\0\0", &whole[..40], &whole[..whole.len() / 2]] {
        fs_err::write(&outcome, cut).unwrap();
        let error = format!("{:#}", stored::read(synthetic.folder()).unwrap_err());
        assert!(error.contains("outcome.json was changed after the run"), "{error}");
        assert_eq!(stored::forget_damaged(&synthetic.folder().cells()).unwrap().len(), 1);
        assert!(!outcome.exists());
    }
}

/// A log of few labels, so that runs share some, with several metrics that may be missing.
fn any_log() -> impl Strategy<Value = Log> {
    let readings = (0..2_000_i64, proptest::option::of(-50..50_i64));
    proptest::collection::vec((0..5_usize, readings), 0..12).prop_map(|checkpoints| {
        checkpoints.into_iter().fold(Log::new(), |log, (label, (heap, live))| {
            let mut readings = vec![("heap.peak", heap)];
            readings.extend(live.map(|live| ("heap.live", live)));
            log.checkpoint(["a", "b", "c", "d", "e"][label], &readings)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_other_way_round_every_difference_is_its_opposite(
        a in proptest::collection::vec(any_log(), 1..3),
        b in proptest::collection::vec(any_log(), 1..3),
    ) {
        let mut synthetic = Synthetic::new(&["a", "b"]);
        for (revision, logs) in [&a, &b].into_iter().enumerate() {
            for (repeat, log) in (0..).zip(logs) {
                synthetic = synthetic.passed("t", revision, repeat, log);
            }
        }
        let mut results = synthetic.results();
        let forth = compare(&results);
        results.plan.baseline = 1;
        let back = compare(&results);
        let (forth, back) = (only_pair(&forth), only_pair(&back));
        for metric in ["heap.peak", "heap.live"] {
            let (column, mirror) = (forth.column(metric), back.column(metric));
            let mut one: Vec<_> = forth.rows.iter()
                .map(|row| (row.baseline, row.candidate, column.at(row).delta.map(|delta| delta.difference)))
                .collect();
            let mut other: Vec<_> = back.rows.iter()
                .map(|row| (row.candidate, row.baseline, mirror.at(row).delta.map(|delta| -delta.difference)))
                .collect();
            one.sort_unstable();
            other.sort_unstable();
            prop_assert_eq!(one, other);
        }
        let count = |view: &PairView, change| view.rows.iter().filter(|row| view.change(row) == Some(change)).count();
        prop_assert_eq!(count(&forth, RowChange::Added), count(&back, RowChange::Removed));
        prop_assert_eq!(count(&forth, RowChange::Renamed), count(&back, RowChange::Renamed));
    }
}

#[test]
fn a_damaged_file_of_builds_is_refused_with_what_to_do() {
    let facts = |toolchain: &str| json!({ "toolchain": toolchain, "profile": "test" });
    let builds = json!({ "0": facts("rustc 1.95.0"), "1": facts("rustc 1.95.0") });
    let synthetic = Synthetic::new(&["main", "pr/1"]).builds(&builds);
    let file = synthetic.folder().builds();
    let written = fs_err::read(&file).unwrap();
    assert_eq!(synthetic.results().builds[&1].get(Fact::Toolchain), Some("rustc 1.95.0"));
    for bit in (0..written.len() * 8).step_by(3) {
        let mut damaged = written.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs_err::write(&file, damaged).unwrap();
        let error = stored::read(synthetic.folder()).expect_err("a flipped bit");
        let error = error.downcast_ref::<UserError>().expect("advice");
        assert!(error.message.contains("builds.json is damaged"), "{error}");
        assert!(error.help.as_deref().unwrap().contains("cargo memprof run --resume"), "{error}");
    }
    // Runs of earlier versions have no hash.
    fs_err::write(&file, builds.to_string()).unwrap();
    assert_eq!(synthetic.results().builds[&1].get(Fact::Toolchain), Some("rustc 1.95.0"));
}
