//! Where the blocks of a site end: freed or reallocated on one side, and not on the other.

use std::collections::BTreeMap;

use crate::results::stack_log::{Family, Released, Way};
use crate::why::difference::Measure;
use crate::why::hunks::{Changes, SIDES, Side};
use crate::why::matching::{Matching, pair_lines};
use crate::why::stacks::Stacks;

/// What a site's blocks lost at each stack and how.
type Losses = BTreeMap<(u32, Way), Released>;

/// Where the blocks of all sites end, on both sides of a row.
pub(super) struct Releases<'a> {
    stacks: [&'a Stacks; 2],
    matching: &'a Matching,
    changes: &'a Changes,
    measure: Measure,
    /// By the allocating stack's innermost node.
    of: [BTreeMap<u32, Losses>; 2],
}

/// The stack that explains most of a site's difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// The side on which it ended blocks that live on, on the other side.
    pub side: Side,
    /// How it did so.
    pub way: Way,
    /// Whether the other side does as much there, but only after its peak.
    pub is_before_peak: bool,
    /// The innermost node.
    pub node: u32,
}

/// A family of one side and one of its intervals.
pub(super) type At<'a> = (&'a Family, usize);

impl<'a> Releases<'a> {
    /// Takes what ended up to an interval of each side. `None` if the measure is no level: what ends
    /// does not change how much was allocated.
    pub fn new(
        stacks: [&'a Stacks; 2],
        at: [Option<At<'_>>; 2],
        measure: Measure,
        matching: &'a Matching,
        changes: &'a Changes,
    ) -> Option<Self> {
        if matches!(measure, Measure::Allocated | Measure::Count) {
            return None;
        }
        let of = [0, 1].map(|side| {
            let mut of: BTreeMap<u32, Losses> = BTreeMap::new();
            let pairs = at[side].map(|(family, interval)| family.releases(interval)).unwrap_or_default();
            for (pair, released) in pairs {
                let nodes = [pair.site, pair.by].map(|site| stacks[side].node_of(site));
                if let [Some(node), Some(by)] = nodes {
                    let losses = of.entry(node).or_default().entry((by, pair.way)).or_default();
                    *losses = losses.plus(released);
                }
            }
            of
        });
        Some(Self { stacks, matching, changes, measure, of })
    }

    /// Returns the stack that explains at least half of a site's difference, if what ended differs by
    /// as much.
    pub fn explain(&self, pair: [Option<u32>; 2], difference: i64) -> Option<Release> {
        // A side may have nothing left of the site, and then it has no figures.
        let pair = match pair {
            [Some(old), None] => [Some(old), self.matching.counterpart(Side::Baseline, old)],
            [None, Some(new)] => [self.matching.counterpart(Side::Candidate, new), Some(new)],
            both => both,
        };
        let losses = [0, 1].map(|side| pair[side].and_then(|node| self.of[side].get(&node)));
        let of_node = losses.map(|losses| {
            let mut of_node: BTreeMap<u32, Released> = BTreeMap::new();
            for ((node, _), released) in losses.into_iter().flatten() {
                let sum = of_node.entry(*node).or_default();
                *sum = sum.plus(*released);
            }
            of_node
        });
        let mut pairs = self.matching.pairs(of_node[0].keys(), of_node[1].keys());
        pair_lines(&mut pairs, self.stacks, self.changes);
        // What ended at the baseline alone is what the candidate still has.
        let kept_until = |pair: &[Option<u32>; 2], bytes: fn(Released) -> i64| {
            let [old, new] = [0, 1].map(|side| pair[side].map_or(0, |node| bytes(of_node[side][&node])));
            old - new
        };
        let kept = |pair: &[Option<u32>; 2]| match self.measure {
            Measure::AtPeak => kept_until(pair, |released| released.at_peak),
            _ => kept_until(pair, |released| released.at_end),
        };
        let is_enough = |kept: i64| {
            kept.signum() == difference.signum()
                && kept.unsigned_abs() >= difference.unsigned_abs().div_ceil(2)
        };
        if difference == 0 || !is_enough(pairs.iter().map(kept).sum()) {
            return None;
        }
        let best = pairs.iter().max_by_key(|pair| kept(pair) * difference.signum())?;
        let side = SIDES[usize::from(difference < 0)];
        let node = best[side as usize].filter(|_| is_enough(kept(best)))?;
        let ways = losses[side as usize]?.iter().filter(|((by, _), _)| *by == node);
        let ((_, way), _) = ways.max_by_key(|(_, released)| released.at_end)?;
        let is_before_peak = !is_enough(kept_until(best, |released| released.at_end));
        Some(Release { side, way: *way, is_before_peak, node })
    }
}
