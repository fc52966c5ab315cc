//! The verdict on two sets of samples of one metric: grown, shrunk, the same, or not to be told from these. Pure, and the
//! same for a table's row, a step of a search through history, and a simulation. `docs/judging.md` has the reasons.

use crate::plan::quantity::Threshold;
use crate::verdict::kinds::Verdict;
use crate::verdict::statistics::{differences, middle, shift, spread};

/// From so many samples a side on, a change of a figure that varies can be told from chance.
pub const ENOUGH: u32 = 5;

/// After how many samples a side an adaptive series looks at them. Looking after every sample would find a change by chance in the
/// end.
pub const LOOKS: [u32; 6] = [1, 2, CONFIRMED, 6, 10, 15];

/// So many equal samples a side make a change more than chance: where a figure takes two values by turns, two samples a side are
/// apart once in eight times, and four once in 128.
const CONFIRMED: u32 = 4;

/// By how much a metric may grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// Where the samples tell as much: they repeat to the unit, or vary by far less than this.
    pub tight: Threshold,
    /// Where they vary by more.
    pub wide: Threshold,
}

impl Thresholds {
    /// The same limit however much the samples vary.
    pub fn both(threshold: &Threshold) -> Self {
        Self { tight: threshold.clone(), wide: threshold.clone() }
    }
}

/// What is known of how the figure varies, beside the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// By how much one reading may be off, as its source says.
    pub floor: u64,
    /// The greatest difference between runs of one and the same program, where that was measured.
    pub known: Option<u64>,
    /// Whether equal samples prove that the figure does not vary: so for what is counted, while resident pages may be the
    /// same in two runs by chance.
    pub provable: bool,
}

/// What is said of a metric, and from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Significance {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether each side's samples are all the same and prove that the figure does not vary.
    pub exact: bool,
    /// The change: the median of all differences.
    pub change: i128,
    /// The least change that the samples allow.
    pub low: i128,
    /// The greatest.
    pub high: i128,
    /// How much more is a change, in the metric's unit: the greater of the relative and the absolute limit, and not less than
    /// the figure's own error.
    pub limit: u64,
    /// Whether the figure's own error is greater than the limit that was set.
    pub is_raised: bool,
    /// How many samples the smaller side has.
    pub samples: u32,
    /// Whether a change rests on a repeat or two that a further one could contradict.
    pub is_preliminary: bool,
}

impl Significance {
    /// Whether an adaptive series goes on: more samples could lead to a verdict, or overturn it.
    pub fn wants_more(&self) -> bool {
        self.verdict == Verdict::Inconclusive || self.is_preliminary
    }
}

/// How often chance alone may lead to a change being told, in each look at the samples: an adaptive series takes three such looks,
/// which stay below 1 % together, and a fixed number of samples takes one.
fn level(samples: usize) -> f64 {
    match samples {
        0..=5 => 0.008,
        6..=9 => 0.0022,
        10..=14 => 0.0035,
        _ => 0.004,
    }
}

/// Judges a candidate's samples against a baseline's.
///
/// The limit in percent is taken of the smaller side, so that exchanging the sides turns growth into shrinkage and nothing else.
pub fn judge(baseline: &[i64], candidate: &[i64], thresholds: &Thresholds, noise: Noise) -> Significance {
    let smaller = smaller_side(baseline, candidate);
    let tight = limit(&thresholds.tight, smaller);
    let steadiness = Steadiness::of(baseline, candidate, tight, noise);
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
    Significance {
        verdict,
        exact,
        change: interval.estimate,
        low: interval.low,
        high: interval.high,
        limit,
        is_raised: error > set,
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        is_preliminary: is_change && steadiness != Steadiness::Varies && samples < CONFIRMED as usize,
    }
}

/// How much the samples of one side differ among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steadiness {
    /// Not at all, and that is proven.
    Exact,
    /// By far less than the tight limit, as where the test harness takes a few bytes more or less.
    Quiet,
    /// By more, or nobody knows.
    Varies,
}

impl Steadiness {
    fn of(baseline: &[i64], candidate: &[i64], tight: u64, noise: Noise) -> Self {
        let apart = spread(baseline).max(spread(candidate)).max(noise.known.unwrap_or(0));
        // A repeat is proof, and so is a record of this very program.
        let is_proven = noise.provable && (baseline.len().min(candidate.len()) > 1 || noise.known.is_some());
        match apart {
            0 if is_proven => Self::Exact,
            apart if is_proven && apart <= tight / 4 => Self::Quiet,
            _ => Self::Varies,
        }
    }
}

/// Where the change lies.
#[derive(Clone, Copy)]
struct Interval {
    estimate: i128,
    low: i128,
    high: i128,
    /// Whether chance is excluded well enough to call it a change. That nothing changed can be told earlier: whoever errs there
    /// overlooks something, and raises no alarm.
    tells_changes: bool,
}

/// What could be anything.
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
    // Two revisions with the same figure to the unit are as good as a repeat.
    let is_one_value = least == 0 && greatest == 0;
    if steadiness != Steadiness::Varies || is_one_value {
        return around(apart.max(noise.known.unwrap_or(0)), true);
    }
    if let Some(shift) = shift(baseline, candidate, level(samples)) {
        return Interval { estimate: shift.estimate, low: shift.low, high: shift.high, tells_changes: true };
    }
    match (samples, noise.known) {
        // What the same program varies by is known from elsewhere.
        (_, Some(known)) => around(known.max(apart), true),
        // One run of a program says nothing of the next.
        (1, None) => Interval { estimate, low: UNKNOWN.0, high: UNKNOWN.1, tells_changes: false },
        _ => around(apart, false),
    }
}

/// The median of the side that has less.
fn smaller_side(baseline: &[i64], candidate: &[i64]) -> i128 {
    let median = |samples: &[i64]| {
        let mut sorted: Vec<i128> = samples.iter().map(|&sample| sample.into()).collect();
        sorted.sort_unstable();
        middle(&sorted).unwrap_or(0)
    };
    median(baseline).min(median(candidate))
}

/// What the threshold is in the metric's unit: more than its percentage and more than its absolute part, where it has both.
/// Nothing is a percentage of zero: from there any growth is beyond it.
fn limit(threshold: &Threshold, smaller: i128) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit in percent has no more digits than that; it is never negative, and saturates"
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

    const COUNTED: Noise = Noise { floor: 0, known: None, provable: true };
    const SAMPLED: Noise = Noise { floor: 0, known: None, provable: false };

    fn verdict(baseline: &[i64], candidate: &[i64], noise: Noise) -> Verdict {
        judge(baseline, candidate, &thresholds(), noise).verdict
    }

    #[test]
    fn what_repeats_to_the_byte_is_compared_to_the_byte() {
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
    fn nothing_is_a_percentage_of_zero() {
        let percent = Thresholds::both(&Threshold { percent: Some(5.0), bytes: None });
        let judged = |old: i64, new: i64| judge(&[old; 2], &[new; 2], &percent, COUNTED).verdict;
        assert_eq!(
            (judged(0, 1), judged(0, 0), judged(-5, 3)),
            (Verdict::Regressed, Verdict::Unchanged, Verdict::Regressed)
        );
    }

    #[test]
    fn one_run_a_side_tells_equality_and_nothing_else() {
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
    fn one_run_a_side_is_enough_where_the_noise_is_known() {
        let known = Noise { known: Some(100 * KIB.unsigned_abs()), ..SAMPLED };
        assert_eq!(verdict(&[10 * MIB], &[11 * MIB], known), Verdict::Regressed);
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 150 * KIB], known), Verdict::Unchanged);
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 390 * KIB], known), Verdict::Inconclusive);
        let exact = Noise { known: Some(0), ..COUNTED };
        assert_eq!(verdict(&[10 * MIB], &[10 * MIB + 100 * KIB], exact), Verdict::Regressed);
    }

    #[test]
    fn pages_that_are_the_same_by_chance_prove_nothing() {
        assert_eq!(verdict(&[100 * MIB; 2], &[110 * MIB; 2], SAMPLED), Verdict::Inconclusive);
        assert_eq!(verdict(&[100 * MIB; 5], &[110 * MIB; 5], SAMPLED), Verdict::Regressed);
    }

    #[test]
    fn noise_far_below_the_limit_is_seen_after_two_runs() {
        let (old, new) = ([100 * MIB, 100 * MIB + 40 * KIB], [100 * MIB + 12 * KIB, 100 * MIB + 80 * KIB]);
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Unchanged);
    }

    #[test]
    fn a_change_of_what_varies_takes_five_runs_a_side() {
        let old = [100, 101, 100, 102, 101].map(|mib: i64| mib * MIB);
        let new = [110, 111, 112, 110, 111].map(|mib: i64| mib * MIB);
        assert_eq!(verdict(&old[..4], &new[..4], SAMPLED), Verdict::Inconclusive);
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Regressed);
        assert_eq!(verdict(&new, &old, SAMPLED), Verdict::Improved);
    }

    #[test]
    fn a_step_that_comes_and_goes_is_no_change() {
        let (low, high) = (100 * MIB, 164 * MIB);
        let old = [low, high, low, low, high];
        let new = [high, low, high, high, low];
        assert_eq!(verdict(&old, &new, SAMPLED), Verdict::Inconclusive);
    }

    #[test]
    fn below_the_error_of_its_source_nothing_is_told() {
        let noise = Noise { floor: 24 << 20, ..SAMPLED };
        let significance = judge(&[100 * MIB; 5], &[110 * MIB; 5], &thresholds(), noise);
        assert_eq!(
            (significance.verdict, significance.limit, significance.is_raised),
            (Verdict::Unchanged, 24 << 20, true)
        );
        assert_eq!(verdict(&[100 * MIB; 5], &[130 * MIB; 5], noise), Verdict::Regressed);
    }

    #[test]
    fn a_jitter_of_a_few_bytes_leaves_the_tight_limit_in_place() {
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
            let noise = Noise { floor, known, provable };
            let forth = judge(&old, &new, &thresholds(), noise);
            let back = judge(&new, &old, &thresholds(), noise);
            prop_assert_eq!(forth.verdict, back.verdict.opposite());
            prop_assert_eq!((forth.change, forth.limit, forth.exact), (-back.change, back.limit, back.exact));
        }

        #[test]
        fn a_program_is_never_told_from_itself(samples in any_samples(), provable: bool) {
            let noise = Noise { provable, ..Noise::default() };
            let verdict = judge(&samples, &samples, &thresholds(), noise).verdict;
            prop_assert!(matches!(verdict, Verdict::Unchanged | Verdict::Inconclusive));
        }
    }
}
