//! Which tests run once more with call stacks: the changed ones, one of each group of alike tests first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Comparison, JudgedMetric, PairView, Ruling};
use crate::compare::matching::{Key, Match};
use crate::compare::standing::{Standing, WorstChange, worst_change};
use crate::results::measurement::Kind;
use crate::verdict::kinds::Verdict;
use crate::why::difference::{CheckpointName, Measure};
use memprof_plan::metric::{self, Figure, Unit};
use memprof_plan::resolved::CellId;

/// Which tests are explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Why {
    /// None
    Never,
    /// Tests that changed
    #[default]
    Changed,
    /// Those that changed; then leave out parts of the diff, to prove the worst cause
    Proven,
    /// All that were measured
    Always,
}

/// A test to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The test.
    pub cell: CellId,
    /// Index of the candidate, or of the only revision.
    pub candidate: usize,
    /// Whether only the candidate's run says something: it broke a limit, and the baseline has no figures.
    pub is_alone: bool,
    /// The heap's row that the test is reported with, if it is known.
    pub row: Option<HeapRow>,
}

/// A row of the heap: `heap.peak` or `heap.live` at a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapRow {
    /// The metric.
    pub metric: String,
    /// The checkpoint of each side.
    pub checkpoints: [Option<CheckpointName>; 2],
}

impl HeapRow {
    /// Returns the row of a test whose owners are asked for: the first that changed, or else the highest peak.
    /// If at least half of it is still live at the end, then it is what is live there: a leak.
    fn of_test(comparison: &Comparison, view: &PairView<'_>) -> Option<Self> {
        let is_meant = |metric: &str| matches!(metric, "heap.peak" | "heap.live");
        let rows: Vec<_> = changed_rows(comparison, view);
        let difference =
            |metric: &str, row: &Match| view.column(metric).at(row).delta.map(|of| of.difference);
        let changed = rows.iter().copied().find(|(metric, _)| is_meant(metric));
        let kept = changed.and_then(|(metric, row)| {
            let largest = difference(metric, row)?;
            let last = view.rows.iter().rfind(|row| row.candidate.is_some())?;
            let kept = difference("heap.live", last)?;
            (largest > 0 && kept >= largest - kept).then_some(("heap.live", last))
        });
        let (metric, row) = kept.or(changed).or_else(|| highest(view, "heap.peak"))?;
        Some(Self { metric: metric.to_owned(), checkpoints: compared_names(view, metric, row) })
    }
}

/// The row in which a metric of the candidate is highest.
pub(super) fn highest<'a>(view: &PairView<'a>, metric: &'static str) -> Option<(&'static str, &'a Match)> {
    let column = view.column(metric);
    let figure = |row: &Match| Some(column.at(row).candidate?.value);
    let known = view.rows.iter().filter(|row| figure(row).is_some());
    // The first of several: a peak is also that of what surrounds it.
    known.rev().max_by_key(|row| (row.baseline.is_some(), figure(row))).map(|row| (metric, row))
}

/// Tests that probably changed for one reason: those of one package with the same change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alike {
    package: String,
    candidate: usize,
    metric: String,
    label: String,
    occurrence: u32,
    change: Change,
}

/// What is the same in alike tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// The figure changed by as much.
    Figure(i128),
    /// As many bytes more were allocated, in as many allocations more. How much the peak changes by that depends
    /// on what else the test holds.
    Allocations { bytes: i128, count: i128, is_growth: bool },
}

impl Alike {
    /// Returns what a changed test may have in common with others. Nothing if its change varies from run to run, or if
    /// it has none.
    fn all(comparison: &Comparison, view: &PairView<'_>) -> Vec<Self> {
        let worst = worst_of(view, Standing::for_pair(comparison, view));
        let Some(worst) = worst.filter(|worst| metric::known(worst.metric).is_counted()) else {
            return Vec::new();
        };
        let test = &view.cell.id.test;
        let (metric, row) = worst.at_largest;
        let Key { label, occurrence, .. } = view.key(row);
        let alike = |change| Self {
            package: test.package.clone(),
            candidate: view.pair.candidate,
            metric: metric.to_owned(),
            label: view.cell.labels[label as usize].to_string(),
            occurrence,
            change,
        };
        let more = |metric: &str| view.column(metric).at(row).delta.map(|delta| delta.difference);
        let is_of_heap = matches!(metric, "heap.peak" | "heap.live");
        let allocated = more("heap.allocated").zip(more("heap.count"));
        let allocated = allocated.filter(|more| is_of_heap && *more != (0, 0));
        let allocations = allocated.map(|(bytes, count)| Change::Allocations {
            bytes,
            count,
            is_growth: worst.largest > 0,
        });
        iter::once(Change::Figure(worst.largest)).chain(allocations).map(alike).collect()
    }

    /// Whether other figures of these tests may have changed by other amounts.
    pub(super) fn is_by_allocations(&self) -> bool {
        matches!(self.change, Change::Allocations { .. })
    }
}

/// The changed tests in groups that are alike.
pub(super) struct Groups<'a> {
    comparison: &'a Comparison,
    /// How many tests are alike in each way.
    sizes: BTreeMap<Alike, usize>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(comparison: &'a Comparison) -> Self {
        let mut sizes: BTreeMap<Alike, usize> = BTreeMap::new();
        for view in comparison.checked() {
            if !has_changed(&view, Standing::for_pair(comparison, &view)) {
                continue;
            }
            for alike in Alike::all(comparison, &view) {
                *sizes.entry(alike).or_default() += 1;
            }
        }
        Self { comparison, sizes }
    }

    /// Returns the group of a changed test: the largest that it is alike. `None` if its change varies from run to run.
    pub(super) fn of(&self, view: &PairView<'_>) -> Option<Alike> {
        let size = |alike: &Alike| self.sizes.get(alike).copied().unwrap_or_default();
        // The first of two that are as large.
        Alike::all(self.comparison, view).into_iter().rev().max_by_key(size)
    }
}

/// Returns the tests to explain: first the worst of each group of alike tests, then the others. Both
/// are in the order of their changes, the worst first. Of a larger group, `most_alike` tests are chosen, spread over
/// all of it; but if all tests are asked for, all.
pub fn choose(comparison: &Comparison, why: Why, most_alike: usize) -> Vec<Chosen> {
    let alone = comparison.revisions.len() == 1;
    let groups = Groups::new(comparison);
    let mut chosen = Vec::new();
    for view in comparison.checked().filter(|view| view.cell.origins.is_none()) {
        let standing = Standing::for_pair(comparison, &view);
        let is_wanted = match why {
            Why::Never => false,
            Why::Changed | Why::Proven => has_figures(view.candidate) && has_changed(&view, standing),
            Why::Always => alone || standing.is_compared(),
        };
        if is_wanted {
            let rank = worst_of(&view, standing).map(|worst| worst.rank());
            let alike = groups.of(&view).filter(|_| has_changed(&view, standing));
            let is_alone = standing == Standing::OverLimit && !has_figures(view.baseline);
            let row = HeapRow::of_test(comparison, &view);
            let one = Chosen { cell: view.cell.id.clone(), candidate: view.pair.candidate, is_alone, row };
            chosen.push(((standing, Reverse(rank)), alike, one));
        }
    }
    chosen.sort_by_key(|(order, ..)| *order);
    let mut sizes: BTreeMap<Alike, usize> = BTreeMap::new();
    for alike in chosen.iter().filter_map(|(_, alike, _)| alike.as_ref()) {
        *sizes.entry(alike.clone()).or_default() += 1;
    }
    let mut seen: BTreeMap<Alike, usize> = BTreeMap::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (_, alike, one) in chosen {
        let Some(alike) = alike else {
            first.push(one);
            continue;
        };
        let size = sizes[&alike];
        let number = seen.entry(alike).or_default();
        if *number == 0 {
            first.push(one);
        } else if why == Why::Always || is_taken(*number, size, most_alike) {
            others.push(one);
        }
        *number += 1;
    }
    first.append(&mut others);
    first
}

/// Whether the test with this number, from 0, is one of `most` at equal distances: so are the first and the last.
fn is_taken(number: usize, size: usize, most: usize) -> bool {
    if size <= most || number == 0 {
        return true;
    }
    let step = |number: usize| number as u128 * (most as u128 - 1) / (size as u128 - 1);
    most > 1 && step(number) > step(number - 1)
}

/// Whether a side has runs that passed, or in which only a memory assertion does not hold.
fn has_figures(side: &Aggregate) -> bool {
    side.availability == Availability::Measured || side.is_over_limit
}

/// Whether a test changed, and may have a cause.
pub(super) fn has_changed(view: &PairView<'_>, standing: Standing) -> bool {
    match standing {
        Standing::Regressed
        | Standing::OverLimit
        | Standing::Expected
        | Standing::ExpectedOverLimit
        | Standing::Improved => true,
        Standing::Inconclusive => has_clear_change(view),
        _ => false,
    }
}

/// Whether a figure of a test changed clearly. Noise may hide another one's change.
fn has_clear_change(view: &PairView<'_>) -> bool {
    let mut rulings = view.pair.judged.iter().flat_map(JudgedMetric::rulings);
    rulings.any(|ruling| matches!(ruling.verdict, Verdict::Regressed | Verdict::Improved))
}

/// The change that a test is reported with.
pub(super) fn worst_of<'a>(view: &PairView<'a>, standing: Standing) -> Option<WorstChange<'a>> {
    worst_change(view, |ruling: &Ruling| match standing {
        Standing::Regressed => ruling.counts(),
        Standing::Improved => ruling.verdict == Verdict::Improved,
        Standing::MaybeImproved
        | Standing::Restructured
        | Standing::NotJudged
        | Standing::PartlyJudged
        | Standing::Unchanged => true,
        _ => matches!(ruling.verdict, Verdict::Regressed | Verdict::Improved),
    })
}

/// Returns the metrics and rows that changed: first the largest change of the metric that the test is
/// reported with, then broken limits, then all others by size, growth before shrinkage.
pub fn changed_rows<'a>(comparison: &Comparison, view: &PairView<'a>) -> Vec<(&'a str, &'a Match)> {
    let standing = Standing::for_pair(comparison, view);
    let worst = worst_of(view, standing).filter(|_| has_changed(view, standing));
    let mut rows: Vec<(&str, &Match)> = worst.iter().map(|worst| worst.at_largest).collect();
    let breaches = view.pair.breaches.iter();
    rows.extend(breaches.map(|breach| (breach.metric.as_str(), &view.rows[breach.row])));
    let mut changed = Vec::new();
    for judged in &view.pair.judged {
        let column = view.column(&judged.metric);
        let is_other_unit = Unit::of_metric(&judged.metric) != Unit::Bytes;
        changed.extend(view.rows.iter().filter_map(|row| {
            let verdict = judged.at(row)?.verdict;
            let size = column.at(row).delta.map_or(0, |delta| delta.difference.abs());
            let order = (verdict == Verdict::Improved, is_other_unit, Reverse(size));
            let is_changed = matches!(verdict, Verdict::Regressed | Verdict::Improved);
            is_changed.then_some((order, (judged.metric.as_str(), row)))
        }));
    }
    changed.sort_by_key(|(order, _)| *order);
    rows.extend(changed.into_iter().map(|(_, changed)| changed));
    rows
}

/// What a test has in place of call sites if only a scope's figure changed: call stacks are kept from checkpoint to
/// checkpoint.
pub(super) const ONLY_IN_SCOPE: &str =
    "only a scope's figure changed: put checkpoints before and after its code";

/// Whether a test is reported with a scope's figure.
pub(super) fn is_of_scope(comparison: &Comparison, view: &PairView<'_>) -> bool {
    changed_rows(comparison, view).first().is_some_and(|(_, row)| view.key(row).kind == Kind::Scope)
}

/// The checkpoints of a row, by side.
pub(super) fn names(view: &PairView<'_>, row: &Match) -> [Option<CheckpointName>; 2] {
    named(view, [row.baseline, row.candidate])
}

/// The checkpoints with the stacks of a row's figures, by side. A peak may have been read at a checkpoint before, which
/// only one side has.
pub(super) fn compared_names(view: &PairView<'_>, metric: &str, row: &Match) -> [Option<CheckpointName>; 2] {
    match metric::known(metric).figure {
        Figure::Peak => named(view, view.column(metric).highest(row)),
        Figure::Level | Figure::Total => names(view, row),
    }
}

/// Whether one checkpoint of each side has the stacks of a row's figures. A total of several checkpoints has none.
pub(super) fn has_stacks(view: &PairView<'_>, metric: &str, row: &Match) -> bool {
    let is_total = metric::known(metric).figure == Figure::Total;
    Measure::of_metric(metric).is_some() && !(is_total && view.column(metric).is_joined(row))
}

fn named(view: &PairView<'_>, [old, new]: [Option<usize>; 2]) -> [Option<CheckpointName>; 2] {
    let sides = [(view.baseline, old), (view.candidate, new)];
    sides.map(|(side, index)| {
        let key = side.keys[index?];
        Some(CheckpointName {
            label: view.cell.labels[key.label as usize].to_string(),
            occurrence: key.occurrence,
        })
    })
}

/// Returns the index of the row with a checkpoint of the candidate. A scope may have the same label.
pub(super) fn row_at(view: &PairView<'_>, at: &CheckpointName) -> Option<usize> {
    let is_meant =
        |row: &Match| view.key(row).kind == Kind::Point && names(view, row)[1].as_ref() == Some(at);
    view.rows.iter().position(is_meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_group_are_taken_at_equal_distances() {
        let taken = |size: usize, most: usize| -> Vec<usize> {
            (0..size).filter(|number| is_taken(*number, size, most)).collect()
        };
        assert_eq!(taken(646, 16)[..3], [0, 43, 86]);
        assert_eq!((taken(646, 16).len(), taken(646, 16).last()), (16, Some(&645)));
        assert_eq!(taken(17, 16).len(), 16);
        assert_eq!(taken(5, 16), [0, 1, 2, 3, 4]);
        assert_eq!((taken(9, 1), taken(9, 2)), (vec![0], vec![0, 8]));
        assert_eq!(taken(3, usize::MAX), [0, 1, 2]);
    }
}
