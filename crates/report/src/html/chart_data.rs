//! What the script of the page draws: figures by point, live memory over time, call stacks.
//!
//! A test may have a million points. So lists hold differences to the entry before, and those of a
//! candidate differences to the baseline's. Both compress well, because revisions mostly do the same.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::html::checkpoint_table::Positions;
use crate::html::flames::{Flame, flame};
use crate::html::page_test::PageTest;
use crate::html::plain::shown;
use crate::html::runs::{Dots, dots};
use crate::html::treemap::{Treemap, treemap};
use crate::json::rows::AlignedCheckpoint;
use memprof_judge::compare::aggregate::Aggregate;
use memprof_judge::compare::comparison::{Cell, Comparability, Comparison, Metric, PairView};
use memprof_judge::results::stack_log::{Interval, Timeline};
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::metric::{Property, Unit, known};
use memprof_support::labels::label;

/// The version of this format, for the script beside it.
const VERSION: u32 = 1;

/// At most so many checkpoints are marked on a timeline.
const MOST_MARKS: usize = 1000;

/// At most so many changed points are marked.
const MOST_CHANGED: usize = 10_000;

/// The data of a page.
#[derive(Serialize)]
pub(super) struct ChartData {
    version: u32,
    refs: Vec<String>,
    baseline: usize,
    units: BTreeMap<String, Unit>,
    tests: Vec<TestData>,
}

/// What is drawn of one test.
#[derive(Serialize)]
pub(super) struct TestData {
    title: String,
    id: String,
    /// Each label once.
    names: Vec<String>,
    /// By point: its label, and the occurrence of that label.
    labels: Steps,
    occurrences: Steps,
    /// By metric, then by revision.
    series: Series,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<(usize, String, Verdict)>,
    /// By metric, then by revision: the difference at each point where it is not that of the sides' own figures.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    compared: IndexMap<String, Vec<Option<Differences>>>,
    /// Metrics whose figures of a revision may not be compared with the baseline's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    apart: Vec<(String, usize)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dots: Vec<Dots>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timelines: Vec<TimelineData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// One for each row with call sites; none if its stacks cannot be found.
    flames: Vec<Option<Flame>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    treemap: Option<Treemap>,
}

type Series = IndexMap<String, Vec<Option<Steps>>>;

type Differences = Vec<Option<i64>>;

/// A list of numbers, each as its difference to the one before; the first to 0. An entry without a
/// number has none, and does not change the number before.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Steps(Vec<Option<i64>>);

impl Steps {
    fn from_numbers(numbers: impl Iterator<Item = Option<i64>>) -> Self {
        let mut before = 0_i64;
        let step = |number: i64| number.wrapping_sub(std::mem::replace(&mut before, number));
        let mut step = step;
        Self(numbers.map(|number| number.map(&mut step)).collect())
    }

    /// Takes off the baseline's steps, where it has some.
    fn beside(&self, baseline: &Self) -> Self {
        let pairs = self.0.iter().zip(&baseline.0);
        Self(pairs.map(|(own, base)| Some(own.as_ref()?.wrapping_sub(base.unwrap_or(0)))).collect())
    }
}

#[derive(Serialize)]
struct TimelineData {
    family: String,
    r#ref: usize,
    begin: i64,
    width: u64,
    lowest: Steps,
    highest: Steps,
    marks: Vec<(u64, String)>,
}

impl ChartData {
    pub(super) fn for_tests(comparison: &Comparison, tests: &[PageTest<'_>]) -> Self {
        Self {
            version: VERSION,
            refs: comparison.revisions.iter().map(|one| shown(&one.name)).collect(),
            baseline: comparison.baseline,
            units: comparison.metrics.iter().map(|metric| (metric.name.clone(), metric.unit)).collect(),
            tests: tests.iter().map(|test| TestData::for_test(comparison, test)).collect(),
        }
    }

    /// The data of a page about steps, each from a commit to the one after it. Tests are added.
    pub(super) fn of_steps(metric: &str, unit: Unit) -> Self {
        Self {
            version: VERSION,
            refs: ["before", "after"].map(str::to_owned).to_vec(),
            baseline: 0,
            units: BTreeMap::from([(metric.to_owned(), unit)]),
            tests: Vec::new(),
        }
    }

    /// Adds a test, and returns its number.
    pub(super) fn add(&mut self, test: TestData) -> usize {
        let names = test.series.keys().map(|name| (name.clone(), Unit::of_metric(name)));
        self.units.extend(names);
        self.tests.push(test);
        self.tests.len() - 1
    }
}

impl TestData {
    pub(super) fn for_test(comparison: &Comparison, test: &PageTest<'_>) -> Self {
        let points = &test.points;
        let (names, labels) = labels(test.cell, points);
        let mut data = Self {
            title: shown(&test.title),
            id: shown(&test.id),
            names,
            labels,
            occurrences: Steps::from_numbers(points.iter().map(|point| Some(point.key.occurrence.into()))),
            series: series(comparison, test.cell, points),
            changed: Vec::new(),
            compared: IndexMap::new(),
            apart: Vec::new(),
            dots: Vec::new(),
            timelines: Vec::new(),
            flames: Vec::new(),
            treemap: treemap(comparison, test),
        };
        for side in &test.sides {
            let at = Positions::from_checkpoints(points, comparison.baseline, side.view.pair.candidate);
            for judged in &side.view.pair.judged {
                for row in side.view.rows {
                    let verdict = judged.at(row).map(|ruling| ruling.verdict);
                    let is_change = |verdict: &Verdict| {
                        matches!(verdict, Verdict::Regressed | Verdict::Improved | Verdict::Inconclusive)
                    };
                    if let Some(verdict) = verdict.filter(is_change)
                        && data.changed.len() < MOST_CHANGED
                        && let Some(position) = at.get(row)
                    {
                        data.changed.push((position, judged.metric.clone(), verdict));
                    }
                }
            }
            let is_apart = |metric: &&String| {
                !side.view.is_alone() && side.view.column(metric).comparability != Comparability::Comparable
            };
            for metric in data.series.keys() {
                if let Some(differences) = compared(&side.view, metric, &at, points.len()) {
                    let of_metric = data.compared.entry(metric.clone());
                    let of_metric = of_metric.or_insert_with(|| vec![None; comparison.revisions.len()]);
                    of_metric[side.view.pair.candidate] = Some(differences);
                }
            }
            let apart = data.series.keys().filter(is_apart);
            data.apart.extend(apart.map(|metric| (metric.clone(), side.view.pair.candidate)));
            data.dots.extend(dots(comparison, &side.view, &at));
            let Some(why) = side.why else { continue };
            data.flames.extend({
                let refs = [comparison.baseline, why.candidate];
                why.rows.iter().map(move |row| flame(&row.difference, &why.recorded, refs))
            });
            for (recorded, revision) in why.recorded.iter().zip([comparison.baseline, why.candidate]) {
                let Some(recorded) = recorded else { continue };
                let is_known = |one: &TimelineData| one.r#ref == revision;
                if !data.timelines.iter().any(is_known) {
                    let timelines = recorded.log.timelines.iter();
                    data.timelines.extend(timelines.map(|timeline| {
                        let marks =
                            recorded.log.family(&timeline.family).map_or(&[][..], |one| &one.intervals);
                        let marks = marks.iter().take(MOST_MARKS);
                        let marks = marks.map(|one| (one.nanoseconds, mark(one)));
                        TimelineData::from_timeline(timeline, revision, marks.collect())
                    }));
                }
            }
        }
        data
    }
}

/// The name of the checkpoint at the end of an interval, as points have it.
fn mark(interval: &Interval) -> String {
    let label = shown(&label(&interval.label));
    if interval.occurrence > 1 { format!("{label} #{}", interval.occurrence) } else { label }
}

/// Each label once, and the label of each point.
fn labels(cell: &Cell, points: &[AlignedCheckpoint]) -> (Vec<String>, Steps) {
    let mut numbers: FxHashMap<u32, i64> = FxHashMap::default();
    let mut names = Vec::new();
    let labels = Steps::from_numbers(points.iter().map(|point| {
        let next = i64::try_from(numbers.len()).unwrap_or(i64::MAX);
        Some(*numbers.entry(point.key.label).or_insert_with(|| {
            names.push(shown(&label(&cell.labels[point.key.label as usize])));
            next
        }))
    }));
    (names, labels)
}

/// By metric, then by revision: a figure for each point. A revision without any has none.
fn series(comparison: &Comparison, cell: &Cell, points: &[AlignedCheckpoint]) -> Series {
    let is_drawn = |metric: &&Metric| known(&metric.name).is(Property::Drawn);
    let metrics: Vec<&Metric> = comparison.metrics.iter().filter(is_drawn).collect();
    let of_metric = |name: &str| -> Vec<Option<Steps>> {
        let sides = cell.sides.iter().enumerate().map(|(revision, side)| {
            let column = side.column(name)?;
            let figure = |point: &AlignedCheckpoint| Some(column.figure(point.indices[revision]?)?.value);
            let steps = Steps::from_numbers(points.iter().map(figure));
            steps.0.iter().any(Option::is_some).then_some(steps)
        });
        let mut sides: Vec<Option<Steps>> = sides.collect();
        if let Some(base) = sides[comparison.baseline].take() {
            for side in &mut sides {
                *side = side.as_ref().map(|side| side.beside(&base));
            }
            sides[comparison.baseline] = Some(base);
        }
        sides
    };
    let all = metrics.into_iter().map(|metric| (metric.name.clone(), of_metric(&metric.name)));
    all.filter(|(_, sides)| sides.iter().any(Option::is_some)).collect()
}

/// The differences at the points where they are not those of the sides' own figures; `None` if there are none.
fn compared(view: &PairView<'_>, metric: &str, at: &Positions, points: usize) -> Option<Differences> {
    let column = view.column(metric);
    let own = |side: &Aggregate, index: Option<usize>| Some(side.column(metric)?.figure(index?)?.value);
    let mut differences = vec![None; points];
    for row in view.rows {
        let [old, new] = [own(view.baseline, row.baseline), own(view.candidate, row.candidate)];
        let of_own = old.zip(new).map(|(old, new)| i128::from(new) - i128::from(old));
        let delta = column.at(row).delta.filter(|delta| Some(delta.difference) != of_own);
        if let (Some(position), Some(delta)) = (at.get(row), delta) {
            differences[position] = i64::try_from(delta.difference).ok();
        }
    }
    differences.iter().any(Option::is_some).then_some(differences)
}

impl TimelineData {
    fn from_timeline(timeline: &Timeline, revision: usize, marks: Vec<(u64, String)>) -> Self {
        let bound = |at: usize| Steps::from_numbers(timeline.buckets.iter().map(|bucket| Some(bucket[at])));
        Self {
            family: timeline.family.clone(),
            r#ref: revision,
            begin: timeline.begin,
            width: timeline.width,
            lowest: bound(0),
            highest: bound(1),
            marks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_differences_to_the_one_before_and_beside_the_baseline() {
        let steps = |numbers: &[Option<i64>]| Steps::from_numbers(numbers.iter().copied());
        let base = steps(&[Some(5), None, Some(7), Some(7), Some(-1)]);
        assert_eq!(serde_json::to_string(&base).unwrap(), "[5,null,2,0,-8]");
        let side = steps(&[Some(5), Some(6), None, Some(8), Some(0)]).beside(&base);
        assert_eq!(serde_json::to_string(&side).unwrap(), "[0,1,null,2,0]");
    }
}
