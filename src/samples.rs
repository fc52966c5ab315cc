//! What is known of commits while a search goes on: the figures of their runs, or that they have none; and whether a metric
//! differs between two of them.

use crate::comparison::Delta;
use crate::metric::Unit;
use crate::request::Threshold;

/// What is known of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The metric's figure in each run, in the order of the runs; at least one.
    Samples(Vec<i64>),
    /// It has no figure: it does not build, has no such test, fails it.
    Skipped,
}

/// What is known of each commit of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    commits: Vec<Option<Known>>,
}

/// Whether a metric changed between two commits, beyond the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It did.
    Yes,
    /// It did not.
    No,
    /// The runs so far do not say.
    Unclear,
}

/// By what a change is told from noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What is no change yet.
    pub threshold: Threshold,
    /// How often a commit is run at most.
    pub most_runs: usize,
}

/// Runs of a commit that a decision about a noisy metric takes at least.
const NOISY_RUNS: usize = 3;

/// How near to the threshold a single run is not enough, as a part of it.
const NEAR: f64 = 0.25;

impl Knowledge {
    /// Nothing yet, of so many commits.
    pub fn of_nothing(commits: usize) -> Self {
        Self { commits: vec![None; commits] }
    }

    /// Replaces what is known of a commit.
    pub fn learn(&mut self, commit: usize, known: Known) {
        self.commits[commit] = Some(known);
    }

    /// What is known of a commit.
    pub fn of(&self, commit: usize) -> Option<&Known> {
        self.commits[commit].as_ref()
    }

    /// A commit's figures, if it has any.
    pub fn samples(&self, commit: usize) -> Option<&[i64]> {
        match self.of(commit)? {
            Known::Samples(samples) => Some(samples),
            Known::Skipped => None,
        }
    }

    /// The median of a commit's figures.
    pub fn median(&self, commit: usize) -> Option<i64> {
        self.samples(commit).and_then(median)
    }

    /// Whether every commit that was run more than once gave the same figure each time.
    pub fn is_exact(&self) -> bool {
        let samples = self.commits.iter().flatten().filter_map(|known| match known {
            Known::Samples(samples) => Some(samples),
            Known::Skipped => None,
        });
        samples.into_iter().all(|samples| samples.iter().all(|sample| *sample == samples[0]))
    }

    /// How many runs of a commit a decision takes at least: one where figures repeat to the unit.
    pub fn least_runs(&self) -> usize {
        if self.is_exact() { 1 } else { NOISY_RUNS }
    }
}

/// The median; for an even number the middle between the two middle ones, rounded down.
pub fn median(samples: &[i64]) -> Option<i64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let (low, high) = (*sorted.get(sorted.len().checked_sub(1)? / 2)?, *sorted.get(sorted.len() / 2)?);
    i64::try_from((i128::from(low) + i128::from(high)).div_euclid(2)).ok()
}

impl Rule {
    /// Whether the metric changed from one commit to another.
    pub fn change(&self, known: &Knowledge, before: usize, after: usize) -> Change {
        let (Some(before), Some(after)) = (known.samples(before), known.samples(after)) else {
            return Change::Unclear;
        };
        if known.is_exact() { self.exact(before, after) } else { self.noisy(before, after) }
    }

    /// The largest difference that is no change.
    #[expect(clippy::cast_precision_loss, reason = "a percentage was asked for")]
    fn allowed(&self, before: i64) -> f64 {
        let part = self.threshold.percent.map_or(0.0, |percent| percent / 100.0 * before.max(0) as f64);
        self.threshold.bytes.map_or(part, |bytes| part.max(bytes as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "compared with a percentage")]
    fn exact(&self, before: &[i64], after: &[i64]) -> Change {
        let (old, new) = (before[0], after[0]);
        let difference = Delta::between(old, new).difference.unsigned_abs() as f64;
        let allowed = self.allowed(old);
        let is_near = (difference - allowed).abs() < NEAR * allowed;
        if is_near && (before.len() < 2 || after.len() < 2) {
            Change::Unclear
        } else if difference > allowed {
            Change::Yes
        } else {
            Change::No
        }
    }

    /// A rank test of the samples, one of them moved by what is allowed: figures of resident memory come in steps and with
    /// far outliers, of which ranks know nothing.
    fn noisy(&self, before: &[i64], after: &[i64]) -> Change {
        #[expect(clippy::cast_possible_truncation, reason = "a figure's part")]
        let allowed = self.allowed(median(before).unwrap_or_default()) as i128;
        let is_above = |by: i128| chance_of_being_above(before, after, by) <= SURE;
        let is_below = |by: i128| chance_of_being_above(after, before, by) <= SURE;
        if is_above(allowed) || is_below(allowed) {
            Change::Yes
        } else if is_above(-allowed) && is_below(-allowed) {
            Change::No
        } else {
            Change::Unclear
        }
    }
}

/// The chance at which a difference beyond the threshold is believed.
const SURE: f64 = 0.01;

/// Mann and Whitney's test, exactly: how likely it is that the higher samples stand as far above the lower ones and `by` as
/// they do, if they were drawn from the same.
#[expect(clippy::cast_precision_loss, reason = "a chance")]
fn chance_of_being_above(lower: &[i64], higher: &[i64], by: i128) -> f64 {
    // Where two are equal, that one is above is not shown.
    let pairs =
        lower.iter().flat_map(|low| higher.iter().map(move |high| (i128::from(*low), i128::from(*high))));
    let above = pairs.filter(|(low, high)| high - low > by).count();
    let ways = ways_by_pairs(lower.len(), higher.len());
    let as_far: u128 = ways[above..].iter().sum();
    as_far as f64 / ways.iter().sum::<u128>() as f64
}

/// In how many of the orders of so many lower and higher samples a number of pairs, the index, has the higher one above.
fn ways_by_pairs(lower: usize, higher: usize) -> Vec<u128> {
    // By the number of lower ones: the greatest of all is a lower one, which is above no pair, or a higher one, which is above
    // each lower one.
    let mut ways = vec![vec![1]; lower + 1];
    for _ in 0..higher {
        let mut more: Vec<Vec<u128>> = vec![vec![1]];
        for lower in 1..=lower {
            let mut sum = vec![0; more[lower - 1].len().max(ways[lower].len() + lower)];
            more[lower - 1].iter().enumerate().for_each(|(pairs, count)| sum[pairs] += count);
            ways[lower].iter().enumerate().for_each(|(pairs, count)| sum[pairs + lower] += count);
            more.push(sum);
        }
        ways = more;
    }
    ways.pop().unwrap_or_default()
}

/// What is no change where nobody said: figures that repeat to the unit hardly move by themselves, resident ones do.
pub fn usual_threshold(metric: &str) -> Threshold {
    let exact = metric.starts_with("heap.") || metric.starts_with("gpu.");
    match (Unit::of(metric), exact) {
        (Unit::Bytes, true) => Threshold { percent: Some(1.0), bytes: Some(4 << 10) },
        (Unit::Bytes, false) => Threshold { percent: Some(5.0), bytes: Some(2 << 20) },
        (Unit::Count, _) => Threshold { percent: Some(1.0), bytes: Some(16) },
        (Unit::Nanoseconds, _) => Threshold { percent: Some(10.0), bytes: Some(50_000_000) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(samples: &[&[i64]]) -> Knowledge {
        let mut known = Knowledge::of_nothing(samples.len());
        for (commit, samples) in samples.iter().enumerate() {
            known.learn(commit, Known::Samples(samples.to_vec()));
        }
        known
    }

    fn change(before: &[i64], after: &[i64]) -> Change {
        let threshold = Threshold { percent: Some(10.0), bytes: Some(50) };
        Rule { threshold, most_runs: 9 }.change(&known(&[before, after]), 0, 1)
    }

    #[test]
    fn figures_that_repeat_are_compared_as_they_are() {
        assert_eq!(change(&[1000, 1000], &[1000]), Change::No);
        assert_eq!(change(&[1000, 1000], &[1300]), Change::Yes);
        assert_eq!(change(&[1000, 1000], &[700]), Change::Yes);
        assert_eq!(change(&[100, 100], &[130]), Change::No, "the larger of the two limits counts");
    }

    #[test]
    fn near_the_threshold_a_second_run_is_wanted_and_is_enough() {
        assert_eq!(change(&[1000, 1000], &[1101]), Change::Unclear);
        assert_eq!(change(&[1000, 1000], &[1101, 1101]), Change::Yes);
        assert_eq!(change(&[1000, 1000], &[1100, 1100]), Change::No);
    }

    #[test]
    fn noise_is_told_from_a_change_by_its_ranks() {
        let noisy = [1000, 1010, 990, 1005, 3000];
        assert_eq!(
            change(&noisy, &[1300, 1310, 1290, 1295, 9000]),
            Change::Unclear,
            "the outlier may be usual"
        );
        assert_eq!(change(&noisy[..4], &[1300, 1310]), Change::Unclear, "too few");
        let calm = [1000, 1010, 990, 1005, 995];
        assert_eq!(change(&calm, &[1300, 1310, 1290, 1295, 9000]), Change::Yes);
        assert_eq!(change(&calm, &[1001, 1011, 991, 1006, 996]), Change::No);
        assert_eq!(change(&calm, &[1090, 1110, 1100, 1095, 1105]), Change::Unclear, "at the threshold");
    }

    #[test]
    fn the_orders_of_two_samples_are_counted_as_mann_and_whitney_did() {
        assert_eq!(ways_by_pairs(2, 2), [1, 1, 2, 1, 1]);
        assert_eq!(ways_by_pairs(5, 5).iter().sum::<u128>(), 252);
        // Table of critical values: U = 2 at n = 5 and 5 is the last below a one-sided chance of 0.025.
        let below = |u: usize| ways_by_pairs(5, 5)[..=u].iter().sum::<u128>() as f64 / 252.0;
        assert!(below(2) <= 0.025 && below(3) > 0.025);
    }

    #[test]
    fn one_jittering_commit_makes_the_metric_a_noisy_one() {
        assert!(known(&[&[1, 1], &[2]]).is_exact());
        assert_eq!(known(&[&[1, 1], &[2, 3]]).least_runs(), NOISY_RUNS);
    }
}
