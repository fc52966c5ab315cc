//! The runs of both sides that got the same random numbers. A saved baseline may have fewer or more runs than the other
//! side. Medians of all runs would then differ by what the numbers of the runs without a partner do.

use crate::compare::aggregate::{Aggregate, Figure};
use crate::verdict::significance::CONFIRMED;
use memprof_plan::metric;

/// The rounds of both sides' runs. A run's partner is the one of its round at the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedRounds<'a>([&'a [u32]; 2]);

impl<'a> SharedRounds<'a> {
    pub fn new(baseline: &'a Aggregate, candidate: &'a Aggregate) -> Self {
        Self([&baseline.rounds, &candidate.rounds])
    }

    /// Whether a metric is compared without the runs that have no partner, and there are some.
    pub fn replace_all(self, metric: &str) -> bool {
        self.0[0] != self.0[1] && self.are_enough(metric)
    }

    /// Whether partners can be compared. Few may be equal by chance: one where the runs that have no partner differ, and
    /// more of a figure that also depends on the kernel.
    pub fn are_enough(self, metric: &str) -> bool {
        let is_counted = metric::known(metric).is_counted();
        match self.pairs().count() {
            1 => is_counted && self.0.iter().all(|rounds| rounds.len() == 1),
            pairs => pairs >= if is_counted { 2 } else { CONFIRMED as usize },
        }
    }

    /// Returns the readings of partners, if both have one.
    pub fn readings(self, old: &[Option<i64>], new: &[Option<i64>]) -> (Vec<i64>, Vec<i64>) {
        self.pairs().filter_map(|(at, partner)| Some(((*old.get(at)?)?, (*new.get(partner)?)?))).unzip()
    }

    /// Returns the figures of partners' readings.
    pub fn figures(self, [old, new]: &[Vec<Option<i64>>; 2]) -> Option<[Option<Figure>; 2]> {
        let (mut old, mut new) = self.readings(old, new);
        Some([Some(Figure::from_readings(&mut old)?), Some(Figure::from_readings(&mut new)?)])
    }

    /// Returns the figure of one side's readings, without the runs that have no partner.
    pub fn of_side(self, side: usize, readings: impl Iterator<Item = Option<i64>>) -> Option<Figure> {
        let [own, other] = [self.0[side], self.0[1 - side]];
        let readings = own.iter().zip(readings).filter(|(round, _)| other.contains(round));
        Figure::from_readings(&mut readings.filter_map(|(_, reading)| reading).collect::<Vec<_>>())
    }

    /// Returns the places of partners among the runs of each side.
    fn pairs(self) -> impl Iterator<Item = (usize, usize)> {
        let [old, new] = self.0;
        let partner = |round: &u32| new.iter().position(|other| other == round);
        old.iter().enumerate().filter_map(move |(at, round)| Some((at, partner(round)?)))
    }
}
