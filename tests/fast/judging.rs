//! From a run's folder to verdicts.

use crate::support::synthetic::{Log, Synthetic};
use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::noise;
use memprof_judge::compare::repeats;
use memprof_judge::results::outcome::Status;
use memprof_judge::verdict::kinds::Verdict;
use memprof_judge::why::chosen::changed_rows;
use memprof_plan::rule::Judging;
use memprof_report::options::{Format, Options};
use proptest::prelude::*;
use serde_json::json;

pub(crate) const KIB: i64 = 1024;
pub(crate) const MIB: i64 = 1024 * KIB;

pub(crate) fn log(metric: &str, figures: &[(&str, i64)]) -> Log {
    figures.iter().fold(Log::new(), |log, (label, figure)| log.checkpoint(label, &[(metric, *figure)]))
}

/// A comparison of one test's figures of one metric at `done`, by run.
fn compared(metric: &str, baseline: &[i64], candidate: &[i64], judging: Judging) -> Comparison {
    compare(&folder(metric, baseline, candidate, judging).results())
}

pub(crate) fn folder(metric: &str, baseline: &[i64], candidate: &[i64], judging: Judging) -> Synthetic {
    let mut synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
    for (revision, figures) in [baseline, candidate].into_iter().enumerate() {
        for (repeat, figure) in (0..).zip(figures) {
            let log = log(metric, &[("start", 7), ("done", *figure)]);
            synthetic = synthetic.passed("t", revision, repeat, &log);
        }
    }
    synthetic
}

pub(crate) fn verdict(comparison: &Comparison, metric: &str, row: usize) -> Option<Verdict> {
    let view = comparison.pairs().next().expect("a pair");
    Some(view.judged(metric)?.at(&view.rows[row])?.verdict)
}

pub(crate) fn rules(rules: Vec<memprof_plan::rule::Rule>) -> Judging {
    Judging { rules, ..Judging::default() }
}

pub(crate) fn code(comparison: &Comparison) -> u8 {
    Conclusion::from_comparison(comparison).exit_code() as u8
}

#[test]
fn each_verdict_has_its_figures_and_its_code() {
    let peak = "heap.peak";
    let cases: [(&[i64], &[i64], Verdict, u8); 5] = [
        (&[MIB; 2], &[2 * MIB; 2], Verdict::Regressed, 1),
        (&[2 * MIB; 2], &[MIB; 2], Verdict::Improved, 0),
        (&[MIB; 2], &[MIB + 100; 2], Verdict::Unchanged, 0),
        (&[MIB], &[2 * MIB], Verdict::Inconclusive, 4),
        (&[MIB], &[MIB], Verdict::Unchanged, 0),
    ];
    for (old, new, expected, exit) in cases {
        let comparison = compared(peak, old, new, Judging::default());
        assert_eq!(
            (verdict(&comparison, peak, 1), code(&comparison)),
            (Some(expected), exit),
            "{old:?} {new:?}"
        );
        assert_eq!(verdict(&comparison, peak, 0), Some(Verdict::Unchanged));
    }
}

/// Runs whose input follows from random numbers: of their round, or of their own.
fn random_input(random: &str, old: &[i64], new: &[i64]) -> Comparison {
    random_input_of("heap.peak", random, old, new)
}

fn random_input_of(metric: &str, random: &str, old: &[i64], new: &[i64]) -> Comparison {
    compare(&random_runs(metric, random, old, new).results())
}

fn random_runs(metric: &str, random: &str, old: &[i64], new: &[i64]) -> Synthetic {
    let mut synthetic =
        Synthetic::new(&["main", "pr/1"]).builds(&json!({"0": {"packages": "quickcheck 1.0.3\nrand 0.8.5"}}));
    for (revision, figures) in [old, new].into_iter().enumerate() {
        for (repeat, figure) in (0..).zip(figures) {
            let log = log(metric, &[("start", 0), ("done", *figure)]);
            let causes = json!({"random": random, "hash_keys": 1, "random_numbers": 3, "threads": 1});
            synthetic = synthetic.passed("t", revision, repeat, &log.event("causes", &causes));
        }
    }
    synthetic
}

#[test]
fn the_same_input_on_both_sides_is_compared_round_by_round() {
    let old = [MIB, 5 * MIB, 3 * MIB, 9 * MIB];
    let grown = old.map(|figure| figure + MIB);
    let verdict = |random, new: &[i64]| verdict(&random_input(random, &old, new), "heap.peak", 1);
    assert_eq!(verdict("same", &old), Some(Verdict::Unchanged));
    assert_eq!(verdict("same", &grown), Some(Verdict::Regressed));
    assert_eq!(verdict("own", &old), Some(Verdict::Inconclusive), "a pair means nothing");
    let shifted = [5 * MIB, MIB, 9 * MIB, 3 * MIB];
    assert_eq!(verdict("same", &shifted), Some(Verdict::Inconclusive), "one side had other input");
    // A saved baseline has as many rounds as it has.
    assert_eq!(verdict("same", &old[..2]), Some(Verdict::Unchanged));
    assert_eq!(verdict("same", &[&old[..], &[7 * MIB, 2 * MIB]].concat()), Some(Verdict::Unchanged));
    assert_eq!(verdict("same", &[&grown[..], &[7 * MIB, 2 * MIB]].concat()), Some(Verdict::Regressed));
    assert_eq!(
        verdict("same", &old[..1]),
        Some(Verdict::Inconclusive),
        "a pair alone may be equal by chance"
    );
    assert_eq!(verdict("own", &old[..2]), Some(Verdict::Inconclusive));
}

#[test]
fn rounds_do_not_hide_a_change_that_the_figures_of_each_side_show() {
    let (old, new) = ([4_000_302, 4_002_526], [4_033_105, 4_030_239]);
    for random in ["same", "own"] {
        let comparison = random_input(random, &old, &new);
        assert_eq!(verdict(&comparison, "heap.peak", 1), Some(Verdict::Regressed), "{random}");
    }
}

#[test]
fn resident_memory_with_the_same_input_takes_four_rounds() {
    let old = [10, 50, 30, 90, 20].map(|figure| figure * MIB);
    let new: Vec<i64> = (0..).zip(old).map(|(round, figure)| figure + round * 16 * KIB).collect();
    let verdict =
        |random, new: &[i64]| verdict(&random_input_of("cpu.peak", random, &old, new), "cpu.peak", 1);
    assert_eq!(verdict("same", &new[..4]), Some(Verdict::Unchanged));
    assert_eq!(verdict("same", &new[..2]), Some(Verdict::Inconclusive));
    assert_eq!(verdict("own", &new[..4]), Some(Verdict::Inconclusive));
}

#[test]
fn a_figure_that_varies_with_random_input_names_its_cause() {
    let comparison = random_input(
        "own",
        &[MIB, 5 * MIB, 3 * MIB, 7 * MIB, 2 * MIB],
        &[2 * MIB, 9 * MIB, 4 * MIB, MIB, 6 * MIB],
    );
    let notes = comparison.notes.join("\n");
    assert!(
        notes.contains("heap.peak varies from run to run in 1 test: random numbers (quickcheck or rand), other ones in each repeat"),
        "{notes}"
    );
    assert!(notes.contains("1 test asks for random numbers: all refs got the same ones"), "{notes}");
}

#[test]
fn the_largest_growth_is_explained_and_not_the_first() {
    let logs = [[1024, 1024, 1024], [512, 1128, 5632]].map(|kib| {
        let rows = ["read", "parsed", "done"].into_iter().zip(kib);
        log("heap.peak", &rows.map(|(label, kib)| (label, kib * KIB)).collect::<Vec<_>>())
    });
    let synthetic = (0..4).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &logs[0]).passed("t", 1, repeat, &logs[1])
    });
    let comparison = compare(&synthetic.results());
    let view = comparison.pairs().next().unwrap();
    let rows: Vec<_> =
        changed_rows(&comparison, &view).into_iter().filter_map(|(_, row)| row.baseline).collect();
    assert_eq!(rows, [2, 2, 1, 0], "growth by size, then shrinkage; the first one is the test's own");
}

#[test]
fn an_exact_metric_that_was_asked_for_has_a_verdict() {
    let asked = |metric: &str| Judging { asked: vec![metric.to_owned()], ..Judging::default() };
    let count = "heap.count";
    let cases: [(&[i64], &[i64], Verdict, u8); 3] = [
        (&[1700; 4], &[700; 4], Verdict::Improved, 0),
        (&[700; 4], &[1700; 4], Verdict::Regressed, 1),
        (&[1700; 2], &[1701; 2], Verdict::Unchanged, 0),
    ];
    for (old, new, expected, exit) in cases {
        let comparison = compared(count, old, new, asked(count));
        assert_eq!((verdict(&comparison, count, 1), code(&comparison)), (Some(expected), exit));
        assert_eq!(verdict(&compared(count, old, new, asked("heap.live")), count, 1), None);
    }
    assert_eq!(verdict(&compared("time", &[7; 4], &[9; 4], asked("time")), "time", 1), None);
}

#[test]
fn a_checkpoint_of_one_side_is_added_or_removed() {
    let (short, long) = (log("heap.peak", &[("a", 1)]), log("heap.peak", &[("a", 1), ("b", 9 * MIB)]));
    for (logs, expected) in [([&short, &long], Verdict::Added), ([&long, &short], Verdict::Removed)] {
        let synthetic =
            Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, logs[0]).passed("t", 1, 0, logs[1]);
        let comparison = compare(&synthetic.results());
        assert_eq!((verdict(&comparison, "heap.peak", 1), code(&comparison)), (Some(expected), 0));
    }
}

#[test]
fn what_a_failed_run_lacks_is_missing() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &log("heap.peak", &[("a", 1)]))
        .failed("t", 1, Status::OutOfMemory, "", Some(&log("heap.peak", &[("a", 9 * MIB)])));
    let comparison = compare(&synthetic.results());
    assert_eq!(verdict(&comparison, "heap.peak", 0), Some(Verdict::Missing));
    let report = Options::default();
    let mut json = Vec::new();
    memprof_report::render::render(Format::Json, &comparison, &report, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["rows"][0]["judged"]["pr/1"]["verdict"], "missing");
    assert_eq!(json["cells"][1]["outcome"], "out_of_memory");
}

#[test]
fn a_judged_metric_that_cannot_be_compared_is_a_fault() {
    let logs = ["one", "two"].map(|source| log("heap.peak", &[("a", MIB)]).source("heap.peak", source));
    let with = |judging| {
        let synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
        compare(&synthetic.passed("t", 0, 0, &logs[0]).passed("t", 1, 0, &logs[1]).results())
    };
    let unasked = with(Judging::default());
    assert_eq!((verdict(&unasked, "heap.peak", 0), code(&unasked)), (Some(Verdict::Missing), 3));
    assert_eq!(code(&with(rules(vec![values::threshold("heap.peak=5%").unwrap()]))), 3);
}

#[test]
fn a_missing_figure_is_not_hidden_by_noise_that_a_job_accepts() {
    let logs = ["one", "two"].map(|source| log("heap.peak", &[("a", MIB)]).source("heap.peak", source));
    let noisy = [100 * MIB, 164 * MIB].map(|figure| log("cpu.peak", &[("start", 7), ("done", figure)]));
    let asked = rules(vec![values::threshold("heap.peak=5%").unwrap()]);
    let judged = |judging| {
        let synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
        (0..2).fold(synthetic, |synthetic, revision| {
            let synthetic = synthetic.passed("t", revision, 0, &logs[revision]);
            synthetic.passed("u", revision, 0, &noisy[0]).passed("u", revision, 1, &noisy[1])
        })
    };
    program(&["report", judged(Judging::default()).folder().0.as_str()]).code(3);
    program(&["report", judged(asked).folder().0.as_str()]).code(3);
    let broken = judged(Judging::default()).failed("v", 1, Status::Failed { exit_code: 101 }, "", None);
    program(&["report", broken.folder().0.as_str()]).code(3);
}

#[test]
fn levels_totals_and_times_are_judged_where_a_rule_asks() {
    let of = |metric: &str, flag: Option<&str>| {
        let judging = rules(flag.map(|flag| values::threshold(flag).unwrap()).into_iter().collect());
        verdict(&compared(metric, &[MIB; 2], &[2 * MIB; 2], judging), metric, 1)
    };
    assert_eq!(of("heap.allocated", None), None);
    assert_eq!(of("heap.allocated", Some("heap.*=5%")), Some(Verdict::Regressed));
    assert_eq!(of("heap.count", Some("heap.count=100")), Some(Verdict::Regressed));
    assert_eq!(of("heap.peak", Some("heap.peak=off")), None);
    assert_eq!(
        of("heap.peak", Some("heap.peak=5%,test=other")),
        Some(Verdict::Regressed),
        "the default holds"
    );
    assert_eq!(of("heap.peak", Some("heap.peak=200%,checkpoint=do*")), Some(Verdict::Unchanged));
}

#[test]
fn the_bound_of_a_source_is_a_limit_that_no_rule_undercuts() {
    let with = |source: &str| {
        let mut synthetic = Synthetic::new(&["main", "pr/1"])
            .judging(rules(vec![values::threshold("cpu.peak=1MiB").unwrap()]));
        for repeat in 0..5 {
            for revision in 0..2 {
                let figure = 100 * MIB + i64::try_from(revision).unwrap() * 10 * MIB;
                let log = log("cpu.peak", &[("done", figure)]).source("cpu.peak", source);
                synthetic = synthetic.passed("t", revision, repeat, &log);
            }
        }
        verdict(&compare(&synthetic.results()), "cpu.peak", 0)
    };
    assert_eq!(with("VmHWM, within 768 KiB"), Some(Verdict::Regressed));
    assert_eq!(with("VmHWM, within 24576 KiB"), Some(Verdict::Unchanged));
}

#[test]
fn a_metric_that_varies_elsewhere_in_the_test_is_not_called_exact_where_it_happens_not_to() {
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        let log =
            |done: i64| log("heap.peak", &[("noisy", MIB + i64::from(repeat) * 300 * KIB), ("done", done)]);
        synthetic.passed("t", 0, repeat, &log(10 * MIB)).passed("t", 1, repeat, &log(12 * MIB))
    });
    assert_eq!(verdict(&compare(&synthetic.results()), "heap.peak", 1), Some(Verdict::Inconclusive));
}

#[test]
fn upper_limits_and_leaks_count_whatever_the_baseline_is() {
    let limit = rules(vec![values::limit("heap.peak=8MiB").unwrap()]);
    let leak = values::leak("heap.live=64KiB").unwrap();
    let judging = rules(vec![leak, values::threshold("heap.live=off").unwrap()]);
    let comparison = compared("heap.peak", &[9 * MIB; 2], &[9 * MIB; 2], limit.clone());
    assert_eq!((verdict(&comparison, "heap.peak", 1), code(&comparison)), (Some(Verdict::Unchanged), 1));
    assert_eq!(code(&compared("heap.peak", &[9 * MIB; 2], &[8 * MIB; 2], limit)), 0);
    let leaking = compared("heap.live", &[MIB], &[7 + 64 * KIB + 1], judging.clone());
    let breach = &leaking.cells[0].pairs[0].breaches[0];
    assert_eq!((breach.value, breach.row, code(&leaking)), (64 * KIB + 1, 1, 1));
    assert_eq!(code(&compared("heap.live", &[MIB], &[7 + 64 * KIB], judging)), 0);
    let mut text = Vec::new();
    memprof_report::render::render(Format::Table, &leaking, &Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("memory: 1 test over a limit"), "{text}");
    assert!(
        text.contains(" ▲ t  heap.live  +64.0 KiB  at 'done': not freed since 'start', limit 64.0 KiB"),
        "{text}"
    );
}

#[test]
fn an_expected_change_is_shown_and_does_not_count_until_its_day_is_over() {
    let with = |until: &str| {
        let allow =
            values::allow(&format!("metric=heap.peak,limit=150%,until={until},reason=a cache, #42")).unwrap();
        Judging { allow: vec![allow], ..Judging::default() }
    };
    // The run is of 2025-03-02.
    let current = compared("heap.peak", &[MIB; 2], &[2 * MIB; 2], with("2025-03-02"));
    assert_eq!((verdict(&current, "heap.peak", 1), code(&current)), (Some(Verdict::Regressed), 0));
    let mut text = Vec::new();
    memprof_report::render::render(Format::Table, &current, &Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = "t  heap.peak  1.00 → 2.00 MiB  +1.00 MiB  +100 %  at 'done': expected: a cache, #42";
    assert!(text.contains(line), "{text}");
    let over = compared("heap.peak", &[MIB; 2], &[2 * MIB; 2], with("2025-03-01"));
    assert_eq!(code(&over), 1);
    assert_eq!(
        over.notes,
        ["allow: 'a cache, #42' expired on 2025-03-01: its changes count as regressions again"]
    );
    let more = compared("heap.peak", &[MIB; 2], &[3 * MIB; 2], with("2025-03-02"));
    assert_eq!(code(&more), 1, "more than was expected");
}

#[test]
fn more_runs_are_wanted_where_the_verdict_is_open_and_nowhere_else() {
    let wanted = |metric: &str, baseline: &[i64], candidate: &[i64]| {
        let comparison = compared(metric, baseline, candidate, Judging::default());
        let wanted = repeats::wanted(&comparison, baseline.len() != candidate.len());
        let mut runs: Vec<u32> = wanted.into_values().collect();
        runs.dedup();
        runs
    };
    assert_eq!(wanted("heap.peak", &[MIB], &[2 * MIB]), [2]);
    assert_eq!(wanted("heap.peak", &[MIB], &[MIB]), [0; 0], "equal to the byte");
    assert_eq!(wanted("heap.peak", &[MIB; 2], &[MIB + 1; 2]), [0; 0], "exact, and less than counts");
    assert_eq!(wanted("heap.peak", &[MIB; 2], &[2 * MIB; 2]), [4], "a change is confirmed");
    assert_eq!(wanted("heap.peak", &[MIB; 4], &[2 * MIB; 4]), [0; 0]);
    assert_eq!(wanted("heap.peak", &[MIB; 5], &[2 * MIB; 2]), [3], "a saved baseline of five runs");
    assert_eq!(wanted("heap.peak", &[MIB; 5], &[2 * MIB; 3]), [0; 0]);
    assert_eq!(wanted("heap.peak", &[MIB; 3], &[2 * MIB; 2]), [4], "a saved baseline of three runs");
    assert_eq!(wanted("heap.peak", &[MIB], &[2 * MIB; 2]), [0; 0], "one saved run never shows a change");
    let near: Vec<i64> = (0..6).map(|run| 101 * MIB + run * 16 * KIB).collect();
    assert_eq!(wanted("cpu.peak", &[100 * MIB], &near[..4]), [6], "it may be noise");
    assert_eq!(wanted("cpu.peak", &[100 * MIB], &near), [0; 0]);
    let far: Vec<i64> = near.iter().map(|figure| figure + 50 * MIB).collect();
    assert_eq!(wanted("cpu.peak", &[100 * MIB], &far), [0; 0], "nine runs more tell nothing");
    assert_eq!(wanted("heap.peak", &[MIB; 2], &[2 * MIB; 3]), [4]);
    assert_eq!(wanted("heap.peak", &[MIB; 2], &[2 * MIB; 4]), [0; 0], "two saved runs confirm no more");
    let quiet: [&[i64]; 2] = [&[MIB, MIB + 4 * KIB], &[MIB, MIB + 8 * KIB]];
    assert_eq!(wanted("cpu.peak", quiet[0], quiet[1]), [0; 0], "far below the limit");
    assert_eq!(wanted("cpu.peak", &[100 * MIB; 2], &[110 * MIB; 2]), [4]);
    assert_eq!(wanted("cpu.peak", &[100 * MIB; 4], &[110 * MIB; 4]), [6]);
    assert_eq!(wanted("cpu.peak", &[100 * MIB; 6], &[110 * MIB; 6]), [0; 0]);
    let steps = [100 * MIB, 164 * MIB, 100 * MIB, 164 * MIB, 100 * MIB];
    assert_eq!(wanted("cpu.peak", &steps, &steps), [6]);
    let many = [steps, steps, steps].concat();
    assert_eq!(wanted("cpu.peak", &many, &many), [0; 0], "it ends somewhere");
}

#[test]
fn a_saved_baseline_of_one_run_is_named() {
    let noted = |runs: usize, saved: bool| {
        let mut results = folder("heap.peak", &vec![MIB; runs], &[2 * MIB; 4], Judging::default()).results();
        results.saved_baseline = saved.then(|| "v1".to_owned());
        compare(&results).notes.join("\n")
    };
    let line = "1 test has no verdict: the saved baseline v1 has 1 run of it, and a verdict needs more. \
                Save it again without `--repeat` and `repeat:`";
    assert_eq!(noted(1, true), line);
    assert_eq!((noted(1, false), noted(2, true)), (String::new(), String::new()));
}

#[test]
fn a_test_that_fails_is_not_repeated() {
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed("t", 0, 0, &log("heap.peak", &[("a", 1)]))
        .failed("t", 1, Status::Failed { exit_code: 101 }, "", None);
    assert!(repeats::wanted(&compare(&synthetic.results()), false).is_empty());
}

#[test]
fn known_noise_lets_one_run_a_side_tell() {
    let itself =
        compared("cpu.peak", &[100 * MIB, 101 * MIB], &[100 * MIB + 4 * KIB, 100 * MIB], Judging::default());
    let record = noise::measured(&itself);
    assert_eq!(record.figures.iter().map(|figure| figure.spread).max(), Some(1 << 20));
    let mut text = Vec::new();
    memprof_report::noise::render(&record, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = " cpu.peak  1 of 2 figures exact; largest spread 1.00 MiB (0.99 %) at 'done' of t";
    assert!(text.ends_with(&format!("against itself\n{line}\n")), "{text}");

    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("noise.json");
    std::fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
    let file = file.to_str().unwrap();
    let judged = |old: i64, new: i64, code: i32| {
        let synthetic = folder("cpu.peak", &[old], &[new], Judging::default());
        let folder = synthetic.folder().0.as_str();
        program(&["report", folder]).code(4);
        program(&["report", folder, "--noise", file]).code(code);
    };
    judged(100 * MIB, 110 * MIB, 1);
    judged(100 * MIB, 100 * MIB + 300 * KIB, 0);
    judged(100 * MIB, 103 * MIB, 4);
    let synthetic = folder("cpu.peak", &[MIB], &[MIB], Judging::default());
    program(&["report", synthetic.folder().0.as_str(), "--noise", "none.json"]).code(2);
}

#[test]
fn the_noise_of_random_input_does_not_hide_what_each_round_shows() {
    let old = [5, 1, 3, 9, 2].map(|figure| figure * MIB);
    let noise = |random| noise::measured(&random_input(random, &old, &old)).figures;
    let known = noise("same");
    let figure = known.iter().find(|figure| figure.checkpoint == "done").unwrap();
    assert_eq!((figure.spread, figure.within_rounds), (8 << 20, Some(0)));
    let judged = |grown: i64, noise| {
        let new = old.map(|figure| figure + grown);
        let runs =
            random_runs("heap.peak", "same", &old, &new).judging(Judging { noise, ..Judging::default() });
        verdict(&compare(&runs.results()), "heap.peak", 1)
    };
    assert_eq!(judged(300_000, known.clone()), Some(Verdict::Regressed));
    assert_eq!(judged(100, known), Some(Verdict::Unchanged));
    assert_eq!(judged(300_000, noise("own")), Some(Verdict::Unchanged), "rounds may vary as much");
}

/// The program on a kept run's folder.
pub(crate) fn program(arguments: &[&str]) -> assert_cmd::assert::Assert {
    assert_cmd::Command::cargo_bin("cargo-memprof").unwrap().args(arguments).env("NO_COLOR", "1").assert()
}

fn any_figures() -> impl Strategy<Value = Vec<Vec<i64>>> {
    let figure = prop_oneof![3 => Just(MIB), 2 => 0..4 * MIB, 1 => MIB..MIB + 4096];
    proptest::collection::vec(proptest::collection::vec(figure, 3), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_other_way_round_every_verdict_is_its_opposite(old in any_figures(), new in any_figures()) {
        let mut synthetic = Synthetic::new(&["a", "b"]);
        for (revision, runs) in [&old, &new].into_iter().enumerate() {
            for (repeat, figures) in (0..).zip(runs) {
                let log = ["x", "y", "z"].into_iter().zip(figures).fold(Log::new(), |log, (label, figure)| {
                    log.checkpoint(label, &[("heap.peak", *figure), ("cpu.peak", 3 * figure)])
                });
                synthetic = synthetic.passed("t", revision, repeat, &log);
            }
        }
        let mut results = synthetic.results();
        let forth = compare(&results);
        results.plan.baseline = 1;
        let back = compare(&results);
        for metric in ["heap.peak", "cpu.peak"] {
            for row in 0..3 {
                let opposite = verdict(&back, metric, row).map(Verdict::opposite);
                prop_assert_eq!(verdict(&forth, metric, row), opposite);
            }
        }
    }
}

#[test]
fn an_upper_limit_of_a_renamed_checkpoint_has_the_candidates_label() {
    let with = |label: &str, peak: i64| log("heap.peak", &[("start", MIB), (label, peak), ("done", MIB)]);
    let code = |flag: &str, allow: Option<&str>| {
        let allow = allow.into_iter().map(|text| values::allow(text).unwrap()).collect();
        let judging = Judging { rules: vec![values::limit(flag).unwrap()], allow, ..Judging::default() };
        let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |folder, repeat| {
            let (old, new) = (with("loaded", 9 * MIB), with("weights loaded", 9 * MIB));
            folder.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new)
        });
        code(&compare(&synthetic.results()))
    };
    let limit = "heap.peak=4MiB,checkpoint=weights loaded";
    assert_eq!(code(limit, None), 1);
    assert_eq!(code(limit, Some("checkpoint=weights loaded,reason=known")), 0);
    assert_eq!(code("heap.peak=4MiB,checkpoint=loaded", None), 3, "a limit concerns the candidate alone");
}

#[test]
fn growth_of_a_renamed_checkpoint_has_the_rules_of_both_labels() {
    let with = |label: &str, peak: i64| log("heap.peak", &[("start", MIB), (label, peak), ("done", MIB)]);
    let code = |rule: &str, allow: Option<&str>| {
        let allow = allow.into_iter().map(|text| values::allow(text).unwrap()).collect();
        let judging = Judging { rules: vec![values::threshold(rule).unwrap()], allow, ..Judging::default() };
        let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |folder, repeat| {
            let (old, new) = (with("loaded", 4 * MIB), with("weights", 9 * MIB));
            folder.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new)
        });
        code(&compare(&synthetic.results()))
    };
    for label in ["loaded", "weights"] {
        assert_eq!(code(&format!("heap.peak=500%,checkpoint={label}"), None), 0, "{label}");
        assert_eq!(code("heap.peak=5%", Some(&format!("checkpoint={label},reason=known"))), 0, "{label}");
    }
    assert_eq!(code("heap.peak=500%,checkpoint=start", Some("checkpoint=done,reason=known")), 1);
}

#[test]
fn memory_that_is_kept_is_reported_where_it_is_kept_first() {
    let with = |kept: i64| {
        let at = |live: i64, peak: i64| [("heap.live", live), ("heap.peak", peak)];
        Log::new()
            .checkpoint("loaded", &at(40 * MIB, 80 * MIB))
            .checkpoint("after_drop", &at(MIB + kept, 40 * MIB))
            .checkpoint("done", &at(MIB + kept, 20 * MIB + kept))
    };
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &with(0)).passed("t", 1, repeat, &with(18 * MIB))
    });
    let comparison = compare(&synthetic.results());
    let mut text = Vec::new();
    memprof_report::render::render(Format::Table, &comparison, &Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line =
        "t  heap.live  1.00 → 19.0 MiB  +18.0 MiB  ×19.0  at 'after_drop' (src/lib.rs:10), and 1 later one\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("│ heap.live"), "the column that shows it: {text}");
}

#[test]
fn improved_or_unchanged_is_no_reason_to_look_closer() {
    // Between -30 MiB and -100 KiB: it did not grow, and may or may not have improved.
    let steps: Vec<i64> = (0..15).map(|run| 200 * MIB + (run % 3) * 10 * MIB).collect();
    let fewer: Vec<i64> = steps.iter().map(|step| step - 10 * MIB).collect();
    let comparison = compared("cpu.peak", &steps, &fewer, Judging::default());
    assert_eq!((verdict(&comparison, "cpu.peak", 1), code(&comparison)), (Some(Verdict::Inconclusive), 0));
    let grown = compared("cpu.peak", &fewer, &steps, Judging::default());
    assert_eq!((verdict(&grown, "cpu.peak", 1), code(&grown)), (Some(Verdict::Inconclusive), 4));
}

#[test]
fn what_may_settle_varying_figures_is_named() {
    let figures: Vec<i64> = (0..6).map(|run| 100 * MIB + (run % 3) * 10 * MIB).collect();
    let more: Vec<i64> = figures.iter().map(|figure| figure + 5 * MIB).collect();
    let note = |metric: &str, packages: &str| {
        let facts = serde_json::json!({ "packages": packages });
        let builds = serde_json::json!({ "0": facts, "1": facts });
        let synthetic = folder(metric, &figures, &more, Judging::default()).builds(&builds);
        compare(&synthetic.results()).notes.join("\n")
    };
    let rayon = note("heap.peak", "rayon 1.10.0\nrayon-core 1.12.1");
    assert!(rayon.contains("heap.peak varies from run to run in 1 test"), "{rayon}");
    assert!(rayon.contains("`--env RAYON_NUM_THREADS=1`") && !rayon.contains("TOKIO"), "{rayon}");
    assert!(note("heap.peak", "libc 0.2.1").contains("use one thread and a fixed seed"));
    assert!(note("cpu.peak", "libc 0.2.1").contains("`--env MALLOC_ARENA_MAX=1`"));
}

#[test]
fn two_runs_that_leave_a_figure_open_are_too_few_whatever_makes_it_vary() {
    for metric in ["cpu.peak", "heap.peak"] {
        let comparison =
            compared(metric, &[100 * MIB, 120 * MIB], &[110 * MIB, 125 * MIB], Judging::default());
        let notes = comparison.notes.join("\n");
        let few = format!(
            "{metric} varies from run to run in 1 test: 2 runs a side are too few for a verdict, 5 can"
        );
        assert!(notes.contains(&few) && !notes.contains("thread"), "{notes}");
    }
}

#[test]
fn growth_that_is_expected_need_not_be_certain() {
    let steps: Vec<i64> = (0..15).map(|run| 200 * MIB + (run % 3) * 10 * MIB).collect();
    let fewer: Vec<i64> = steps.iter().map(|step| step - 10 * MIB).collect();
    let judged = |runs: usize, entry: &str| {
        let judging = Judging { allow: vec![values::allow(entry).unwrap()], ..Judging::default() };
        let comparison = compared("cpu.peak", &fewer[..runs], &steps[..runs], judging);
        assert_eq!(verdict(&comparison, "cpu.peak", 1), Some(Verdict::Inconclusive), "{entry}");
        (code(&comparison), repeats::wanted(&comparison, false).len())
    };
    assert_eq!(judged(2, "metric=cpu.peak,reason=noisy"), (0, 2), "too few runs to call it growth");
    assert_eq!(judged(6, "metric=cpu.peak,reason=noisy"), (0, 0), "no further run");
    assert_eq!(judged(15, "metric=cpu.peak,reason=noisy").0, 0);
    assert_eq!(judged(15, "metric=cpu.peak,limit=100MiB,reason=noisy").0, 0);
    assert_eq!(judged(15, "metric=cpu.peak,limit=1MiB,reason=noisy").0, 4, "it may be more");
    assert_eq!(judged(6, "metric=cpu.peak,limit=1MiB,reason=noisy"), (4, 2));
    assert_eq!(judged(15, "metric=cpu.peak,until=2020-01-01,reason=noisy").0, 4, "expired");
}
