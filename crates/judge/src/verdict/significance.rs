//! The verdict on two sets of samples of one metric: regressed, improved, unchanged or
//! inconclusive. Table rows, bisect steps and simulations all use it. `docs/judging.md` explains
//! the method.

use crate::verdict::kinds::Verdict;
use crate::verdict::statistics::{differences, middle, shift, spread};
use memprof_plan::quantity::Threshold;

/// The least number of samples a side that can show a change of a noisy figure.
pub const ENOUGH: u32 = 5;

/// The numbers of samples a side at which `repeat: auto` checks for a verdict. Checking after every
/// sample would find a change by chance in the end.
pub const LOOKS: [u32; 6] = [1, 2, CONFIRMED, 6, 10, 15];

/// The number of equal samples a side that confirms a change. If a figure takes one of two values
/// at random, two samples a side look like a change once in 8 times, four samples once in 128.
pub const CONFIRMED: u32 = 4;

/// [`LOOKS`] at the new side, if a saved baseline has [`ENOUGH`] samples.
pub(crate) const LOOKS_AFTER_SAVED: [u32; 6] = [1, 2, CONFIRMED_AFTER_SAVED, 6, 10, 15];

/// [`CONFIRMED`] for the new side, if a saved baseline has [`ENOUGH`] samples: five and three look like a change once
/// in 128 times, too.
const CONFIRMED_AFTER_SAVED: u32 = 3;

/// Limits on a metric's growth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// For samples that repeat exactly, or vary by far less than this limit.
    pub tight: Threshold,
    /// For samples that vary more.
    pub wide: Threshold,
}

impl Thresholds {
    /// Uses one limit, regardless of noise.
    pub fn both(threshold: &Threshold) -> Self {
        Self { tight: threshold.clone(), wide: threshold.clone() }
    }
}

/// What is known about a figure's noise, besides the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// The measurement error of one reading, as its source states.
    pub floor: u64,
    /// The largest difference between runs of the same program, if measured.
    pub known: Option<u64>,
    /// Whether equal samples prove that the figure does not vary. True for counted figures;
    /// resident pages may be equal by chance.
    pub provable: bool,
    /// Whether one thread made all of the candidate's counts. Its only run is then like the next one, as far as the
    /// runs of a saved baseline were alike.
    pub single_threaded: bool,
}

/// A verdict on a metric, with the statistics behind it.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of the samples of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Significance {
    pub verdict: Verdict,
    /// Whether the samples of each side are equal and prove that the figure does not vary.
    pub exact: bool,
    /// The median of all differences.
    pub change: i128,
    /// The lower bound of the change.
    pub low: i128,
    /// The upper bound.
    pub high: i128,
    /// Smaller changes are ignored, in the metric's unit: the larger of the relative and the
    /// absolute limit, and at least the measurement error.
    pub limit: u64,
    /// Whether the measurement error exceeds the limit that was set.
    pub is_raised: bool,
    /// The number of samples of the side with fewer.
    pub samples: u32,
    /// Whether the samples of each side vary by far less than the limit.
    pub is_quiet: bool,
    /// Whether the change rests on so few samples that further ones could refute it.
    pub is_preliminary: bool,
    /// Whether the samples are enough to show a change. Fewer may show that there is none beyond the limit.
    pub tells_changes: bool,
}

impl Significance {
    /// Whether growth beyond the limit cannot be ruled out.
    pub(crate) fn may_have_grown(&self) -> bool {
        self.high > i128::from(self.limit)
    }

    /// Whether more samples could lead to a verdict, or refute it.
    pub fn wants_more(&self) -> bool {
        self.verdict == Verdict::Inconclusive || self.is_preliminary
    }
}

/// Returns the probability of reporting a change by chance at one check. An adaptive series makes
/// three such checks, below 1 % together; a fixed number of samples makes one. Five samples of a saved
/// baseline against six need more than six a side do, and have the same checks after it.
fn level(baseline: usize, candidate: usize) -> f64 {
    match (baseline.min(candidate), baseline.max(candidate)) {
        (0..=5, 0..=5) => 0.008,
        (0..=5, 6..=9) => 0.005,
        (_, 6..=9) | (6..=9, _) => 0.0022,
        (0..=5 | 10..=14, 10..=14) | (10..=14, _) => 0.0035,
        _ => 0.004,
    }
}

/// Judges a candidate's samples against a baseline's.
///
/// A limit in percent refers to the smaller side. So exchanging the sides only exchanges regressed
/// and improved.
pub fn judge(baseline: &[i64], candidate: &[i64], thresholds: &Thresholds, noise: Noise) -> Significance {
    judge_on(smaller_side(baseline, candidate), baseline, candidate, thresholds, noise)
}

/// Judges samples. A limit in percent refers to `smaller`.
fn judge_on(
    smaller: i128,
    baseline: &[i64],
    candidate: &[i64],
    thresholds: &Thresholds,
    noise: Noise,
) -> Significance {
    let tight = limit(&thresholds.tight, smaller);
    let steadiness = Steadiness::from_figures(baseline, candidate, tight, noise);
    let samples = baseline.len().min(candidate.len());
    let interval = interval(baseline, candidate, steadiness, noise);
    let set = if steadiness == Steadiness::Varies { limit(&thresholds.wide, smaller) } else { tight };
    let exact = steadiness == Steadiness::Exact;
    let error = if exact { 0 } else { noise.floor.max(noise.known.unwrap_or(0)) };
    let limit = set.max(error);
    let bound = i128::from(limit);
    let verdict = match interval {
        Interval { low, .. } if low > bound && interval.tells_changes => Verdict::Regressed,
        Interval { high, .. } if high < -bound && interval.tells_changes => Verdict::Improved,
        Interval { low, high, .. } if low >= -bound && high <= bound => Verdict::Unchanged,
        _ => Verdict::Inconclusive,
    };
    let is_change = matches!(verdict, Verdict::Regressed | Verdict::Improved);
    let most = baseline.len().max(candidate.len());
    let confirmed = if most >= ENOUGH as usize { CONFIRMED_AFTER_SAVED } else { CONFIRMED };
    Significance {
        verdict,
        exact,
        change: interval.estimate,
        low: interval.low,
        high: interval.high,
        limit,
        is_raised: error > set,
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        is_quiet: steadiness == Steadiness::Quiet,
        is_preliminary: is_change && steadiness != Steadiness::Varies && samples < confirmed as usize,
        tells_changes: interval.tells_changes,
    }
}

/// Judges samples that belong together in pairs, because both sides of a pair got the same random
/// numbers: what these numbers do to both sides is taken out. `None` if the differences vary so much
/// that pairs settle nothing; [`judge`] then decides by the samples themselves.
///
/// Six pairs that differ by chance in the same direction are too likely for a rank test. So pairs show
/// a change only if they all show the same one.
pub fn judge_pairs(
    baseline: &[i64],
    candidate: &[i64],
    thresholds: &Thresholds,
    noise: Noise,
) -> Option<Significance> {
    let changes = baseline.iter().zip(candidate).map(|(old, new)| new.checked_sub(*old));
    let changes: Option<Vec<i64>> = changes.collect();
    let smaller = smaller_side(baseline, candidate);
    let judged = judge_on(smaller, &vec![0; baseline.len()], &changes?, thresholds, noise);
    let is_settled = judged.verdict == Verdict::Unchanged || judged.exact || judged.is_quiet;
    (baseline.len() == candidate.len() && is_settled).then_some(judged)
}

/// How much the samples of one side differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steadiness {
    /// Provably not at all.
    Exact,
    /// By far less than the tight limit, as when the test harness takes a few bytes more or less.
    Quiet,
    /// By more, or unknown.
    Varies,
}

impl Steadiness {
    fn from_figures(baseline: &[i64], candidate: &[i64], tight: u64, noise: Noise) -> Self {
        let apart = spread(baseline).max(spread(candidate)).max(noise.known.unwrap_or(0));
        // A repeat is proof, and so is known noise of this program.
        let is_repeated = baseline.len().min(candidate.len()) > 1;
        let is_as_saved = noise.single_threaded && baseline.len() >= ENOUGH as usize && candidate.len() == 1;
        let is_proven = noise.provable && (is_repeated || is_as_saved || noise.known.is_some());
        match apart {
            0 if is_proven => Self::Exact,
            apart if is_proven && is_quiet(apart, tight) => Self::Quiet,
            _ => Self::Varies,
        }
    }
}

/// Whether figures that are so far apart vary by far less than the tight limit.
pub(crate) fn is_quiet(apart: u64, tight: u64) -> bool {
    apart <= tight / 4
}

/// The confidence interval of the change.
#[derive(Clone, Copy)]
struct Interval {
    estimate: i128,
    low: i128,
    high: i128,
    /// Whether the interval may prove a change. It may prove "unchanged" earlier: an error there is
    /// a missed change, not a false alarm.
    tells_changes: bool,
}

/// The interval of an unknown change.
const UNKNOWN: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

fn interval(baseline: &[i64], candidate: &[i64], steadiness: Steadiness, noise: Noise) -> Interval {
    let samples = baseline.len().min(candidate.len());
    let all = differences(baseline, candidate);
    let (Some(estimate), Some(&least), Some(&greatest)) = (middle(&all), all.first(), all.last()) else {
        return Interval { estimate: 0, low: UNKNOWN.0, high: UNKNOWN.1, tells_changes: false };
    };
    let apart = spread(baseline).max(spread(candidate));
    let around = |by: u64, tells_changes| Interval {
        estimate,
        low: least - i128::from(by),
        high: greatest + i128::from(by),
        tells_changes,
    };
    // Two revisions with exactly the same figure are as good as a repeat.
    let is_one_value = least == 0 && greatest == 0;
    if steadiness != Steadiness::Varies || is_one_value {
        return around(apart.max(noise.known.unwrap_or(0)), true);
    }
    if let Some(shift) = shift(baseline, candidate, level(baseline.len(), candidate.len())) {
        return Interval { estimate: shift.estimate, low: shift.low, high: shift.high, tells_changes: true };
    }
    // A saved baseline has enough runs to tell how much a figure varies. The next run of a counted figure may
    // still prove that it does not vary, and then its limit is smaller.
    let varies_as_known = !noise.provable && baseline.len().max(candidate.len()) >= ENOUGH as usize;
    match (samples, noise.known) {
        // `--noise` tells how much the same program varies.
        (_, Some(known)) => around(known.max(apart), true),
        // One run a side tells nothing about the next.
        (1, None) if !varies_as_known => {
            Interval { estimate, low: UNKNOWN.0, high: UNKNOWN.1, tells_changes: false }
        }
        _ => around(apart, false),
    }
}

/// Returns the smaller of the two medians.
fn smaller_side(baseline: &[i64], candidate: &[i64]) -> i128 {
    let median = |samples: &[i64]| {
        let mut sorted: Vec<i128> = samples.iter().map(|&sample| sample.into()).collect();
        sorted.sort_unstable();
        middle(&sorted).unwrap_or(0)
    };
    median(baseline).min(median(candidate))
}

/// Returns the threshold in the metric's unit: the larger of its percentage and its absolute part.
/// A percentage of zero is zero, so any growth from zero exceeds it.
pub(crate) fn limit(threshold: &Threshold, smaller: i128) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "percentages have few digits; the value is never negative, and the cast saturates"
    )]
    let relative = threshold.percent.map(|percent| (smaller.max(0) as f64 * percent / 100.0) as u64);
    relative.unwrap_or(0).max(threshold.bytes.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIB: i64 = 1024;
    const MIB: i64 = 1024 * KIB;

    fn threshold(percent: f64, bytes: i64) -> Threshold {
        Threshold { percent: Some(percent), bytes: Some(bytes.unsigned_abs()) }
    }

    fn thresholds() -> Thresholds {
        Thresholds { tight: threshold(0.5, 16 * KIB), wide: threshold(3.0, 64 * KIB) }
    }

    const COUNTED: Noise = Noise { floor: 0, known: None, provable: true, single_threaded: false };
    const SAMPLED: Noise = Noise { floor: 0, known: None, provable: false, single_threaded: false };

    fn verdict(baseline: &[i64], candidate: &[i64], noise: Noise) -> Verdict {
        judge(baseline, candidate, &thresholds(), noise).verdict
    }

    #[test]
    fn figures_that_repeat_exactly_are_compared_exactly() {
        let significance = judge(&[100 * MIB; 2], &[101 * MIB; 2], &thresholds(), COUNTED);
        assert_eq!((significance.verdict, significance.exact), (Verdict::Regressed, true));
        assert_eq!((significance.change, significance.low, significance.high), (1 << 20, 1 << 20, 1 << 20));
        assert_eq!(significance.limit, 512 << 10, "half a percent, which is more than 16 KiB");
        assert!(significance.wants_more(), "two and two may be chance");
        assert!(!judge(&[100 * MIB; 4], &[101 * MIB; 4], &thresholds(), COUNTED).wants_more());
        assert_eq!(verdict(&[101 * MIB; 2], &[100 * MIB; 2], COUNTED), Verdict::Improved);
        assert_eq!(verdict(&[100 * MIB; 2], &[100 * MIB + 1; 2], COUNTED), Verdict::Unchanged);
    }

    #[test]
    fn five_saved_runs_settle_what_one_thread_counts() {
        let one_thread = Noise { single_threaded: true, ..COUNTED };
        let judged = |saved: &[i64], new: &[i64], noise| {
            let judged = judge(saved, new, &thresholds(), noise);
            (judged.verdict, judged.exact, judged.wants_more())
        };
        let saved = [100 * MIB; 5];
        assert_eq!(judged(&saved, &[100 * MIB + 9], one_thread), (Verdict::Unchanged, true, false));
        assert_eq!(judged(&saved, &[101 * MIB], one_thread), (Verdict::Regressed, true, true));
        assert_eq!(judged(&saved, &[101 * MIB; 2], one_thread), (Verdict::Regressed, true, true));
        assert_eq!(judged(&saved, &[101 * MIB; 3], one_thread), (Verdict::Regressed, true, false));
        assert_eq!(judged(&saved[..4], &[101 * MIB; 3], one_thread), (Verdict::Regressed, true, true));
        let alike = [0, 4, 0, 0, 8].map(|more| 100 * MIB + more);
        assert_eq!(judged(&alike, &[100 * MIB + 9], one_thread), (Verdict::Unchanged, false, false));

        let open = (Verdict::Inconclusive, false, true);
        assert_eq!(judged(&saved, &[100 * MIB + 9], COUNTED), open, "threads");
        assert_eq!(judged(&saved[..4], &[100 * MIB + 9], one_thread), open, "four runs");
        let apart = [0, 1, 0, 0, 0].map(|more| 100 * MIB + more * MIB);
        assert_eq!(judged(&apart, &[100 * MIB + 9], one_thread), open, "saved runs that vary");
    }

    #[test]
    fn pairs_take_out_what_the_input_does_to_both_sides() {
        let old = [MIB, 5 * MIB, 3 * MIB, 9 * MIB];
        let by = |changes: [i64; 4]| [0, 1, 2, 3].map(|run| old[run] + changes[run]);
        let judged = |new: &[i64]| judge_pairs(&old, new, &thresholds(), COUNTED);
        let verdict = |new: &[i64]| judged(new).map(|judged| (judged.verdict, judged.exact, judged.change));
        assert_eq!(verdict(&old), Some((Verdict::Unchanged, true, 0)));
        assert_eq!(judge(&old, &old, &thresholds(), COUNTED).verdict, Verdict::Inconclusive);
        assert_eq!(verdict(&by([MIB; 4])), Some((Verdict::Regressed, true, i128::from(MIB))));
        assert_eq!(verdict(&by([-MIB; 4])), Some((Verdict::Improved, true, i128::from(-MIB))));
        assert_eq!(verdict(&by([100, -100, 0, 50])), Some((Verdict::Unchanged, false, 25)));
        assert_eq!(verdict(&by([MIB, 2 * MIB, 3 * MIB, 4 * MIB])), None, "other input on one side");
        assert_eq!(judge_pairs(&old, &old[..3], &thresholds(), COUNTED), None);
        assert_eq!(judge_pairs(&[i64::MIN], &[i64::MAX], &thresholds(), COUNTED), None);
    }

    #[test]
    fn the_percentage_of_pairs_refers_to_the_smaller_side() {
        let percent = Thresholds::both(&Threshold { percent: Some(20.0), bytes: None });
        let judged = |old: i64, new: i64| {
            let judged = judge_pairs(&[old * MIB; 6], &[new * MIB; 6], &percent, COUNTED).unwrap();
            (judged.verdict, judged.limit)
        };
        assert_eq!(judged(118, 100), (Verdict::Unchanged, 20 << 20));
        assert_eq!(judged(100, 118), (Verdict::Unchanged, 20 << 20), "the other way round");
        assert_eq!(judged(121, 100), (Verdict::Improved, 20 << 20));
    }

    #[test]
    fn both_limits_must_be_exceeded() {
        assert_eq!(verdict(&[KIB; 2], &[8 * KIB; 2], COUNTED), Verdict::Unchanged, "seven times, but 7 KiB");
        assert_eq!(
            verdict(&[MIB; 2], &[MIB + 16 * KIB; 2], COUNTED),
            Verdict::Unchanged,
            "exactly the limit"
        );
        assert_eq!(verdict(&[MIB; 2], &[MIB + 16 * KIB + 1; 2], COUNTED), Verdict::Regressed);
        assert_eq!(verdict(&[1000 * MIB; 2], &[1004 * MIB; 2], COUNTED), Verdict::Unchanged, "0.4 %");
    }

    #[test]
    fn any_growth_from_zero_exceeds_a_percentage() {
        let percent = Thresholds::both(&Threshold { percent: Some(5.0), bytes: None });
        let judged = |old: i64, new: i64| judge(&[old; 2], &[new; 2], &percent, COUNTED).verdict;
        assert_eq!(
            (judged(0, 1), judged(0, 0), judged(-5, 3)),
            (Verdict::Regressed, Verdict::Unchanged, Verdict::Regressed)
        );
    }

    #[test]
    fn one_run_a_side_shows_equality_only() {
        assert_eq!(verdict(&[MIB], &[MIB], COUNTED), Verdict::Unchanged);
        assert_eq!(verdict(&[MIB], &[900 * MIB], COUNTED), Verdict::Inconclusive);
        assert_eq!(verdict(&[MIB], &[MIB + 1], SAMPLED), Verdict::Inconclusive);
        assert_eq!(
            verdict(&[MIB; 2], &[900 * MIB], COUNTED),
            Verdict::Inconclusive,
            "one side proves nothing of the other"
        );
    }

    #[test]
    fn one_run_a_side_is_enough_with_known_noise() {
        let known = Noise { known: Some(100 * KIB.unsigned_abs()), ..SAMPLED };
        assert_eq!(verdict(&[10 * MIB], &[11 * MIB], known), Verdict::Regressed);
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 150 * KIB], known), Verdict::Unchanged);
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 390 * KIB], known), Verdict::Inconclusive);
        let exact = Noise { known: Some(0), ..COUNTED };
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 100 * KIB], exact), Verdict::Regressed);
    }

    #[test]
    fn equal_resident_figures_prove_nothing() {
        assert_eq!(verdict(&[100 * MIB; 2], &[110 * MIB; 2], SAMPLED), Verdict::Inconclusive);
        assert_eq!(verdict(&[100 * MIB; 5], &[110 * MIB; 5], SAMPLED), Verdict::Regressed);
    }

    #[test]
    fn noise_far_below_the_limit_is_unchanged_after_two_runs() {
        let (old, new) = ([100 * MIB, 100 * MIB + 40 * KIB], [100 * MIB + 12 * KIB, 100 * MIB + 80 * KIB]);
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Unchanged);
    }

    #[test]
    fn one_run_is_unchanged_far_within_the_limit_of_five() {
        let old = [100, 40, 80, 0, 60].map(|kib| 100 * MIB + kib * KIB);
        let verdict = |new: i64, noise| verdict(&old, &[100 * MIB + new * KIB], noise);
        assert_eq!(verdict(70, SAMPLED), Verdict::Unchanged);
        assert_eq!(verdict(3000, SAMPLED), Verdict::Inconclusive, "within the limit, but not by the spread");
        assert_eq!(verdict(9000, SAMPLED), Verdict::Inconclusive, "one run shows no change");
        assert_eq!(verdict(70, COUNTED), Verdict::Inconclusive, "a repeat may prove that it does not vary");
        assert_eq!(
            judge(&old[..4], &[100 * MIB], &thresholds(), SAMPLED).verdict,
            Verdict::Inconclusive,
            "four runs are not enough"
        );
    }

    #[test]
    fn a_change_of_a_noisy_figure_takes_five_runs_a_side() {
        let old = [100, 101, 100, 102, 101].map(|mib: i64| mib * MIB);
        let new = [110, 111, 112, 110, 111].map(|mib: i64| mib * MIB);
        assert_eq!(verdict(&old[..4], &new[..4], SAMPLED), Verdict::Inconclusive);
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Regressed);
        assert_eq!(verdict(&new, &old, SAMPLED), Verdict::Improved);
    }

    #[test]
    fn a_saved_baseline_has_the_same_chance_of_an_error_as_runs_of_both_sides() {
        let levels = |saved: usize| format!("{:?}", [6, 10, 15].map(|look| level(saved, look)));
        assert_eq!(levels(5), "[0.005, 0.0035, 0.004]");
        assert_eq!(levels(6), "[0.0022, 0.0022, 0.0022]");
        assert_eq!(levels(10), "[0.0022, 0.0035, 0.0035]");
        let of_both = format!("{:?}", [5, 6, 10, 15].map(|both| level(both, both)));
        assert_eq!(of_both, "[0.008, 0.0022, 0.0035, 0.004]");
        let saved = [100, 101, 102, 103, 104].map(|mib: i64| mib * MIB);
        let grown = |looks: i64, among: i64| -> Vec<i64> {
            (0..looks).map(|at| if at < among { 101 * MIB + 1 } else { 190 * MIB + at }).collect()
        };
        let thresholds = Thresholds::both(&Threshold::default());
        let verdict = |new: &[i64]| judge(&saved, new, &thresholds, SAMPLED).verdict;
        assert_eq!(verdict(&grown(6, 0)), Verdict::Regressed);
        assert_eq!(verdict(&grown(10, 1)), Verdict::Inconclusive, "three of fifty differences");
    }

    #[test]
    fn a_figure_that_alternates_is_inconclusive() {
        let (low, high) = (100 * MIB, 164 * MIB);
        let old = [low, high, low, low, high];
        let new = [high, low, high, high, low];
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Inconclusive);
    }

    #[test]
    fn a_change_below_the_measurement_error_is_unchanged() {
        let noise = Noise { floor: 24 << 20, ..SAMPLED };
        let significance = judge(&[100 * MIB; 5], &[110 * MIB; 5], &thresholds(), noise);
        assert_eq!(
            (significance.verdict, significance.limit, significance.is_raised),
            (Verdict::Unchanged, 24 << 20, true)
        );
        assert_eq!(verdict(&[100 * MIB; 5], &[130 * MIB; 5], noise), Verdict::Regressed);
    }

    #[test]
    fn a_jitter_of_a_few_bytes_keeps_the_tight_limit() {
        let old = [MIB, MIB + 144, MIB, MIB, MIB + 144];
        let new = old.map(|bytes| bytes + 20 * KIB);
        assert_eq!(verdict(&old, &new, COUNTED), Verdict::Regressed);
        let jitter = old.map(|bytes| bytes + bytes % 5 * 9 * KIB);
        assert_eq!(judge(&jitter, &jitter, &thresholds(), COUNTED).limit, 64 << 10);
        assert_eq!(verdict(&old[..4], &new[..4], COUNTED), Verdict::Regressed);
        assert!(judge(&old[..2], &new[..2], &thresholds(), COUNTED).wants_more());
    }

    fn any_samples() -> impl Strategy<Value = Vec<i64>> {
        let value = prop_oneof![Just(0_i64), -100_000..100_000_i64, 0..64_000_000_i64, any::<i64>()];
        prop_oneof![
            (value.clone(), 0..12_usize).prop_map(|(value, count)| vec![value; count]),
            proptest::collection::vec(value, 0..12),
        ]
    }

    proptest! {
        #[test]
        fn the_other_way_round_the_verdict_is_its_opposite(
            old in any_samples(),
            new in any_samples(),
            floor in 0..100_000_u64,
            known in proptest::option::of(0..100_000_u64),
            provable: bool,
        ) {
            let noise = Noise { floor, known, provable, single_threaded: false };
            let forth = judge(&old, &new, &thresholds(), noise);
            let back = judge(&new, &old, &thresholds(), noise);
            prop_assert_eq!(forth.verdict, back.verdict.opposite());
            prop_assert_eq!((forth.change, forth.limit, forth.exact), (-back.change, back.limit, back.exact));
        }

        #[test]
        fn a_program_never_differs_from_itself(samples in any_samples(), provable: bool) {
            let noise = Noise { provable, ..Noise::default() };
            let verdict = judge(&samples, &samples, &thresholds(), noise).verdict;
            prop_assert!(matches!(verdict, Verdict::Unchanged | Verdict::Inconclusive));
        }
    }
}
