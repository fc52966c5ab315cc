//! A comparison as data: for each cell what every revision measured, and for each candidate which of its checkpoints is
//! which of the baseline's. Figures stay in their columns; a row's entry is put together when it is asked for, and is
//! what a verdict will be given on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compare::aggregate::{Column, Figure, Side, Standing};
use crate::compare::matching::{Change, Key, Match};
use crate::plan::metric::Unit;
use crate::plan::resolved::{CellId, Revision};
use crate::plan::rule::Allowance;
use crate::results::comparability::IncomparableMetrics;
use crate::results::measurement::{Kind, Names};
use crate::results::stored::Run;
use crate::results::trace_facts::TraceFacts;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::Expected;
use crate::verdict::significance::Judgement;

/// Everything that a report is made of.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The plan's name, which is the run folder's too.
    pub id: String,
    /// When the plan was made, RFC 3339.
    pub created: String,
    /// The tool's version that measured.
    pub tool: String,
    /// The revisions, in the order of the refs.
    pub revisions: Vec<Revision>,
    /// Index of the baseline in `revisions`.
    pub baseline: usize,
    /// Where it was measured; `null` if that is not known.
    pub environment: Value,
    /// All metrics that any run has figures of, in the order of the columns.
    pub metrics: Vec<Metric>,
    /// What became of the functions that were to be traced, by revision.
    pub traces: BTreeMap<usize, TraceFacts>,
    /// All runs, finished and failed.
    pub runs: Vec<Run>,
    /// The cells, ordered by test and parameters.
    pub cells: Vec<Cell>,
    /// What concerns all rows: differences of environment, oddities of logs.
    pub notes: Vec<String>,
    /// The changes that were expected, as verdicts refer to them.
    pub allow: Vec<Allowance>,
    /// By revision: which of its figures cannot be compared with the baseline's.
    pub apart: Vec<Vec<IncomparableMetrics>>,
}

/// A metric and what its numbers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in logs and reports.
    pub name: String,
    /// What the raw number counts.
    pub unit: Unit,
}

/// One test with one set of parameters, at every revision.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which.
    pub id: CellId,
    /// Whether a test of another package or target has the same name, so that this one's needs both.
    pub has_namesake: bool,
    /// The labels that the sides' keys refer to.
    pub labels: Names,
    /// By revision, what it measured.
    pub sides: Vec<Side>,
    /// Each candidate against the baseline.
    pub pairs: Vec<Pair>,
}

/// A candidate's checkpoints against the baseline's.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Index of the candidate in the comparison's revisions.
    pub candidate: usize,
    /// The rows, in the order of the baseline.
    pub rows: Vec<Match>,
    /// The verdicts, by metric.
    pub judged: Vec<JudgedMetric>,
    /// What is larger than it may be, whatever the baseline is.
    pub breaches: Vec<Breach>,
}

/// A metric's verdicts in a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedMetric {
    /// The metric.
    pub metric: String,
    /// Whether a rule of the user's asks for it, so that a verdict that is missing is a fault.
    pub is_asked: bool,
    /// By the baseline's checkpoint; `None` where the metric is not judged, or neither side has it.
    of_baseline: Vec<Option<Ruling>>,
    /// By the candidate's checkpoint, of those that were added.
    of_added: BTreeMap<usize, Ruling>,
}

impl JudgedMetric {
    /// Of rulings in the order of the rows.
    pub fn new(
        metric: &str,
        is_asked: bool,
        rows: &[Match],
        rulings: impl Iterator<Item = Option<Ruling>>,
    ) -> Self {
        let mut judged = Self {
            metric: metric.to_owned(),
            is_asked,
            of_baseline: Vec::with_capacity(rows.len()),
            of_added: BTreeMap::new(),
        };
        for (row, ruling) in rows.iter().zip(rulings) {
            match (row.baseline, row.candidate) {
                // Rows are in the baseline's order, each of its checkpoints once.
                (Some(_), _) => judged.of_baseline.push(ruling),
                (None, Some(candidate)) => judged.of_added.extend(ruling.map(|ruling| (candidate, ruling))),
                (None, None) => {}
            }
        }
        judged
    }

    /// The ruling at a row.
    pub fn at(&self, row: &Match) -> Option<Ruling> {
        match row.baseline {
            Some(index) => self.of_baseline.get(index).copied().flatten(),
            None => self.of_added.get(&row.candidate?).copied(),
        }
    }

    /// All rulings that there are.
    pub fn rulings(&self) -> impl Iterator<Item = &Ruling> {
        self.of_baseline.iter().flatten().chain(self.of_added.values())
    }
}

/// The verdict on a metric at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// What it is based on, where there was something to judge.
    pub judgement: Option<Judgement>,
    /// Which entry of `allow` expects it.
    pub expected: Option<Expected>,
}

impl Ruling {
    /// Whether it is a regression that nobody expected.
    pub fn counts(&self) -> bool {
        self.verdict == Verdict::Regressed && self.expected.is_none_or(|expected| expected.has_expired)
    }
}

/// A figure of the candidate that is larger than it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The metric.
    pub metric: String,
    /// The row.
    pub row: usize,
    /// Of what.
    pub kind: BreachKind,
    /// The greatest figure of the runs.
    pub value: i64,
    /// The limit.
    pub limit: u64,
    /// Which entry of `allow` expects it.
    pub expected: Option<Expected>,
}

impl Breach {
    /// Whether nobody expected it.
    pub fn counts(&self) -> bool {
        self.expected.is_none_or(|expected| expected.has_expired)
    }
}

/// What was breached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreachKind {
    /// The upper limit.
    Limit,
    /// How much more it may be at `done` than at `start`.
    Leak,
}

/// A pair with what it refers to.
#[derive(Clone, Copy, Debug)]
pub struct PairView<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The rows.
    pub rows: &'a [Match],
    /// What is said of them.
    pub pair: &'a Pair,
    /// Which metrics cannot be compared.
    pub apart: &'a [IncomparableMetrics],
    /// The baseline.
    pub old: &'a Revision,
    /// The candidate.
    pub new: &'a Revision,
    /// What the baseline measured.
    pub baseline: &'a Side,
    /// What the candidate measured.
    pub candidate: &'a Side,
}

/// One metric's figures on both sides of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairColumn<'a> {
    /// The baseline's, if it has any.
    pub baseline: Option<Column<'a>>,
    /// The candidate's, if it has any.
    pub candidate: Option<Column<'a>>,
    /// Whether the two may be compared at all.
    pub comparability: Comparability,
}

/// Whether two sides' figures of a metric may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparability {
    /// They may.
    Comparable,
    /// They come from different sources.
    SourcesDiffer,
    /// They come from machines or builds on which they mean different things.
    Apart,
    /// A side has only what a run that did not pass had logged, or nothing.
    NotMeasured,
}

/// One metric at one row: what a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The baseline's figure.
    pub baseline: Option<Figure>,
    /// The candidate's figure.
    pub candidate: Option<Figure>,
    /// The difference, where both are there and may be compared.
    pub delta: Option<Delta>,
}

/// What changed from the baseline to the candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta {
    /// Candidate minus baseline, in the metric's unit.
    pub difference: i128,
    /// The difference in percent of the baseline; `None` where the baseline is not above zero.
    pub percent: Option<f64>,
}

impl Delta {
    /// From a baseline to a candidate.
    pub fn between(baseline: i64, candidate: i64) -> Self {
        let difference = i128::from(candidate) - i128::from(baseline);
        #[expect(clippy::cast_precision_loss, reason = "a percentage is for reading")]
        let percent = (baseline > 0).then(|| difference as f64 * 100.0 / baseline as f64);
        Self { difference, percent }
    }
}

impl Comparison {
    /// Every cell against every candidate, cell by cell.
    pub fn pairs(&self) -> impl Iterator<Item = PairView<'_>> {
        self.cells.iter().flat_map(|cell| cell.pairs.iter().map(|pair| self.view(cell, pair)))
    }

    /// A pair of one of the cells.
    pub fn view<'a>(&'a self, cell: &'a Cell, pair: &'a Pair) -> PairView<'a> {
        PairView {
            cell,
            rows: &pair.rows,
            pair,
            apart: self.apart.get(pair.candidate).map_or(&[], Vec::as_slice),
            old: &self.revisions[self.baseline],
            new: &self.revisions[pair.candidate],
            baseline: &cell.sides[self.baseline],
            candidate: &cell.sides[pair.candidate],
        }
    }

    /// The candidates' indices, in the order of the refs.
    pub fn candidates(&self) -> impl Iterator<Item = usize> {
        let baseline = self.baseline;
        (0..self.revisions.len()).filter(move |&revision| revision != baseline)
    }
}

impl<'a> PairView<'a> {
    /// Whether both sides have figures of runs that passed.
    pub fn is_compared(&self) -> bool {
        self.baseline.standing == Standing::Measured && self.candidate.standing == Standing::Measured
    }

    /// What became of a row's checkpoint; `None` where a side was not measured to its end, so that nothing can be said.
    pub fn change(&self, row: &Match) -> Option<Change> {
        self.is_compared().then(|| row.change(&self.baseline.keys, &self.candidate.keys))
    }

    /// Why a metric's figures of the two mean different things, if they do.
    pub fn why_apart(&self, metric: &str) -> Option<&'a IncomparableMetrics> {
        self.apart.iter().find(|apart| apart.is_about(metric))
    }

    /// One metric's figures.
    pub fn column(&self, metric: &str) -> PairColumn<'a> {
        let comparability = if !self.is_compared() {
            Comparability::NotMeasured
        } else if self.why_apart(metric).is_some() {
            Comparability::Apart
        } else if self.baseline.source(metric) == self.candidate.source(metric) {
            Comparability::Comparable
        } else {
            Comparability::SourcesDiffer
        };
        PairColumn {
            baseline: self.baseline.column(metric),
            candidate: self.candidate.column(metric),
            comparability,
        }
    }

    /// A metric's verdicts; `None` where it is not judged.
    pub fn judged(&self, metric: &str) -> Option<&'a JudgedMetric> {
        self.pair.judged.iter().find(|judged| judged.metric == metric)
    }

    /// What of a metric is larger than it may be.
    pub fn breaches(&self, metric: &str) -> impl Iterator<Item = &'a Breach> {
        self.pair.breaches.iter().filter(move |breach| breach.metric == metric)
    }

    /// Whether anything is judged at a row.
    pub fn is_judged(&self, row: &Match) -> bool {
        let mut breaches = self.pair.breaches.iter();
        self.pair.judged.iter().any(|judged| judged.at(row).is_some())
            || breaches.any(|breach| self.rows[breach.row] == *row)
    }

    /// The key that a row is shown under: the baseline's where it has one.
    pub fn key(&self, row: &Match) -> Key {
        match (row.baseline, row.candidate) {
            (Some(old), _) => self.baseline.keys[old],
            (None, Some(new)) => self.candidate.keys[new],
            (None, None) => unreachable!("a row is of a checkpoint"),
        }
    }

    /// The candidate's key where the row is a renamed one.
    pub fn new_key(&self, row: &Match) -> Option<Key> {
        let renamed = self.change(row) == Some(Change::Renamed);
        row.candidate.filter(|_| renamed).map(|new| self.candidate.keys[new])
    }
}

impl PairColumn<'_> {
    /// The metric at a row.
    pub fn entry(&self, row: &Match) -> Entry {
        let figure = |column: Option<Column>, index: Option<usize>| column?.figure(index?);
        let baseline = figure(self.baseline, row.baseline);
        let candidate = figure(self.candidate, row.candidate);
        let delta = match (baseline, candidate, self.comparability) {
            (Some(old), Some(new), Comparability::Comparable) => Some(Delta::between(old.value, new.value)),
            _ => None,
        };
        Entry { baseline, candidate, delta }
    }
}

/// For each checkpoint of a run, the one before it that a difference can be taken to: points follow points, and a scope
/// holds a difference already.
pub fn previous_points(keys: &[Key]) -> Vec<Option<usize>> {
    let mut last = None;
    let previous = keys.iter().enumerate().map(|(index, key)| match key.kind {
        Kind::Point => last.replace(index),
        Kind::Scope | Kind::Call => None,
    });
    previous.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percentage_needs_something_to_be_a_part_of() {
        assert_eq!(Delta::between(200, 250), Delta { difference: 50, percent: Some(25.0) });
        assert_eq!(Delta::between(0, 250), Delta { difference: 250, percent: None });
        assert_eq!(Delta::between(-4, 4), Delta { difference: 8, percent: None });
    }

    #[test]
    fn scopes_are_stepped_over_on_the_way_to_the_previous_checkpoint() {
        let point = Key { label: 0, occurrence: 1, kind: Kind::Point };
        let scope = Key { kind: Kind::Scope, ..point };
        assert_eq!(previous_points(&[point, scope, point, point]), [None, None, Some(0), Some(2)]);
    }

    proptest! {
        #[test]
        fn the_other_way_round_a_delta_is_its_opposite(old: i64, new: i64) {
            prop_assert_eq!(Delta::between(old, new).difference, -Delta::between(new, old).difference);
        }
    }
}
