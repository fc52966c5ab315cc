//! The search along a way, on which each commit is the parent of the next: which commit to measure next, and what was found.
//!
//! It is a function of what is known so far, and of nothing else: whoever searches calls it again after each measurement. A
//! figure that a further run corrects, or a search that was killed and goes on, so needs no thought.
//!
//! The differences of the parts of an interval add up to its own. Where all changes go in one direction, no commit in it can
//! therefore have changed more than the whole, which is what `largest` and `all` rely on; a growth and an equal shrinkage in
//! one interval cancel out, and neither is seen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::bisect::observations::{Change, Knowledge, Known, Rule};
use crate::compare::comparison::Delta;

/// What is searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Find {
    /// The commit that changed most
    #[default]
    Largest,
    /// The first commit whose difference to the good one is beyond the threshold
    First,
    /// Every commit that changed by more than the threshold
    All,
}

/// What has to be done before the search can say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Measure this commit, of which nothing is known.
    Measure(usize, Left),
    /// Run this one once more.
    Repeat(usize),
}

/// What is left to do, at best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Commits that may still be it, if the one to be measured next is counted.
    pub commits: usize,
    /// How many of them will be measured if every one splits them in two.
    pub steps: usize,
}

/// The end of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The commits that made the difference, in their order; at least one.
    Steps(Vec<Step>),
    /// The two ends do not differ beyond the threshold.
    Same,
    /// Whether the two ends differ is lost in the noise.
    Unclear,
    /// An end of the way has no figure.
    Unmeasured,
}

/// A difference between neighbours, as indices of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The last commit before it.
    pub before: usize,
    /// The first commit after it.
    pub after: usize,
    /// The commits between them.
    pub between: Vec<usize>,
    /// Why it is not a commit and its parent, if it is not.
    pub kind: StepKind,
    /// Whether the difference is beyond the threshold.
    pub change: Change,
}

/// What a difference between two commits is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// One commit made it.
    Commit,
    /// The commits between could not be measured: any of them, or the one after, made it.
    Skipped,
    /// Several commits made it, and none of them changed by more than the threshold.
    Spread,
    /// It came with commits that do not touch the paths that are looked at.
    OutsidePaths,
}

/// Searches along a way of commits. Nothing is known of a commit that is not measured, and it is the caller who measures it.
pub fn search(way: &[usize], find: Find, known: &Knowledge, rule: &Rule) -> Result<Found, Wanted> {
    let (Some(&first), Some(&last)) = (way.first(), way.last()) else { return Ok(Found::Unmeasured) };
    let search = Search { way, known, rule };
    for end in [first, last] {
        match known.of(end) {
            Some(Known::Samples(_)) => {}
            Some(Known::Skipped) => return Ok(Found::Unmeasured),
            None => return Err(Wanted::Measure(end, Left::between(0, way.len() - 1))),
        }
    }
    match search.settled(first, last)? {
        Change::No => return Ok(Found::Same),
        Change::Unclear => return Ok(Found::Unclear),
        Change::Yes => {}
    }
    let steps = match find {
        Find::Largest => vec![search.largest()?],
        Find::First => vec![search.first()?],
        Find::All => search.all(0, way.len() - 1)?,
    };
    Ok(Found::Steps(steps))
}

impl Left {
    fn between(low: usize, high: usize) -> Self {
        let commits = high - low;
        Self { commits, steps: halvings(commits) }
    }

    fn and(self, other: Self) -> Self {
        Self { commits: self.commits + other.commits, steps: self.steps + other.steps }
    }
}

/// How often so many can be halved until one is left.
pub fn halvings(commits: usize) -> usize {
    commits.next_power_of_two().trailing_zeros() as usize
}

struct Search<'a> {
    way: &'a [usize],
    known: &'a Knowledge,
    rule: &'a Rule,
}

/// Where an interval is split: positions on the way.
enum Split {
    At(usize),
    AtUnknown(usize),
    /// There is nothing between its ends, or nothing that can be measured.
    Nowhere,
}

/// An interval by its difference; of equal ones the shorter comes first, then the earlier.
type Open = (i128, Reverse<usize>, Reverse<usize>);

impl Search<'_> {
    /// Always splits the interval with the largest difference, and ends when that has nothing to split: every other one,
    /// and so every commit in it, has changed less.
    fn largest(&self) -> Result<Step, Wanted> {
        let last = self.way.len() - 1;
        let direction = self.difference(0, last)?.signum();
        let open = |low: usize, high: usize| -> Result<Open, Wanted> {
            Ok((self.difference(low, high)? * direction, Reverse(high - low), Reverse(low)))
        };
        let mut intervals = BinaryHeap::from([open(0, last)?]);
        loop {
            let Some((_, Reverse(length), Reverse(low))) = intervals.pop() else {
                unreachable!("an interval is taken away only where two take its place");
            };
            let high = low + length;
            match self.split(low, high, |_| true) {
                Split::At(middle) => intervals.extend([open(low, middle)?, open(middle, high)?]),
                Split::AtUnknown(middle) => {
                    return Err(Wanted::Measure(self.way[middle], Left::between(low, high)));
                }
                Split::Nowhere => return self.step(low, high),
            }
        }
    }

    /// Halves, by the difference to the first commit of the way.
    fn first(&self) -> Result<Step, Wanted> {
        let direction = self.difference(0, self.way.len() - 1)?.signum();
        let (mut low, mut high) = (0, self.way.len() - 1);
        // What the noise leaves unclear says as little as what does not build.
        let mut unclear = vec![false; self.way.len()];
        loop {
            match self.split(low, high, |position| !unclear[position]) {
                Split::Nowhere => return self.step(low, high),
                Split::AtUnknown(middle) => {
                    return Err(Wanted::Measure(self.way[middle], Left::between(low, high)));
                }
                Split::At(middle) => match self.settled(self.way[0], self.way[middle])? {
                    Change::Unclear => unclear[middle] = true,
                    Change::Yes if self.difference(0, middle)?.signum() == direction => high = middle,
                    Change::Yes | Change::No => low = middle,
                },
            }
        }
    }

    /// Splits every interval whose ends differ.
    fn all(&self, low: usize, high: usize) -> Result<Vec<Step>, Wanted> {
        if self.settled(self.way[low], self.way[high])? != Change::Yes {
            return Ok(Vec::new());
        }
        match self.split(low, high, |_| true) {
            Split::Nowhere => Ok(vec![self.step(low, high)?]),
            Split::AtUnknown(middle) => Err(Wanted::Measure(self.way[middle], Left::between(low, high))),
            Split::At(middle) => match (self.all(low, middle), self.all(middle, high)) {
                (Ok(mut early), Ok(late)) => {
                    early.extend(late);
                    if early.is_empty() {
                        let spread = Step { kind: StepKind::Spread, ..self.step(low, high)? };
                        early.push(spread);
                    }
                    Ok(early)
                }
                (Err(Wanted::Measure(commit, left)), Err(Wanted::Measure(_, more))) => {
                    Err(Wanted::Measure(commit, left.and(more)))
                }
                (Err(wanted), _) | (_, Err(wanted)) => Err(wanted),
            },
        }
    }

    /// The ends of a step are run twice before it is called one.
    fn step(&self, low: usize, high: usize) -> Result<Step, Wanted> {
        let (before, after) = (self.way[low], self.way[high]);
        for commit in [before, after] {
            if self.runs(commit) < self.rule.most_runs.min(2) {
                return Err(Wanted::Repeat(commit));
            }
        }
        let change = self.settled(before, after)?;
        let between = self.way[low + 1..high].to_vec();
        let kind = if between.is_empty() { StepKind::Commit } else { StepKind::Skipped };
        Ok(Step { before, after, between, kind, change })
    }

    /// Whether two measured commits differ, with as many runs as that takes.
    fn settled(&self, before: usize, after: usize) -> Result<Change, Wanted> {
        let change = self.rule.change(self.known, before, after);
        let fewest = if self.runs(before) < self.runs(after) { before } else { after };
        if change == Change::Unclear && self.runs(fewest) < self.rule.most_runs {
            return Err(Wanted::Repeat(fewest));
        }
        Ok(change)
    }

    fn runs(&self, commit: usize) -> usize {
        self.known.samples(commit).map_or(0, <[i64]>::len)
    }

    /// What an interval's ends, which are measured, differ by.
    fn difference(&self, low: usize, high: usize) -> Result<i128, Wanted> {
        let value = |position: usize| {
            let commit = self.way[position];
            if self.runs(commit) < self.rule.least_runs(self.known) {
                return Err(Wanted::Repeat(commit));
            }
            Ok(self.known.median(commit).unwrap_or_default())
        };
        Ok(Delta::between(value(low)?, value(high)?).difference)
    }

    /// The middle of an interval. Where that cannot be measured, the middles of its halves, of their halves, and so on:
    /// commits that do not build often stand together, and the next one is likely to be as broken.
    fn split(&self, low: usize, high: usize, is_usable: impl Fn(usize) -> bool) -> Split {
        let mut parts = std::collections::VecDeque::from([(low, high)]);
        while let Some((from, to)) = parts.pop_front() {
            let middle = from.midpoint(to);
            if middle == from {
                continue;
            }
            match self.known.of(self.way[middle]) {
                None => return Split::AtUnknown(middle),
                Some(Known::Samples(_)) if is_usable(middle) => return Split::At(middle),
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
    use crate::plan::quantity::Threshold;
    use crate::verdict::significance::{Noise, Thresholds};

    fn rule(limit: u64) -> Rule {
        let threshold = Threshold { percent: None, bytes: Some(limit) };
        let noise = Noise { provable: true, ..Noise::default() };
        Rule { thresholds: Thresholds::both(&threshold), noise, most_runs: 10 }
    }

    /// Searches by measuring what is wanted; `figure` gives a commit's n-th run, `None` if it cannot be measured. Returns what
    /// was found and how many commits were measured.
    fn searched(
        commits: usize,
        find: Find,
        limit: u64,
        mut figure: impl FnMut(usize, usize) -> Option<i64>,
    ) -> (Found, usize) {
        let way: Vec<usize> = (0..commits).collect();
        let mut known = Knowledge::of_nothing(commits);
        let mut measured = 0;
        for _ in 0..commits * 20 {
            match search(&way, find, &known, &rule(limit)) {
                Ok(found) => return (found, measured),
                Err(Wanted::Measure(commit, left)) => {
                    assert_eq!(known.of(commit), None, "a commit is measured once");
                    assert!(left.commits <= commits && left.steps <= commits);
                    measured += 1;
                    let run = figure(commit, 0);
                    known.learn(commit, run.map_or(Known::Skipped, |run| Known::Samples(vec![run])));
                }
                Err(Wanted::Repeat(commit)) => {
                    let mut samples = known.samples(commit).unwrap().to_vec();
                    samples.push(figure(commit, samples.len()).unwrap());
                    assert!(samples.len() <= 10);
                    known.learn(commit, Known::Samples(samples));
                }
            }
        }
        panic!("it goes on and on");
    }

    fn steps(found: &Found) -> Vec<(usize, usize)> {
        match found {
            Found::Steps(steps) => steps.iter().map(|step| (step.before, step.after)).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn of(figures: &[i64]) -> impl FnMut(usize, usize) -> Option<i64> {
        |commit, _| Some(figures[commit])
    }

    #[test]
    fn each_way_to_search_finds_its_commit_among_several_steps() {
        let mut figures = vec![1000; 64];
        figures[9..].iter_mut().for_each(|figure| *figure -= 65);
        figures[30..].iter_mut().for_each(|figure| *figure -= 79);
        figures[41..].iter_mut().for_each(|figure| *figure -= 530);
        let (found, measured) = searched(64, Find::Largest, 50, of(&figures));
        assert_eq!(steps(&found), [(40, 41)]);
        assert_eq!(measured, 2 + 6);
        let (found, measured) = searched(64, Find::First, 50, of(&figures));
        assert_eq!(steps(&found), [(8, 9)]);
        assert!(measured <= 2 + 6);
        assert_eq!(steps(&searched(64, Find::All, 50, of(&figures)).0), [(8, 9), (29, 30), (40, 41)]);
        assert_eq!(searched(64, Find::All, 800, of(&figures)).0, Found::Same);
    }

    #[test]
    fn the_largest_is_found_in_the_half_that_differs_less() {
        let figures = [0, 20, 40, 60, 80, 80, 80, 80, 145];
        assert_eq!(steps(&searched(9, Find::Largest, 10, of(&figures)).0), [(7, 8)]);
    }

    #[test]
    fn where_only_commits_are_left_that_cannot_be_measured_the_range_is_named() {
        let figures = [0, 0, 0, 0, 0, 0, 9, 9, 9];
        let with_gap = |commit: usize, _| (!(3..6).contains(&commit)).then_some(figures[commit]);
        for find in [Find::Largest, Find::First, Find::All] {
            let (found, _) = searched(9, find, 2, with_gap);
            let Found::Steps(steps) = found else { panic!("{found:?}") };
            assert_eq!((steps[0].before, steps[0].after, &steps[0].between[..]), (2, 6, &[3, 4, 5][..]));
            assert_eq!(steps[0].kind, StepKind::Skipped);
        }
        assert_eq!(searched(9, Find::First, 2, |commit, _| (commit > 0).then_some(1)).0, Found::Unmeasured);
    }

    #[test]
    fn a_growth_in_many_small_steps_is_said_to_be_one() {
        let figures = [0, 4, 8, 12, 16];
        let (found, _) = searched(5, Find::All, 5, of(&figures));
        let Found::Steps(steps) = found else { panic!("{found:?}") };
        assert!(steps.iter().all(|step| step.kind == StepKind::Spread), "{steps:?}");
        assert_eq!((steps[0].before, steps[1].after), (0, 4));
    }

    /// A figure that is up to 2 off, and 40 off once in a while, always the same way for the same run.
    fn jitter(commit: usize, run: usize) -> i64 {
        let hash = blake3::hash(format!("{commit} {run}").as_bytes());
        let byte = i64::from(hash.as_bytes()[0]);
        byte % 5 - 2 + if byte % 16 == 7 { 40 } else { 0 }
    }

    #[test]
    fn noise_costs_runs_and_seldom_the_answer_and_never_gives_a_wrong_one() {
        let mut exact = 0;
        for step in 1..30 {
            let figure = |commit: usize, run: usize| {
                Some(1000 + if commit >= step { 100 } else { 0 } + jitter(commit + 31 * step, run))
            };
            for find in [Find::Largest, Find::First] {
                let (found, _) = searched(30, find, 30, figure);
                let (before, after) = steps(&found)[0];
                assert!(before < step && step <= after, "{find:?}: {before} to {after}, not {step}");
                exact += usize::from(before + 1 == after);
            }
        }
        assert!(exact >= 50, "{exact} of 58");
    }

    /// Figures that only grow, as the sums of increments, and which commits cannot be measured. The ends can.
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

    /// The steps between neighbours that can be measured, as a sweep shows them.
    fn sweep(figures: &[i64], skipped: &[bool]) -> Vec<(usize, usize)> {
        let measured: Vec<usize> = (0..figures.len()).filter(|&commit| !skipped[commit]).collect();
        measured.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_sweep_shows((figures, skipped) in growing(), limit in 0..60_u64, falling: bool) {
            let figures: Vec<i64> =
                figures.iter().map(|figure| if falling { 100_000 - figure } else { *figure }).collect();
            let commits = figures.len();
            let figure = |commit: usize, _: usize| (!skipped[commit]).then_some(figures[commit]);
            let size = |(before, after): (usize, usize)| (figures[after] - figures[before]).unsigned_abs();
            let sweep = sweep(&figures, &skipped);
            let beyond = size((0, commits - 1)) > limit;

            let (found, measured) = searched(commits, Find::Largest, limit, figure);
            if beyond {
                let found = steps(&found);
                prop_assert!(sweep.contains(&found[0]));
                prop_assert_eq!(size(found[0]), sweep.iter().map(|&step| size(step)).max().unwrap());
                prop_assert!(measured <= commits);
            } else {
                prop_assert_eq!(found, Found::Same);
            }

            let (found, measured) = searched(commits, Find::First, limit, figure);
            if beyond {
                let first = sweep.iter().find(|(_, after)| size((0, *after)) > limit).unwrap();
                prop_assert_eq!(&steps(&found), &[*first]);
                let skips = skipped.iter().filter(|skipped| **skipped).count();
                prop_assert!(measured <= 2 + halvings(commits) + skips + 1, "{} of {}", measured, commits);
            }

            let (found, _) = searched(commits, Find::All, limit, figure);
            if beyond {
                let Found::Steps(found) = found else { panic!("{found:?}") };
                let alone = found.iter().filter(|step| step.kind != StepKind::Spread);
                let alone: Vec<_> = alone.map(|step| (step.before, step.after)).collect();
                let large: Vec<_> = sweep.iter().copied().filter(|&step| size(step) > limit).collect();
                prop_assert_eq!(alone, large);
            }
        }

        #[test]
        fn where_figures_go_up_and_down_what_is_found_is_still_a_step(
            figures in proptest::collection::vec(0..1000_i64, 2..40), limit in 0..200_u64
        ) {
            let size = |(before, after): (usize, usize)| (figures[after] - figures[before]).unsigned_abs();
            for find in [Find::Largest, Find::First, Find::All] {
                let (found, measured) = searched(figures.len(), find, limit, of(&figures));
                prop_assert!(measured <= figures.len());
                let Found::Steps(found) = found else { continue };
                let (first, last) = (figures[0], figures[figures.len() - 1]);
                for step in found.iter().filter(|step| step.kind == StepKind::Commit) {
                    prop_assert_eq!(step.before + 1, step.after);
                    match find {
                        Find::Largest => prop_assert_eq!(
                            (figures[step.after] - figures[step.before]).signum(), (last - first).signum()
                        ),
                        Find::First => {
                            let beyond = |at: usize| (figures[at] - first) * (last - first).signum()
                                > i64::try_from(limit).unwrap();
                            prop_assert!(beyond(step.after) && !beyond(step.before));
                        }
                        Find::All => prop_assert!(size((step.before, step.after)) > limit),
                    }
                }
            }
        }
    }
}
