//! The branches that a merge brings, and how much of its difference the two sides explain.

use crate::bisect::linear_search::{HistoryStep, NextMeasurement, Remaining, halvings};
use crate::bisect::observations::{Observation, Observations};
use memprof_build::git::lineage::Lineage;
use memprof_judge::compare::comparison::Delta;

/// Returns the branches that a merge brings, as far as they can be measured.
pub(super) fn merged_branches(
    lineage: &Lineage,
    step: &HistoryStep,
    observations: &Observations,
) -> Result<Vec<MergedBranch>, NextMeasurement> {
    let mut branches = Vec::new();
    for &tip in lineage.parents[step.after].iter().filter(|&&tip| tip != step.before) {
        let Some(fork) = lineage.fork(step.before, tip) else { continue };
        let line = lineage.suspects(fork, tip);
        if line.is_empty() {
            continue;
        }
        let remaining = Remaining { commits: line.len(), steps: 2 + halvings(line.len()) };
        // Without the fork's figure, no figure of the branch says what the branch changed.
        let is_comparable = is_measured(observations, fork, remaining)?;
        let last = if is_comparable { last_measured(&line, observations)? } else { 0 };
        let (end, unmeasured) = (line[last], line[last + 1..].to_vec());
        let part = if is_comparable { difference(observations, fork, end) } else { 0 };
        branches.push(MergedBranch { fork, end, part, unmeasured });
    }
    Ok(branches)
}

/// A branch that a merge brings.
pub(super) struct MergedBranch {
    /// The last commit of the other side that the branch had in its history.
    pub fork: usize,
    /// The commit up to which the branch can be measured, or the fork.
    pub end: usize,
    /// By how much these two differ; zero if the fork cannot be measured.
    pub part: i128,
    /// The commits after the end. Not each of them was tried.
    pub unmeasured: Vec<usize>,
}

/// Returns the position of a commit of a branch that can be measured: the tip, or one before a commit
/// that cannot. The fork is at 0, and has a figure. Commits that cannot be measured often follow each
/// other, so the steps back double. Then the gap after the first commit with a figure is halved.
fn last_measured(line: &[usize], observations: &Observations) -> Result<usize, NextMeasurement> {
    let is_measured = |position: usize, high: usize| {
        let steps = 1 + halvings(high - position) + halvings(line.len());
        is_measured(observations, line[position], Remaining { commits: line.len(), steps })
    };
    let (mut low, mut high) = (line.len().saturating_sub(1), line.len());
    let mut stride = 1;
    while low > 0 && !is_measured(low, high)? {
        if low == 1 {
            return Ok(0);
        }
        high = low;
        low = low.saturating_sub(stride).max(1);
        stride *= 2;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if is_measured(middle, high)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Returns the part of a merge's difference to the fork that its sides explain, from what each of them changed since
/// then. Changes add up at most. If both sides changed in one direction, the larger change alone explains as little:
/// both may have the same change, and peaks at different moments are not added. If they changed in different
/// directions, one of them may have undone the other.
pub(super) fn explained_by(sides: &[i128], merged: i128) -> i128 {
    let growth: i128 = sides.iter().filter(|side| **side > 0).sum();
    let shrinkage: i128 = sides.iter().filter(|side| **side < 0).sum();
    let low = if shrinkage < 0 { shrinkage } else { sides.iter().copied().max().unwrap_or_default() };
    let high = if growth > 0 { growth } else { sides.iter().copied().min().unwrap_or_default() };
    merged.clamp(low, high)
}

/// Whether a commit has values, or cannot be measured.
///
/// # Errors
///
/// The measurement of this commit, if it was not tried yet.
pub(super) fn is_measured(
    observations: &Observations,
    commit: usize,
    remaining: Remaining,
) -> Result<bool, NextMeasurement> {
    match observations.get(commit) {
        None => Err(NextMeasurement::Measure(commit, remaining)),
        Some(Observation::Skipped) => Ok(false),
        Some(Observation::Samples(_)) => Ok(true),
    }
}

pub(super) fn difference(observations: &Observations, before: usize, after: usize) -> i128 {
    let value = |commit| observations.figure(commit).unwrap_or_default();
    Delta::between(value(before), value(after)).difference
}
