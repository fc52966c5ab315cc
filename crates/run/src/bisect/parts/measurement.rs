//! Which variant to measure next, and what the figures say of each part. A function of the figures so far,
//! so a search that continues needs nothing else.

use std::collections::BTreeSet;

use crate::bisect::observations::Observations;
use crate::bisect::parts::record::PartsSearch;

/// A search over parts.
#[derive(Clone, Copy, Debug)]
pub struct PartMeasurement<'a> {
    /// The parts and their commits.
    pub search: &'a PartsSearch,
    /// The figures so far.
    pub observations: &'a Observations,
    /// What remains unexplained may be as much as this.
    pub limit: i128,
    /// The parts that call sites point to, the largest first.
    pub suspects: &'a [usize],
}

/// What the figures say. The differences add up to that of the ends.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// What one part costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartShare {
    /// The index.
    pub part: usize,
    /// The candidate minus the candidate without the part.
    pub difference: i128,
    /// Whether the part was left out. If not, the test needs it, and the difference is that of adding it.
    pub is_left_out: bool,
    /// The baseline with the part minus the baseline, if this was measured.
    pub alone: Option<i128>,
}

/// What several parts cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub parts: Vec<usize>,
    pub difference: i128,
}

/// Neighbours in the chain that have a figure: their indices, and the difference.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: usize,
    high: usize,
    difference: i128,
}

/// At most so many suspects are tried before halving.
const MOST_SUSPECTS: usize = 3;

impl PartMeasurement<'_> {
    /// Returns the commit to measure next; `None` if there is nothing more to find out, or no build left.
    pub fn next(&self) -> Option<usize> {
        let whole = self.whole()?;
        if whole.abs() <= self.limit {
            return None;
        }
        self.wanted(whole).filter(|_| self.builds() < self.search.most_builds)
    }

    /// The number of commits that were built.
    pub fn builds(&self) -> usize {
        let commits = self.search.count() + 1;
        let all =
            (0..commits).chain(self.search.without.iter().copied()).chain(self.search.before.iter().copied());
        let all: BTreeSet<usize> = all.chain(self.search.alone.iter().copied().flatten()).collect();
        all.into_iter().filter(|commit| self.observations.get(*commit).is_some()).count()
    }

    fn wanted(&self, whole: i128) -> Option<usize> {
        let mut explained = 0;
        for &suspect in self.suspects.iter().take(MOST_SUSPECTS) {
            if (whole - explained).abs() <= self.limit {
                break;
            }
            if let Some(commit) = self.unmeasured(suspect) {
                return Some(commit);
            }
            explained += self.cost(suspect).unwrap_or_default();
        }
        let found = self.found();
        let open = |interval: &Interval| self.remaining(interval, &found).abs() > self.limit;
        let mut intervals: Vec<Interval> = self.intervals().into_iter().filter(open).collect();
        intervals.sort_by_key(|interval| std::cmp::Reverse(self.remaining(interval, &found).abs()));
        if let Some(middle) = intervals.iter().find_map(|interval| self.middle(interval)) {
            return Some(middle);
        }
        if let Some(commit) = found.iter().find_map(|part| self.unmeasured(*part)) {
            return Some(commit);
        }
        let shared = self.shares()?.together;
        let alone = found.iter().filter_map(|part| self.search.alone[*part]);
        if shared.abs() > self.limit { self.first_unmeasured(alone) } else { None }
    }

    fn value(&self, commit: usize) -> Option<i128> {
        self.observations.median(commit).map(i128::from)
    }

    /// The candidate minus the baseline.
    fn whole(&self) -> Option<i128> {
        Some(self.value(self.search.count())? - self.value(0)?)
    }

    fn first_unmeasured(&self, mut commits: impl Iterator<Item = usize>) -> Option<usize> {
        commits.find(|commit| self.observations.get(*commit).is_none())
    }

    /// Returns a commit that tells what a part costs, and that was not measured yet.
    fn unmeasured(&self, part: usize) -> Option<usize> {
        self.first_unmeasured([self.search.without[part], self.search.before[part]].into_iter())
    }

    /// Returns what leaving a part out saves.
    fn cost(&self, part: usize) -> Option<i128> {
        Some(self.value(self.search.before[part])? - self.value(self.search.without[part])?)
    }

    /// Returns the parts that are known to make a difference, in their order.
    fn found(&self) -> Vec<usize> {
        let single = self.intervals().into_iter().filter(|one| one.high - one.low == 1);
        let by_chain = single.filter(|one| one.difference.abs() > self.limit).map(|one| one.low);
        let by_leaving_out = self
            .suspects
            .iter()
            .copied()
            .filter(|part| self.cost(*part).is_some_and(|cost| cost.abs() > self.limit));
        by_chain.chain(by_leaving_out).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn intervals(&self) -> Vec<Interval> {
        let commits = 0..=self.search.count();
        let measured: Vec<(usize, i128)> =
            commits.filter_map(|commit| Some((commit, self.value(commit)?))).collect();
        let pairs = measured.windows(2);
        pairs
            .map(|pair| Interval { low: pair[0].0, high: pair[1].0, difference: pair[1].1 - pair[0].1 })
            .collect()
    }

    /// What the parts that were found do not explain of an interval with several parts.
    fn remaining(&self, interval: &Interval, found: &[usize]) -> i128 {
        if interval.high - interval.low == 1 {
            return 0;
        }
        let inside = found.iter().filter(|part| (interval.low..interval.high).contains(*part));
        interval.difference - inside.filter_map(|part| self.cost(*part)).sum::<i128>()
    }

    /// Returns the commit of an interval that is nearest to its middle, and was not measured yet.
    fn middle(&self, interval: &Interval) -> Option<usize> {
        let middle = usize::midpoint(interval.low, interval.high);
        let inside =
            (interval.low + 1..interval.high).filter(|commit| self.observations.get(*commit).is_none());
        inside.min_by_key(|commit| (commit.abs_diff(middle), *commit))
    }

    /// Returns what the parts cost; `None` if an end has no figure.
    pub fn shares(&self) -> Option<Shares> {
        let whole = self.whole()?;
        let found = self.found();
        let intervals = self.intervals();
        let mut shares =
            Shares { whole, parts: Vec::new(), rest: Share::default(), open: Vec::new(), together: 0 };
        for &part in &found {
            let left_out = self.cost(part);
            let added = intervals.iter().find(|one| one.low == part && one.high == part + 1);
            let Some(difference) = left_out.or(added.map(|one| one.difference)) else { continue };
            let alone = self.search.alone[part].and_then(|commit| self.value(commit)).zip(self.value(0));
            let alone = alone.map(|(with, baseline)| with - baseline);
            shares.parts.push(PartShare { part, difference, is_left_out: left_out.is_some(), alone });
        }
        for interval in &intervals {
            let others: Vec<usize> =
                (interval.low..interval.high).filter(|part| !found.contains(part)).collect();
            if others.is_empty() {
                continue;
            }
            let remaining = self.remaining(interval, &found);
            let has_found = others.len() < interval.high - interval.low;
            if remaining.abs() > self.limit {
                shares.open.push(Share { parts: others, difference: remaining });
            } else {
                shares.rest.parts.extend(others);
                shares.rest.difference += if has_found { 0 } else { interval.difference };
            }
        }
        if let ([one], []) = (&shares.parts[..], &shares.open[..])
            && one.is_left_out
            && self.search.parts[one.part].needed_by.is_empty()
        {
            // The others are what is left of the difference without this part.
            shares.rest.difference = whole - one.difference;
        }
        let sum = shares.parts.iter().map(|one| one.difference).sum::<i128>()
            + shares.open.iter().map(|one| one.difference).sum::<i128>()
            + shares.rest.difference;
        shares.together = whole - sum;
        shares.parts.sort_by_key(|one| std::cmp::Reverse(one.difference.abs()));
        Some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::observations::Observation;
    use crate::bisect::parts::record::tests::search;
    use crate::bisect::parts::record::{PartsSearch, Variant};

    /// Measures until nothing is left to find out. `figure` is a variant's, or `None` if its test fails.
    fn measured(
        (search, variants): &(PartsSearch, Vec<Variant>),
        suspects: &[usize],
        figure: impl Fn(&BTreeSet<usize>) -> Option<i64>,
    ) -> (Shares, usize) {
        let mut observations = Observations::new(variants.len());
        let record = |observations: &mut Observations, commit: usize| {
            let found = figure(&variants[commit].kept)
                .map_or(Observation::Skipped, |one| Observation::Samples(vec![one]));
            assert_eq!(observations.get(commit), None, "measured twice");
            observations.record(commit, found);
        };
        record(&mut observations, 0);
        record(&mut observations, search.count());
        loop {
            let measurement = PartMeasurement { search, observations: &observations, limit: 10, suspects };
            if let Some(commit) = measurement.next() {
                record(&mut observations, commit);
                continue;
            }
            let shares = measurement.shares().unwrap();
            let sum = shares.parts.iter().map(|one| one.difference).sum::<i128>()
                + shares.open.iter().map(|one| one.difference).sum::<i128>()
                + shares.rest.difference
                + shares.together;
            assert_eq!(sum, shares.whole, "the figures add up");
            return (shares, measurement.builds());
        }
    }

    fn sums(costs: &'static [i64]) -> impl Fn(&BTreeSet<usize>) -> Option<i64> {
        move |kept| Some(1000 + kept.iter().map(|part| costs[*part]).sum::<i64>())
    }

    fn found(shares: &Shares) -> Vec<(usize, i128)> {
        shares.parts.iter().map(|one| (one.part, one.difference)).collect()
    }

    #[test]
    fn halving_finds_the_part_and_leaving_it_out_proves_it() {
        let (shares, builds) = measured(&search(8, &[]), &[], sums(&[0, 0, 0, 0, 0, 500, 3, 0]));
        assert_eq!(found(&shares), [(5, 500)]);
        assert!(shares.parts[0].is_left_out);
        assert_eq!((shares.rest.parts.len(), shares.rest.difference, shares.together), (7, 3, 0));
        assert_eq!(builds, 6);
    }

    #[test]
    fn a_right_suspect_needs_one_build_and_a_wrong_one_costs_one() {
        let costs = sums(&[0, 0, 0, 0, 0, 500, 0, 0]);
        let (shares, builds) = measured(&search(8, &[]), &[5], &costs);
        assert_eq!((found(&shares), builds), (vec![(5, 500)], 3));
        let (shares, builds) = measured(&search(8, &[]), &[2], costs);
        assert_eq!((found(&shares), builds), (vec![(5, 500)], 7));
    }

    #[test]
    fn two_parts_are_found_and_what_they_share_is_a_line_of_its_own() {
        let both = |kept: &BTreeSet<usize>| {
            let [one, other] = [1, 6].map(|part| kept.contains(&part));
            Some(1000 + i64::from(one) * 300 + i64::from(other) * 200 + i64::from(one && other) * 50)
        };
        let (shares, _) = measured(&search(8, &[]), &[], both);
        assert_eq!(found(&shares), [(1, 350), (6, 250)]);
        assert_eq!((shares.whole, shares.together), (550, -50));
        assert_eq!(shares.parts.iter().map(|one| one.alone).collect::<Vec<_>>(), [Some(300), Some(200)]);
    }

    #[test]
    fn a_shrinkage_is_found_like_a_growth() {
        let (shares, _) = measured(&search(4, &[]), &[], sums(&[0, -400, 0, 0]));
        assert_eq!(found(&shares), [(1, -400)]);
    }

    #[test]
    fn a_definition_costs_what_is_left_of_it_when_nothing_uses_it() {
        // Part 2 calls what part 0 defines.
        let (shares, _) = measured(&search(3, &[(0, 2)]), &[], sums(&[0, 0, 700]));
        assert_eq!(found(&shares), [(2, 700)]);
        let (shares, _) = measured(&search(3, &[(0, 2)]), &[], sums(&[700, 0, 0]));
        assert_eq!(found(&shares), [(0, 700)]);
    }

    #[test]
    fn a_test_that_fails_without_a_part_is_an_answer() {
        let needs = |kept: &BTreeSet<usize>| {
            // The test of the candidate fails without part 1, as long as part 2 is there.
            let fails = kept.contains(&2) && !kept.contains(&1);
            (!fails).then(|| 1000 + if kept.contains(&1) { 600 } else { 0 })
        };
        let (shares, _) = measured(&search(4, &[]), &[], needs);
        assert_eq!(found(&shares), [(1, 600)]);
        assert!(!shares.parts[0].is_left_out);
    }

    #[test]
    fn parts_between_which_every_test_fails_stay_together() {
        let fails_inside = |kept: &BTreeSet<usize>| match kept.len() {
            0 => Some(0),
            4 => Some(900),
            _ => None,
        };
        let (shares, builds) = measured(&search(4, &[]), &[], fails_inside);
        assert_eq!(shares.open, [Share { parts: vec![0, 1, 2, 3], difference: 900 }]);
        assert_eq!(builds, 5);
    }

    #[test]
    fn no_more_builds_than_asked_for() {
        let (mut search, variants) = search(64, &[]);
        search.most_builds = 4;
        let costs = |kept: &BTreeSet<usize>| Some(1000 + i64::from(kept.contains(&40)) * 500);
        let (shares, builds) = measured(&(search, variants), &[], costs);
        assert_eq!(builds, 4);
        assert_eq!(shares.open, [Share { parts: (32..48).collect(), difference: 500 }]);
        assert_eq!(shares.rest.parts.len(), 48);
    }

    #[test]
    fn without_a_difference_nothing_is_measured() {
        let (shares, builds) = measured(&search(8, &[]), &[], sums(&[0, 0, 5, 0, 0, 0, 0, 0]));
        assert_eq!((found(&shares), builds), (vec![], 2));
        assert_eq!(shares.whole, 5);
    }
}
