//! What a search has observed of each commit, and whether a metric differs between two commits.

use memprof_judge::verdict::kinds::Verdict;
use memprof_judge::verdict::significance::{CONFIRMED, Noise, Significance, Thresholds, judge, judge_pairs};
use memprof_judge::verdict::statistics::spread;
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
///
/// Runs of one round got the same random numbers, so they belong together: what these numbers do to all commits is
/// taken out by comparing round by round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    commits: Vec<Option<Observation>>,
    /// The round of each of a commit's values, if it got the random numbers of that round.
    rounds: Vec<Vec<Option<u32>>>,
    /// The commit that the figures of all others are relative to, if differences within rounds vary far less than
    /// values do.
    reference: Option<usize>,
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
    /// How far the two runs of a round are apart, if a noise file says so.
    pub known_of_rounds: Option<u64>,
    /// Smaller changes are ignored.
    pub thresholds: Thresholds,
    /// How much the metric varies between runs of the same program.
    pub noise: Noise,
    /// The maximum number of runs of one commit.
    pub most_runs: usize,
}

/// The minimum number of runs for the median of a noisy metric.
const NOISY_RUNS: usize = 3;

/// How much less differences within rounds must vary than values do.
const FAR_LESS: u64 = 4;

impl Observations {
    /// Returns observations of this many commits, none of which was measured yet.
    pub fn new(commits: usize) -> Self {
        let mut observations = Self::default();
        observations.grow(commits);
        observations
    }

    /// Adds commits that were not measured yet, up to this number.
    pub fn grow(&mut self, commits: usize) {
        self.commits.resize(commits.max(self.commits.len()), None);
        self.rounds.resize(self.commits.len(), Vec::new());
        self.runs.resize(self.commits.len(), 0);
    }

    /// Replaces what was observed of a commit. Its values belong to no round.
    pub fn record(&mut self, commit: usize, observation: Observation) {
        self.commits[commit] = Some(observation);
        self.rounds[commit].clear();
        self.reference = self.find_reference();
    }

    /// Replaces what was observed of a commit by the values of its runs, each with its round. There is at least one.
    pub fn record_runs(&mut self, commit: usize, runs: &[(Option<u32>, i64)]) {
        self.commits[commit] = Some(Observation::Samples(runs.iter().map(|(_, value)| *value).collect()));
        self.rounds[commit] = runs.iter().map(|(round, _)| *round).collect();
        self.reference = self.find_reference();
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

    /// Returns a commit's figure, which is compared with those of other commits: the median of its values. If only
    /// differences within rounds are steady, it is that of one and the same round for all commits.
    pub fn figure(&self, commit: usize) -> Option<i64> {
        let of_round = || {
            let reference = self.reference?;
            let difference = median(&self.differences(reference, commit)?)?;
            self.samples(reference)?.first()?.checked_add(difference)
        };
        of_round().or_else(|| median(self.samples(commit)?))
    }

    /// Returns the values of two commits in the rounds that both have.
    fn pairs(&self, before: usize, after: usize) -> (Vec<i64>, Vec<i64>) {
        let values = |commit: usize| {
            let rounds = self.rounds[commit].iter().copied();
            rounds.zip(self.samples(commit).unwrap_or_default().iter().copied())
        };
        let partner = |round| values(after).find(|(other, _)| *other == Some(round));
        let pairs = values(before).filter_map(|(round, old)| Some((old, partner(round?)?.1)));
        pairs.unzip()
    }

    /// Returns the differences within the rounds that two commits have; `None` if one is out of range.
    fn differences(&self, before: usize, after: usize) -> Option<Vec<i64>> {
        let (old, new) = self.pairs(before, after);
        old.iter().zip(new).map(|(old, new)| new.checked_sub(*old)).collect()
    }

    fn find_reference(&self) -> Option<usize> {
        let measured = (0..self.commits.len()).filter(|commit| self.count(*commit) > 0);
        let reference = measured.clone().rev().max_by_key(|commit| self.count(*commit))?;
        let mut of_values = 0;
        let mut of_rounds = None;
        for commit in measured {
            let own = self.samples(commit).map_or(0, spread);
            of_values = own.max(of_values);
            let differences = self.differences(reference, commit)?;
            if commit != reference && differences.len() > 1 {
                of_rounds = of_rounds.max(Some(spread(&differences)));
            } else if commit != reference && own > 0 {
                return None;
            }
        }
        let is_far_less = |spread: &u64| *spread < of_values.div_ceil(FAR_LESS);
        of_rounds.filter(is_far_less).map(|_| reference)
    }

    /// The number of runs of all commits.
    pub(crate) fn count_runs(&self) -> usize {
        (0..self.commits.len()).filter_map(|commit| self.samples(commit)).map(<[i64]>::len).sum()
    }

    /// Whether every commit that ran more than once gave the same value each time, or differed by the same amount
    /// from another one in each round.
    pub fn is_exact(&self) -> bool {
        let mut measured = (0..self.commits.len()).filter_map(|commit| Some((commit, self.samples(commit)?)));
        match self.reference {
            None => measured.all(|(_, samples)| spread(samples) == 0),
            Some(reference) => measured.all(|(commit, _)| {
                self.differences(reference, commit).is_some_and(|differences| spread(&differences) == 0)
            }),
        }
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
        let repeats = self.repeats(observations);
        let noise = |repeats: bool, known: Option<u64>| {
            let known = repeats.then_some(0).or(known);
            Noise { known, ..self.noise }
        };
        let (old, new) = (observations.samples(before)?, observations.samples(after)?);
        let values_repeat = repeats && observations.reference.is_none();
        let of_values = judge(old, new, &self.thresholds, noise(values_repeat, self.noise.known));
        // Fewer may be equal by chance.
        let least = match (repeats, self.noise.provable) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => CONFIRMED as usize,
        };
        let (old, new) = observations.pairs(before, after);
        let of_rounds = judge_pairs(&old, &new, &self.thresholds, noise(repeats, self.known_of_rounds))
            .filter(|_| old.len() >= least);
        let settles =
            |one: &Significance| one.exact || one.is_quiet || of_values.verdict == Verdict::Inconclusive;
        Some(of_rounds.filter(settles).unwrap_or(of_values))
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
        ChangeRule {
            thresholds: Thresholds::both(&threshold),
            noise: COUNTED,
            known_of_rounds: None,
            most_runs: 10,
        }
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

    /// The values of each commit's first rounds.
    fn rounds(samples: &[&[i64]]) -> Observations {
        let mut observations = Observations::new(samples.len());
        for (commit, samples) in samples.iter().enumerate() {
            let runs: Vec<_> = (0..).map(Some).zip(samples.iter().copied()).collect();
            observations.record_runs(commit, &runs);
        }
        observations
    }

    fn figures(observations: &Observations) -> Vec<Option<i64>> {
        (0..observations.commits.len()).map(|commit| observations.figure(commit)).collect()
    }

    #[test]
    fn what_random_numbers_do_to_all_commits_is_taken_out() {
        let values: [&[i64]; 4] = [&[6000, 9000, 1000], &[6000], &[6900], &[6900, 9900]];
        let searched = rounds(&values);
        let change = |before, after| rule().change(&searched, before, after);
        let limit = |searched: &Observations| rule().significance(searched, 0, 3).unwrap().limit;
        assert!(searched.is_exact() && rule().repeats(&searched));
        assert_eq!((rule().least_runs(&searched), limit(&searched)), (1, 750));
        assert_eq!([change(0, 3), change(0, 2), change(1, 2)], [HasChanged::Yes; 3]);
        assert_eq!([change(0, 1), change(2, 3)], [HasChanged::No; 2]);
        assert_eq!(figures(&searched), [6000, 6000, 6900, 6900].map(Some), "not 6000 → 8400");
        let own = observations(&values);
        assert!(!own.is_exact());
        assert_eq!(rule().change(&own, 0, 3), HasChanged::Unclear, "random numbers of its own");
    }

    #[test]
    fn a_round_without_a_value_is_no_partner() {
        let mut searched = rounds(&[&[6000, 9000, 1000], &[]]);
        searched.record_runs(1, &[(Some(1), 9900), (Some(2), 1900)]);
        assert!(searched.is_exact());
        assert_eq!(rule().change(&searched, 0, 1), HasChanged::Yes);
        assert_eq!(figures(&searched), [6000, 6900].map(Some));
        searched.record_runs(1, &[(Some(1), 9900), (None, 1900)]);
        assert_eq!(rule().change(&searched, 0, 1), HasChanged::Unclear, "one pair may be chance");
    }

    #[test]
    fn a_few_bytes_more_in_a_round_are_no_noise() {
        let searched = rounds(&[&[6000, 9000], &[6900, 9904]]);
        assert!(!searched.is_exact());
        assert_eq!(rule().change(&searched, 0, 1), HasChanged::Yes);
        assert_eq!(figures(&searched), [6000, 6902].map(Some));
        let other_input = rounds(&[&[6000, 9000], &[9900, 6900]]);
        assert_eq!(rule().change(&other_input, 0, 1), HasChanged::Unclear);
        assert_eq!(figures(&other_input), [7500, 8400].map(Some));
        let resident = ChangeRule { noise: Noise::default(), ..rule() };
        assert_eq!(resident.change(&searched, 0, 1), HasChanged::Unclear);
        let same = |runs: usize| {
            let values = &[6000, 9000, 1000, 4000][..runs];
            resident.change(&rounds(&[values, values]), 0, 1)
        };
        assert_eq!((same(3), same(4)), (HasChanged::Unclear, HasChanged::No));
    }

    #[test]
    fn differences_within_rounds_hide_no_change_that_values_show() {
        let threshold = Thresholds {
            tight: Threshold { percent: None, bytes: Some(20_000) },
            wide: Threshold { percent: None, bytes: Some(64 << 10) },
        };
        let rule = ChangeRule { thresholds: threshold, ..rule() };
        let searched = rounds(&[&[4_000_302, 4_002_526], &[4_033_105, 4_030_239]]);
        assert_eq!(rule.change(&searched, 0, 1), HasChanged::Yes);
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
