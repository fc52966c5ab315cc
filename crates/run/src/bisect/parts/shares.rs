//! What the figures of a proof say of each part. The differences add up to that of the ends.

use std::cmp::Reverse;

use crate::bisect::observations::HasChanged;
use crate::bisect::parts::measurement::PartMeasurement;
use crate::bisect::parts::record::{BASELINE, CANDIDATE, Parts};

/// What the parts cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The candidate minus the baseline.
    pub whole: i128,
    /// The parts that make a difference, the largest first.
    pub parts: Vec<PartShare>,
    /// The parts that make no difference.
    pub rest: Share,
    /// Parts that could not be told apart, group by group.
    pub open: Vec<Share>,
    /// What the parts share.
    pub together: i128,
    /// The commit without all parts that make a difference, if it was measured and there are several.
    pub without_all: Option<usize>,
}

/// What one part costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartShare {
    /// Its index.
    pub part: usize,
    /// The candidate minus the candidate without the part.
    pub cost: Cost,
    /// The baseline with the part minus the baseline, if this was measured. If it needs other parts, both have
    /// them.
    pub alone: Option<i128>,
}

/// A part's difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub difference: i128,
    /// The commits whose difference this is: without the part, and with it.
    pub before: usize,
    pub after: usize,
    /// How it was measured.
    pub way: Way,
}

/// How a part's difference was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The candidate, or what is left of it without those that need the part, without the part.
    LeftOut,
    /// The candidate without the part and those that need it. They cannot be left out without it.
    LeftOutWithUsers,
    /// The part was added to others. It cannot be left out.
    Added,
}

/// What several parts cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub parts: Vec<usize>,
    pub difference: i128,
}

impl PartMeasurement<'_> {
    /// Returns the parts that make a difference if they are left out or added, in their order.
    pub(crate) fn found(&self) -> &[usize] {
        self.judged.found.get_or_init(|| self.find())
    }

    fn find(&self) -> Vec<usize> {
        let makes_difference = |part: &usize| {
            let left_out = self.left_out_cost(*part);
            let is_change = |cost: &Cost| self.change(cost.before, cost.after) == HasChanged::Yes;
            left_out.as_ref().is_some_and(is_change) || self.added_cost(*part).is_some()
        };
        let mut found: Vec<usize> = (0..self.search.parts.len()).filter(makes_difference).collect();
        found.sort_by_key(|part| Reverse(self.cost(*part).map_or(0, |cost| cost.difference.abs())));
        found
    }

    /// Those of them that can be left out.
    pub(crate) fn left_out(&self) -> Vec<usize> {
        let found = self.found().iter().copied();
        found.filter(|part| self.left_out_cost(*part).is_some()).collect()
    }

    /// Returns what a part costs.
    pub(crate) fn cost(&self, part: usize) -> Option<Cost> {
        self.left_out_cost(part).or_else(|| self.added_cost(part))
    }

    /// Returns what leaving a part out saves.
    fn left_out_cost(&self, part: usize) -> Option<Cost> {
        let without = self.measured(&self.search.without(&Parts::from([part])))?;
        let (with, way) = match self.measured(&self.search.before(part)) {
            Some(with) => (with, Way::LeftOut),
            None => (CANDIDATE, Way::LeftOutWithUsers),
        };
        Some(Cost { difference: self.difference(without, with)?, before: without, after: with, way })
    }

    /// Returns the difference that a part makes when it is added to others, to as few as possible. `None` if
    /// it makes none.
    fn added_cost(&self, part: usize) -> Option<Cost> {
        let variants = &self.search.variants;
        let with_one_more = |before: usize| {
            let kept = &variants[before];
            let after = self.measured(&(kept | &Parts::from([part]))).filter(|_| !kept.contains(&part))?;
            (self.change(before, after) == HasChanged::Yes).then_some((before, after))
        };
        let pairs = (0..variants.len()).filter_map(with_one_more);
        let (before, after) = pairs.min_by_key(|(before, _)| variants[*before].len())?;
        Some(Cost { difference: self.difference(before, after)?, before, after, way: Way::Added })
    }

    /// Returns the commits that show what a part costs alone: with what it needs, and with itself as well.
    pub(crate) fn alone(&self, part: usize) -> Option<(usize, usize)> {
        let needs = self.search.needs(part);
        Some((self.measured(&needs)?, self.measured(&(&needs | &Parts::from([part])))?))
    }

    /// Returns what the parts cost; `None` if an end has no figure.
    pub fn shares(&self) -> Option<Shares> {
        let whole = self.difference(BASELINE, CANDIDATE)?;
        let found = self.found();
        let mut shares = Shares { whole, ..Shares::default() };
        let mut known: Parts = found.iter().copied().collect();
        // The parts whose cost is in that of a part which they need.
        let mut users = Parts::new();
        for &part in found {
            let Some(cost) = self.cost(part) else { continue };
            if cost.way == Way::LeftOutWithUsers {
                let of_part = &self.search.parts[part].needed_by - &known;
                users.extend(&of_part);
                if !self.was_tried(&self.search.before(part)) {
                    // No build was left to tell the part from them.
                    let parts = std::iter::once(part).chain(of_part).collect();
                    shares.open.push(Share { parts, difference: cost.difference });
                    continue;
                }
            }
            let alone = self.alone(part).and_then(|(before, after)| self.difference(before, after));
            shares.parts.push(PartShare { part, cost, alone });
        }
        let top = self.measured_top(&self.left_out());
        for interval in self.intervals(&Parts::new(), &top) {
            let others = &interval.parts - &known;
            if self.is_open(&interval) {
                let difference = self.remaining(&interval);
                known.extend(&others);
                shares.open.push(Share { parts: others.into_iter().collect(), difference });
            } else if !interval.has_found(found) {
                shares.rest.difference += self.difference(interval.low, interval.high)?;
            }
        }
        // Among the parts that were left out together, there may be more that cannot be told apart.
        for part in self.left_out() {
            for interval in self.intervals(&self.search.before(part), &self.search.all()) {
                let others = &interval.parts - &known;
                if self.is_open(&interval) && !others.is_empty() {
                    let difference = self.remaining(&interval);
                    known.extend(&others);
                    shares.open.push(Share { parts: others.into_iter().collect(), difference });
                }
            }
        }
        known.extend(&users);
        shares.rest.parts = (&self.search.all() - &known).into_iter().collect();
        let sum = shares.parts.iter().map(|one| one.cost.difference).sum::<i128>()
            + shares.open.iter().map(|one| one.difference).sum::<i128>()
            + shares.rest.difference;
        shares.together = whole - sum;
        shares.open.sort_by_key(|one| Reverse(one.difference.abs()));
        let left_out = self.left_out();
        if left_out.len() > 1 {
            shares.without_all = self.measured(&self.search.without(&left_out.into_iter().collect()));
        }
        Some(shares)
    }
}
