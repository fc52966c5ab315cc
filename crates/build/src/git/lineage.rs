//! The commits of a range as a graph: parents, the path from one commit to another, and where a
//! merged branch forked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The commits between two others, as indices. Ancestors come before their descendants.
///
/// The first commits are the edge, which is outside of the range: `good`, and those of its
/// ancestors where branches of the range forked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The parents of each commit, in git's order. Those of the edge are unknown.
    pub parents: Vec<Vec<usize>>,
    /// The number of commits in the edge.
    pub edge: usize,
    /// The commit before the range. It belongs to the edge.
    pub good: usize,
    /// The last commit of the range.
    pub bad: usize,
    /// The pairs of parent and child that differ in the searched paths. `None` if the search is not
    /// limited to paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touching: Option<BTreeSet<(usize, usize)>>,
}

impl Lineage {
    /// Returns the number of commits in the range, without the edge.
    pub fn commits(&self) -> usize {
        self.parents.len() - self.edge
    }

    /// Returns for each commit whether its history contains `of`. A commit's history contains the
    /// commit itself.
    pub fn descendants(&self, of: usize) -> Vec<bool> {
        let mut marked = vec![false; self.parents.len()];
        for commit in 0..self.parents.len() {
            marked[commit] = commit == of || self.parents[commit].iter().any(|&parent| marked[parent]);
        }
        marked
    }

    /// Returns for each commit whether it is in the history of `of`, or `of` itself.
    pub fn ancestors(&self, of: usize) -> Vec<bool> {
        let mut marked = vec![false; self.parents.len()];
        marked[of] = true;
        for commit in (0..self.parents.len()).rev().filter(|&commit| commit <= of) {
            if marked[commit] {
                self.parents[commit].iter().for_each(|&parent| marked[parent] = true);
            }
        }
        if marked[self.good] {
            // The whole edge is in `good`'s history.
            marked[..self.edge].fill(true);
        }
        marked
    }

    /// Returns the commits from one to its descendant, each the parent of the next. First parents
    /// are preferred. Empty if there is no such path.
    pub fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let marked = self.descendants(from);
        let mut way = vec![to];
        let mut commit = to;
        while commit != from {
            let Some(parent) = self.parent_on_way(commit, &marked) else { return Vec::new() };
            way.push(parent);
            commit = parent;
        }
        way.reverse();
        way
    }

    /// Returns the commits of [`way`](Self::way) without its two ends.
    pub fn between(&self, from: usize, to: usize) -> Vec<usize> {
        let way = self.way(from, to);
        way.get(1..way.len().saturating_sub(1)).unwrap_or_default().to_vec()
    }

    /// Returns the parent of a commit through which the path from another commit leads.
    pub fn parent_on_way(&self, commit: usize, descendants: &[bool]) -> Option<usize> {
        self.parents[commit].iter().copied().find(|&parent| descendants[parent])
    }

    /// Returns [`way`](Self::way) without the commits that do not touch the searched paths. Both
    /// ends are always included.
    pub fn suspects(&self, from: usize, to: usize) -> Vec<usize> {
        let way = self.way(from, to);
        let Some(touching) = &self.touching else { return way };
        let last = way.len().saturating_sub(1);
        let is_suspect =
            |index: usize| index == 0 || index == last || touching.contains(&(way[index - 1], way[index]));
        (0..way.len()).filter(|&index| is_suspect(index)).map(|index| way[index]).collect()
    }

    /// Returns where two commits' histories fork: the latest commit that both contain. `good` is the latest one of the
    /// edge, whose order is git's own.
    pub fn fork(&self, one: usize, other: usize) -> Option<usize> {
        let (of_one, of_other) = (self.ancestors(one), self.ancestors(other));
        let mut in_order =
            (self.edge..self.parents.len()).rev().chain([self.good]).chain((0..self.edge).rev());
        in_order.find(|&commit| of_one[commit] && of_other[commit])
    }

    /// Returns the commits whose history contains `good`, as far as they touch the searched paths.
    /// `good` is first.
    pub fn all_suspects(&self) -> Vec<usize> {
        let marked = self.descendants(self.good);
        (0..self.parents.len())
            .filter(|&commit| marked[commit] && (commit == self.bad || self.touches(commit, &marked)))
            .collect()
    }

    /// Whether a commit touches the searched paths. `marked` are the descendants of `good`.
    fn touches(&self, commit: usize, marked: &[bool]) -> bool {
        match (&self.touching, self.parent_on_way(commit, marked)) {
            (Some(touching), Some(parent)) => touching.contains(&(parent, commit)),
            _ => true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
/// Histories for tests.
pub mod samples {
    use super::Lineage;

    /// Returns a lineage with these parents. The first commit is `good`.
    pub fn lineage(parents: &[&[usize]]) -> Lineage {
        Lineage {
            parents: parents.iter().map(|parents| parents.to_vec()).collect(),
            edge: 1,
            good: 0,
            bad: parents.len() - 1,
            touching: None,
        }
    }

    /// ```text
    /// 0 ─ 1 ─ 2 ───── 6 ─ 7
    ///      ╲         ╱
    ///       3 ─ 4 ─ 5      4 merges 2
    /// ```
    pub fn with_a_branch() -> Lineage {
        lineage(&[&[], &[0], &[1], &[1], &[3, 2], &[4], &[2, 5], &[6]])
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{lineage, with_a_branch};
    use super::*;

    #[test]
    fn the_way_goes_by_first_parents() {
        assert_eq!(with_a_branch().way(0, 7), [0, 1, 2, 6, 7]);
        assert_eq!(with_a_branch().way(1, 5), [1, 3, 4, 5]);
        assert_eq!(with_a_branch().way(2, 5), [2, 4, 5], "only the second parent leads there");
        assert!(with_a_branch().way(3, 2).is_empty());
    }

    #[test]
    fn a_branch_forks_where_it_last_had_the_others_history() {
        assert_eq!(with_a_branch().fork(2, 5), Some(2));
        assert_eq!(with_a_branch().fork(2, 3), Some(1));
        // 0 is a fork before `good`, which is 1.
        let old = Lineage { edge: 2, good: 1, ..lineage(&[&[], &[], &[1], &[0], &[2, 3]]) };
        assert_eq!(old.fork(2, 3), Some(0));
        assert_eq!(old.way(0, 3), [0, 3]);
        assert_eq!(lineage(&[&[], &[0], &[]]).fork(1, 2), None);
        // 1 is an older fork, and 7 merges a branch from `good`, which is 0.
        let merges = [&[][..], &[], &[1], &[0, 2], &[3], &[0], &[5], &[4, 6]];
        let young = Lineage { edge: 2, ..lineage(&merges) };
        assert_eq!(young.fork(4, 6), Some(0));
        assert_eq!(young.way(0, 6), [0, 5, 6]);
    }

    #[test]
    fn what_does_not_touch_the_paths_is_passed_over_but_for_the_ends() {
        let mut lineage = with_a_branch();
        lineage.touching = Some(BTreeSet::from([(1, 2), (3, 4)]));
        assert_eq!(lineage.suspects(0, 7), [0, 2, 7]);
        assert_eq!(lineage.all_suspects(), [0, 2, 4, 7]);
    }
}
