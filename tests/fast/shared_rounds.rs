//! Tests with random numbers whose two sides ran in other rounds, as with a saved baseline: the rounds of both are
//! compared, and shown.

use crate::judging::{KIB, MIB, code, verdict};
use crate::support::synthetic::{Log, Synthetic};
use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::rule::Judging;
use memprof_report::options::{Format, Options};
use serde_json::{Value, json};

/// What a test allocates in each round.
const ROUNDS: [i64; 6] = [5 * MIB, MIB, 9 * MIB, 3 * MIB, 7 * MIB, 2 * MIB];
const MORE: i64 = 100_000;

fn compared(refs: &[&str], sides: &[Vec<i64>], allow: &[&str]) -> Comparison {
    let allow = allow.iter().map(|entry| values::allow(entry).unwrap()).collect();
    let mut synthetic = Synthetic::new(refs).judging(Judging { allow, ..Judging::default() });
    for (revision, figures) in sides.iter().enumerate() {
        for (round, figure) in (0..).zip(figures) {
            let peak = |figure| [("heap.peak", figure), ("heap.count", figure / KIB)];
            let log = Log::new().checkpoint("start", &peak(0)).checkpoint("done", &peak(*figure));
            let causes = json!({"random": "same", "hash_keys": 1, "random_numbers": 3, "threads": 1});
            synthetic = synthetic.passed("t", revision, round, &log.event("causes", &causes));
        }
    }
    compare(&synthetic.results())
}

/// Five rounds of the baseline, and as many of the candidate as given, with so much more.
fn against_five(rounds: usize, more: i64, allow: &[&str]) -> Comparison {
    let new = ROUNDS[..rounds].iter().map(|figure| figure + more).collect();
    compared(&["main", "pr/1"], &[ROUNDS[..5].to_vec(), new], allow)
}

fn rendered(comparison: &Comparison, format: Format) -> String {
    let mut text = Vec::new();
    memprof_report::render::render(format, comparison, &Options::default(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn difference(comparison: &Comparison, metric: &str) -> Option<i128> {
    let view = comparison.pairs().next().expect("a pair");
    Some(view.column(metric).at(&view.rows[1]).delta?.difference)
}

#[test]
fn the_difference_is_that_of_the_rounds_which_were_judged() {
    for rounds in [2, 4, 6] {
        let grown = against_five(rounds, MORE, &[]);
        assert_eq!(verdict(&grown, "heap.peak", 1), Some(Verdict::Regressed));
        assert_eq!(difference(&grown, "heap.peak"), Some(MORE.into()), "{rounds} rounds");
        let same = against_five(rounds, 0, &[]);
        assert_eq!(difference(&same, "heap.peak"), Some(0));
        assert_eq!(difference(&same, "heap.count"), Some(0), "not judged");
    }
    let grown = against_five(6, MORE, &[]);
    let table = rendered(&grown, Format::Table);
    assert!(table.contains("5.00 → 5.10 MiB  +97.7 KiB  +1.91 %"), "{table}");
    let report: Value = serde_json::from_str(&rendered(&grown, Format::Json)).unwrap();
    let is_peak = |row: &&Value| row["checkpoint"] == "done" && row["metric"] == "heap.peak";
    let done = report["rows"].as_array().unwrap().iter().find(is_peak).unwrap();
    assert_eq!(done["values"]["pr/1"]["value"], 4 * MIB + MORE, "the median of all six");
    assert_eq!(done["compared"]["pr/1"], json!([5 * MIB, 5 * MIB + MORE]));
    assert_eq!((&done["delta"]["pr/1"], &done["judged"]["pr/1"]["change"]), (&json!(MORE), &json!(MORE)));
}

#[test]
fn a_candidate_with_other_rounds_is_shown_with_the_figure_that_it_is_compared_with() {
    let new = ROUNDS.map(|figure| figure + MORE);
    let sides = [ROUNDS[..5].to_vec(), new[..5].to_vec(), new[..2].to_vec()];
    let table = rendered(&compared(&["main", "pr/1", "pr/2"], &sides, &[]), Format::Table);
    let row = "5.00 MiB │ 5.10 MiB  +97.7 KiB ▲ │ 3.10 MiB  +97.7 KiB ▲  against 3.00 MiB";
    assert_eq!(table.matches(row).count(), 2, "the test and its checkpoint: {table}");
}

#[test]
fn growth_is_expected_up_to_its_limit_by_what_the_verdict_says() {
    let with = |limit: &str| format!("metric=heap.peak,limit={limit},reason=a cache");
    for rounds in [2, 6] {
        assert_eq!(code(&against_five(rounds, MORE, &[&with("1KiB")])), 1, "{rounds} rounds");
        assert_eq!(code(&against_five(rounds, MORE, &[&with("100KiB")])), 0);
    }
}
