//! Figures that count since the last checkpoint, where the two sides have different checkpoints.

use crate::judging::{MIB, code, log, verdict};
use crate::support::synthetic::{Synthetic, cell};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::rule::{Judging, NoiseFigure};
use memprof_report::options::{Format, Options};
use serde_json::json;

/// A comparison of one metric's figures at the checkpoints of a test that ran twice a side.
fn compared(metric: &str, old: &[(&str, i64)], new: &[(&str, i64)]) -> Comparison {
    let judging = Judging { asked: vec![metric.to_owned()], ..Judging::default() };
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &log(metric, old)).passed("t", 1, repeat, &log(metric, new))
    });
    compare(&synthetic.results())
}

#[test]
fn peaks_and_totals_count_since_the_last_checkpoint_of_both_sides() {
    let whole = [("start", 0), ("done", 100 * MIB)];
    let split = |mid: i64, done: i64| [("start", 0), ("mid", mid), ("done", done)];
    let peak = "heap.peak";
    let higher = compared(peak, &whole, &split(150 * MIB, 5 * MIB));
    assert_eq!(verdict(&higher, peak, 1), Some(Verdict::Added));
    assert_eq!((verdict(&higher, peak, 2), code(&higher)), (Some(Verdict::Regressed), 1));
    let same = split(100 * MIB, 5 * MIB);
    assert_eq!(verdict(&compared(peak, &whole, &same), peak, 2), Some(Verdict::Unchanged));
    let back = compared(peak, &same, &whole);
    assert_eq!(
        (verdict(&back, peak, 1), verdict(&back, peak, 2)),
        (Some(Verdict::Removed), Some(Verdict::Unchanged))
    );
    let allocated = "heap.allocated";
    let equal = compared(allocated, &whole, &split(60 * MIB, 40 * MIB));
    assert_eq!(verdict(&equal, allocated, 2), Some(Verdict::Unchanged));
    let more = compared(allocated, &whole, &split(60 * MIB, 60 * MIB));
    assert_eq!(verdict(&more, allocated, 2), Some(Verdict::Regressed));
    let level = compared("heap.live", &whole, &split(150 * MIB, 100 * MIB));
    assert_eq!(verdict(&level, "heap.live", 2), Some(Verdict::Unchanged), "a figure of the moment");
    let mut text = Vec::new();
    memprof_report::render::render(Format::Table, &higher, &Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("100 → 150 MiB"), "{text}");
    let mut json = Vec::new();
    memprof_report::render::render(Format::Json, &higher, &Options::default(), &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let done = json["rows"].as_array().unwrap().iter().find(|row| row["checkpoint"] == "done").unwrap();
    assert_eq!(done["values"]["pr/1"]["value"], 5 * MIB, "its own");
    assert_eq!(
        (&done["compared"]["pr/1"], &done["delta"]["pr/1"]),
        (&json!([100 * MIB, 150 * MIB]), &json!(50 * MIB))
    );
}

/// A test whose loop has these peaks.
fn with_loop(peaks: &[i64]) -> Vec<(&'static str, i64)> {
    let steps = peaks.iter().map(|peak| ("chunk", *peak));
    [("start", 0)].into_iter().chain(steps).chain([("done", MIB)]).collect()
}

#[test]
fn a_loop_with_other_many_iterations_is_compared_as_a_whole() {
    let peak = "heap.peak";
    let verdicts = |old: &[i64], new: &[i64]| {
        let comparison = compared(peak, &with_loop(old), &with_loop(new));
        let view = comparison.pairs().next().expect("a pair");
        let last = view.rows.len() - 1;
        (verdict(&comparison, peak, last), code(&comparison))
    };
    let [ten, twenty] = [&[8 * MIB; 10][..], &[8 * MIB; 20][..]];
    assert_eq!(verdicts(ten, &[4 * MIB; 20]), (Some(Verdict::Improved), 0), "half the chunk");
    assert_eq!(verdicts(ten, twenty), (Some(Verdict::Unchanged), 0));
    assert_eq!(verdicts(twenty, ten), (Some(Verdict::Unchanged), 0));
    let higher = [ten, &[12 * MIB]].concat();
    assert_eq!(verdicts(ten, &higher), (Some(Verdict::Regressed), 1), "in the further iteration");
}

#[test]
fn a_further_iteration_of_an_earlier_phase_is_compared_within_that_phase() {
    let peak = "heap.peak";
    let phases = |first: &[i64], second: &[i64]| {
        let step = |peak: &i64| ("step", *peak * MIB);
        let first = [("start", 0)].into_iter().chain(first.iter().map(step)).chain([("mid", 0)]);
        first.chain(second.iter().map(step)).chain([("done", 0)]).collect::<Vec<_>>()
    };
    let verdicts = |old: [&[i64]; 2], new: [&[i64]; 2]| {
        let comparison = compared(peak, &phases(old[0], old[1]), &phases(new[0], new[1]));
        let view = comparison.pairs().next().expect("a pair");
        let row = |label: &str| {
            let at =
                view.rows.iter().position(|row| *view.cell.labels[view.key(row).label as usize] == *label);
            verdict(&comparison, peak, at.expect("a row"))
        };
        [row("mid"), row("done")]
    };
    let (same, grew) = (Some(Verdict::Unchanged), Some(Verdict::Regressed));
    let before: [&[i64]; 2] = [&[10], &[100]];
    assert_eq!(verdicts(before, [&[10, 60], &[100]]), [grew, same]);
    assert_eq!(verdicts(before, [&[10, 10], &[100]]), [same, same]);
    assert_eq!(verdicts(before, [&[10, 10], &[160]]), [same, grew]);
    assert_eq!(verdicts([&[10, 10], &[100]], [&[60], &[100]]), [grew, same]);
}

#[test]
fn the_known_noise_of_joined_figures_is_that_of_all_their_checkpoints() {
    let known = |metric: &str, checkpoint: &str, spread: u64| NoiseFigure {
        test: cell("t", &[]).test.to_string(),
        title: "t".to_owned(),
        metric: metric.to_owned(),
        source: compared(metric, &[("done", 0)], &[("done", 0)]).cells[0].sides[0]
            .source(metric)
            .map(str::to_owned),
        checkpoint: checkpoint.to_owned(),
        occurrence: 1,
        spread,
        ..NoiseFigure::default()
    };
    let whole = |done: i64| [("start", MIB), ("done", done)];
    let split = |mid: i64, done: i64| [("start", MIB), ("mid", mid), ("done", done)];
    let judged = |metric: &str, spreads: &[(&str, u64)], old: &[(&str, i64)], new: &[(&str, i64)]| {
        let noise = spreads.iter().map(|(checkpoint, spread)| known(metric, checkpoint, *spread)).collect();
        let judging = Judging { asked: vec![metric.to_owned()], noise, ..Judging::default() };
        let synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
        let synthetic = synthetic.passed("t", 0, 0, &log(metric, old)).passed("t", 1, 0, &log(metric, new));
        let comparison = compare(&synthetic.results());
        let last = comparison.pairs().next().expect("a pair").rows.len() - 1;
        verdict(&comparison, metric, last)
    };
    let noisy = [("mid", 7 << 20), ("done", 100)];
    let (before, after) = (split(100 * MIB, 90 * MIB), whole(106 * MIB));
    assert_eq!(judged("cpu.peak", &noisy, &before, &after), Some(Verdict::Inconclusive));
    assert_eq!(judged("cpu.peak", &noisy, &before, &whole(117 * MIB)), Some(Verdict::Regressed));
    assert_eq!(
        judged("cpu.peak", &noisy[1..], &before, &whole(117 * MIB)),
        Some(Verdict::Inconclusive),
        "unknown"
    );
    let (whole_before, added) = (whole(100 * MIB), split(117 * MIB, 90 * MIB));
    assert_eq!(judged("cpu.peak", &noisy, &whole_before, &added), Some(Verdict::Regressed), "the baseline's");
    let totals = [("mid", 3 << 20), ("done", 3 << 20)];
    let (before, after) = (split(50 * MIB, 50 * MIB), whole(108 * MIB));
    assert_eq!(judged("heap.allocated", &totals, &before, &after), Some(Verdict::Inconclusive), "their sum");
    assert_eq!(judged("heap.allocated", &totals, &before, &whole(113 * MIB)), Some(Verdict::Regressed));
}
