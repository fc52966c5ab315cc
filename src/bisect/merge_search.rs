//! The search in a history that is not one line: first along the way from the good commit to the bad one, and where a merge
//! made the difference, along the branch that it merged.
//!
//! A merge changes, to the commit before it on the way, by all that its branch brings. It is the answer only where the branch,
//! from where it had left to its end, does not differ by as much.

use crate::bisect::linear_search::{Find, Found, Left, Step, StepKind, Wanted, halvings, search};
use crate::bisect::observations::{Knowledge, Known, Rule};
use crate::compare::comparison::Delta;
use crate::git::lineage::Lineage;

/// What is asked of a range of commits.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The range.
    pub lineage: &'a Lineage,
    /// What is searched for.
    pub find: Find,
    /// What becomes of a merge that made the difference.
    pub merges: Merges,
    /// By what a change is told from noise.
    pub rule: &'a Rule,
}

/// What becomes of a merge that made the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Merges {
    /// The branch that it merged is searched.
    #[default]
    Enter,
    /// It is the answer.
    Name,
}

impl Question<'_> {
    /// The answer, or what has to be measured before there is one.
    pub fn answer(&self, known: &Knowledge) -> Result<Found, Wanted> {
        let way = self.lineage.suspects(self.lineage.good, self.lineage.bad);
        match search(&way, self.find, known, self.rule)? {
            Found::Steps(steps) => Ok(Found::Steps(self.all_traced(steps, known)?)),
            other => Ok(other),
        }
    }

    fn all_traced(&self, steps: Vec<Step>, known: &Knowledge) -> Result<Vec<Step>, Wanted> {
        let mut traced = Vec::new();
        for step in steps {
            traced.extend(self.traced(step, known)?);
        }
        Ok(traced)
    }

    /// Follows a difference between two commits to the commits that made it.
    fn traced(&self, mut step: Step, known: &Knowledge) -> Result<Vec<Step>, Wanted> {
        if step.kind != StepKind::Commit {
            return Ok(vec![step]);
        }
        let lineage = self.lineage;
        let descendants = lineage.descendants(step.before);
        let Some(parent) = lineage.parent_on_way(step.after, &descendants) else { return Ok(vec![step]) };
        let whole = difference(known, step.before, step.after);
        if parent != step.before {
            // What does not touch the paths was taken to change nothing. That is now seen to.
            if measured(known, parent, Left { commits: 1, steps: 1 })?.is_none() {
                step.between = between(lineage, step.before, step.after);
                step.kind = StepKind::Skipped;
                return Ok(vec![step]);
            }
            if !is_most(difference(known, parent, step.after), whole) {
                step.after = parent;
                step.between = between(lineage, step.before, parent);
                step.kind = StepKind::OutsidePaths;
                return Ok(vec![step]);
            }
            step.before = parent;
        }
        if self.merges == Merges::Name {
            return Ok(vec![step]);
        }
        let mut largest: Option<(i128, usize, usize)> = None;
        for &tip in lineage.parents[step.after].iter().filter(|&&tip| tip != step.before) {
            let Some(fork) = lineage.fork(step.before, tip) else { continue };
            let commits = lineage.suspects(fork, tip).len();
            let left = Left { commits, steps: 2 + halvings(commits) };
            let (Some(()), Some(())) = (measured(known, tip, left)?, measured(known, fork, left)?) else {
                continue;
            };
            let part = difference(known, fork, tip);
            if is_most(part, whole) && largest.is_none_or(|(most, ..)| part.abs() > most.abs()) {
                largest = Some((part, fork, tip));
            }
        }
        let Some((_, fork, tip)) = largest else { return Ok(vec![step]) };
        match search(&lineage.suspects(fork, tip), self.find, known, self.rule)? {
            Found::Steps(steps) => self.all_traced(steps, known),
            Found::Same | Found::Unclear | Found::Unmeasured => Ok(vec![step]),
        }
    }
}

/// Whether a commit has figures; `None` if it cannot be measured.
fn measured(known: &Knowledge, commit: usize, left: Left) -> Result<Option<()>, Wanted> {
    match known.of(commit) {
        None => Err(Wanted::Measure(commit, left)),
        Some(Known::Skipped) => Ok(None),
        Some(Known::Samples(_)) => Ok(Some(())),
    }
}

fn difference(known: &Knowledge, before: usize, after: usize) -> i128 {
    let value = |commit| known.median(commit).unwrap_or_default();
    Delta::between(value(before), value(after)).difference
}

/// Whether a part of a difference is at least half of it, in its direction.
fn is_most(part: i128, whole: i128) -> bool {
    part.signum() == whole.signum() && part.abs() * 2 >= whole.abs()
}

/// The commits on the way between two.
fn between(lineage: &Lineage, before: usize, after: usize) -> Vec<usize> {
    let way = lineage.way(before, after);
    way.get(1..way.len().saturating_sub(1)).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::git::lineage::tests::{lineage, with_a_branch};
    use crate::plan::quantity::Threshold;
    use crate::verdict::significance::{Noise, Thresholds};

    /// The answer where each commit has its figure, or cannot be measured.
    fn answer(lineage: &Lineage, find: Find, merges: Merges, figures: &[Option<i64>]) -> Vec<Step> {
        let threshold = Threshold { percent: None, bytes: Some(5) };
        let noise = Noise { provable: true, ..Noise::default() };
        let rule = Rule { thresholds: Thresholds::both(&threshold), noise, most_runs: 10 };
        let question = Question { lineage, find, merges, rule: &rule };
        let mut known = Knowledge::of_nothing(figures.len());
        for _ in 0..figures.len() * 3 {
            match question.answer(&known) {
                Ok(Found::Steps(steps)) => return steps,
                Ok(other) => panic!("{other:?}"),
                Err(Wanted::Measure(commit, _)) => {
                    let samples = figures[commit].map(|figure| Known::Samples(vec![figure]));
                    known.learn(commit, samples.unwrap_or(Known::Skipped));
                }
                Err(Wanted::Repeat(commit)) => {
                    let figure = figures[commit].unwrap();
                    known.learn(commit, Known::Samples(vec![figure; 2]));
                }
            }
        }
        panic!("it goes on and on");
    }

    fn found(lineage: &Lineage, find: Find, merges: Merges, figures: &[i64]) -> Vec<(usize, usize)> {
        let figures: Vec<_> = figures.iter().copied().map(Some).collect();
        answer(lineage, find, merges, &figures).iter().map(|step| (step.before, step.after)).collect()
    }

    /// 5 is the commit on the branch that 6 merges.
    const ON_BRANCH: [i64; 8] = [10, 10, 10, 10, 10, 90, 90, 90];

    #[test]
    fn the_commit_on_a_branch_is_found_through_its_merge() {
        for find in [Find::Largest, Find::First, Find::All] {
            assert_eq!(found(&with_a_branch(), find, Merges::Enter, &ON_BRANCH), [(4, 5)], "{find:?}");
            assert_eq!(found(&with_a_branch(), find, Merges::Name, &ON_BRANCH), [(2, 6)], "{find:?}");
        }
    }

    #[test]
    fn a_merge_that_made_the_difference_itself_is_named() {
        let figures = [10, 10, 10, 10, 10, 10, 90, 90];
        assert_eq!(found(&with_a_branch(), Find::Largest, Merges::Enter, &figures), [(2, 6)]);
    }

    #[test]
    fn what_a_branch_merged_from_the_way_is_not_the_branchs() {
        // 2 made the difference; 4 has it by merging 2.
        let figures = [10, 10, 90, 10, 90, 90, 90, 90];
        assert_eq!(found(&with_a_branch(), Find::Largest, Merges::Enter, &figures), [(1, 2)]);
        assert_eq!(found(&with_a_branch(), Find::All, Merges::Enter, &figures), [(1, 2)]);
    }

    #[test]
    fn a_branch_in_a_branch_is_entered_too() {
        // 3 made the difference, on the part of the branch before 4 merged the way.
        let figures = [10, 10, 10, 90, 90, 90, 90, 90];
        assert_eq!(found(&with_a_branch(), Find::Largest, Merges::Enter, &figures), [(1, 3)]);
    }

    #[test]
    fn a_branch_whose_ends_cannot_be_measured_leaves_the_merge_to_be_named() {
        let mut figures = ON_BRANCH.map(Some);
        figures[5] = None;
        let steps = answer(&with_a_branch(), Find::Largest, Merges::Enter, &figures);
        assert_eq!((steps[0].before, steps[0].after, steps[0].kind), (2, 6, StepKind::Commit));
    }

    #[test]
    fn what_the_paths_leave_out_is_not_blamed_on_what_they_show() {
        let line = |touching: &[(usize, usize)]| Lineage {
            touching: Some(touching.iter().copied().collect::<BTreeSet<_>>()),
            ..lineage(&[&[], &[0], &[1], &[2], &[3], &[4]])
        };
        let figures = [10, 10, 10, 90, 90, 90].map(Some);
        let right = answer(&line(&[(2, 3)]), Find::Largest, Merges::Enter, &figures);
        assert_eq!((right[0].before, right[0].after, right[0].kind), (2, 3, StepKind::Commit));
        let wrong = answer(&line(&[(0, 1), (3, 4)]), Find::Largest, Merges::Enter, &figures);
        assert_eq!((wrong[0].before, wrong[0].after, wrong[0].kind), (1, 3, StepKind::OutsidePaths));
        assert_eq!(wrong[0].between, [2]);
        let mut unknown = figures;
        unknown[3] = None;
        let unsure = answer(&line(&[(0, 1), (3, 4)]), Find::Largest, Merges::Enter, &unknown);
        assert_eq!((unsure[0].before, unsure[0].after, unsure[0].kind), (1, 4, StepKind::Skipped));
    }

    /// A history in which each commit has one parent among those before it, or merges two.
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
            // The last one brings all loose ends together, as a mainline does.
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
        /// One commit made the difference, and whoever has it in its history has the difference.
        #[test]
        fn the_one_commit_is_found_in_any_history(parents in history(), culprit: prop::sample::Index) {
            let parents: Vec<&[usize]> = parents.iter().map(Vec::as_slice).collect();
            let lineage = lineage(&parents);
            prop_assume!(lineage.parents.len() > 1);
            let culprit = 1 + culprit.index(lineage.parents.len() - 1);
            let grown = lineage.descendants(culprit);
            let figures: Vec<i64> = grown.iter().map(|grown| if *grown { 90 } else { 10 }).collect();
            prop_assume!(grown[lineage.bad]);
            for find in [Find::Largest, Find::First, Find::All] {
                let found = found(&lineage, find, Merges::Enter, &figures);
                prop_assert_eq!(found.len(), 1);
                prop_assert_eq!(found[0].1, culprit, "{:?} in {:?}", find, &lineage.parents);
            }
        }
    }
}
