//! The search in a history with merges. It first searches the line from the good commit to the bad
//! one. If a merge made the difference, it then searches the branch that was merged.
//!
//! Compared with the commit before it on the line, a merge changes by everything that its branch
//! brings. If the branch itself, from its fork to its end, differs by less than half of this, the merge
//! is the answer. Otherwise only what neither side explains is the merge's own change.

use std::cmp::Reverse;

use crate::bisect::linear_search::{
    Answer, HistoryStep, NextMeasurement, Remaining, SearchGoal, StepKind, search, step_between,
};
use crate::bisect::merged_branches::{MergedBranch, difference, explained_by, is_measured, merged_branches};
use crate::bisect::observations::{ChangeRule, HasChanged, Observations};
use memprof_build::git::lineage::Lineage;

/// A search in a range of commits.
#[derive(Clone, Copy, Debug)]
pub struct MergeSearch<'a> {
    /// The range.
    pub lineage: &'a Lineage,
    /// Which change to look for.
    pub goal: SearchGoal,
    /// What to do with a merge that made the difference.
    pub merges: Merges,
    /// How to tell a change from noise.
    pub rule: &'a ChangeRule,
}

/// What to do with a merge that made the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Merges {
    /// Search the branch that it merged.
    #[default]
    Enter,
    /// Name the merge as the answer.
    Name,
}

impl MergeSearch<'_> {
    /// Returns the answer.
    ///
    /// # Errors
    ///
    /// The measurement that the search needs next.
    pub fn answer(&self, observations: &Observations) -> Result<Answer, NextMeasurement> {
        let line = self.lineage.suspects(self.lineage.good, self.lineage.bad);
        match search(&line, self.goal, observations, self.rule)? {
            Answer::Steps(steps) => Ok(Answer::Steps(self.traced_all(steps, observations)?)),
            other => Ok(other),
        }
    }

    fn traced_all(
        &self,
        steps: Vec<HistoryStep>,
        observations: &Observations,
    ) -> Result<Vec<HistoryStep>, NextMeasurement> {
        let mut traced = Vec::new();
        for step in steps {
            add_new(&mut traced, self.traced(step, observations)?);
        }
        Ok(traced)
    }

    /// Traces a difference between two commits to the commits that made it.
    fn traced(
        &self,
        step: HistoryStep,
        observations: &Observations,
    ) -> Result<Vec<HistoryStep>, NextMeasurement> {
        if step.kind != StepKind::Commit {
            return Ok(vec![step]);
        }
        let lineage = self.lineage;
        let descendants = lineage.descendants(step.before);
        let Some(parent) = lineage.parent_on_way(step.after, &descendants) else { return Ok(vec![step]) };
        let mut found = Vec::new();
        for step in self.beside_its_parent(step, parent, observations)? {
            if step.kind == StepKind::Commit && self.merges == Merges::Enter {
                found.extend(self.entered(step, observations)?);
            } else {
                found.push(step);
            }
        }
        Ok(found)
    }

    /// Traces the difference between a commit and its parent to the branches that the commit merged.
    fn entered(
        &self,
        step: HistoryStep,
        observations: &Observations,
    ) -> Result<Vec<HistoryStep>, NextMeasurement> {
        let lineage = self.lineage;
        let whole = difference(observations, step.before, step.after);
        let mut branches = merged_branches(self.lineage, &step, observations)?;
        branches.sort_by_key(|branch| (!is_most(branch.part, whole), Reverse(branch.part.abs())));
        let of_all: i128 = branches.iter().map(|branch| branch.part).sum();
        let explain_together = self.goal == SearchGoal::All && is_most(of_all, whole);
        let explains = |branch: &MergedBranch| explain_together || is_most(branch.part, whole);
        if !branches.first().is_some_and(explains) {
            return Ok(vec![beside_its_branches(step, &branches)]);
        }
        let searched = if self.goal == SearchGoal::All { branches.len() } else { 1 };
        let mut found: Vec<HistoryStep> = Vec::new();
        for branch in &branches[..searched] {
            let line = lineage.suspects(branch.fork, branch.end);
            if let Answer::Steps(steps) = search(&line, self.goal, observations, self.rule)? {
                add_new(&mut found, self.traced_all(steps, observations)?);
            }
        }
        if found.is_empty() {
            return Ok(vec![beside_its_branches(step, &branches)]);
        }
        self.with_the_rest(found, &branches, &step, observations)
    }

    /// Adds what a merge changed by itself, or with `largest`, returns the larger of both. The first branch explains
    /// most of the merge.
    fn with_the_rest(
        &self,
        mut steps: Vec<HistoryStep>,
        branches: &[MergedBranch],
        merge: &HistoryStep,
        observations: &Observations,
    ) -> Result<Vec<HistoryStep>, NextMeasurement> {
        let branch = &branches[0];
        let main_line = difference(observations, branch.fork, merge.before);
        let sides: Vec<i128> = branches.iter().map(|branch| branch.part).chain([main_line]).collect();
        let merged = difference(observations, branch.fork, merge.after);
        let explained = explained_by(&sides, merged);
        let own = merged - explained;
        let judged = self.rule.significance(observations, branch.end, merge.after);
        let is_small = own == 0 || judged.is_some_and(|judged| own.abs() <= i128::from(judged.limit));
        if self.goal == SearchGoal::First || is_small {
            return Ok(steps);
        }
        let line: Vec<usize> =
            [branch.end].iter().chain(&branch.unmeasured).chain([&merge.after]).copied().collect();
        let Answer::Steps(mut found) = search(&line, self.goal, observations, self.rule)? else {
            return Ok(steps);
        };
        if !self.is_beyond(own, branch.end, merge.after, observations) {
            return Ok(steps);
        }
        for step in found.iter_mut().filter(|step| step.after == merge.after) {
            step.other_side = explained - branch.part;
        }
        let is_larger = |step: &HistoryStep| {
            let of_step = difference(observations, step.before, step.after) - step.other_side;
            own.abs() > of_step.abs()
        };
        if self.goal == SearchGoal::All {
            steps.extend(found);
        } else if own.signum() == branch.part.signum() && steps.iter().all(is_larger) {
            steps = found;
        }
        Ok(steps)
    }

    /// Whether a part of the difference between two commits exceeds the threshold, for all that their figures vary.
    fn is_beyond(&self, part: i128, before: usize, after: usize, observations: &Observations) -> bool {
        let Some(judged) = self.rule.significance(observations, before, after) else { return false };
        let noise = if part > 0 { judged.change - judged.low } else { judged.high - judged.change };
        part.abs() > i128::from(judged.limit) + noise
    }

    /// Narrows a step to a commit and its parent. With paths, the search skipped the commits between the
    /// step's ends and assumed that they change nothing; this measures whether that is true. Both parts are
    /// returned if all changes are searched for, otherwise the one that made the change.
    fn beside_its_parent(
        &self,
        mut step: HistoryStep,
        parent: usize,
        observations: &Observations,
    ) -> Result<Vec<HistoryStep>, NextMeasurement> {
        if parent == step.before {
            return Ok(vec![step]);
        }
        if !is_measured(observations, parent, Remaining { commits: 1, steps: 1 })? {
            step.between = self.lineage.between(step.before, step.after);
            step.kind = StepKind::Skipped;
            return Ok(vec![step]);
        }
        let own = || step_between(parent, step.after, observations, self.rule);
        let outside = || {
            let between = self.lineage.between(step.before, parent);
            let outside = step_between(step.before, parent, observations, self.rule)?;
            Ok(HistoryStep { between, kind: StepKind::OutsidePaths, ..outside })
        };
        let has_changed = |step: &HistoryStep| step.change == HasChanged::Yes;
        if self.goal == SearchGoal::All {
            let mut parts = vec![outside()?, own()?];
            parts.retain(has_changed);
            if parts.is_empty() {
                step.between = self.lineage.between(step.before, step.after);
                step.kind = StepKind::Spread;
                parts.push(step);
            }
            return Ok(parts);
        }
        let whole = difference(observations, step.before, step.after);
        let is_own = is_most(difference(observations, parent, step.after), whole);
        let likely = if is_own { own()? } else { outside()? };
        if has_changed(&likely) {
            return Ok(vec![likely]);
        }
        // With a threshold in percent, only the smaller part may exceed it.
        let other = if is_own { outside()? } else { own()? };
        Ok(vec![if has_changed(&other) { other } else { likely }])
    }
}

/// Adds the steps that are not there yet: a commit may come by several merges.
fn add_new(found: &mut Vec<HistoryStep>, steps: Vec<HistoryStep>) {
    for step in steps {
        if !found.contains(&step) {
            found.push(step);
        }
    }
}

/// Returns the step of a merge whose branches do not explain it. Commits of a branch that have no
/// figure may have made the difference.
fn beside_its_branches(mut step: HistoryStep, branches: &[MergedBranch]) -> HistoryStep {
    step.between = branches.iter().flat_map(|branch| branch.unmeasured.iter().copied()).collect();
    step.between.sort_unstable();
    step.between.dedup();
    step.kind = StepKind::of_gap(&step.between);
    step
}

/// Whether a part of a difference is at least half of it, in the same direction.
fn is_most(part: i128, whole: i128) -> bool {
    part.signum() == whole.signum() && part.abs() * 2 >= whole.abs()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::bisect::observations::Observation;
    use memprof_build::git::lineage::samples::{lineage, with_a_branch};
    use memprof_judge::verdict::significance::{Noise, Thresholds};
    use memprof_plan::quantity::Threshold;

    /// The answer if each commit has its figure. `None` means that a commit cannot be measured.
    fn answer(
        lineage: &Lineage,
        goal: SearchGoal,
        merges: Merges,
        figures: &[Option<i64>],
    ) -> Vec<HistoryStep> {
        answer_and_builds(lineage, goal, merges, figures).0
    }

    /// The answer, and how many commits were measured for it.
    fn answer_and_builds(
        lineage: &Lineage,
        goal: SearchGoal,
        merges: Merges,
        figures: &[Option<i64>],
    ) -> (Vec<HistoryStep>, usize) {
        let threshold = Threshold { percent: None, bytes: Some(5) };
        let noise = Noise { provable: true, ..Noise::default() };
        let rule = ChangeRule {
            thresholds: Thresholds::both(&threshold),
            noise,
            known_of_rounds: None,
            most_runs: 10,
        };
        let search = MergeSearch { lineage, goal, merges, rule: &rule };
        let mut observations = Observations::new(figures.len());
        let mut builds = 0;
        for _ in 0..figures.len() * 3 {
            match search.answer(&observations) {
                Ok(Answer::Steps(steps)) => {
                    let runs = |commit: usize| observations.samples(commit).map_or(0, <[i64]>::len);
                    assert!(steps.iter().all(|step| runs(step.before) >= 2 && runs(step.after) >= 2));
                    return (steps, builds);
                }
                Ok(other) => panic!("{other:?}"),
                Err(NextMeasurement::Measure(commit, _)) => {
                    builds += 1;
                    let samples = figures[commit].map(|figure| Observation::Samples(vec![figure]));
                    observations.record(commit, samples.unwrap_or(Observation::Skipped));
                }
                Err(NextMeasurement::Repeat(commit)) => {
                    let figure = figures[commit].unwrap();
                    observations.record(commit, Observation::Samples(vec![figure; 2]));
                }
            }
        }
        panic!("the search does not end");
    }

    fn found(lineage: &Lineage, goal: SearchGoal, merges: Merges, figures: &[i64]) -> Vec<(usize, usize)> {
        let figures: Vec<_> = figures.iter().copied().map(Some).collect();
        answer(lineage, goal, merges, &figures).iter().map(|step| (step.before, step.after)).collect()
    }

    /// 5 is the commit on the branch that 6 merges.
    const ON_BRANCH: [i64; 8] = [10, 10, 10, 10, 10, 90, 90, 90];

    #[test]
    fn the_commit_on_a_branch_is_found_through_its_merge() {
        for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
            assert_eq!(found(&with_a_branch(), goal, Merges::Enter, &ON_BRANCH), [(4, 5)], "{goal:?}");
            assert_eq!(found(&with_a_branch(), goal, Merges::Name, &ON_BRANCH), [(2, 6)], "{goal:?}");
        }
    }

    #[test]
    fn a_merge_that_made_the_difference_itself_is_named() {
        let figures = [10, 10, 10, 10, 10, 10, 90, 90];
        assert_eq!(found(&with_a_branch(), SearchGoal::Largest, Merges::Enter, &figures), [(2, 6)]);
    }

    #[test]
    fn a_change_that_a_branch_merged_from_the_main_line_is_not_the_branchs() {
        // 2 made the difference; 4 has it by merging 2.
        let figures = [10, 10, 90, 10, 90, 90, 90, 90];
        assert_eq!(found(&with_a_branch(), SearchGoal::Largest, Merges::Enter, &figures), [(1, 2)]);
        assert_eq!(found(&with_a_branch(), SearchGoal::All, Merges::Enter, &figures), [(1, 2)]);
    }

    #[test]
    fn a_branch_in_a_branch_is_entered_too() {
        // 3 made the difference, on the branch, before 4 merged the main line.
        let figures = [10, 10, 10, 90, 90, 90, 90, 90];
        assert_eq!(found(&with_a_branch(), SearchGoal::Largest, Merges::Enter, &figures), [(1, 3)]);
    }

    /// The steps as before, commits between, after and kind.
    fn steps(
        lineage: &Lineage,
        goal: SearchGoal,
        figures: &[Option<i64>],
    ) -> Vec<(usize, Vec<usize>, usize, StepKind)> {
        let steps = answer(lineage, goal, Merges::Enter, figures).into_iter();
        steps.map(|step| (step.before, step.between, step.after, step.kind)).collect()
    }

    /// 5 merges the branch from 2 to 4.
    fn with_a_long_branch() -> Lineage {
        lineage(&[&[], &[0], &[0], &[2], &[3], &[1, 4], &[5]])
    }

    #[test]
    fn a_merge_that_changed_something_itself_is_named_beside_its_branch() {
        let lineage = with_a_long_branch();
        let figures = [100, 100, 130, 160, 190, 270, 270];
        let of_branch = [(0, 2), (2, 3), (3, 4)];
        let all = found(&lineage, SearchGoal::All, Merges::Enter, &figures);
        assert_eq!(all, [&of_branch[..], &[(4, 5)]].concat());
        assert_eq!(found(&lineage, SearchGoal::Largest, Merges::Enter, &figures), [(4, 5)]);
        let smaller = [100, 100, 190, 190, 190, 200, 200];
        assert_eq!(found(&lineage, SearchGoal::All, Merges::Enter, &smaller), [(0, 2), (4, 5)]);
        assert_eq!(found(&lineage, SearchGoal::Largest, Merges::Enter, &smaller), [(0, 2)]);
        // The merge undoes a part, which is not the direction of the largest change.
        let undone = [100, 100, 130, 160, 190, 140, 140];
        assert_eq!(found(&lineage, SearchGoal::Largest, Merges::Enter, &undone), [(0, 2)]);
        // The merge adds nothing to what the main line and the branch changed.
        let both = [100, 180, 130, 160, 190, 270, 270];
        let all = found(&lineage, SearchGoal::All, Merges::Enter, &both);
        assert_eq!(all, [&[(0, 1)], &of_branch[..]].concat());
    }

    #[test]
    fn a_merge_that_changed_something_itself_is_named_if_both_sides_changed() {
        // 3 merges the branch 1, 2 into the main line 4, 5, 6.
        let lineage = lineage(&[&[], &[0], &[1], &[0], &[3], &[4], &[5, 2], &[6]]);
        let named = |goal, [branch, main, merge]: [i64; 3]| -> Vec<(usize, usize, i128)> {
            let half = branch.midpoint(100);
            let figures = [100, half, branch, 100, 100, main, merge, merge].map(Some);
            let steps = answer(&lineage, goal, Merges::Enter, &figures);
            steps.iter().map(|step| (step.before, step.after, step.other_side)).collect()
        };
        let both = [(4, 5, 0), (0, 1, 0), (1, 2, 0)];
        let all = |figures| named(SearchGoal::All, figures);
        assert_eq!(all([200, 200, 350]), [&both[..], &[(2, 6, 100)]].concat(), "50 by itself");
        assert_eq!(named(SearchGoal::Largest, [200, 200, 340]), [(0, 1, 0)], "40 by itself");
        assert_eq!(named(SearchGoal::Largest, [200, 200, 380]), [(2, 6, 100)], "80 by itself");
        assert_eq!(all([20, 20, -90]), [&both[..], &[(2, 6, -80)]].concat(), "-30 by itself");
        // Both sides may have the same change, and peaks at different moments are not added.
        assert_eq!(all([250, 200, 250]), both);
        assert_eq!(all([250, 200, 330]), both);
        assert_eq!(all([250, 80, 240]), both);
    }

    #[test]
    fn each_branch_of_a_merge_of_several_is_searched() {
        let three = lineage(&[&[], &[0], &[0], &[0], &[1, 2, 3]]);
        let steps = |goal, figures: &[i64]| -> Vec<(usize, usize)> {
            let figures: Vec<_> = figures.iter().copied().map(Some).collect();
            let steps = answer(&three, goal, Merges::Enter, &figures);
            steps.iter().map(|step| (step.before, step.after)).collect()
        };
        let figures = [100, 100, 200, 160, 260];
        assert_eq!(steps(SearchGoal::All, &figures), [(0, 2), (0, 3)]);
        assert_eq!(steps(SearchGoal::Largest, &figures), [(0, 2)]);
        // The merge changed something itself.
        let figures = [100, 100, 200, 100, 290];
        assert_eq!(steps(SearchGoal::All, &figures), [(0, 2), (2, 4)]);
        // None of the branches made half of the difference.
        let four = lineage(&[&[], &[0], &[0], &[0], &[0], &[1, 2, 3, 4]]);
        let figures = [100, 100, 130, 130, 130, 190].map(Some);
        let found = answer(&four, SearchGoal::All, Merges::Enter, &figures);
        let found: Vec<(usize, usize)> = found.iter().map(|step| (step.before, step.after)).collect();
        assert_eq!(found, [(0, 2), (0, 3), (0, 4)]);
    }

    #[test]
    fn a_commit_that_several_merges_bring_is_named_once() {
        // 3 merges 1 into the main line, 4 the main line into the branch, and 6 the branch once more.
        let crossed = lineage(&[&[], &[0], &[0], &[2, 1], &[1, 2], &[4], &[3, 5]]);
        let figures = [0, 300, 200, 500, 500, 1500, 1500];
        assert_eq!(found(&crossed, SearchGoal::All, Merges::Enter, &figures), [(0, 2), (0, 1), (4, 5)]);
    }

    #[test]
    fn a_branch_whose_tip_cannot_be_measured_is_searched_up_to_the_last_commit_that_can() {
        let lineage = with_a_long_branch();
        for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
            let figures = [10, 10, 90, 0, 0, 90, 90].map(|figure| Some(figure).filter(|figure| *figure > 0));
            assert_eq!(steps(&lineage, goal, &figures), [(0, vec![], 2, StepKind::Commit)], "{goal:?}");
        }
        // The larger change is the merge's, or that of commits that cannot be measured.
        let more = [Some(10), Some(10), Some(50), Some(90), None, Some(150), Some(150)];
        let rest = (3, vec![4], 5, StepKind::Skipped);
        assert_eq!(steps(&lineage, SearchGoal::Largest, &more), std::slice::from_ref(&rest));
        let one = |before, after| (before, vec![], after, StepKind::Commit);
        assert_eq!(steps(&lineage, SearchGoal::All, &more), [one(0, 2), one(2, 3), rest]);
    }

    #[test]
    fn commits_of_a_branch_that_cannot_be_measured_may_have_made_what_its_merge_changed() {
        let mut figures = ON_BRANCH.map(Some);
        figures[5] = None;
        let found = steps(&with_a_branch(), SearchGoal::Largest, &figures);
        assert_eq!(found, [(2, vec![5], 6, StepKind::Skipped)]);
        let figures = [Some(10), Some(10), None, None, None, Some(90), Some(90)];
        let found = steps(&with_a_long_branch(), SearchGoal::Largest, &figures);
        assert_eq!(found, [(1, vec![2, 3, 4], 5, StepKind::Skipped)]);
    }

    /// 64 merges the branch from 3 to 63, which begins at 1. 2 is on the main line.
    fn with_61_commits_on_a_branch() -> Lineage {
        let mut parents = vec![vec![], vec![0], vec![1], vec![1]];
        parents.extend((4..64).map(|commit| vec![commit - 1]));
        parents.push(vec![2, 63]);
        lineage(&parents.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn a_long_branch_that_cannot_be_measured_takes_few_builds() {
        let lineage = with_61_commits_on_a_branch();
        let branch: Vec<usize> = (3..64).collect();
        let searched = |figure: &dyn Fn(usize) -> Option<i64>| {
            let figures: Vec<_> = (0..65).map(figure).collect();
            let (steps, builds) = answer_and_builds(&lineage, SearchGoal::Largest, Merges::Enter, &figures);
            assert_eq!(steps.len(), 1);
            (steps[0].before, steps[0].between.clone(), steps[0].after, steps[0].kind, builds)
        };
        let of_merge = |commit| Some(if commit == 64 { 90 } else { 10 });
        // Four builds on the main line.
        let none = searched(&|commit| of_merge(commit).filter(|_| !branch.contains(&commit)));
        assert_eq!(none, (2, branch.clone(), 64, StepKind::Skipped, 4 + 7));
        let no_fork = searched(&|commit| of_merge(commit).filter(|_| commit != 1));
        assert_eq!(no_fork, (2, branch.clone(), 64, StepKind::Skipped, 4));
        // The last ten commits have no figure.
        let in_branch = |commit: usize| Some(if commit >= 20 { 90 } else { 10 });
        let grown = |commit| if commit < 3 { Some(10) } else { in_branch(commit) };
        let found = searched(&|commit| grown(commit).filter(|_| !(54..64).contains(&commit)));
        assert_eq!((found.0, found.2, found.3), (19, 20, StepKind::Commit));
        assert!(found.4 <= 4 + 8 + 6, "{} builds", found.4);
    }

    #[test]
    fn a_change_outside_the_paths_is_not_blamed_on_a_commit_inside_them() {
        let line = |touching: &[(usize, usize)]| Lineage {
            touching: Some(touching.iter().copied().collect::<BTreeSet<_>>()),
            ..lineage(&[&[], &[0], &[1], &[2], &[3], &[4]])
        };
        let figures = [10, 10, 10, 90, 90, 90].map(Some);
        let right = answer(&line(&[(2, 3)]), SearchGoal::Largest, Merges::Enter, &figures);
        assert_eq!((right[0].before, right[0].after, right[0].kind), (2, 3, StepKind::Commit));
        let wrong = answer(&line(&[(0, 1), (3, 4)]), SearchGoal::Largest, Merges::Enter, &figures);
        assert_eq!((wrong[0].before, wrong[0].after, wrong[0].kind), (1, 3, StepKind::OutsidePaths));
        assert_eq!(wrong[0].between, [2]);
        // 4 changed something, too, but less than 2.
        let both = [10, 10, 90, 90, 120, 120].map(Some);
        let outside = (1, vec![2], 3, StepKind::OutsidePaths);
        let lineage = line(&[(0, 1), (3, 4)]);
        let own = (3, vec![], 4, StepKind::Commit);
        assert_eq!(steps(&lineage, SearchGoal::All, &both), [outside.clone(), own.clone()]);
        assert_eq!(steps(&lineage, SearchGoal::Largest, &both), std::slice::from_ref(&outside));
        let most = [10, 10, 40, 40, 120, 120].map(Some);
        assert_eq!(steps(&lineage, SearchGoal::All, &most), [outside, own.clone()]);
        assert_eq!(steps(&lineage, SearchGoal::Largest, &most), [own]);
        let little = [10, 10, 14, 14, 18, 18].map(Some);
        let spread = (1, vec![2, 3], 4, StepKind::Spread);
        assert_eq!(steps(&lineage, SearchGoal::All, &little), [spread]);
        let mut unknown = figures;
        unknown[3] = None;
        let unsure = answer(&line(&[(0, 1), (3, 4)]), SearchGoal::Largest, Merges::Enter, &unknown);
        assert_eq!((unsure[0].before, unsure[0].after, unsure[0].kind), (1, 4, StepKind::Skipped));
    }

    /// A history in which each commit has one earlier parent, or merges two.
    fn history() -> impl Strategy<Value = Vec<Vec<usize>>> {
        proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8),
            1..24,
        )
        .prop_map(|commits| {
            let mut parents = vec![Vec::new()];
            for (first, second, kind) in commits {
                let mut of_commit = vec![first.index(parents.len())];
                let second = second.index(parents.len());
                if kind == 0 && second != of_commit[0] {
                    of_commit.push(second);
                }
                parents.push(of_commit);
            }
            // The last commits merge all open branches, as a mainline does.
            let mut has_child = vec![false; parents.len()];
            parents.iter().flatten().for_each(|&parent| has_child[parent] = true);
            let loose: Vec<usize> = (0..parents.len()).filter(|&commit| !has_child[commit]).collect();
            for tip in loose {
                let last = parents.len() - 1;
                if tip != last {
                    parents.push(vec![last, tip]);
                }
            }
            parents
        })
    }

    proptest! {
        /// One commit makes the difference, and every commit after it has the difference too.
        #[test]
        fn the_one_commit_is_found_in_any_history(parents in history(), culprit: prop::sample::Index) {
            let parents: Vec<&[usize]> = parents.iter().map(Vec::as_slice).collect();
            let lineage = lineage(&parents);
            prop_assume!(lineage.parents.len() > 1);
            let culprit = 1 + culprit.index(lineage.parents.len() - 1);
            let grown = lineage.descendants(culprit);
            let figures: Vec<i64> = grown.iter().map(|grown| if *grown { 90 } else { 10 }).collect();
            prop_assume!(grown[lineage.bad]);
            for goal in [SearchGoal::Largest, SearchGoal::First, SearchGoal::All] {
                let found = found(&lineage, goal, Merges::Enter, &figures);
                prop_assert_eq!(found.len(), 1);
                prop_assert_eq!(found[0].1, culprit, "{:?} in {:?}", goal, &lineage.parents);
            }
        }
    }
}
