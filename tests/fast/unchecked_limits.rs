//! Limits that no figure of a candidate was checked against.

use crate::judging::{MIB, code, log};
use crate::reports::rendered;
use crate::support::synthetic::{self, Synthetic};
use cargo_memprof::arguments::judging::JudgingArguments;
use cargo_memprof::arguments::values;
use cargo_memprof::request::judging::judging;
use memprof_judge::compare::from_results::{compare, merge};
use memprof_judge::results::added_test::AddedTest;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::same_code::SameCode;
use memprof_judge::results::unfinished;
use memprof_plan::config::matrix;
use memprof_plan::listing::NotMeasured;
use memprof_plan::request::RefRequest;
use memprof_plan::rule::{Judging, Rule};
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_report::github;
use memprof_report::options::{Format, Options};

fn limited(limit: &str) -> Judging {
    Judging { rules: vec![values::limit(limit).unwrap()], ..Judging::default() }
}

/// A baseline with a checkpoint that the candidate lacks.
fn without_mid(refs: &[&str], limit: &str) -> Synthetic {
    let (whole, split) = ([("start", 0), ("done", MIB)], [("start", 0), ("mid", MIB), ("done", MIB)]);
    let synthetic = Synthetic::new(refs).judging(limited(limit));
    let synthetic = synthetic.passed("t", 0, 0, &log("heap.peak", &split));
    synthetic.passed("t", 1, 0, &log("heap.peak", &whole))
}

#[test]
fn a_limit_without_a_figure_at_the_candidate_is_not_silent() {
    let refs = ["main", "pr/1"];
    let code = |limit: &str| code(&compare(&without_mid(&refs, limit).results()));
    for limit in ["heap.peak=1GiB,checkpoint=mid", "heap.peak=1GiB,checkpoint=dnoe", "gpu.0.peak=1GiB"] {
        assert_eq!(code(limit), 3, "{limit}");
    }
    assert_eq!(code("heap.peak=1GiB"), 0);
    assert_eq!(code("heap.peak=1GiB,checkpoint=done"), 0);
}

/// A test whose `heap.live` is known at its end, or only at `start`, because it ended the process.
fn log_of(live_at_end: Option<i64>) -> synthetic::Log {
    let log = synthetic::Log::new().checkpoint("start", &[("heap.live", 0), ("heap.peak", 0)]);
    match live_at_end {
        Some(live) => log.checkpoint("done", &[("heap.live", live), ("heap.peak", 9)]),
        None => log.checkpoint("done", &[("heap.peak", 9)]).absent("heap.live", "the test left the process"),
    }
}

/// Checks a rule in a test that ended the process at these revisions, beside one that did not.
fn notes_beside_a_whole_test(rule: Rule, live_at_end: &[Option<i64>]) -> Vec<String> {
    let refs = ["main", "pr/1"];
    let judging = Judging { rules: vec![rule], ..Judging::default() };
    let synthetic = Synthetic::new(&refs[..live_at_end.len()]).judging(judging);
    let each = live_at_end.iter().enumerate();
    let synthetic = each.fold(synthetic, |synthetic, (revision, live)| {
        let synthetic = synthetic.passed("clean", revision, 0, &log_of(Some(0)));
        synthetic.passed("exits", revision, 0, &log_of(*live))
    });
    let comparison = compare(&synthetic.results());
    assert_eq!(comparison.unchecked, comparison.unchecked_notes.len());
    assert_eq!(code(&comparison), if comparison.unchecked == 0 { 0 } else { 3 });
    comparison.unchecked_notes
}

#[test]
fn a_limit_or_leak_is_checked_up_to_the_end_of_each_test() {
    let alone = |rule: Result<Rule, String>, live| notes_beside_a_whole_test(rule.unwrap(), &[live]);
    let note = |kind: &str| {
        vec![format!("the {kind} of heap.live was not checked for exits: it has no figure at 'done'")]
    };
    assert_eq!(
        alone(values::limit("heap.live=1KiB"), None),
        note("limit"),
        "0 B at 'start' is below any limit"
    );
    assert_eq!(alone(values::limit("heap.live=1KiB,checkpoint=done"), None), note("limit"));
    assert_eq!(alone(values::limit("heap.*=1KiB"), None), note("limit"));
    assert_eq!(alone(values::leak("heap.live=0"), None), note("leak"));
    assert_eq!(alone(values::leak("heap.*=0"), None), note("leak"));
    assert_eq!(alone(values::limit("heap.live=1KiB,test=exits"), None), note("limit"), "one note");
    for checked in ["heap.live=1KiB,test=clean", "heap.live=1KiB,checkpoint=start", "heap.peak=1KiB"] {
        assert!(alone(values::limit(checked), None).is_empty(), "{checked}");
    }
    assert!(alone(values::leak("heap.live=0,test=clean"), None).is_empty());
    assert!(alone(values::limit("heap.live=1KiB"), Some(0)).is_empty());
    assert!(alone(values::leak("heap.live=0"), Some(0)).is_empty());
}

#[test]
fn a_threshold_is_checked_up_to_the_end_of_each_test() {
    let compared = |rule: &str, live: [Option<i64>; 2]| {
        notes_beside_a_whole_test(values::threshold(rule).unwrap(), &live)
    };
    let note = |whose: &str| {
        vec![format!("the threshold of heap.live was not checked for exits: {whose} has no figure at 'done'")]
    };
    assert_eq!(compared("heap.live=1%", [None, None]), note("it"), "0 B at 'start' never grows");
    assert_eq!(compared("heap.live=1%,test=exits", [None, None]), note("it"), "one note");
    assert_eq!(compared("heap.live=1%,checkpoint=done", [Some(0), None]), note("it"));
    assert_eq!(compared("heap.live=1%", [None, Some(0)]), note("main"));
    for checked in ["heap.live=1%,test=clean", "heap.live=1%,checkpoint=start", "heap.peak=1%", "heap.*=1%"] {
        assert!(compared(checked, [None, None]).is_empty(), "{checked}");
    }
    assert!(compared("heap.live=1%", [Some(0), Some(0)]).is_empty());
}

#[test]
fn what_was_read_at_start_is_no_figure_of_a_test_that_lost_the_metric_or_was_killed() {
    let start = [("heap.live", 0), ("heap.peak", 0)];
    let killed = Status::Killed { signal: 6 };
    let synthetic = Synthetic::new(&["main"]).passed("exits", 0, 0, &log_of(None));
    let log = synthetic::Log::new().checkpoint("start", &start).without_end();
    let comparison = compare(&synthetic.failed("dies", 0, killed, "", Some(&log)).results());
    let options =
        Options { metrics: Some(vec!["heap.live".into(), "heap.peak".into()]), ..Options::default() };
    let markdown = rendered(Format::Markdown, &comparison, &options);
    assert!(markdown.contains("| `exits` | — | 9 B |"), "{markdown}");
    assert!(markdown.contains("| `✗ dies` | — | — |"), "{markdown}");
    let listed = rendered(Format::Table, &comparison, &Options { is_test: true, ..options });
    assert!(!listed.contains("0 B"), "{listed}");
}

/// A limit on a test that the candidate renamed, beside one that both have.
fn renamed(limit: &str) -> Synthetic {
    let synthetic = without_mid(&["main", "pr/1"], limit);
    let log = log("heap.peak", &[("start", 0), ("done", MIB)]);
    let synthetic = synthetic.passed("old_name", 0, 0, &log).passed("renamed", 1, 0, &log);
    let synthetic = synthetic.failed("old_name", 1, Status::NotInThisRef, "", None);
    synthetic.failed("renamed", 0, Status::NotInThisRef, "", None)
}

#[test]
fn a_limit_on_a_test_that_the_candidate_renamed_is_not_silent() {
    let unchecked = |limit: &str| {
        let comparison = compare(&renamed(limit).results());
        assert_eq!(code(&comparison) == 3, comparison.unchecked == 1, "{:?}", comparison.notes);
        comparison.unchecked
    };
    assert_eq!(unchecked("heap.peak=1KiB,test=old_name"), 1);
    assert_eq!(unchecked("heap.peak=1GiB,test=old_name or renamed"), 0, "its new name");
    assert_eq!(unchecked("heap.peak=1GiB"), 0, "other tests have a figure");
    assert_eq!(unchecked("heap.peak=1GiB,test=renamed"), 0, "the baseline lacks it");
    let leak =
        Judging { rules: vec![values::leak("heap.live=5KiB,test=old_name").unwrap()], ..Judging::default() };
    let log = log("heap.live", &[("start", 0), ("done", MIB)]);
    let removed = Synthetic::new(&["main", "pr/1"]).judging(leak).passed("old_name", 0, 0, &log);
    let removed = removed.failed("old_name", 1, Status::NotInThisRef, "", None);
    assert_eq!(compare(&removed.results()).unchecked, 1, "a leak");
    let failed = Status::Failed { exit_code: 101 };
    let failed = renamed("heap.peak=1KiB,test=old_name or u").failed("u", 1, failed, "", None);
    assert_eq!(compare(&failed.results()).unchecked, 0, "a test that failed may have the figure");
    let mut left_out = renamed("heap.peak=1KiB,test=old_name").results();
    left_out.same_code = vec![SameCode { package: "leaf".to_owned(), tests: 3 }];
    assert_eq!(compare(&left_out).unchecked, 0, "a test that did not run may have it");
    let mut without_feature = renamed("heap.peak=1KiB,test=old_name").results();
    let of = |spec: &str, features: &[&str]| RefRequest {
        spec: spec.to_owned(),
        features: features.iter().map(|&feature| feature.to_owned()).collect(),
        ..RefRequest::default()
    };
    without_feature.plan.request.refs = vec![of("main", &["arena"]), of("pr/1", &[])];
    assert_eq!(compare(&without_feature).unchecked, 0, "a test behind a feature of the baseline");
}

#[test]
fn a_limit_on_the_command_line_that_fits_no_test_is_not_silent() {
    let refs = ["main", "pr/1"];
    let comparison = compare(&without_mid(&refs, "heap.peak=1GiB,test=other").results());
    let note = "the limit of heap.peak was not checked: no test matches 'other'";
    assert!(comparison.notes.iter().any(|known| known == note), "{:?}", comparison.notes);
    assert_eq!((comparison.unchecked, code(&comparison)), (1, 3));
    let any_metric = compare(&without_mid(&refs, "heap.*=1GiB,test=other").results());
    assert_eq!(code(&any_metric), 0, "a rule with * need not match");
    let mut left_out = without_mid(&refs, "heap.peak=1GiB,test=other").results();
    left_out.same_code = vec![SameCode { package: "leaf".to_owned(), tests: 3 }];
    assert_eq!(code(&compare(&left_out)), 0, "a test that did not run may fit");
    let failed = without_mid(&refs, "heap.peak=1GiB,test=other");
    let failed = failed.failed("other", 1, Status::Failed { exit_code: 101 }, "", None);
    assert_eq!(compare(&failed.results()).unchecked, 0, "the test failed");
}

#[test]
fn a_limit_may_fit_a_test_without_a_run() {
    let limit = "heap.peak=1GiB,test=other";
    let run = || without_mid(&["main", "pr/1"], limit);
    let unfinished = run();
    unfinished::note(unfinished.folder(), "interrupted after 2 of 4 runs").unwrap();
    assert_eq!(compare(&unfinished.results()).unchecked, 0, "an unfinished run");
    let mut not_built = run().results();
    let test = synthetic::cell("other", &[]).test;
    let reason = "it does not compile".to_owned();
    let target = NotMeasured { package: test.package, binary: "other".to_owned(), kind: test.kind, reason };
    not_built.not_measured.insert(1, vec![target]);
    assert_eq!(compare(&not_built).unchecked, 0, "a target that does not compile");
    let single = || {
        Synthetic::new(&["main"]).judging(limited(limit)).passed(
            "t",
            0,
            0,
            &log("heap.peak", &[("done", MIB)]),
        )
    };
    let merged = |same_code: Vec<SameCode>| {
        let mut old = single().results();
        old.same_code = same_code;
        compare(&merge(old, single().results())).unchecked
    };
    assert_eq!(merged(vec![SameCode { package: "leaf".to_owned(), tests: 3 }]), 0, "a run left tests out");
    assert_eq!(merged(Vec::new()), 1);
}

#[test]
fn a_shard_leaves_a_limit_that_only_the_baseline_has_to_the_merged_run() {
    let all = AllTests::from_cells([&synthetic::cell("t", &[]), &synthetic::cell("u", &[])].into_iter());
    for limit in ["heap.peak=1GiB,checkpoint=mid", "heap.peak=1GiB,test=u"] {
        let shard = without_mid(&["main", "pr/1"], limit).shard(Shard { number: 1, count: 2 }, &all);
        assert_eq!(compare(&shard.results()).unchecked, 0, "{limit}");
    }
}

#[test]
fn the_note_names_the_ref_if_others_have_a_figure() {
    let limit = "heap.peak=1GiB,checkpoint=mid";
    let synthetic = without_mid(&["main", "pr/1", "pr/2"], limit);
    let split = [("start", 0), ("mid", MIB), ("done", MIB)];
    let comparison = compare(&synthetic.passed("t", 2, 0, &log("heap.peak", &split)).results());
    let note = "the limit of heap.peak at 'mid' was not checked in pr/1: no test has a figure for it";
    assert!(comparison.notes.iter().any(|known| known == note), "{:?}", comparison.notes);
    assert_eq!(code(&comparison), 3);
}

#[test]
fn a_limit_of_tests_without_a_run_may_be_about_these() {
    let not_run = |limit: &str| {
        let mut results = without_mid(&["main", "pr/1"], limit).results();
        results.same_code = vec![SameCode { package: "leaf".to_owned(), tests: 3 }];
        code(&compare(&results))
    };
    assert_eq!(not_run("heap.peak=1GiB,checkpoint=read"), 0, "a test that did not run may have it");
    assert_eq!(not_run("heap.peak=1GiB,checkpoint=mid"), 3, "the baseline has it");
    let failed = without_mid(&["main", "pr/1"], "heap.peak=1GiB,checkpoint=read");
    let failed = failed.failed("u", 1, Status::Failed { exit_code: 101 }, "", None);
    let comparison = compare(&failed.passed("u", 0, 0, &log("heap.peak", &[("read", MIB)])).results());
    assert_eq!(comparison.unchecked, 0, "the test with the checkpoint failed");
    let test = synthetic::cell("u", &[]).test;
    let file = AddedTest {
        package: test.package,
        binary: test.binary,
        file: "tests/u.rs".into(),
        files_beside: 0,
        donor: "main".to_owned(),
        compiles: true,
    };
    let added = |limit: &str| {
        let mut added = without_mid(&["main", "pr/1"], limit)
            .passed("u", 0, 0, &log("heap.peak", &[("read", MIB)]))
            .failed("u", 1, Status::Failed { exit_code: 101 }, "", None)
            .results();
        added.added_tests.insert(1, vec![file.clone()]);
        compare(&added).unchecked
    };
    assert_eq!(added("heap.peak=1GiB,checkpoint=reed"), 1, "the candidate itself lacks the test that failed");
    assert_eq!(added("heap.peak=1KiB,test=u"), 1, "only the baseline has a figure of it");
}

#[test]
fn a_limit_for_many_comparisons_may_have_no_figure_in_one() {
    let judged = |flags: &[&str], file: &str| {
        let limits = flags.iter().map(|text| values::limit(text).unwrap()).collect();
        let flags = JudgingArguments { limits, ..JudgingArguments::default() };
        let matrix = matrix::parse(&format!("thresholds: {{{file}}}"), "memprof.yaml".into()).unwrap();
        let synthetic = without_mid(&["main", "pr/1"], "heap.peak=1GiB");
        let comparison = compare(&synthetic.judging(judging(&flags, &matrix).unwrap()).results());
        assert_eq!(code(&comparison) == 3, !comparison.notes.is_empty(), "{:?}", comparison.notes);
        code(&comparison)
    };
    let gpu = "gpu.*.peak: {percent: 5, bytes: 16MiB, limit: 8GiB}";
    assert_eq!(judged(&[], gpu), 0, "a machine without a GPU");
    assert_eq!(judged(&["gpu.*.peak=8GiB"], ""), 0);
    assert_eq!(judged(&["gpu.0.peak=8GiB"], gpu), 3);
    let other = "heap.peak: {checkpoint: postings collected, limit: 8GiB}";
    assert_eq!(judged(&[], other), 0, "the checkpoint of a test that is not selected");
    assert_eq!(judged(&["heap.peak=8GiB"], other), 0, "the flag is checked");
    assert_eq!(judged(&["heap.peak=8GiB,checkpoint=postings collected"], ""), 3);
    assert_eq!(judged(&[], "heap.peak: {checkpoint: mid, limit: 8GiB}"), 3, "the baseline has it");
}

#[test]
fn an_unchecked_rule_fails_a_case_and_is_an_annotation() {
    let unchecked = |synthetic: &Synthetic| {
        let comparison = compare(&synthetic.results());
        let junit = rendered(Format::Junit, &comparison, &Options::default());
        let [annotation] = &github::annotations(&comparison, &Options::default())[..] else {
            panic!("one annotation: {junit}")
        };
        let note = annotation.strip_prefix("::error title=Memory not checked::").unwrap().to_owned();
        assert!(junit.contains("failures=\"1\""), "{junit}");
        let case = format!("classname=\"rules\" name=\"{}\"", note.replace('"', "&quot;"));
        assert_eq!(junit.matches(&case).count(), 1, "{junit}");
        assert!(comparison.notes.contains(&note), "{note}");
        note
    };
    let alone = |judging: Judging| {
        let log = log("heap.peak", &[("start", 0), ("done", MIB)]);
        unchecked(&Synthetic::new(&["main"]).judging(judging).passed("t", 0, 0, &log))
    };
    let nope = alone(limited("heap.peak=5MiB,checkpoint=nope"));
    assert_eq!(nope, "the limit of heap.peak at 'nope' was not checked: no test has a figure for it");
    let other = alone(limited("heap.peak=5MiB,test=other"));
    assert_eq!(other, "the limit of heap.peak was not checked: no test matches 'other'");
    let refs = ["main", "pr/1", "pr/2"];
    let threshold = Judging {
        rules: vec![values::threshold("heap.peak=5%,checkpoint=nope").unwrap()],
        ..Judging::default()
    };
    let log = log("heap.peak", &[("start", 0), ("done", MIB)]);
    let three = (0..3).fold(Synthetic::new(&refs).judging(threshold), |synthetic, revision| {
        synthetic.passed("t", revision, 0, &log)
    });
    let threshold =
        "the threshold of heap.peak at 'nope' was not checked: no compared test has a figure for it";
    assert_eq!(unchecked(&three), threshold);
}
