//! The commits of a history to measure, and the steps between them.

use std::collections::BTreeSet;

use crate::bisect::linear_search::{NextMeasurement, Remaining};
use crate::bisect::merge_search::Merges;
use crate::bisect::observations::{ChangeRule, HasChanged, Observations};
use memprof_build::git::lineage::Lineage;

/// Returns every n-th commit and the last.
pub fn every(commits: &[usize], n: usize) -> Vec<usize> {
    let last = commits.len().saturating_sub(1);
    let is_kept = |index: &usize| index.is_multiple_of(n) || *index == last;
    (0..commits.len()).filter(is_kept).map(|index| commits[index]).collect()
}

/// Returns at most this many commits, evenly spaced, including the first and the last.
pub fn at_most(commits: &[usize], most: usize) -> Vec<usize> {
    if commits.len() <= most || most < 2 {
        return commits.to_vec();
    }
    (0..most).map(|index| commits[index * (commits.len() - 1) / (most - 1)]).collect()
}

/// The commit to compare another one with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// The nearest measured commit before the other one.
    pub(crate) commit: usize,
    /// The commits without a figure between the two, each of which may have made a difference.
    pub(crate) between: Vec<usize>,
}

/// Returns the predecessor of each measured commit.
///
/// A merge is compared with the side whose figure is nearest to its own, because the branch's own
/// commits already show what the branch changed. If a parent has no figure, the nearest measured
/// commit before it stands for its side. With [`Merges::Name`], only the line from the good commit to
/// the bad one counts.
pub(crate) fn predecessors(
    lineage: &Lineage,
    commits: &[usize],
    merges: Merges,
    observations: &Observations,
) -> Vec<Option<Predecessor>> {
    let measured: BTreeSet<usize> =
        commits.iter().copied().filter(|&commit| observations.samples(commit).is_some()).collect();
    let after_good = lineage.descendants(lineage.good);
    let parents = |commit: usize| -> Vec<usize> {
        match merges {
            Merges::Enter => {
                lineage.parents[commit].iter().rev().copied().filter(|&parent| after_good[parent]).collect()
            }
            Merges::Name => lineage.parent_on_way(commit, &after_good).into_iter().collect(),
        }
    };
    let figure = |commit: usize| i128::from(observations.figure(commit).unwrap_or_default());
    let before = |commit: usize| {
        // The sides, that of the first parent first.
        let (mut sides, mut gap) = (Vec::new(), BTreeSet::new());
        let mut open = parents(commit);
        while let Some(at) = open.pop() {
            if measured.contains(&at) {
                sides.push(at);
            } else if gap.insert(at) {
                open.extend(parents(at));
            }
        }
        let candidates = sides.iter().copied().filter(|&side| {
            sides.len() < 2 || lineage.parents[commit].contains(&side) || {
                // A commit before another side says nothing about the branch.
                let after = lineage.descendants(side);
                !sides.iter().any(|&other| other != side && after[other])
            }
        });
        let nearest = candidates.min_by_key(|&side| (figure(side) - figure(commit)).abs())?;
        let known = lineage.ancestors(nearest);
        let between = gap.into_iter().filter(|&at| !known[at]).collect();
        Some(Predecessor { commit: nearest, between })
    };
    commits.iter().map(|commit| measured.get(commit).and_then(|&commit| before(commit))).collect()
}

/// Returns, for each commit, whether it differs from its predecessor; `None` without a predecessor.
///
/// # Errors
///
/// The measurement that is needed next.
pub fn steps(
    lineage: &Lineage,
    commits: &[usize],
    merges: Merges,
    observations: &Observations,
    rule: &ChangeRule,
) -> Result<Vec<Option<HasChanged>>, NextMeasurement> {
    let is_unmeasured = |commit: &&usize| observations.get(**commit).is_none();
    if let Some(&next) = commits.iter().find(is_unmeasured) {
        let count = commits.iter().filter(is_unmeasured).count();
        return Err(NextMeasurement::Measure(next, Remaining { commits: count, steps: count }));
    }
    let predecessors = predecessors(lineage, commits, merges, observations);
    let mut changes = Vec::new();
    for (&commit, predecessor) in commits.iter().zip(predecessors) {
        let Some(Predecessor { commit: before, .. }) = predecessor else {
            changes.push(None);
            continue;
        };
        let change = rule.change(observations, before, commit);
        let fewest = observations.fewest(before, commit);
        if change == HasChanged::Unclear && rule.must_repeat(observations, fewest, rule.most_runs) {
            return Err(NextMeasurement::Repeat(fewest));
        }
        changes.push(Some(change));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bisect::observations::Observation;
    use memprof_build::git::lineage::samples::{lineage, with_a_branch};
    use memprof_judge::verdict::significance::{Noise, Thresholds};
    use memprof_plan::quantity::Threshold;

    #[test]
    fn the_ends_are_always_among_the_commits() {
        let ten: Vec<usize> = (0..10).collect();
        assert_eq!(every(&ten, 4), [0, 4, 8, 9]);
        assert_eq!(every(&ten, 3), [0, 3, 6, 9]);
        assert_eq!(at_most(&ten, 4), [0, 3, 6, 9]);
        assert_eq!(at_most(&ten, 100), ten);
        assert_eq!(every(&[], 3), [0; 0]);
    }

    #[test]
    fn a_commit_is_compared_with_its_parent_and_not_with_the_one_listed_before_it() {
        let lineage = with_a_branch();
        let mut observations = Observations::new(8);
        for commit in 0..8 {
            // 2 made the difference on the way, 4 has it by merging 2.
            let figure = if [2, 4, 5, 6, 7].contains(&commit) { 90 } else { 10 };
            observations.record(
                commit,
                if commit == 6 { Observation::Skipped } else { Observation::Samples(vec![figure]) },
            );
        }
        let commits: Vec<usize> = (0..8).collect();
        let before = [None, Some(0), Some(1), Some(1), Some(2), Some(4), None, Some(5)];
        let found = predecessors(&lineage, &commits, Merges::Enter, &observations);
        assert_eq!(
            found.into_iter().map(|found| found.map(|found| found.commit)).collect::<Vec<_>>(),
            before
        );
        let threshold = Threshold { percent: None, bytes: Some(5) };
        let noise = Noise { provable: true, ..Noise::default() };
        let rule = ChangeRule {
            thresholds: Thresholds::both(&threshold),
            noise,
            known_of_rounds: None,
            most_runs: 10,
        };
        let steps = steps(&lineage, &commits, Merges::Enter, &observations, &rule).unwrap();
        let changed: Vec<usize> = (0..8).filter(|&commit| steps[commit] == Some(HasChanged::Yes)).collect();
        assert_eq!(changed, [2], "4 has it by merging 2");
    }

    /// The predecessor of each commit, and the commits between them. `None` cannot be measured.
    fn gaps(lineage: &Lineage, figures: &[Option<i64>]) -> Vec<Option<(usize, Vec<usize>)>> {
        let mut observations = Observations::new(figures.len());
        for (commit, figure) in figures.iter().enumerate() {
            let samples = figure.map(|figure| Observation::Samples(vec![figure]));
            observations.record(commit, samples.unwrap_or(Observation::Skipped));
        }
        let commits: Vec<usize> = (0..figures.len()).collect();
        let found = predecessors(lineage, &commits, Merges::Enter, &observations);
        found.into_iter().map(|found| found.map(|found| (found.commit, found.between))).collect()
    }

    #[test]
    fn a_merge_is_compared_with_what_its_branch_had_before_commits_without_a_figure() {
        // 2 made the difference on the branch, 3 cannot be measured, 4 merges 3.
        let lineage = lineage(&[&[], &[0], &[0], &[2], &[1, 3], &[4]]);
        let figures = [Some(10), Some(10), Some(90), None, Some(90), Some(90)];
        let found = gaps(&lineage, &figures);
        assert_eq!(found[4], Some((2, vec![3])));
        assert_eq!(found[5], Some((4, vec![])));
        // The same if the merge itself cannot be measured, too.
        let found = gaps(&lineage, &[Some(10), Some(10), Some(90), None, None, Some(90)]);
        assert_eq!(found[5], Some((2, vec![3, 4])));
        // The merge, or a commit of its branch.
        let found = gaps(&lineage, &[Some(10), Some(10), None, None, Some(90), Some(90)]);
        assert_eq!(found[4], Some((1, vec![2, 3])));
        // The commits of a branch are no candidates with `--first-parent`.
        let mut observations = Observations::new(6);
        for commit in [0, 1, 4, 5] {
            observations.record(commit, Observation::Samples(vec![figures[commit].unwrap_or_default()]));
        }
        let found = predecessors(&lineage, &[0, 1, 4, 5], Merges::Name, &observations);
        let found: Vec<_> = found.into_iter().flatten().map(|found| (found.commit, found.between)).collect();
        assert_eq!(found, [(0, vec![]), (1, vec![]), (4, vec![])]);
    }

    /// The predecessor of each of some commits, and the commits between them. No other commit was tried.
    fn gaps_of_some(
        lineage: &Lineage,
        merges: Merges,
        figures: &[(usize, i64)],
    ) -> Vec<Option<(usize, Vec<usize>)>> {
        let mut observations = Observations::new(lineage.parents.len());
        for &(commit, figure) in figures {
            observations.record(commit, Observation::Samples(vec![figure]));
        }
        let commits: Vec<usize> = figures.iter().map(|(commit, _)| *commit).collect();
        let found = predecessors(lineage, &commits, merges, &observations);
        found.into_iter().map(|found| found.map(|found| (found.commit, found.between))).collect()
    }

    #[test]
    fn a_commit_of_the_other_side_of_a_merge_is_a_candidate_even_if_it_was_not_tried() {
        // `--tags`: 1 is a release of a maintenance branch, which 5 merges. 3 made the difference.
        let tagged = lineage(&[&[], &[0], &[0], &[2], &[3], &[4, 1], &[5]]);
        let found = gaps_of_some(&tagged, Merges::Enter, &[(0, 10), (1, 10), (6, 90)]);
        assert_eq!(found, [None, Some((0, vec![])), Some((1, vec![2, 3, 4, 5]))]);
        let found = gaps_of_some(&tagged, Merges::Enter, &[(0, 10), (1, 10), (5, 90)]);
        assert_eq!(found[2], Some((1, vec![2, 3, 4])));
        let found = gaps_of_some(&tagged, Merges::Name, &[(0, 10), (6, 90)]);
        assert_eq!(found, [None, Some((0, vec![2, 3, 4, 5]))]);
        // `--every`: 2 of the main line was left out, and made +50.
        let sampled = lineage(&[&[], &[0], &[1], &[0], &[2, 3]]);
        let found = gaps_of_some(&sampled, Merges::Enter, &[(0, 10), (1, 10), (3, 40), (4, 90)]);
        assert_eq!(found[3], Some((3, vec![2])));
    }

    #[test]
    fn a_merge_is_not_compared_with_a_commit_before_a_measured_one_of_the_main_line() {
        // 1 grew and 4 shrank again; the branch from 0 was not measured.
        let lineage = lineage(&[&[], &[0], &[0], &[1], &[3, 2]]);
        let found = gaps(&lineage, &[Some(10), Some(90), None, None, Some(10)]);
        assert_eq!(found[4], Some((1, vec![2, 3])));
    }

    proptest! {
        #[test]
        fn evenly_spaced_commits_are_as_many_as_asked_for(count in 1..300_usize, most in 2..50_usize) {
            let commits: Vec<usize> = (0..count).collect();
            let kept = at_most(&commits, most);
            prop_assert_eq!(kept.len(), count.min(most));
            prop_assert!(kept.is_sorted_by(|before, after| before < after));
            prop_assert_eq!((kept[0], kept[kept.len() - 1]), (0, count - 1));
        }
    }
}
