//! Peaks and totals count since the last checkpoint. Where only one side has a checkpoint, the next row of both would
//! compare intervals of different lengths. So the figures of both sides are joined since the last checkpoint that
//! both have.

use std::collections::BTreeMap;

use crate::compare::aggregate::{Column, Figure};
use crate::compare::matching::{Key, Match};
use crate::compare::whole_test;
use crate::results::measurement::Kind;
use memprof_plan::metric;

/// The points that only one side has, by side and by the next point that both have.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinedIntervals {
    sides: [BTreeMap<usize, Vec<usize>>; 2],
}

impl JoinedIntervals {
    /// Finds the one-sided points of two runs that are matched in these rows.
    pub(crate) fn new(rows: &[Match], baseline: &[Key], candidate: &[Key]) -> Self {
        let mut is_matched = [vec![false; baseline.len()], vec![false; candidate.len()]];
        for row in rows {
            if let (Some(old), Some(new)) = (row.baseline, row.candidate) {
                (is_matched[0][old], is_matched[1][new]) = (true, true);
            }
        }
        Self { sides: [of_side(baseline, &is_matched[0]), of_side(candidate, &is_matched[1])] }
    }

    /// Returns the points of a side that belong to the next one.
    pub(crate) fn before(&self, side: usize, at: usize) -> &[usize] {
        self.sides[side].get(&at).map_or(&[], Vec::as_slice)
    }
}

fn of_side(keys: &[Key], is_matched: &[bool]) -> BTreeMap<usize, Vec<usize>> {
    let (mut joined, mut pending) = (BTreeMap::new(), Vec::new());
    for (at, _) in keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point) {
        if !is_matched[at] {
            pending.push(at);
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

    /// Returns the points that belong to this one. A level is a figure of the moment.
    fn before(&self, at: usize) -> &'a [usize] {
        if self.figure == metric::Figure::Level { &[] } else { self.intervals.before(self.side, at) }
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

    #[test]
    fn points_of_one_side_belong_to_the_next_point_of_both() {
        let key = |label: u32| Key { label, occurrence: 1, kind: Kind::Point };
        let scope = |label: u32| Key { kind: Kind::Scope, ..key(label) };
        let old = [key(0), key(7), scope(8), key(6), key(1), key(2), key(9)];
        let new = [key(0), scope(5), key(1), key(4), key(2)];
        let rows = match_checkpoints(&old, &new, Renames::Unambiguous);
        let joined = JoinedIntervals::new(&rows, &old, &new);
        assert_eq!(joined.sides[0], BTreeMap::from([(4, vec![1, 3])]), "the last one belongs to none");
        assert_eq!(joined.sides[1], BTreeMap::from([(4, vec![3])]));
    }
}
