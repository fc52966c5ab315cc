//! Two implementations within one revision, in every format.

use std::collections::BTreeMap;

use crate::support::synthetic::{Log, Synthetic, cell};
use crate::support::tables::table;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::repeats;
use memprof_judge::results::outcome::Status;
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
    assert!(text.contains("1 test without a partner, 1 of them failed: other"), "{text}");
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
