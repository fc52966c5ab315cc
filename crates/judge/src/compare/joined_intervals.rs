//! Peaks and totals count since the last checkpoint. Where only one side has a checkpoint, the next row of both would
//! compare intervals of different lengths. So the figures of both sides are joined since the last checkpoint that
//! both have. `docs/metrics.md` has the rules.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::compare::aggregate::{Column, Figure};
use crate::compare::matching::{Key, Match};
use crate::compare::whole_test;
use crate::results::measurement::Kind;
use memprof_plan::metric;

/// The points of one side whose figures belong to a later point, by the later one.
type JoinedPoints = BTreeMap<usize, Vec<usize>>;

/// The points whose figures belong to a later point that both sides have, by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinedIntervals {
    peaks: [JoinedPoints; 2],
    totals: [JoinedPoints; 2],
}

impl JoinedIntervals {
    /// Finds the joined points of two runs that are matched in these rows.
    pub(crate) fn new(rows: &[Match], baseline: &[Key], candidate: &[Key]) -> Self {
        let keys = [baseline, candidate];
        let pairs = rows.iter().filter_map(|row| Some([row.baseline?, row.candidate?]));
        let pairs: Vec<[usize; 2]> = pairs.collect();
        let mut is_matched = keys.map(|keys| vec![false; keys.len()]);
        let mut partners = keys.map(|keys| vec![None; keys.len()]);
        for &[old, new] in &pairs {
            (is_matched[0][old], is_matched[1][new]) = (true, true);
            (partners[0][old], partners[1][new]) = (Some(new), Some(old));
        }
        let uneven = uneven_labels(keys, &is_matched);
        let is_uneven = |side: usize, at: usize| uneven.contains(&keys[side][at].label);
        let totals = [0, 1].map(|side| points_before(keys[side], &is_matched[side], |_| true));
        let mut peaks =
            [0, 1].map(|side| points_before(keys[side], &is_matched[side], |at| !is_uneven(side, at)));

        // The tenth step of ten is not where the tenth of twenty is. So steps whose partners are not between the same
        // even points belong to the next even point, and so do all points since the last one.
        let is_even = |pair: &[usize; 2]| !is_uneven(0, pair[0]) && !is_uneven(1, pair[1]);
        let mut ends = keys.map(|keys| vec![false; keys.len()]);
        for &[old, new] in pairs.iter().filter(|pair| is_even(pair)) {
            (ends[0][old], ends[1][new]) = (true, true);
        }
        let mut since_even = [0, 1].map(|side| points_before(keys[side], &ends[side], |_| true));
        for pair in pairs {
            let joined = [0, 1].map(|side| since_even[side].remove(&pair[side]).unwrap_or_default());
            let is_elsewhere = |side: usize, at: usize| {
                let is_here = |partner: usize| joined[1 - side].binary_search(&partner).is_ok();
                is_uneven(side, at) && !partners[side][at].is_some_and(is_here)
            };
            let has_shifted = |side: usize| joined[side].iter().any(|at| is_elsewhere(side, *at));
            if has_shifted(0) || has_shifted(1) {
                for (side, points) in joined.into_iter().enumerate() {
                    peaks[side].insert(pair[side], points);
                }
            }
        }
        Self { peaks, totals }
    }

    /// Returns the points of a side whose figures of this kind belong to a later one. A level is a figure of the
    /// moment.
    pub(crate) fn before(&self, figure: metric::Figure, side: usize, at: usize) -> &[usize] {
        let joined = match figure {
            metric::Figure::Level => return &[],
            metric::Figure::Peak => &self.peaks,
            metric::Figure::Total => &self.totals,
        };
        joined[side].get(&at).map_or(&[], Vec::as_slice)
    }
}

/// Returns the labels of points that both sides have, and one side more often.
fn uneven_labels(keys: [&[Key]; 2], is_matched: &[Vec<bool>; 2]) -> FxHashSet<u32> {
    let (mut of_both, mut of_one) = (FxHashSet::default(), FxHashSet::default());
    for (keys, is_matched) in keys.into_iter().zip(is_matched) {
        for (key, is_matched) in keys.iter().zip(is_matched).filter(|(key, _)| key.kind == Kind::Point) {
            if *is_matched { &mut of_both } else { &mut of_one }.insert(key.label);
        }
    }
    of_one.intersection(&of_both).copied().collect()
}

/// Returns the points before each end, since the end before.
fn points_before(keys: &[Key], is_end: &[bool], is_meant: impl Fn(usize) -> bool) -> JoinedPoints {
    let (mut joined, mut pending) = (BTreeMap::new(), Vec::new());
    for (at, _) in keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point) {
        if !is_end[at] {
            pending.extend(is_meant(at).then_some(at));
        } else if !pending.is_empty() {
            joined.insert(at, std::mem::take(&mut pending));
        }
    }
    joined
}

/// One side's figures of a metric, joined with those of the one-sided points before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedColumn<'a> {
    pub column: Column<'a>,
    intervals: &'a JoinedIntervals,
    side: usize,
    figure: metric::Figure,
}

impl<'a> JoinedColumn<'a> {
    pub fn new(column: Column<'a>, intervals: &'a JoinedIntervals, side: usize, metric: &str) -> Self {
        Self { column, intervals, side, figure: metric::known(metric).figure }
    }

    /// Returns the points that belong to this one.
    fn before(&self, at: usize) -> &'a [usize] {
        self.intervals.before(self.figure, self.side, at)
    }

    /// Whether other points belong to this one.
    pub fn is_joined(&self, at: usize) -> bool {
        !self.before(at).is_empty()
    }

    /// Returns each repeat's reading. A repeat without a one-sided point counted on, so its figure is whole.
    pub fn readings(&self, at: usize) -> Vec<Option<i64>> {
        let before: Vec<Vec<_>> =
            self.before(at).iter().map(|point| self.column.readings(*point).collect()).collect();
        let of_run = |(run, own): (usize, Option<i64>)| {
            let before = before.iter().filter_map(|readings| readings[run]);
            whole_test::combined(self.figure, before.chain([own?]))
        };
        self.column.readings(at).enumerate().map(of_run).collect()
    }

    /// Returns the figure.
    pub fn figure(&self, at: usize) -> Option<Figure> {
        if !self.is_joined(at) {
            return self.column.figure(at);
        }
        Figure::from_readings(&mut self.readings(at).into_iter().flatten().collect::<Vec<_>>())
    }

    /// Returns the point whose own figure is the joined peak.
    pub fn highest(&self, at: usize) -> usize {
        let points = self.before(at).iter().copied().chain([at]);
        let value = |point: &usize| self.column.figure(*point).map(|figure| figure.value);
        points.max_by_key(value).unwrap_or(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::matching::{Renames, match_checkpoints};

    fn point(label: u32, occurrence: u32) -> Key {
        Key { label, occurrence, kind: Kind::Point }
    }

    fn joined(old: &[Key], new: &[Key]) -> JoinedIntervals {
        JoinedIntervals::new(&match_checkpoints(old, new, Renames::Unambiguous), old, new)
    }

    #[test]
    fn points_of_one_side_belong_to_the_next_point_of_both() {
        let key = |label: u32| point(label, 1);
        let scope = |label: u32| Key { kind: Kind::Scope, ..key(label) };
        let old = [key(0), key(7), scope(8), key(6), key(1), key(2), key(9)];
        let new = [key(0), scope(5), key(1), key(4), key(2)];
        let joined = joined(&old, &new);
        assert_eq!(joined.totals[0], BTreeMap::from([(4, vec![1, 3])]), "the last one belongs to none");
        assert_eq!(joined.totals[1], BTreeMap::from([(4, vec![3])]));
        assert_eq!(joined.peaks, joined.totals);
    }

    /// `start`, then a step as often as given before each further label.
    fn steps(counts: &[usize]) -> Vec<Key> {
        let mut occurrence = 0;
        let mut keys = vec![point(0, 1)];
        for (label, count) in (10..).zip(counts) {
            keys.extend((0..*count).map(|_| {
                occurrence += 1;
                point(1, occurrence)
            }));
            keys.push(point(label, 1));
        }
        keys
    }

    #[test]
    fn peaks_of_a_longer_loop_belong_to_the_next_point_that_both_have_as_often() {
        let joined = joined(&steps(&[2, 0]), &steps(&[4, 0]));
        assert_eq!(joined.peaks[0], BTreeMap::from([(3, vec![1, 2])]), "the whole loop of both");
        assert_eq!(joined.peaks[1], BTreeMap::from([(5, vec![1, 2, 3, 4])]));
        assert_eq!(joined.totals[0], BTreeMap::new());
        assert_eq!(joined.totals[1], BTreeMap::from([(5, vec![3, 4])]));
    }

    #[test]
    fn a_loop_within_another_is_joined_for_each_iteration_of_the_outer_one() {
        let joined = joined(&steps(&[2, 2, 2]), &steps(&[3, 3, 3]));
        let of_old = [(3, vec![1, 2]), (6, vec![4, 5]), (9, vec![7, 8])];
        assert_eq!(joined.peaks[0], BTreeMap::from(of_old));
        let of_new = [(4, vec![1, 2, 3]), (8, vec![5, 6, 7]), (12, vec![9, 10, 11])];
        assert_eq!(joined.peaks[1], BTreeMap::from(of_new));
    }

    #[test]
    fn a_further_step_of_an_earlier_phase_shifts_the_later_ones() {
        let joined = joined(&steps(&[0, 1, 1, 1]), &steps(&[0, 2, 1, 1]));
        assert_eq!(joined.peaks[0], BTreeMap::from([(3, vec![2]), (5, vec![4]), (7, vec![6])]));
        assert_eq!(joined.peaks[1], BTreeMap::from([(4, vec![2, 3]), (6, vec![5]), (8, vec![7])]));
    }

    #[test]
    fn a_new_point_within_a_longer_loop_belongs_to_its_own_iteration() {
        let old = [point(0, 1), point(1, 1), point(9, 1)];
        let new = [point(0, 1), point(5, 1), point(1, 1), point(5, 2), point(1, 2), point(9, 1)];
        let joined = joined(&old, &new);
        assert_eq!(joined.peaks[0], BTreeMap::from([(2, vec![1])]));
        assert_eq!(joined.peaks[1], BTreeMap::from([(2, vec![1]), (5, vec![1, 2, 3, 4])]));
    }
}
