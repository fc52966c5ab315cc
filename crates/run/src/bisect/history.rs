//! The commits of a history to measure, and the steps between them.

use std::collections::BTreeSet;

use crate::bisect::linear_search::{NextMeasurement, Remaining};
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

/// Returns, for each commit, the commit to compare it with: the nearest measured one before it.
/// First parents come first, if they lead to `good`.
///
/// A merge is compared with the parent whose figure is nearest to its own, because the branch's own
/// commits already show what the branch changed.
pub(crate) fn predecessors(
    lineage: &Lineage,
    commits: &[usize],
    observations: &Observations,
) -> Vec<Option<usize>> {
    let measured: BTreeSet<usize> =
        commits.iter().copied().filter(|&commit| observations.samples(commit).is_some()).collect();
    let descendants = lineage.descendants(lineage.good);
    let figure = |commit: usize| i128::from(observations.median(commit).unwrap_or_default());
    let before = |commit: usize| {
        let parents = &lineage.parents[commit];
        if parents.len() > 1 && parents.iter().all(|parent| measured.contains(parent)) {
            let distance = |parent: &usize| (figure(*parent) - figure(commit)).abs();
            return parents.iter().copied().min_by_key(distance);
        }
        let mut at = commit;
        while let Some(parent) = lineage.parent_on_way(at, &descendants) {
            if measured.contains(&parent) {
                return Some(parent);
            }
            at = parent;
        }
        None
    };
    commits.iter().map(|&commit| before(commit).filter(|_| measured.contains(&commit))).collect()
}

/// Returns, for each commit, whether it differs from its predecessor; `None` without a predecessor.
///
/// # Errors
///
/// The measurement that is needed next.
pub fn steps(
    lineage: &Lineage,
    commits: &[usize],
    observations: &Observations,
    rule: &ChangeRule,
) -> Result<Vec<Option<HasChanged>>, NextMeasurement> {
    let is_unmeasured = |commit: &&usize| observations.get(**commit).is_none();
    if let Some(&next) = commits.iter().find(is_unmeasured) {
        let count = commits.iter().filter(is_unmeasured).count();
        return Err(NextMeasurement::Measure(next, Remaining { commits: count, steps: count }));
    }
    let predecessors = predecessors(lineage, commits, observations);
    let mut changes = Vec::new();
    for (&commit, predecessor) in commits.iter().zip(predecessors) {
        let Some(before) = predecessor else {
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
    use memprof_build::git::lineage::samples::with_a_branch;
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
        let before = [None, Some(0), Some(1), Some(1), Some(2), Some(4), None, Some(2)];
        assert_eq!(predecessors(&lineage, &commits, &observations), before);
        let threshold = Threshold { percent: None, bytes: Some(5) };
        let noise = Noise { provable: true, ..Noise::default() };
        let rule = ChangeRule { thresholds: Thresholds::both(&threshold), noise, most_runs: 10 };
        let steps = steps(&lineage, &commits, &observations, &rule).unwrap();
        let changed: Vec<usize> = (0..8).filter(|&commit| steps[commit] == Some(HasChanged::Yes)).collect();
        assert_eq!(changed, [2], "4 has it by merging 2");
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
