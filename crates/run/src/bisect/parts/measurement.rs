//! Which variant to measure next. A function of the figures so far, so a proof that continues needs nothing
//! else.

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::bisect::observations::{ChangeRule, HasChanged, Observations};
use crate::bisect::parts::record::{BASELINE, CANDIDATE, Parts, PartsSearch};
use memprof_judge::verdict::significance::{ENOUGH, Significance};

/// The figures of a proof.
#[derive(Clone, Debug)]
pub struct PartMeasurement<'a> {
    /// The parts and their commits.
    pub search: &'a PartsSearch,
    /// The figures so far.
    pub observations: &'a Observations,
    /// What counts as a difference.
    pub rule: &'a ChangeRule,
    /// The parts that call sites point to, the largest first.
    pub suspects: &'a [usize],
    /// Commits whose further runs fail.
    pub exhausted: &'a BTreeSet<usize>,
    /// What was judged so far: it is asked for often.
    pub judged: Judged,
}

/// Answers that are asked for often.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    changes: RefCell<BTreeMap<(usize, usize), HasChanged>>,
    pub(crate) found: OnceCell<Vec<usize>>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Build and run the variant with these parts.
    Measure {
        /// Its parts.
        kept: Parts,
        /// The parts among which it splits, if the order of parts decided which one it is.
        within: Parts,
    },
    /// Run a commit once more.
    Repeat(usize),
}

/// What comes next, or the answer.
type Known<T> = Result<T, Step>;

/// Variants that have a figure, each with all parts of those before it: from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain(pub Vec<usize>);

/// Neighbours in a chain: the commits, and the parts by which they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: usize,
    pub high: usize,
    pub parts: Parts,
}

/// At most so many suspects are tried before halving.
const MOST_SUSPECTS: usize = 3;

/// The number of runs of both commits that a proof rests on, if figures repeat exactly. A figure that takes one
/// of two values at random is the same in so many runs of both commits once in 512 times.
pub(super) const CONFIRMED: usize = ENOUGH as usize;

/// Where an interval is split, one after the other: a commit at which the test fails has neighbours at which
/// it fails, too.
const SPLITS: [(usize, usize); 7] = [(1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (1, 6), (5, 6)];

/// After this number of variants without a figure, an interval is not split any more.
const MOST_FAILURES: usize = 3;

/// After this number of variants that do not compile, an interval is not split any more.
const MOST_REFUSED: usize = 12;

impl PartMeasurement<'_> {
    /// Returns what to do next; `None` if there is nothing more to find out, or no build left.
    pub fn next(&self) -> Option<Step> {
        self.known().err()
    }

    /// Whether both ends differ by more than the limit.
    pub fn differs(&self) -> bool {
        self.change(BASELINE, CANDIDATE) == HasChanged::Yes
    }

    /// Succeeds if everything is known.
    fn known(&self) -> Known<()> {
        if self.decided(BASELINE, CANDIDATE)? != HasChanged::Yes {
            return Ok(());
        }
        self.confirm([BASELINE, CANDIDATE])?;
        if self.search.parts.is_empty() {
            return Ok(());
        }
        self.try_suspects()?;
        let mut proven = self.left_out();
        proven.retain(|part| self.suspects.contains(part));
        self.split(&Parts::new(), &self.top(&proven)?)?;
        for &part in self.found() {
            self.try_without(part)?;
        }
        self.split(&Parts::new(), &self.top(&self.left_out())?)?;
        for part in self.left_out() {
            let before = self.search.before(part);
            if before != self.search.all() {
                self.split(&before, &self.search.all())?;
            }
        }
        self.try_alone()?;
        self.confirm_found()
    }

    /// Leaves out what call sites point to, until that explains the difference.
    fn try_suspects(&self) -> Known<()> {
        let whole = self.difference(BASELINE, CANDIDATE).unwrap_or_default();
        let mut explained = 0;
        for &suspect in self.suspects.iter().take(MOST_SUSPECTS) {
            if (whole - explained).abs() <= self.limit() {
                break;
            }
            let without = self.search.without(&Parts::from([suspect]));
            let Some(commit) = self.figure(&without)? else { continue };
            // With those that need it, it makes no difference, so it does not matter what it makes of it.
            if self.decided(commit, CANDIDATE)? == HasChanged::No {
                continue;
            }
            self.try_without(suspect)?;
            explained += self.cost(suspect).map_or(0, |cost| cost.difference);
        }
        Ok(())
    }

    /// Measures the two commits whose difference is that of leaving a part out.
    fn try_without(&self, part: usize) -> Known<()> {
        let Some(without) = self.figure(&self.search.without(&Parts::from([part])))? else { return Ok(()) };
        if let Some(before) = self.figure(&self.search.before(part))? {
            self.decided(without, before)?;
        }
        Ok(())
    }

    /// Measures the baseline with one part, if the parts share something or the rest makes a difference: then
    /// a part may cost something else alone.
    fn try_alone(&self) -> Known<()> {
        let Some(shares) = self.shares() else { return Ok(()) };
        if shares.together.abs() <= self.limit() && shares.rest.difference.abs() <= self.limit() {
            return Ok(());
        }
        for &part in self.found() {
            let needs = self.search.needs(part);
            let with = &needs | &Parts::from([part]);
            if self.figure(&needs)?.is_some() {
                self.figure(&with)?;
            }
        }
        Ok(())
    }

    /// Runs what the answer rests on as often as a proof needs.
    fn confirm_found(&self) -> Known<()> {
        for &part in self.found() {
            if let Some(cost) = self.cost(part) {
                self.confirm([cost.before, cost.after])?;
                self.decided(cost.before, cost.after)?;
            }
            if let Some((before, after)) = self.alone(part) {
                self.confirm([before, after])?;
            }
        }
        // This shows what all of them hold together, and that the others make no difference.
        let top = self.search.without(&self.left_out().into_iter().collect());
        if let Some(top) = self.measured(&top).filter(|top| *top != CANDIDATE) {
            self.confirm([top])?;
            self.decided(BASELINE, top)?;
            self.decided(top, CANDIDATE)?;
        }
        Ok(())
    }

    /// Wants more runs of commits on which a proof rests.
    fn confirm<const N: usize>(&self, commits: [usize; N]) -> Known<()> {
        let least = self.least();
        let is_short = |commit: &usize| {
            self.samples(*commit).is_some_and(|samples| samples < least) && !self.exhausted.contains(commit)
        };
        commits.into_iter().find(is_short).map_or(Ok(()), |commit| Err(Step::Repeat(commit)))
    }

    /// Whether two commits ran as often as a proof needs, and differ by more than the limit.
    pub(crate) fn is_proven(&self, before: usize, after: usize) -> bool {
        let has_enough =
            |commit: &usize| self.samples(*commit).is_some_and(|samples| samples >= self.least());
        self.change(before, after) == HasChanged::Yes && [before, after].iter().all(has_enough)
    }

    /// How often each commit runs on which a proof rests.
    fn least(&self) -> usize {
        let least = if self.repeats() { CONFIRMED } else { self.rule.least_runs(self.observations) };
        least.min(self.rule.most_runs)
    }

    /// Whether figures repeat exactly.
    pub(crate) fn repeats(&self) -> bool {
        self.rule.repeats(self.observations)
    }

    /// The largest difference that counts as none.
    pub(crate) fn limit(&self) -> i128 {
        self.significance(BASELINE, CANDIDATE).map_or(0, |judged| judged.limit.into())
    }

    pub(crate) fn significance(&self, before: usize, after: usize) -> Option<Significance> {
        self.rule.significance(self.observations, before, after)
    }

    fn samples(&self, commit: usize) -> Option<usize> {
        self.observations.samples(commit).map(<[i64]>::len)
    }

    fn value(&self, commit: usize) -> Option<i128> {
        self.observations.figure(commit).map(i128::from)
    }

    /// One commit's figure minus another's.
    pub(crate) fn difference(&self, before: usize, after: usize) -> Option<i128> {
        Some(self.value(after)? - self.value(before)?)
    }

    /// Whether two figures differ, as far as is known.
    pub(crate) fn change(&self, before: usize, after: usize) -> HasChanged {
        let mut changes = self.judged.changes.borrow_mut();
        let judged = || self.rule.change(self.observations, before, after);
        *changes.entry((before, after)).or_insert_with(judged)
    }

    /// Whether two figures differ. Wants more runs while this is unclear.
    fn decided(&self, before: usize, after: usize) -> Known<HasChanged> {
        let change = self.change(before, after);
        let runs = |commit: &usize| self.samples(*commit).unwrap_or(usize::MAX);
        let can_run = |one: &usize| runs(one) < self.rule.most_runs && !self.exhausted.contains(one);
        let fewer = [before, after].into_iter().filter(can_run).min_by_key(runs);
        match fewer.filter(|_| change == HasChanged::Unclear) {
            Some(commit) => Err(Step::Repeat(commit)),
            None => Ok(change),
        }
    }

    /// Returns the commit of a variant that has a figure.
    pub(crate) fn measured(&self, kept: &Parts) -> Option<usize> {
        self.search.variant(kept).filter(|commit| self.observations.samples(*commit).is_some())
    }

    /// Returns the commit of a variant; `None` if it cannot have a figure. Wants it measured.
    fn figure(&self, kept: &Parts) -> Known<Option<usize>> {
        self.figure_within(kept, &Parts::new())
    }

    fn figure_within(&self, kept: &Parts, within: &Parts) -> Known<Option<usize>> {
        if !self.was_tried(kept) && self.builds() < self.search.most_builds {
            return Err(Step::Measure { kept: kept.clone(), within: within.clone() });
        }
        Ok(self.measured(kept))
    }

    /// Whether a variant was built, or does not compile.
    pub(crate) fn was_tried(&self, kept: &Parts) -> bool {
        let is_built = |commit: usize| self.observations.get(commit).is_some();
        self.search.refusal(kept).is_some() || self.search.variant(kept).is_some_and(is_built)
    }

    /// The number of commits that were built.
    pub fn builds(&self) -> usize {
        (0..self.search.variants.len()).filter(|commit| self.observations.get(*commit).is_some()).count()
    }

    /// Returns the candidate without these parts: what it still differs by from the baseline, they do not
    /// explain. Without such a figure, a variant that leaves out one of them.
    fn top(&self, left_out: &[usize]) -> Known<Parts> {
        self.figure(&self.search.without(&left_out.iter().copied().collect()))?;
        Ok(self.measured_top(left_out))
    }

    /// Like [`Self::top`], as far as is known.
    pub(crate) fn measured_top(&self, left_out: &[usize]) -> Parts {
        let all = self.search.without(&left_out.iter().copied().collect());
        let single = left_out.iter().map(|part| self.search.without(&Parts::from([*part])));
        let mut tops = std::iter::once(all).chain(single);
        tops.find(|top| self.measured(top).is_some()).unwrap_or_else(|| self.search.all())
    }

    /// Splits the difference between two variants until each interval has one part, or none beyond the limit.
    fn split(&self, low: &Parts, high: &Parts) -> Known<()> {
        let found = self.found();
        let mut intervals = self.intervals(low, high);
        intervals.retain(|interval| self.is_unexplained(interval));
        intervals.sort_by_key(|interval| Reverse(self.remaining(interval).abs()));
        for interval in &intervals {
            // More runs may show that there is nothing to split.
            if !interval.has_found(found) && self.decided(interval.low, interval.high)? != HasChanged::Yes {
                continue;
            }
            let low = &self.search.variants[interval.low];
            for kept in self.splits(interval) {
                self.figure_within(&(low | &kept), &interval.parts)?;
            }
        }
        // What cannot be split may still be left out: the rest is known to compile without each part alone.
        intervals.retain(|interval| self.is_open(interval));
        let mut left: Vec<usize> = intervals.iter().flat_map(|interval| interval.parts.clone()).collect();
        left.sort_by_key(|part| !self.suspects.contains(part));
        for part in left {
            self.figure(&self.search.without(&Parts::from([part])))?;
        }
        Ok(())
    }

    /// Whether an interval with several parts has a difference that no part explains.
    pub(crate) fn is_open(&self, interval: &Interval) -> bool {
        let is_change = || {
            interval.has_found(self.found()) || self.change(interval.low, interval.high) == HasChanged::Yes
        };
        interval.parts.len() > 1 && self.is_unexplained(interval) && is_change()
    }

    /// Whether an interval has a difference beyond the limit, and more than the parts that were found explain.
    fn is_unexplained(&self, interval: &Interval) -> bool {
        let whole = self.difference(interval.low, interval.high).unwrap_or_default();
        whole.abs() > self.limit() && self.remaining(interval).abs() > self.limit()
    }

    /// What the parts that were found do not explain of an interval.
    pub(crate) fn remaining(&self, interval: &Interval) -> i128 {
        let whole = self.difference(interval.low, interval.high).unwrap_or_default();
        let found = self.found().iter().filter(|part| interval.parts.contains(part));
        whole - found.filter_map(|part| Some(self.cost(*part)?.difference)).sum::<i128>()
    }

    /// Returns the intervals between two variants.
    pub(crate) fn intervals(&self, low: &Parts, high: &Parts) -> Vec<Interval> {
        let parts_of = |commit: usize| &self.search.variants[commit];
        let pairs = self.chain(low, high).0;
        let pairs = pairs.windows(2);
        pairs
            .map(|pair| Interval {
                low: pair[0],
                high: pair[1],
                parts: parts_of(pair[1]) - parts_of(pair[0]),
            })
            .collect()
    }

    /// Returns the variants with a figure from one to another. Those that follow the order of the parts come
    /// first, and then what fits between them.
    fn chain(&self, low: &Parts, high: &Parts) -> Chain {
        let (Some(first), Some(last)) = (self.measured(low), self.measured(high)) else {
            return Chain(Vec::new());
        };
        let is_inside = |kept: &Parts| low.is_subset(kept) && kept.is_subset(high);
        let mut inside: Vec<usize> = (0..self.search.variants.len())
            .filter(|commit| self.value(*commit).is_some() && is_inside(&self.search.variants[*commit]))
            .collect();
        let follows = |kept: &Parts| {
            let between = self.search.order.iter().filter(|part| high.contains(part) && !low.contains(part));
            between.take(kept.len() - low.len()).all(|part| kept.contains(part))
        };
        inside.sort_by_key(|commit| !follows(&self.search.variants[*commit]));
        let mut chain = vec![first, last];
        chain.dedup();
        for commit in inside {
            let kept = &self.search.variants[commit];
            let is_comparable = |other: &usize| {
                let other = &self.search.variants[*other];
                other != kept && (other.is_subset(kept) || kept.is_subset(other))
            };
            if chain.iter().all(is_comparable) {
                chain.push(commit);
            }
        }
        chain.sort_by_key(|commit| self.search.variants[*commit].len());
        Chain(chain)
    }

    /// Returns the parts to add to the low end of an interval, one set after the other. None if too many
    /// variants between its ends have no figure.
    fn splits(&self, interval: &Interval) -> Vec<Parts> {
        let low = &self.search.variants[interval.low];
        let high = &self.search.variants[interval.high];
        let is_between = |kept: &&Parts| low.is_subset(kept) && kept.is_subset(high);
        let has_failed = |kept: &&Parts| is_between(kept) && self.has_failed(kept);
        let failed = self.search.variants.iter().filter(has_failed).count();
        let refused = self.search.refused.iter().map(|one| &one.kept).filter(is_between).count();
        if failed >= MOST_FAILURES || refused >= MOST_REFUSED {
            return Vec::new();
        }
        let order: Vec<usize> =
            self.search.order.iter().copied().filter(|part| interval.parts.contains(part)).collect();
        let count = order.len();
        let mut lengths: Vec<usize> = Vec::new();
        for (part, of) in SPLITS {
            let length = (count * part + of / 2) / of;
            if (1..count).contains(&length) && !lengths.contains(&length) {
                lengths.push(length);
            }
        }
        lengths.into_iter().map(|length| order[..length].iter().copied().collect()).collect()
    }

    /// Whether a variant was built and has no figure.
    fn has_failed(&self, kept: &Parts) -> bool {
        let commit = self.search.variant(kept);
        commit.is_some_and(|commit| self.observations.get(commit).is_some() && self.value(commit).is_none())
    }
}

impl Interval {
    /// Whether one of these parts is in it.
    pub(crate) fn has_found(&self, found: &[usize]) -> bool {
        found.iter().any(|part| self.parts.contains(part))
    }
}
