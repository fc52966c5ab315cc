//! What a search has observed of each commit, and whether a metric differs between two commits.

use memprof_judge::verdict::kinds::Verdict;
use memprof_judge::verdict::significance::{Noise, Significance, Thresholds, judge};
use memprof_plan::quantity::Threshold;

/// What was observed of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The metric's value in each run, in the order of the runs. There is at least one.
    Samples(Vec<i64>),
    /// The commit has no value: it does not build, has no such test, or fails it.
    Skipped,
}

/// What was observed of each commit of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    commits: Vec<Option<Observation>>,
    /// How often each commit ran, with or without a value.
    runs: Vec<usize>,
}

/// Whether a metric changed by more than the threshold between two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HasChanged {
    /// The figure changed.
    Yes,
    /// The figure did not change.
    No,
    /// The runs so far cannot decide.
    Unclear,
}

/// How to tell a change from noise.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRule {
    /// Smaller changes are ignored.
    pub thresholds: Thresholds,
    /// How much the metric varies between runs of the same program.
    pub noise: Noise,
    /// The maximum number of runs of one commit.
    pub most_runs: usize,
}

/// The minimum number of runs for the median of a noisy metric.
const NOISY_RUNS: usize = 3;

impl Observations {
    /// Returns observations of this many commits, none of which was measured yet.
    pub fn new(commits: usize) -> Self {
        Self { commits: vec![None; commits], runs: vec![0; commits] }
    }

    /// Adds commits that were not measured yet, up to this number.
    pub fn grow(&mut self, commits: usize) {
        self.commits.resize(commits.max(self.commits.len()), None);
        self.runs.resize(self.commits.len(), 0);
    }

    /// Replaces what was observed of a commit.
    pub fn record(&mut self, commit: usize, observation: Observation) {
        self.commits[commit] = Some(observation);
    }

    /// Notes how often a commit ran. Some runs may have no value.
    pub fn note_runs(&mut self, commit: usize, runs: usize) {
        self.runs[commit] = runs;
    }

    /// Returns what was observed of a commit; `None` before it is measured.
    pub fn get(&self, commit: usize) -> Option<&Observation> {
        self.commits[commit].as_ref()
    }

    /// Returns a commit's values, if it has any.
    pub fn samples(&self, commit: usize) -> Option<&[i64]> {
        match self.get(commit)? {
            Observation::Samples(samples) => Some(samples),
            Observation::Skipped => None,
        }
    }

    fn count(&self, commit: usize) -> usize {
        self.samples(commit).map_or(0, <[i64]>::len)
    }

    /// Returns the one of two commits that has fewer values.
    pub fn fewest(&self, before: usize, after: usize) -> usize {
        if self.count(before) < self.count(after) { before } else { after }
    }

    /// Returns the median of a commit's values.
    pub fn median(&self, commit: usize) -> Option<i64> {
        self.samples(commit).and_then(median)
    }

    /// The number of runs of all commits.
    pub(crate) fn count_runs(&self) -> usize {
        (0..self.commits.len()).filter_map(|commit| self.samples(commit)).map(<[i64]>::len).sum()
    }

    /// Whether every commit that ran more than once gave the same value each time.
    pub fn is_exact(&self) -> bool {
        let samples = self.commits.iter().flatten().filter_map(|observation| match observation {
            Observation::Samples(samples) => Some(samples),
            Observation::Skipped => None,
        });
        samples.into_iter().all(|samples| samples.iter().all(|sample| *sample == samples[0]))
    }
}

/// Returns the median. For an even number of samples, this is the middle between the two middle
/// ones, rounded down.
pub(crate) fn median(samples: &[i64]) -> Option<i64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let (low, high) = (*sorted.get(sorted.len().checked_sub(1)? / 2)?, *sorted.get(sorted.len() / 2)?);
    i64::try_from((i128::from(low) + i128::from(high)).div_euclid(2)).ok()
}

impl ChangeRule {
    /// Whether a commit must run again to have this many values. Runs without a value count, too, so that a commit
    /// whose further runs all fail is given up.
    pub fn must_repeat(&self, observations: &Observations, commit: usize, values: usize) -> bool {
        observations.count(commit) < values && observations.runs[commit] < self.most_runs
    }

    /// Decides whether the metric changed from one commit to another.
    pub fn change(&self, observations: &Observations, before: usize, after: usize) -> HasChanged {
        let Some(significance) = self.significance(observations, before, after) else {
            return HasChanged::Unclear;
        };
        let is_single = significance.samples < 2;
        if self.repeats(observations) && is_single && is_near_threshold(&significance) {
            return HasChanged::Unclear;
        }
        match significance.verdict {
            Verdict::Regressed | Verdict::Improved => HasChanged::Yes,
            Verdict::Unchanged => HasChanged::No,
            _ => HasChanged::Unclear,
        }
    }

    /// Judges how the metric changed from one commit to another; `None` without figures.
    pub(crate) fn significance(
        &self,
        observations: &Observations,
        before: usize,
        after: usize,
    ) -> Option<Significance> {
        let (before, after) = (observations.samples(before)?, observations.samples(after)?);
        let known = self.repeats(observations).then_some(0).or(self.noise.known);
        Some(judge(before, after, &self.thresholds, Noise { known, ..self.noise }))
    }

    /// Whether values repeat exactly: the metric can, and every commit that ran twice did.
    pub(crate) fn repeats(&self, observations: &Observations) -> bool {
        self.noise.provable && observations.is_exact()
    }

    /// Returns the threshold that applies to these values: a tight one if they repeat exactly.
    pub fn threshold(&self, observations: &Observations) -> &Threshold {
        if self.repeats(observations) { &self.thresholds.tight } else { &self.thresholds.wide }
    }

    /// Returns the minimum number of runs for a commit's median: one if values repeat exactly.
    pub fn least_runs(&self, observations: &Observations) -> usize {
        if self.repeats(observations) { 1 } else { NOISY_RUNS.min(self.most_runs) }
    }
}

/// Whether a change is within a quarter of the threshold from the threshold: a jitter could decide.
fn is_near_threshold(significance: &Significance) -> bool {
    let limit = i128::from(significance.limit);
    significance.change.unsigned_abs().abs_diff(limit.unsigned_abs()) < limit.unsigned_abs() / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observations(samples: &[&[i64]]) -> Observations {
        let mut observations = Observations::new(samples.len());
        for (commit, samples) in samples.iter().enumerate() {
            observations.record(commit, Observation::Samples(samples.to_vec()));
        }
        observations
    }

    const COUNTED: Noise = Noise { floor: 0, known: None, provable: true, single_threaded: false };

    fn rule() -> ChangeRule {
        let threshold = Threshold { percent: Some(10.0), bytes: Some(50) };
        ChangeRule { thresholds: Thresholds::both(&threshold), noise: COUNTED, most_runs: 10 }
    }

    fn change(before: &[i64], after: &[i64]) -> HasChanged {
        rule().change(&observations(&[before, after]), 0, 1)
    }

    #[test]
    fn where_figures_repeat_one_run_is_enough() {
        assert_eq!(change(&[1000, 1000], &[1000]), HasChanged::No);
        assert_eq!(change(&[1000, 1000], &[1300]), HasChanged::Yes);
        assert_eq!(change(&[1000, 1000], &[700]), HasChanged::Yes);
        assert_eq!(change(&[100, 100], &[130]), HasChanged::No, "the larger of the two limits counts");
    }

    #[test]
    fn near_the_threshold_a_second_run_is_wanted_and_is_enough() {
        assert_eq!(change(&[1000, 1000], &[1101]), HasChanged::Unclear);
        assert_eq!(change(&[1000, 1000], &[1101, 1101]), HasChanged::Yes);
        assert_eq!(change(&[1000, 1000], &[1100, 1100]), HasChanged::No);
    }

    #[test]
    fn one_jittering_commit_makes_the_metric_a_noisy_one() {
        let exact = observations(&[&[1, 1], &[2]]);
        assert!(exact.is_exact());
        assert_eq!(rule().least_runs(&exact), 1);
        assert_eq!(rule().least_runs(&observations(&[&[1, 1], &[2, 3]])), NOISY_RUNS);
        let resident = ChangeRule { noise: Noise::default(), ..rule() };
        assert_eq!(resident.least_runs(&exact), NOISY_RUNS, "the same pages twice are no proof");
        assert_eq!(change(&[1000, 1010], &[1500]), HasChanged::Unclear);
        assert_eq!(change(&[1000, 1010, 990, 1005, 995], &[1300, 1310, 1290, 1295, 1305]), HasChanged::Yes);
    }
}
