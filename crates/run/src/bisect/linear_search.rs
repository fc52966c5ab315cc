//! The search along a line of commits, on which each commit is the parent of the next. It says
//! which commit to measure next, or what it found.
//!
//! The search is a function of the observations so far. Its caller calls it again after each
//! measurement, so corrected values and resumed searches need no special handling.
//!
//! The differences of the parts of an interval add up to the interval's own. If all changes go in
//! one direction, no commit in it changed more than the whole: `largest` and `all` rely on this. A
//! growth and an equal shrinkage in one interval cancel out, and the search sees neither.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::bisect::observations::{ChangeRule, HasChanged, Observation, Observations};
use memprof_judge::compare::comparison::Delta;

/// Which change a search looks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SearchGoal {
    /// The commit that changed most
    #[default]
    Largest,
    /// The first commit that differs from the good one by more than the threshold
    First,
    /// Every commit that changed by more than the threshold
    All,
}

/// What the search needs before it can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMeasurement {
    /// Measure this commit for the first time.
    Measure(usize, Remaining),
    /// Run this commit once more.
    Repeat(usize),
}

/// The work that remains, in the best case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Commits that may have made the change, including the next one to measure.
    pub commits: usize,
    /// Measurements until one commit remains, if each measurement halves the commits.
    pub steps: usize,
}

/// The result of a finished search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The commits that made the difference, in their order. There is at least one.
    Steps(Vec<HistoryStep>),
    /// The two ends do not differ by more than the threshold.
    Same,
    /// Noise hides whether the two ends differ.
    Unclear,
    /// One end of the line has no value.
    Unmeasured,
}

/// A difference between two commits, which are usually neighbours. Commits are indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryStep {
    /// The last commit before the change.
    pub before: usize,
    /// The first commit after the change.
    pub after: usize,
    /// The commits between them.
    pub between: Vec<usize>,
    /// Whether one commit made the change, and if not, why.
    pub kind: StepKind,
    /// Whether the difference exceeds the threshold.
    pub change: HasChanged,
    /// The part of the difference that the other side of a merge brings. It is not the merge's own.
    pub other_side: i128,
}

/// What caused the difference between two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    Commit,
    /// One of several commits: those between have no figure.
    Skipped,
    /// Several commits together, each of which changed by less than the threshold.
    Spread,
    /// Commits that do not touch the paths that the user named.
    OutsidePaths,
}

impl StepKind {
    /// Returns the kind of a step between two measured commits. `between` are those without a figure.
    pub(crate) fn of_gap(between: &[usize]) -> Self {
        if between.is_empty() { Self::Commit } else { Self::Skipped }
    }
}

/// Searches along a line of commits. The caller takes the measurements that the search asks for.
///
/// # Errors
///
/// The measurement that the search needs next.
pub(crate) fn search(
    line: &[usize],
    goal: SearchGoal,
    observations: &Observations,
    rule: &ChangeRule,
) -> Result<Answer, NextMeasurement> {
    let (Some(&first), Some(&last)) = (line.first(), line.last()) else { return Ok(Answer::Unmeasured) };
    let search = LinearSearch { line, observations, rule };
    for end in [first, last] {
        match observations.get(end) {
            Some(Observation::Samples(_)) => {}
            Some(Observation::Skipped) => return Ok(Answer::Unmeasured),
            None => return Err(NextMeasurement::Measure(end, Remaining::between(0, line.len() - 1))),
        }
    }
    match search.change(first, last)? {
        HasChanged::No => return Ok(Answer::Same),
        HasChanged::Unclear => return Ok(Answer::Unclear),
        HasChanged::Yes => {}
    }
    let steps = match goal {
        SearchGoal::Largest => vec![search.largest()?],
        SearchGoal::First => vec![search.first()?],
        SearchGoal::All => search.all(0, line.len() - 1)?,
    };
    Ok(Answer::Steps(steps))
}

/// Returns the step between two measured commits.
///
/// # Errors
///
/// The next run of one of them, until both ran twice and it is clear whether they differ.
pub(crate) fn step_between(
    before: usize,
    after: usize,
    observations: &Observations,
    rule: &ChangeRule,
) -> Result<HistoryStep, NextMeasurement> {
    LinearSearch { line: &[before, after], observations, rule }.step(0, 1)
}

impl Remaining {
    fn between(low: usize, high: usize) -> Self {
        let commits = high - low;
        Self { commits, steps: halvings(commits) }
    }

    fn and(self, other: Self) -> Self {
        Self { commits: self.commits + other.commits, steps: self.steps + other.steps }
    }
}

/// Returns how often this many commits can be halved until one remains.
pub fn halvings(commits: usize) -> usize {
    commits.next_power_of_two().trailing_zeros() as usize
}

struct LinearSearch<'a> {
    line: &'a [usize],
    observations: &'a Observations,
    rule: &'a ChangeRule,
}

/// Where to split an interval, as a position on the line.
enum Split {
    /// At a measured commit.
    At(usize),
    /// At a commit that was not measured yet.
    AtUnmeasured(usize),
    /// There is nothing between the interval's ends, or nothing that can be measured.
    Nowhere,
}

/// An interval, ordered by its difference. Of equal ones, the shorter comes first, then the
/// earlier.
type OpenInterval = (i128, Reverse<usize>, Reverse<usize>);

impl LinearSearch<'_> {
    /// Always splits the interval with the largest difference. Ends when that one cannot be split:
    /// every other interval, and so every commit in it, changed less.
    fn largest(&self) -> Result<HistoryStep, NextMeasurement> {
        let last = self.line.len() - 1;
        let direction = self.difference(0, last)?.signum();
        let open = |low: usize, high: usize| -> Result<OpenInterval, NextMeasurement> {
            Ok((self.difference(low, high)? * direction, Reverse(high - low), Reverse(low)))
        };
        let mut intervals = BinaryHeap::from([open(0, last)?]);
        loop {
            let Some((_, Reverse(length), Reverse(low))) = intervals.pop() else {
                unreachable!("an interval is removed only when two replace it");
            };
            let high = low + length;
            match self.split(low, high, |_| true) {
                Split::At(middle) => intervals.extend([open(low, middle)?, open(middle, high)?]),
                Split::AtUnmeasured(middle) => return Err(self.measure(middle, low, high)),
                Split::Nowhere => return self.step(low, high),
            }
        }
    }

    /// Halves the line by each middle's difference from the first commit.
    fn first(&self) -> Result<HistoryStep, NextMeasurement> {
        let direction = self.difference(0, self.line.len() - 1)?.signum();
        let (mut low, mut high) = (0, self.line.len() - 1);
        // A commit whose difference noise hides is as useless as one that does not build.
        let mut unclear = vec![false; self.line.len()];
        loop {
            match self.split(low, high, |position| !unclear[position]) {
                Split::Nowhere => return self.step(low, high),
                Split::AtUnmeasured(middle) => return Err(self.measure(middle, low, high)),
                Split::At(middle) => match self.change(self.line[0], self.line[middle])? {
                    HasChanged::Unclear => unclear[middle] = true,
                    HasChanged::Yes if self.difference(0, middle)?.signum() == direction => high = middle,
                    HasChanged::Yes | HasChanged::No => low = middle,
                },
            }
        }
    }

    /// Splits every interval whose ends differ.
    fn all(&self, low: usize, high: usize) -> Result<Vec<HistoryStep>, NextMeasurement> {
        if self.change(self.line[low], self.line[high])? != HasChanged::Yes {
            return Ok(Vec::new());
        }
        match self.split(low, high, |_| true) {
            Split::Nowhere => Ok(vec![self.step(low, high)?]),
            Split::AtUnmeasured(middle) => Err(self.measure(middle, low, high)),
            Split::At(middle) => match (self.all(low, middle), self.all(middle, high)) {
                (Ok(mut early), Ok(late)) => {
                    early.extend(late);
                    if early.is_empty() {
                        let spread = HistoryStep { kind: StepKind::Spread, ..self.step(low, high)? };
                        early.push(spread);
                    }
                    Ok(early)
                }
                (Err(NextMeasurement::Measure(commit, one)), Err(NextMeasurement::Measure(_, other))) => {
                    Err(NextMeasurement::Measure(commit, one.and(other)))
                }
                (Err(next), _) | (_, Err(next)) => Err(next),
            },
        }
    }

    /// Returns the step between two positions, once both of its ends ran twice.
    fn step(&self, low: usize, high: usize) -> Result<HistoryStep, NextMeasurement> {
        let (before, after) = (self.line[low], self.line[high]);
        for commit in [before, after] {
            if self.must_repeat(commit, self.rule.most_runs.min(2)) {
                return Err(NextMeasurement::Repeat(commit));
            }
        }
        let change = self.change(before, after)?;
        let between = self.line[low + 1..high].to_vec();
        let kind = StepKind::of_gap(&between);
        Ok(HistoryStep { before, after, between, kind, change, other_side: 0 })
    }

    fn measure(&self, middle: usize, low: usize, high: usize) -> NextMeasurement {
        NextMeasurement::Measure(self.line[middle], Remaining::between(low, high))
    }

    /// Decides whether two measured commits differ; asks for more runs while that is unclear.
    fn change(&self, before: usize, after: usize) -> Result<HasChanged, NextMeasurement> {
        let change = self.rule.change(self.observations, before, after);
        let fewest = self.observations.fewest(before, after);
        if change == HasChanged::Unclear && self.must_repeat(fewest, self.rule.most_runs) {
            return Err(NextMeasurement::Repeat(fewest));
        }
        Ok(change)
    }

    fn must_repeat(&self, commit: usize, values: usize) -> bool {
        self.rule.must_repeat(self.observations, commit, values)
    }

    /// Returns by how much an interval's ends differ. Both are measured.
    fn difference(&self, low: usize, high: usize) -> Result<i128, NextMeasurement> {
        let value = |position: usize| {
            let commit = self.line[position];
            if self.must_repeat(commit, self.rule.least_runs(self.observations)) {
                return Err(NextMeasurement::Repeat(commit));
            }
            Ok(self.observations.figure(commit).unwrap_or_default())
        };
        Ok(Delta::between(value(low)?, value(high)?).difference)
    }

    /// Returns the middle of an interval. If it cannot be measured, tries the middles of the
    /// halves, then of their halves, and so on: commits that do not build often follow each other,
    /// so the middle's neighbour is likely to be broken too.
    fn split(&self, low: usize, high: usize, is_usable: impl Fn(usize) -> bool) -> Split {
        let mut parts = std::collections::VecDeque::from([(low, high)]);
        while let Some((from, to)) = parts.pop_front() {
            let middle = from.midpoint(to);
            if middle == from {
                continue;
            }
            match self.observations.get(self.line[middle]) {
                None => return Split::AtUnmeasured(middle),
                Some(Observation::Samples(_)) if is_usable(middle) => return Split::At(middle),
                Some(_) => parts.extend([(from, middle), (middle, to)]),
            }
        }
        Split::Nowhere
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use memprof_judge::verdict::significance::{Noise, Thresholds};
    use memprof_plan::quantity::Threshold;

    fn rule(limit: u64) -> ChangeRule {
        let threshold = Threshold { percent: None, bytes: Some(limit) };
        let noise = Noise { provable: true, ..Noise::default() };
        ChangeRule { thresholds: Thresholds::both(&threshold), noise, known_of_rounds: None, most_runs: 10 }
    }

    /// Searches, and takes each measurement from `figure`, which gives a commit's n-th run, or
    /// `None` if it has no value. Returns the answer and the number of measured commits.
    fn searched(
        commits: usize,
        goal: SearchGoal,
        limit: u64,
        mut figure: impl FnMut(usize, usize) -> Option<i64>,
    ) -> (Answer, usize) {
        let line: Vec<usize> = (0..commits).collect();
        let mut observations = Observations::new(commits);
        let mut measured = 0;
        let mut runs = vec![1; commits];
        for _ in 0..commits * 20 {
            match search(&line, goal, &observations, &rule(limit)) {
                Ok(found) => return (found, measured),
                Err(NextMeasurement::Measure(commit, remaining)) => {
                    assert_eq!(observations.get(commit), None, "a commit is measured once");
                    assert!(remaining.commits <= commits && remaining.steps <= commits);
                    measured += 1;
                    let run = figure(commit, 0);
                    match run {
                        Some(value) => observations.record_runs(commit, &[(Some(0), value)]),
                        None => observations.record(commit, Observation::Skipped),
                    }
                }
                Err(NextMeasurement::Repeat(commit)) => {
                    let values: Vec<i64> = observations.samples(commit).unwrap().to_vec();
                    let mut samples: Vec<_> = (0..).map(Some).zip(values).collect();
                    let round = u32::try_from(runs[commit]).ok();
                    samples.extend(figure(commit, runs[commit]).map(|value| (round, value)));
                    runs[commit] += 1;
                    assert!(runs[commit] <= 10);
                    observations.note_runs(commit, runs[commit]);
                    observations.record_runs(commit, &samples);
                }
            }
        }
        panic!("the search does not end");
    }

    fn steps(found: &Answer) -> Vec<(usize, usize)> {
        match found {
            Answer::Steps(steps) => steps.iter().map(|step| (step.before, step.after)).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn difference_in(figures: &[i64]) -> impl FnMut(usize, usize) -> Option<i64> {
        |commit, _| Some(figures[commit])
    }

    #[test]
    fn each_goal_finds_its_commit_among_several_steps() {
        let mut figures = vec![1000; 64];
        figures[9..].iter_mut().for_each(|figure| *figure -= 65);
        figures[30..].iter_mut().for_each(|figure| *figure -= 79);
        figures[41..].iter_mut().for_each(|figure| *figure -= 530);
        let (found, measured) = searched(64, SearchGoal::Largest, 50, difference_in(&figures));
        assert_eq!(steps(&found), [(40, 41)]);
        assert_eq!(measured, 2 + 6);
        let (found, measured) = searched(64, SearchGoal::First, 50, difference_in(&figures));
        assert_eq!(steps(&found), [(8, 9)]);
        assert!(measured <= 2 + 6);
        assert_eq!(
            steps(&searched(64, SearchGoal::All, 50, difference_in(&figures)).0),
            [(8, 9), (29, 30), (40, 41)]
        );
        assert_eq!(searched(64, SearchGoal::All, 800, difference_in(&figures)).0, Answer::Same);
    }

    #[test]
    fn the_largest_is_found_in_the_half_that_differs_less() {
        let figures = [0, 20, 40, 60, 80, 80, 80, 80, 145];
        assert_eq!(steps(&searched(9, SearchGoal::Largest, 10, difference_in(&figures)).0), [(7, 8)]);
    }

    #[test]
    fn if_no_remaining_commit_can_be_measured_the_range_is_named() {
        let figures = [0, 0, 0, 0, 0, 0, 9, 9, 9];
        let with_gap = |commit: usize, _| (!(3..6).contains(&commit)).then_some(figures[commit]);
        for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
            let (found, _) = searched(9, goal, 2, with_gap);
            let Answer::Steps(steps) = found else { panic!("{found:?}") };
            assert_eq!((steps[0].before, steps[0].after, &steps[0].between[..]), (2, 6, &[3, 4, 5][..]));
            assert_eq!(steps[0].kind, StepKind::Skipped);
        }
        assert_eq!(
            searched(9, SearchGoal::First, 2, |commit, _| (commit > 0).then_some(1)).0,
            Answer::Unmeasured
        );
    }

    #[test]
    fn a_commit_whose_further_runs_have_no_value_is_given_up() {
        let figure = |commit: usize, run: usize| (run == 0).then_some(if commit < 5 { 100 } else { 900 });
        for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
            assert_eq!(steps(&searched(9, goal, 2, figure).0), [(4, 5)]);
        }
        let noisy = |commit: usize, run: usize| (run < 2).then(|| 100 + jitter(commit, run));
        assert_eq!(searched(9, SearchGoal::First, 0, noisy).0, Answer::Unclear);
    }

    #[test]
    fn a_growth_in_many_small_steps_is_reported_as_spread() {
        let figures = [0, 4, 8, 12, 16];
        let (found, _) = searched(5, SearchGoal::All, 5, difference_in(&figures));
        let Answer::Steps(steps) = found else { panic!("{found:?}") };
        assert!(steps.iter().all(|step| step.kind == StepKind::Spread), "{steps:?}");
        assert_eq!((steps[0].before, steps[1].after), (0, 4));
    }

    /// A deviation of up to 2, and of 40 once in a while. It is the same each time for the same
    /// run.
    fn jitter(commit: usize, run: usize) -> i64 {
        let hash = blake3::hash(format!("{commit} {run}").as_bytes());
        let byte = i64::from(hash.as_bytes()[0]);
        byte % 5 - 2 + if byte % 16 == 7 { 40 } else { 0 }
    }

    #[test]
    fn noise_costs_runs_but_never_gives_a_wrong_answer() {
        let mut exact = 0;
        for step in 1..30 {
            let figure = |commit: usize, run: usize| {
                Some(1000 + if commit >= step { 100 } else { 0 } + jitter(commit + 31 * step, run))
            };
            for goal in [SearchGoal::Largest, SearchGoal::First] {
                let (found, _) = searched(30, goal, 30, figure);
                let (before, after) = steps(&found)[0];
                assert!(before < step && step <= after, "{goal:?}: {before} to {after}, not {step}");
                exact += usize::from(before + 1 == after);
            }
        }
        assert!(exact >= 50, "{exact} of 58");
    }

    #[test]
    fn random_numbers_of_a_round_cost_no_runs() {
        for step in 1..30 {
            for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
                let mut runs = 0;
                let (found, measured) = searched(30, goal, 30, |commit, run| {
                    runs += 1;
                    let input = blake3::hash(&run.to_le_bytes()).as_bytes()[0];
                    Some(1000 * i64::from(input) + if commit >= step { 100 } else { 0 })
                });
                assert_eq!(steps(&found), [(step - 1, step)], "{goal:?}");
                assert!(runs <= measured + 4, "{runs} runs of {measured} commits");
            }
        }
    }

    /// Figures that only grow, and which commits cannot be measured. The ends always can.
    fn growing() -> impl Strategy<Value = (Vec<i64>, Vec<bool>)> {
        let increment = prop_oneof![6 => Just(0_i64), 2 => 1..20_i64, 1 => 50..500_i64];
        proptest::collection::vec((increment, proptest::bool::weighted(0.2)), 2..60).prop_map(|commits| {
            let mut sum = 1000;
            let figures = commits.iter().map(|(increment, _)| {
                sum += increment;
                sum
            });
            let figures: Vec<i64> = figures.collect();
            let mut skipped: Vec<bool> = commits.iter().map(|(_, skipped)| *skipped).collect();
            skipped[0] = false;
            *skipped.last_mut().unwrap() = false;
            (figures, skipped)
        })
    }

    /// The steps between measurable neighbours, as measuring every commit shows them.
    fn sweep(figures: &[i64], skipped: &[bool]) -> Vec<(usize, usize)> {
        let measured: Vec<usize> = (0..figures.len()).filter(|&commit| !skipped[commit]).collect();
        measured.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    proptest! {
        #[test]
        fn a_search_finds_what_measuring_every_commit_shows((figures, skipped) in growing(), limit in 0..60_u64, falling: bool) {
            let figures: Vec<i64> =
                figures.iter().map(|figure| if falling { 100_000 - figure } else { *figure }).collect();
            let commits = figures.len();
            let figure = |commit: usize, _: usize| (!skipped[commit]).then_some(figures[commit]);
            let size = |(before, after): (usize, usize)| (figures[after] - figures[before]).unsigned_abs();
            let sweep = sweep(&figures, &skipped);
            let beyond = size((0, commits - 1)) > limit;

            let (found, measured) = searched(commits, SearchGoal::Largest, limit, figure);
            if beyond {
                let found = steps(&found);
                prop_assert!(sweep.contains(&found[0]));
                prop_assert_eq!(size(found[0]), sweep.iter().map(|&step| size(step)).max().unwrap());
                prop_assert!(measured <= commits);
            } else {
                prop_assert_eq!(found, Answer::Same);
            }

            let (found, measured) = searched(commits, SearchGoal::First, limit, figure);
            if beyond {
                let first = sweep.iter().find(|(_, after)| size((0, *after)) > limit).unwrap();
                prop_assert_eq!(&steps(&found), &[*first]);
                let skips = skipped.iter().filter(|skipped| **skipped).count();
                // A skip costs itself. It also makes the parts uneven, which costs up to three measurements in
                // lines of this length (the most in 40 million random ones).
                let uneven = if skips == 0 { 0 } else { 3 };
                prop_assert!(measured <= 2 + halvings(commits) + skips + uneven, "{} of {}", measured, commits);
            }

            let (found, _) = searched(commits, SearchGoal::All, limit, figure);
            if beyond {
                let Answer::Steps(found) = found else { panic!("{found:?}") };
                let alone = found.iter().filter(|step| step.kind != StepKind::Spread);
                let alone: Vec<_> = alone.map(|step| (step.before, step.after)).collect();
                let large: Vec<_> = sweep.iter().copied().filter(|&step| size(step) > limit).collect();
                prop_assert_eq!(alone, large);
            }
        }

        #[test]
        fn if_figures_go_up_and_down_the_answer_is_still_a_step(
            figures in proptest::collection::vec(0..1000_i64, 2..40), limit in 0..200_u64
        ) {
            let size = |(before, after): (usize, usize)| (figures[after] - figures[before]).unsigned_abs();
            for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
                let (found, measured) = searched(figures.len(), goal, limit, difference_in(&figures));
                prop_assert!(measured <= figures.len());
                let Answer::Steps(found) = found else { continue };
                let (first, last) = (figures[0], figures[figures.len() - 1]);
                for step in found.iter().filter(|step| step.kind == StepKind::Commit) {
                    prop_assert_eq!(step.before + 1, step.after);
                    match goal {
                        SearchGoal::Largest => prop_assert_eq!(
                            (figures[step.after] - figures[step.before]).signum(), (last - first).signum()
                        ),
                        SearchGoal::First => {
                            let beyond = |at: usize| (figures[at] - first) * (last - first).signum()
                                > i64::try_from(limit).unwrap();
                            prop_assert!(beyond(step.after) && !beyond(step.before));
                        }
                        SearchGoal::All => prop_assert!(size((step.before, step.after)) > limit),
                    }
                }
            }
        }
    }
}
