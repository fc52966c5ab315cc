//! What a comparison ends with: the exit code, and what the program says of tests that failed.

use cargo_memprof::arguments::values;
use memprof_judge::results::outcome::Status;
use memprof_plan::rule::Judging;
use memprof_support::sealed;
use serde_json::json;

use crate::judging::{MIB, folder, log, program, rules};
use crate::support::synthetic::Synthetic;
use crate::support::{Printed, tool};

#[test]
fn the_program_leaves_with_the_code_of_what_it_reports() {
    let steps = [100 * MIB, 164 * MIB];
    let cases: [(&str, &[i64], &[i64], i32); 4] = [
        ("heap.peak", &[MIB; 2], &[MIB; 2], 0),
        ("heap.peak", &[MIB; 2], &[2 * MIB; 2], 1),
        ("cpu.peak", &steps, &steps, 4),
        ("heap.peak", &[2 * MIB; 2], &[MIB; 2], 0),
    ];
    for (metric, old, new, code) in cases {
        let synthetic = folder(metric, old, new, Judging::default());
        program(&["report", synthetic.folder().0.as_str()]).code(code);
    }
}

#[test]
fn a_kept_run_is_judged_again_by_the_flags_of_report_and_compare() {
    let synthetic = folder("heap.peak", &[MIB; 2], &[2 * MIB; 2], Judging::default());
    let folder = synthetic.folder().0.as_str();
    program(&["report", folder, "--threshold", "heap.peak=200%"]).code(0);
    program(&["report", folder, "--allow", "metric=heap.peak,reason=known"]).code(0);
    program(&["report", folder, "--threshold", "heap.peak=off", "--limit", "heap.peak=1MiB"]).code(1);
    program(&["compare", folder, folder, "--threshold", "heap.peak=200%"]).code(0);
    program(&["compare", folder, folder]).code(1);
    program(&["report", folder, "--threshold", "heap.peek=5%"]).code(2);
}

#[test]
fn a_search_has_no_verdicts_and_refuses_flags_about_them() {
    let synthetic = folder("heap.peak", &[MIB; 2], &[MIB; 2], Judging::default());
    let search = json!({
        "version": 2, "task": {"kind": "history", "commits": [0], "tags": []}, "good": "main", "bad": "main",
        "metric": "heap.peak", "checkpoint": null, "threshold": null, "least_runs": 1, "paths": [],
        "lineage": {"parents": [[]], "edge": 0, "good": 0, "bad": 0, "touching": null},
        "arguments": [], "overlay": {}, "efforts": [],
    });
    sealed::write(&synthetic.folder().search(), &search).unwrap();
    for flags in [
        &["--limit", "heap.peak=1KiB"][..],
        &["--threshold", "heap.peak=5%"],
        &["--leak", "heap.live=0"],
        &["--allow", "metric=heap.peak,reason=known"],
        &["--metrics", "heap.count"],
        &["--rows", "all"],
    ] {
        let printed = program(&[&["report", synthetic.folder().0.as_str()], flags].concat()).code(2);
        let messages = String::from_utf8(printed.get_output().stderr.clone()).unwrap();
        let reason = format!("is a history, and its report takes no {}", flags[0]);
        assert!(messages.contains(&reason), "{messages}");
        assert!(messages.contains("to show this report: cargo memprof report"), "{messages}");
    }
}

#[test]
fn a_report_of_call_sites_that_were_not_recorded_says_so() {
    let synthetic = folder("heap.peak", &[MIB; 2], &[MIB; 2], Judging::default());
    let folder = synthetic.folder().0.as_str();
    let says_so = |flags: &[&str]| {
        let printed = program(&[&["report", folder], flags].concat()).code(0);
        let messages = String::from_utf8(printed.get_output().stderr.clone()).unwrap();
        messages.contains("no test ran with call stacks") && messages.contains("with --why always")
    };
    for flags in [&["--why"][..], &["--why-at", "done"], &["--why-by", "type"]] {
        assert!(says_so(flags), "{flags:?}");
    }
    assert!(!says_so(&[]));
    assert!(!says_so(&["--why", "never"]));
}

#[test]
fn a_metric_on_request_that_a_run_lacks_needs_a_new_run() {
    let synthetic = folder("heap.peak", &[MIB; 2], &[MIB; 2], Judging::default());
    let printed = program(&["report", synthetic.folder().0.as_str(), "--metrics", "malloc.live"]);
    let text = String::from_utf8(printed.get_output().stdout.clone()).unwrap().replace('\n', " ");
    assert!(text.contains("read on request only; measure again with --metrics malloc.live"), "{text}");
}

#[test]
fn a_run_that_does_not_exist_is_what_is_wrong_outside_of_a_repository() {
    let place = tempfile::tempdir().unwrap();
    for command in [&["merge", "1", "2"][..], &["report", "1"]] {
        let mut program = assert_cmd::Command::cargo_bin("cargo-memprof").unwrap();
        let printed = program.args(command).current_dir(place.path()).assert().code(2);
        let messages = String::from_utf8(printed.get_output().stderr.clone()).unwrap();
        assert!(messages.contains("no run '1' found") && !messages.contains("git init"), "{messages}");
    }
}

#[test]
fn in_actions_the_step_has_a_summary_and_annotations_beside_the_data() {
    let synthetic = folder("heap.peak", &[MIB; 2], &[2 * MIB; 2], Judging::default());
    let home = tempfile::tempdir().unwrap();
    let summary = home.path().join("summary.md");
    std::fs::write(&summary, "before\n").unwrap();
    let output = assert_cmd::Command::cargo_bin("cargo-memprof")
        .unwrap()
        .args(["report", synthetic.folder().0.as_str(), "--format", "json"])
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", &summary)
        .output()
        .unwrap();
    assert!(
        serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(),
        "data alone on standard output"
    );
    let annotation =
        "::error title=Memory regressed::t: heap.peak 1.00 → 2.00 MiB, +1.00 MiB (+100 %25) at 'done'\n";
    assert!(String::from_utf8(output.stderr).unwrap().contains(annotation));
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n<!-- cargo-memprof -->\n**Memory: 1 test regressed"), "{text}");
}

#[test]
fn a_failed_test_is_3_and_a_regression_beside_it_is_1() {
    let failed = |judging| {
        folder("heap.peak", &[MIB; 2], &[2 * MIB; 2], judging)
            .passed("other", 0, 0, &log("heap.peak", &[("a", 1)]))
            .failed("other", 1, Status::Failed { exit_code: 101 }, "", None)
    };
    program(&["report", failed(Judging::default()).folder().0.as_str()]).code(1);
    let off = rules(vec![values::threshold("heap.peak=off").unwrap()]);
    program(&["report", failed(off).folder().0.as_str()]).code(3);
}

/// A test that both sides pass, and one that ends like this at the baseline and at the candidate.
fn beside_passing(baseline: Option<Status>, candidate: Option<Status>) -> Synthetic {
    let log = log("heap.peak", &[("done", MIB)]);
    let passing = Synthetic::new(&["main", "pr/1"]).passed("both", 0, 0, &log).passed("both", 1, 0, &log);
    let sides = [(0, baseline), (1, candidate)];
    sides.into_iter().fold(passing, |synthetic, (revision, status)| match status {
        Some(status) => synthetic.failed("t", revision, status, "src/lib.rs:3:9: overflow", Some(&log)),
        None => synthetic.passed("t", revision, 0, &log),
    })
}

/// What the program prints about a run, and the count of this name in the JSON report.
fn reported(synthetic: &Synthetic, count: &str, code: i32) -> (String, u64) {
    let folder = synthetic.folder().0.as_str();
    let text = |arguments: &[&str]| {
        let printed = program(&[&["report", folder], arguments].concat()).code(code);
        String::from_utf8(printed.get_output().stdout.clone()).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&text(&["--format", "json"])).unwrap();
    let junit = text(&["--format", "junit"]);
    assert_eq!(junit.contains("failures=\"0\""), code == 0, "{junit}");
    (text(&[]), json["verdict"]["tests"][0][count].as_u64().unwrap())
}

#[test]
fn a_test_that_fails_at_the_baseline_alone_is_fixed() {
    let failed = Status::Failed { exit_code: 101 };
    for status in [failed.clone(), Status::OverLimit, Status::OutOfMemory, Status::Killed { signal: 6 }] {
        let (text, fixed) = reported(&beside_passing(Some(status), None), "fixed", 0);
        assert!(text.starts_with("memory: 1 test unchanged · "), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(fixed == 1 && words.contains("1 test fixed"), "{text}");
        assert!(words.contains("fixed in pr/1 (") && words.contains("1 test that fails in main ("), "{text}");
        assert!(words.contains("): t (src/lib.rs:3:9: overflow)"), "{text}");
    }
    let refused = reported(&beside_passing(Some(Status::Refused), None), "failed", 3);
    assert_eq!(refused.1, 1, "no test failed: {}", refused.0);
    for baseline in [None, Some(failed.clone()), Some(Status::OverLimit)] {
        let (text, count) = reported(&beside_passing(baseline, Some(failed.clone())), "failed", 3);
        assert!(count == 1 && text.starts_with("memory: 1 of 2 tests failed · "), "{text}");
    }
}

#[test]
fn a_memory_assertion_of_the_candidate_is_a_limit() {
    for baseline in [None, Some(Status::OverLimit)] {
        let (text, count) = reported(&beside_passing(baseline, Some(Status::OverLimit)), "over_limit", 1);
        assert!(count == 1 && text.starts_with("memory: 1 of 2 tests over a limit · "), "{text}");
        assert!(text.contains("▲ t  src/lib.rs:3:9: overflow"), "{text}");
    }
    let log = log("heap.peak", &[("done", MIB)]);
    let alone = Synthetic::new(&["main"]).failed("t", 0, Status::OverLimit, "", Some(&log));
    program(&["report", alone.folder().0.as_str()]).code(1);
    let failed = Status::Failed { exit_code: 101 };
    let alone = Synthetic::new(&["main"]).failed("t", 0, failed, "", Some(&log));
    program(&["report", alone.folder().0.as_str()]).code(3);
}

#[test]
fn a_test_file_that_fails_where_it_was_put_is_not_compared() {
    let added = |revision: &str| {
        let file = serde_json::json!({
            "package": "bart", "binary": "tests", "file": "tests/tests.rs", "donor": "pr/1 (0000001)",
            "compiles": true,
        });
        serde_json::json!({ revision: { "key": "k", "added_tests": [file] } })
    };
    let failed = || Some(Status::Failed { exit_code: 101 });
    let at_baseline = beside_passing(failed(), None).builds(&added("0"));
    let (text, count) = reported(&at_baseline, "only_in_candidate", 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "which lacks it: 1 test fails there and is not compared: t (src/lib.rs:3:9: overflow)";
    assert!(count == 1 && text.contains(note), "{text}");
    assert!(text.contains("1 test only in pr/1"), "{text}");
    let at_candidate = beside_passing(None, failed()).builds(&added("1"));
    assert_eq!(reported(&at_candidate, "only_in_baseline", 0).1, 1);
    let ignored = || Some(Status::Ignored);
    let ignored = beside_passing(ignored(), ignored()).builds(&added("0"));
    let (text, _) = reported(&ignored, "ignored", 0);
    assert!(text.contains("which lacks it") && !text.contains("fails there"), "{text}");
    // The candidate's own limit counts whatever the baseline has.
    let over = beside_passing(failed(), Some(Status::OverLimit)).builds(&added("0"));
    assert_eq!(reported(&over, "over_limit", 1).1, 1);
}

#[test]
fn a_comparison_without_a_common_test_is_no_success() {
    let log = log("heap.peak", &[("done", MIB)]);
    let new = Synthetic::new(&["main", "pr/1"]).passed("new", 1, 0, &log).failed(
        "new",
        0,
        Status::NotInThisRef,
        "",
        None,
    );
    let printed = program(&["report", new.folder().0.as_str()]).code(3).get_output().stdout.clone();
    let text = String::from_utf8(printed).unwrap();
    assert!(
        text.starts_with("memory: nothing to compare · ") && text.contains("1 test only in pr/1"),
        "{text}"
    );
    let both = new.passed("old", 0, 0, &log).passed("old", 1, 0, &log);
    program(&["report", both.folder().0.as_str()]).code(0);
}

#[test]
fn compare_is_for_runs_and_says_how_to_compare_refs() {
    let folder = tempfile::tempdir().unwrap();
    let git = std::process::Command::new("git").arg("init").arg("-q").current_dir(folder.path()).status();
    assert!(git.unwrap().success());
    std::fs::write(folder.path().join("Cargo.toml"), "[package]\nname = 'p'\nversion = '0.1.0'\n").unwrap();
    let compare = || {
        let mut command = assert_cmd::Command::cargo_bin("cargo-memprof").unwrap();
        let output =
            command.current_dir(folder.path()).args(["compare", "main", "feature"]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        text
    };
    let text = compare();
    assert!(text.contains("cargo cannot read the workspace: failed to parse manifest"), "{text}");
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    let text = compare();
    assert!(text.contains("help: to compare revisions: cargo memprof main feature\n"), "{text}");
}

/// Returns the exit code in the JSON report of the program, which ends with the same.
fn code_in_json(synthetic: &Synthetic) -> i64 {
    let mut command = tool();
    command.args(["report", synthetic.folder().0.as_str(), "--format", "json"]);
    let printed = Printed::of(command);
    let report: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    let code = report["verdict"]["exit_code"].as_i64().unwrap();
    assert_eq!(code, i64::from(printed.code), "{}", printed.everything());
    code
}

#[test]
fn the_code_in_the_json_report_is_that_of_the_program() {
    let log = log("heap.peak", &[("start", 0), ("done", MIB)]);
    let both = || Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let failed = || Status::Failed { exit_code: 101 };
    assert_eq!(code_in_json(&both()), 0);
    let with_failed = both().passed("f", 0, 0, &log).failed("f", 1, failed(), "", None);
    assert_eq!(code_in_json(&with_failed), 3, "a failed test");
    let not_built = both().builds(&json!({ "1": "build failed: error[E0425]: x" }));
    assert_eq!(code_in_json(&not_built), 3, "a failed build");
    let alone = Synthetic::new(&["main"]).passed("t", 0, 0, &log).failed("f", 0, failed(), "", None);
    assert_eq!(code_in_json(&alone), 3, "a failed test of a single ref");
    let nothing = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log);
    assert_eq!(code_in_json(&nothing), 3, "nothing to compare");
    let broken = Synthetic::new(&["main"]).failed("t", 0, Status::OverLimit, "a.rs:5:9: too much", None);
    assert_eq!(code_in_json(&broken), 1, "a memory assertion");
}
