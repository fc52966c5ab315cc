//! What is known of commits while a search goes on: the figures of their runs, or that they have none; and whether a metric
//! differs between two of them.

use crate::plan::metric::Unit;
use crate::plan::quantity::Threshold;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits;
use crate::verdict::significance::{Noise, Significance, Thresholds, judge};

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
    pub thresholds: Thresholds,
    /// How the metric varies, as far as that is known of all programs.
    pub noise: Noise,
    /// How often a commit is run at most.
    pub most_runs: usize,
}

/// Runs of a commit that a median of a noisy metric takes at least.
const NOISY_RUNS: usize = 3;

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
        let repeats = self.repeats(known);
        let noise = Noise { known: repeats.then_some(0).or(self.noise.known), ..self.noise };
        let significance = judge(before, after, &self.thresholds, noise);
        if repeats && before.len().min(after.len()) < 2 && is_near(&significance) {
            return Change::Unclear;
        }
        match significance.verdict {
            Verdict::Regressed | Verdict::Improved => Change::Yes,
            Verdict::Unchanged => Change::No,
            _ => Change::Unclear,
        }
    }

    /// Whether figures repeat to the unit: all that were taken more than once did, and that is no chance.
    fn repeats(&self, known: &Knowledge) -> bool {
        self.noise.provable && known.is_exact()
    }

    /// What is no change yet, of figures such as these.
    pub fn threshold(&self, known: &Knowledge) -> &Threshold {
        if self.repeats(known) { &self.thresholds.tight } else { &self.thresholds.wide }
    }

    /// How many runs of a commit its median takes at least: one where figures repeat to the unit.
    pub fn least_runs(&self, known: &Knowledge) -> usize {
        if self.repeats(known) { 1 } else { NOISY_RUNS.min(self.most_runs) }
    }
}

/// Whether a change is so near to the limit that a jitter would decide: within a quarter of it.
fn is_near(significance: &Significance) -> bool {
    let limit = i128::from(significance.limit);
    significance.change.unsigned_abs().abs_diff(limit.unsigned_abs()) < limit.unsigned_abs() / 4
}

/// What is no change where nobody said, of every metric: those that are not judged by default go by the one of their kind
/// that is.
pub fn usual_thresholds(metric: &str) -> Thresholds {
    let of = |metric| limits::defaults(metric);
    let absolute =
        |percent, amount| Some(Thresholds::both(&Threshold { percent: Some(percent), bytes: Some(amount) }));
    let of_kind = match (Unit::of(metric), limits::is_counted(metric)) {
        (Unit::Bytes, true) => of("heap.peak"),
        (Unit::Bytes, false) => of("cpu.peak"),
        (Unit::Count, _) => absolute(0.5, 16),
        (Unit::Nanoseconds, _) => absolute(10.0, 50_000_000),
    };
    of(metric).or(of_kind).unwrap_or_default()
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

    const COUNTED: Noise = Noise { floor: 0, known: None, provable: true };

    fn rule() -> Rule {
        let threshold = Threshold { percent: Some(10.0), bytes: Some(50) };
        Rule { thresholds: Thresholds::both(&threshold), noise: COUNTED, most_runs: 10 }
    }

    fn change(before: &[i64], after: &[i64]) -> Change {
        rule().change(&known(&[before, after]), 0, 1)
    }

    #[test]
    fn where_figures_repeat_one_run_is_enough() {
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
    fn every_metric_of_the_catalogue_has_a_usual_threshold() {
        for (metric, _) in crate::plan::metric::CATALOGUE {
            let thresholds = usual_thresholds(metric);
            assert!(thresholds.tight.percent.is_some() && thresholds.wide.bytes.is_some(), "{metric}");
        }
    }

    #[test]
    fn one_jittering_commit_makes_the_metric_a_noisy_one() {
        let exact = known(&[&[1, 1], &[2]]);
        assert!(exact.is_exact());
        assert_eq!(rule().least_runs(&exact), 1);
        assert_eq!(rule().least_runs(&known(&[&[1, 1], &[2, 3]])), NOISY_RUNS);
        let resident = Rule { noise: Noise::default(), ..rule() };
        assert_eq!(resident.least_runs(&exact), NOISY_RUNS, "the same pages twice are no proof");
        assert_eq!(change(&[1000, 1010], &[1500]), Change::Unclear);
        assert_eq!(change(&[1000, 1010, 990, 1005, 995], &[1300, 1310, 1290, 1295, 1305]), Change::Yes);
    }
}
