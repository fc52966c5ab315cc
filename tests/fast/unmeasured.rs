//! Tests without figures that can be compared: their executables cannot be measured, or they fail at both ends.

use cargo_memprof::arguments::values;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::same_code::SameCode;
use memprof_judge::results::unfinished;
use memprof_plan::cells::{CellStatus, cells};
use memprof_plan::listing::{DiscoveredTest, ListedRevision, NotMeasured};
use memprof_plan::request::{RefRequest, Request, TestRequest};
use memprof_plan::rule::Judging;
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_report::options::{Format, Options, Rows};

use crate::judging::program;
use crate::reports::{at_width, rendered, table};
use crate::support::synthetic::{self, Log, Synthetic};

#[test]
fn a_test_whose_executable_is_not_measured_is_not_called_missing() {
    let synthetic = Synthetic::new(&["main", "pr/7"]);
    let revisions = synthetic.results().plan.revisions;
    let request = Request {
        refs: vec![RefRequest::default(), RefRequest::default()],
        tests: vec![TestRequest::default()],
        ..Request::default()
    };
    let test = synthetic::cell("keeps", &[]).test;
    let not_measured = [NotMeasured {
        package: test.package.clone(),
        binary: test.binary.clone(),
        kind: test.kind,
        reason: "it was changed".to_owned(),
    }];
    let statuses = |main: &[DiscoveredTest], of_candidate: &[NotMeasured]| {
        let listed = [(main, &[][..]), (&[][..], of_candidate)];
        let listed: Vec<_> = (revisions.iter().zip(listed))
            .map(|(revision, (tests, not_measured))| ListedRevision {
                revision,
                tests: Some(tests),
                not_measured,
                known_programs: &[],
            })
            .collect();
        cells(&request, &listed).map(|cells| cells.cells.iter().map(|cell| cell.status).collect::<Vec<_>>())
    };
    let main = [DiscoveredTest { id: test, ignored: false, is_program: false }];
    assert_eq!(statuses(&main, &not_measured), Ok(vec![CellStatus::Run, CellStatus::NotMeasured]));
    assert_eq!(statuses(&main, &[]), Ok(vec![CellStatus::Run, CellStatus::NotInThisRef]));
    // Without any listed test, there is still something to report.
    assert_eq!(statuses(&[], &not_measured), Ok(Vec::new()));
    statuses(&[], &[]).expect_err("there are no tests");
}

#[test]
fn what_a_failed_test_logged_is_counted_once_for_both_ends() {
    let status = || Status::Failed { exit_code: 101 };
    let log =
        Log::new().checkpoint("start", &[("heap.peak", 0)]).checkpoint("done", &[("heap.peak", 1 << 20)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).failed("t", 0, status(), "", Some(&log)).failed(
        "t",
        1,
        status(),
        "",
        Some(&log),
    );
    let text = table(&compare(&synthetic.results()), &at_width(80));
    assert_eq!(text.matches("2 checkpoints logged before that: shown, not compared").count(), 1, "{text}");
}

#[test]
fn a_failure_that_both_sides_have_is_quoted_once() {
    let told = |of_main: &str, of_candidate: &str| {
        let status = || Status::Failed { exit_code: 101 };
        let output = |line: &str| format!("thread 't' panicked at {line}:\nbroken\n");
        let synthetic = Synthetic::new(&["main", "pr/1"])
            .failed("t", 0, status(), &output(of_main), None)
            .failed("t", 1, status(), &output(of_candidate), None);
        table(&compare(&synthetic.results()), &at_width(80))
    };
    let text = told("src/lib.rs:7:5", "src/lib.rs:7:5");
    assert!(text.contains("✗ t: main and pr/1 failed (exit code 101)\n"), "{text}");
    assert_eq!(text.matches("src/lib.rs:7:5").count(), 1, "{text}");
    let moved = told("src/lib.rs:7:5", "src/lib.rs:8:5");
    assert!(moved.contains("main and pr/1 failed") && moved.contains("src/lib.rs:8:5"), "{moved}");
    let text = told("src/lib.rs:7:5", "src/lib.rs:8:9");
    assert!(text.contains("src/lib.rs:7:5") && text.contains("src/lib.rs:8:9"), "{text}");
}

#[test]
fn after_five_messages_failed_tests_share_a_line() {
    let mut synthetic = Synthetic::new(&["main", "pr/1"]);
    for line in 1..=8 {
        let output = format!("thread 't' panicked at src/lib.rs:{line}:5:\nbroken {line}\n");
        for side in [0, 1] {
            let status = Status::Failed { exit_code: 101 };
            synthetic = synthetic.failed(&format!("t{line}"), side, status, &output, None);
        }
    }
    let compared = compare(&synthetic.results());
    let text = table(&compared, &at_width(100));
    assert_eq!(text.matches("broken ").count(), 5, "{text}");
    let shared = "\n ✗ main and pr/1 failed (exit code 101): 3 tests (t6, t7, t8)\n … the other messages: --rows all\n";
    assert!(text.contains(shared), "{text}");
    let comment = rendered(Format::Markdown, &compared, &Options::default());
    assert_eq!(comment.matches("broken ").count(), 5, "{comment}");
    let shared = "\n✗ **main and pr/1 failed (exit code 101)** · 3 tests (t6, t7, t8)\n\n_`--rows all` shows the other";
    assert!(comment.contains(shared), "{comment}");
    let whole = Options { rows: Rows::All, ..at_width(100) };
    let text = table(&compared, &whole);
    assert!(text.contains("broken 8") && !text.contains("--rows all"), "{text}");
}

#[test]
fn a_later_report_says_that_the_comparison_was_interrupted() {
    let log = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log);
    let reported = || table(&compare(&synthetic.results()), &at_width(80));
    assert!(!reported().contains("--resume"), "{}", reported());
    unfinished::note(synthetic.folder(), "interrupted after 1 of 4 runs").unwrap();
    assert!(reported().contains("\ninterrupted after 1 of 4 runs: `--resume` continues\n"), "{}", reported());
    unfinished::finish(synthetic.folder()).unwrap();
    assert!(!reported().contains("--resume"), "{}", reported());
}

#[test]
fn an_incomplete_copy_of_a_run_is_not_reported() {
    let log = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let whole = || {
        let passed = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
        passed.passed("u", 0, 0, &log).passed("u", 1, 0, &log)
    };
    let (finished, other) = (whole(), whole());
    unfinished::finish(finished.folder()).unwrap();
    let folder = finished.folder().0.as_str();
    program(&["report", folder]).code(0);
    for revision in ["0-main", "1-pr-1"] {
        let cells = finished.folder().cells().join(revision);
        let of_u = cells.read_dir_utf8().unwrap().map(Result::unwrap);
        let of_u =
            of_u.filter(|entry| entry.file_name().contains("-u-")).map(|entry| entry.path().to_owned());
        of_u.for_each(|cell| fs_err::remove_dir_all(cell).unwrap());
    }
    for words in [&["report", folder][..], &["compare", other.folder().0.as_str(), folder]] {
        let printed = program(words).code(2);
        let error = String::from_utf8(printed.get_output().stderr.clone()).unwrap();
        assert!(error.contains(&format!("{folder} has 2 of its 4 runs: files are missing")), "{error}");
        assert!(
            error.contains(
                "help: copy the whole folder again, or measure what is missing: cargo memprof --resume "
            ),
            "{error}"
        );
    }
}

#[test]
fn a_threshold_that_no_figure_was_checked_against_is_a_fault() {
    let log = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let judged = |threshold: &str, code: i32| {
        let folder = synthetic.folder().0.as_str();
        let printed = program(&["report", folder, "--threshold", threshold]).code(code);
        String::from_utf8(printed.get_output().stdout.clone()).unwrap()
    };
    let of_checkpoint =
        "the threshold of heap.peak at 'dnoe' was not checked: no compared test has a figure for it";
    for (threshold, note) in [
        (
            "gpu.0.peak=5%",
            "the threshold of gpu.0.peak was not checked: no compared test has a figure for it",
        ),
        ("heap.peak=5%,checkpoint=dnoe", of_checkpoint),
        ("heap.peak=5%,test=other", "the threshold of heap.peak was not checked: no test matches 'other'"),
    ] {
        let text = judged(threshold, 3).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(note), "{text}");
    }
    for checked in ["heap.peak=5%", "gpu.*.peak=5%", "gpu.0.peak=off", "heap.peak=5%,checkpoint=d*"] {
        assert!(!judged(checked, 0).contains("was not checked"), "{checked}");
    }
}

#[test]
fn a_threshold_may_be_about_a_test_that_cannot_be_compared() {
    let done = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let read = Log::new().checkpoint("read", &[("heap.peak", 1 << 20)]);
    let both = || Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &done).passed("t", 1, 0, &done);
    let judged = |synthetic: Synthetic, checkpoint: &str| {
        let rules = vec![values::threshold(&format!("heap.peak=5%,checkpoint={checkpoint}")).unwrap()];
        let comparison = compare(&synthetic.judging(Judging { rules, ..Judging::default() }).results());
        (comparison.unchecked, comparison.notes.concat())
    };
    let text = |reason: &str| format!("the threshold of heap.peak at 'read' was not checked: {reason}");
    let failed = |side| both().failed("u", side, Status::Failed { exit_code: 101 }, "", None);
    assert_eq!(judged(failed(0).passed("u", 1, 0, &read), "read").0, 0, "fixed");
    assert_eq!(judged(failed(1).passed("u", 0, 0, &read), "read").0, 0, "broken");
    for (side, other) in [(0, 1), (1, 0)] {
        let passed_once = failed(side).passed("u", other, 0, &read);
        assert_eq!(judged(passed_once, "reed").0, 1, "the log of the side that passed lacks it");
    }
    let twice = failed(0).failed("u", 1, Status::Failed { exit_code: 101 }, "", None);
    assert_eq!(judged(twice, "read").0, 0, "a test that failed at both may have it");
    assert_eq!(judged(both().passed("u", 1, 0, &read), "read").0, 0, "a new test");
    assert_eq!(judged(both().passed("u", 1, 0, &read), "reed").0, 1, "a new test without the checkpoint");
    let with_read = done.clone().checkpoint("read", &[("heap.peak", 1 << 20)]);
    let added = both().passed("u", 0, 0, &done).passed("u", 1, 0, &with_read);
    assert_eq!(judged(added, "read"), (1, text("only pr/1 has a figure for it")));
}

#[test]
fn a_threshold_of_a_removed_checkpoint_was_not_checked_although_tests_did_not_run() {
    let done = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let with_mid = Log::new().checkpoint("mid", &[("heap.peak", 1 << 20)]);
    let with_mid = with_mid.checkpoint("done", &[("heap.peak", 1 << 20)]);
    let unchecked = |logs: [&Log; 2]| {
        let rules = vec![values::threshold("heap.peak=5%,checkpoint=mid").unwrap()];
        let synthetic = Synthetic::new(&["main", "pr/1"]).judging(Judging { rules, ..Judging::default() });
        let synthetic = synthetic.passed("t", 0, 0, logs[0]).passed("t", 1, 0, logs[1]);
        let mut results = synthetic.results();
        results.same_code = vec![SameCode { package: "leaf".to_owned(), tests: 3 }];
        compare(&results).unchecked
    };
    assert_eq!(unchecked([&with_mid, &done]), 1, "the baseline has it");
    assert_eq!(unchecked([&done, &with_mid]), 0, "a new checkpoint");
    assert_eq!(unchecked([&done, &done]), 0, "a test that did not run may have it");
}

#[test]
fn a_threshold_is_checked_at_each_candidate() {
    let done = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let with_mid = Log::new().checkpoint("mid", &[("heap.peak", 1 << 20)]);
    let with_mid = with_mid.checkpoint("done", &[("heap.peak", 1 << 20)]);
    let judged = |candidates: [&Log; 2]| {
        let rules = vec![values::threshold("heap.peak=5%,checkpoint=mid").unwrap()];
        let refs = Synthetic::new(&["main", "pr/1", "pr/2"]).judging(Judging { rules, ..Judging::default() });
        let main = refs.passed("t", 0, 0, &with_mid);
        let all = main.passed("t", 1, 0, candidates[0]).passed("t", 2, 0, candidates[1]);
        let comparison = compare(&all.results());
        (comparison.unchecked, comparison.notes.concat())
    };
    let text = |place: &str| {
        format!("the threshold of heap.peak at 'mid' was not checked{place}: only main has a figure for it")
    };
    assert_eq!(judged([&with_mid, &with_mid]), (0, String::new()));
    assert_eq!(judged([&with_mid, &done]), (1, text(" in pr/2")));
    assert_eq!(judged([&done, &done]), (1, text("")), "one note for both");
}

#[test]
fn a_shard_leaves_thresholds_and_limits_to_the_merged_run() {
    let log = Log::new().checkpoint("done", &[("heap.peak", 1 << 20)]);
    let all = AllTests::from_cells([&synthetic::cell("t", &[]), &synthetic::cell("on_gpu", &[])].into_iter());
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let synthetic = synthetic.shard(Shard { number: 1, count: 2 }, &all);
    for rule in [["--threshold", "gpu.0.peak=5%"], ["--limit", "gpu.0.peak=8GiB"]] {
        let printed = program(&["report", synthetic.folder().0.as_str(), rule[0], rule[1]]).code(0);
        let text = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
        assert!(!text.contains("was not checked"), "{text}");
    }
}
