//! The rows of the JSON report: each checkpoint at all refs, with a metric's figures and verdicts.

use std::borrow::Cow;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::json::schema::{ByRef, JudgementEntry, ReadingEntry, RowEntry, RunRecordParts, reason};
use memprof_judge::compare::aggregate::{Aggregate, Availability, Column};
use memprof_judge::compare::comparison::{
    Cell, Comparison, Metric, PairColumn, PairView, RowFigures, Ruling, previous_points,
};
use memprof_judge::compare::matching::{Key, Match, RowChange};

/// A checkpoint at all refs.
pub(crate) struct AlignedCheckpoint {
    pub(crate) key: Key,
    /// By revision: its index on that side.
    pub(crate) indices: Vec<Option<usize>>,
    pub(crate) change: Option<RowChange>,
}

impl AlignedCheckpoint {
    fn new(key: Key, revisions: usize) -> Self {
        Self { key, indices: vec![None; revisions], change: None }
    }
}

/// Aligns the checkpoints of all refs: the baseline's in order, added ones after their predecessor.
pub(crate) fn aligned(comparison: &Comparison, cell: &Cell) -> Vec<AlignedCheckpoint> {
    let mut alignment = Alignment::new(comparison, cell);
    for pair in &cell.pairs {
        alignment.add(&comparison.view(cell, pair));
    }
    alignment.into_order()
}

/// The checkpoints aligned so far.
struct Alignment {
    revisions: usize,
    of_baseline: Vec<AlignedCheckpoint>,
    /// Added checkpoints, by the number of the baseline's checkpoints before them.
    added: FxHashMap<usize, Vec<AlignedCheckpoint>>,
    /// The index in `added`, by the number of the baseline's checkpoints before it and by key.
    known: FxHashMap<(usize, Key), usize>,
}

impl Alignment {
    fn new(comparison: &Comparison, cell: &Cell) -> Self {
        let (revisions, baseline) = (comparison.revisions.len(), comparison.baseline);
        let of_baseline = cell.sides[baseline].keys.iter().enumerate().map(|(index, key)| {
            let mut checkpoint = AlignedCheckpoint::new(*key, revisions);
            checkpoint.indices[baseline] = Some(index);
            checkpoint
        });
        Self {
            revisions,
            of_baseline: of_baseline.collect(),
            added: FxHashMap::default(),
            known: FxHashMap::default(),
        }
    }

    fn add(&mut self, view: &PairView) {
        let mut before = 0;
        for row in view.rows {
            let checkpoint = if let Some(old) = row.baseline {
                before = old + 1;
                &mut self.of_baseline[old]
            } else {
                self.added_checkpoint(before, view.key(row), view.pair.candidate)
            };
            checkpoint.indices[view.pair.candidate] = row.candidate;
            let change = view.change(row);
            // A checkpoint that only some candidates lack is not removed.
            if checkpoint.change.is_none()
                || (checkpoint.change == Some(RowChange::Removed) && change.is_some())
            {
                checkpoint.change = change;
            }
        }
    }

    /// Returns the added checkpoint with this key at this place, or a new one.
    fn added_checkpoint(&mut self, before: usize, key: Key, candidate: usize) -> &mut AlignedCheckpoint {
        let here = self.added.entry(before).or_default();
        let index = self.known.get(&(before, key)).copied();
        let index = index.filter(|&index| here[index].indices[candidate].is_none()).unwrap_or_else(|| {
            here.push(AlignedCheckpoint::new(key, self.revisions));
            here.len() - 1
        });
        self.known.insert((before, key), index);
        &mut here[index]
    }

    fn into_order(mut self) -> Vec<AlignedCheckpoint> {
        let mut checkpoints = self.added.remove(&0).unwrap_or_default();
        for (index, checkpoint) in self.of_baseline.into_iter().enumerate() {
            checkpoints.push(checkpoint);
            checkpoints.extend(self.added.remove(&(index + 1)).into_iter().flatten());
        }
        checkpoints
    }
}

/// Writes a cell's rows.
pub(crate) struct CellRows<'a> {
    comparison: &'a Comparison,
    cell: &'a Cell,
    views: Vec<(usize, PairView<'a>)>,
    previous: Vec<Vec<Option<usize>>>,
    parts: RunRecordParts<'a>,
}

impl<'a> CellRows<'a> {
    pub(crate) fn new(comparison: &'a Comparison, cell: &'a Cell) -> Self {
        let views = cell.pairs.iter().map(|pair| (pair.candidate, comparison.view(cell, pair))).collect();
        let previous = cell.sides.iter().map(|side| previous_points(&side.keys)).collect();
        Self { comparison, cell, views, previous, parts: RunRecordParts::for_cell(&cell.id) }
    }

    /// Writes the rows, each on a line of its own.
    pub(crate) fn write(&self, separator: &mut &str, out: &mut dyn Write) -> io::Result<()> {
        let metrics: Vec<MetricColumns> =
            self.comparison.metrics.iter().filter_map(|metric| MetricColumns::new(self, metric)).collect();
        // The serializer writes every bracket on its own, so collect a row before writing it.
        let mut line = Vec::new();
        for checkpoint in aligned(self.comparison, self.cell) {
            for columns in &metrics {
                let row = self.row(&checkpoint, columns);
                // Points and scopes have different metrics.
                if row.values.values().all(Option::is_none) {
                    continue;
                }
                line.clear();
                line.extend_from_slice(separator.as_bytes());
                serde_json::to_writer(&mut line, &row)?;
                out.write_all(&line)?;
                *separator = ",\n";
            }
        }
        Ok(())
    }

    fn row(&self, checkpoint: &AlignedCheckpoint, columns: &MetricColumns<'a>) -> RowEntry<'_> {
        let mut row = RowEntry {
            test: (&self.parts.test).into(),
            title: (&self.parts.title).into(),
            params: self.parts.params.clone(),
            checkpoint: self.label(checkpoint.key),
            occurrence: checkpoint.key.occurrence,
            kind: checkpoint.key.kind,
            change: checkpoint.change,
            renamed: ByRef::default(),
            metric: (&columns.metric.name).into(),
            unit: columns.metric.unit,
            values: ByRef::default(),
            absent: ByRef::default(),
            delta: ByRef::default(),
            percent: ByRef::default(),
            compared: ByRef::default(),
            judged: ByRef::default(),
        };
        self.add_values(&mut row, checkpoint, columns);
        self.add_differences(&mut row, checkpoint, columns);
        row
    }

    /// Adds the figure of each ref, or why it is unavailable.
    fn add_values<'r>(
        &'r self,
        row: &mut RowEntry<'r>,
        checkpoint: &AlignedCheckpoint,
        columns: &MetricColumns<'a>,
    ) {
        for (index, (revision, side)) in self.comparison.revisions.iter().zip(&self.cell.sides).enumerate() {
            let name = Cow::Borrowed(&*revision.name);
            let reading = self.reading(checkpoint, columns, index);
            if reading.is_none() {
                row.absent.insert(name.clone(), self.reason(checkpoint, columns, side, index));
            }
            let key = checkpoint.indices[index].map(|at| side.keys[at]);
            if let Some(key) = key.filter(|key| key.label != checkpoint.key.label) {
                row.renamed.insert(name.clone(), self.label(key));
            }
            row.values.insert(name, reading);
        }
    }

    /// Adds the difference and the verdict of each candidate.
    fn add_differences<'r>(
        &'r self,
        row: &mut RowEntry<'r>,
        checkpoint: &AlignedCheckpoint,
        columns: &MetricColumns<'a>,
    ) {
        for ((candidate, view), pair_column) in self.views.iter().zip(&columns.pairs) {
            let at = Match {
                baseline: checkpoint.indices[self.comparison.baseline],
                candidate: checkpoint.indices[*candidate],
            };
            let name = Cow::Borrowed(&*view.new.name);
            let own = [self.comparison.baseline, *candidate]
                .map(|revision| Some(columns.sides[revision]?.figure(checkpoint.indices[revision]?)?.value));
            let RowFigures { baseline, candidate, delta } = pair_column.at(&at);
            if let (Some(old), Some(new)) = (baseline, candidate)
                && own != [Some(old.value), Some(new.value)]
            {
                row.compared.insert(name.clone(), [old.value, new.value]);
            }
            row.delta.insert(name.clone(), delta.map(|delta| delta.difference));
            row.percent.insert(name.clone(), delta.and_then(|delta| delta.percent));
            let ruling = view.judged(&columns.metric.name).and_then(|judged| judged.at(&at));
            row.judged.extend(ruling.map(|ruling| (name, self.judgement(ruling))));
        }
    }

    fn label(&self, key: Key) -> Cow<'_, str> {
        Cow::Borrowed(&*self.cell.labels[key.label as usize])
    }

    fn judgement(&self, ruling: Ruling) -> JudgementEntry<'a> {
        let significance = ruling.significance;
        let bounds = significance.filter(|significance| significance.low > i128::from(i64::MIN));
        JudgementEntry {
            verdict: ruling.verdict,
            exact: significance.is_some_and(|significance| significance.exact),
            change: significance.map(|significance| significance.change),
            low: bounds.map(|significance| significance.low),
            high: bounds.map(|significance| significance.high),
            limit: significance.map(|significance| significance.limit),
            limit_raised: significance.is_some_and(|significance| significance.is_raised),
            kept: ruling.is_kept,
            expected: reason(self.comparison, ruling.expected).map(Cow::from),
        }
    }

    fn reading(
        &self,
        checkpoint: &AlignedCheckpoint,
        columns: &MetricColumns<'a>,
        revision: usize,
    ) -> Option<ReadingEntry<'a>> {
        let at = checkpoint.indices[revision]?;
        let column = columns.sides[revision]?;
        let figure = column.figure(at)?;
        let previous = self.previous[revision][at].and_then(|previous| column.figure(previous));
        let side = &self.cell.sides[revision];
        Some(ReadingEntry {
            value: figure.value,
            min: figure.min,
            max: figure.max,
            runs: figure.runs,
            exact: figure.is_exact(),
            previous_delta: previous.map(|previous| i128::from(figure.value) - i128::from(previous.value)),
            source: side.source(&columns.metric.name).map(Cow::from),
            cut_off: side.availability == Availability::CutOff,
        })
    }

    fn reason(
        &self,
        checkpoint: &AlignedCheckpoint,
        columns: &MetricColumns,
        side: &'a Aggregate,
        revision: usize,
    ) -> Cow<'a, str> {
        let failed = || side.failed.first().and_then(|&run| self.comparison.runs[run].trouble());
        match (side.availability, checkpoint.indices[revision]) {
            (Availability::Missing, _) => failed().unwrap_or_else(|| "not run".to_owned()).into(),
            (Availability::CutOff, None) => {
                failed().map_or("not reached".into(), |how| format!("not reached: {how}").into())
            }
            (Availability::Measured, None) => "no such checkpoint".into(),
            (_, Some(_)) => {
                let reason = side.why_absent(&columns.metric.name);
                reason.map_or("not read at this checkpoint".into(), Cow::from)
            }
        }
    }
}

/// A metric's columns, looked up once for all rows.
struct MetricColumns<'a> {
    metric: &'a Metric,
    /// By revision.
    sides: Vec<Option<Column<'a>>>,
    /// In the order of the cell's pairs.
    pairs: Vec<PairColumn<'a>>,
}

impl<'a> MetricColumns<'a> {
    /// Returns `None` if no side of the cell has figures of the metric.
    fn new(rows: &CellRows<'a>, metric: &'a Metric) -> Option<Self> {
        let sides: Vec<_> = rows.cell.sides.iter().map(|side| side.column(&metric.name)).collect();
        let pairs = rows.views.iter().map(|(_, view)| view.column(&metric.name)).collect();
        sides.iter().any(Option::is_some).then_some(Self { metric, sides, pairs })
    }
}
