//! The rows of the JSON report: each checkpoint at all refs, with what is known of a metric at each of them.

use std::borrow::Cow;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::compare::aggregate::{Aggregate, Availability, Column};
use crate::compare::comparison::{Cell, Comparison, Metric, PairColumn, PairView, Ruling, previous_points};
use crate::compare::matching::{Key, RowChange};
use crate::report::json::schema::{
    ByRef, ChangeName, JudgementEntry, KindName, ReadingEntry, RowEntry, RunRecordParts, reason,
};
use crate::results::measurement::Kind;

/// A checkpoint at all refs.
struct AlignedCheckpoint {
    key: Key,
    /// By revision: its index on that side.
    indices: Vec<Option<usize>>,
    change: Option<RowChange>,
}

/// All candidates' rows put together: the baseline's checkpoints in order, what was added after its predecessor.
fn places(comparison: &Comparison, cell: &Cell) -> Vec<AlignedCheckpoint> {
    let baseline = comparison.baseline;
    let new_place =
        |key| AlignedCheckpoint { key, indices: vec![None; comparison.revisions.len()], change: None };
    let mut spine: Vec<AlignedCheckpoint> =
        cell.sides[baseline].keys.iter().map(|key| new_place(*key)).collect();
    for (index, place) in spine.iter_mut().enumerate() {
        place.indices[baseline] = Some(index);
    }
    // By how many of the baseline's checkpoints come before.
    let mut added: FxHashMap<usize, Vec<AlignedCheckpoint>> = FxHashMap::default();
    let mut known: FxHashMap<(usize, Key), usize> = FxHashMap::default();
    for pair in &cell.pairs {
        let view = comparison.view(cell, pair);
        let mut before = 0;
        for row in view.rows {
            let place = if let Some(old) = row.baseline {
                before = old + 1;
                &mut spine[old]
            } else {
                let key = view.key(row);
                let here = added.entry(before).or_default();
                let index = known.get(&(before, key)).copied();
                let index = index.filter(|&index| here[index].indices[pair.candidate].is_none());
                let index = index.unwrap_or_else(|| {
                    here.push(new_place(key));
                    here.len() - 1
                });
                known.insert((before, key), index);
                &mut here[index]
            };
            place.indices[pair.candidate] = row.candidate;
            let change = view.change(row);
            // A checkpoint that one candidate lacks is not removed as long as another has it.
            if place.change.is_none() || (place.change == Some(RowChange::Removed) && change.is_some()) {
                place.change = change;
            }
        }
    }
    let mut places = added.remove(&0).unwrap_or_default();
    for (index, place) in spine.into_iter().enumerate() {
        places.push(place);
        places.extend(added.remove(&(index + 1)).into_iter().flatten());
    }
    places
}

/// What is needed to write a cell's rows.
pub(in crate::report) struct CellRows<'a> {
    comparison: &'a Comparison,
    cell: &'a Cell,
    views: Vec<(usize, PairView<'a>)>,
    previous: Vec<Vec<Option<usize>>>,
    parts: RunRecordParts<'a>,
}

impl<'a> CellRows<'a> {
    pub(in crate::report) fn new(comparison: &'a Comparison, cell: &'a Cell) -> Self {
        let views = cell.pairs.iter().map(|pair| (pair.candidate, comparison.view(cell, pair))).collect();
        let previous = cell.sides.iter().map(|side| previous_points(&side.keys)).collect();
        Self { comparison, cell, views, previous, parts: RunRecordParts::of(&cell.id) }
    }

    /// Writes them, each on a line of its own.
    pub(in crate::report) fn write(&self, separator: &mut &str, out: &mut dyn Write) -> io::Result<()> {
        let metrics: Vec<MetricColumns> =
            self.comparison.metrics.iter().filter_map(|metric| MetricColumns::new(self, metric)).collect();
        // A row is put together in memory, because the serializer writes every bracket and comma on its own.
        let mut line = Vec::new();
        for place in places(self.comparison, self.cell) {
            for columns in &metrics {
                let row = self.row(&place, columns);
                // Points and scopes have metrics of their own.
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

    fn row(&self, place: &AlignedCheckpoint, columns: &MetricColumns<'a>) -> RowEntry<'_> {
        let label = |key: Key| Cow::Borrowed(&*self.cell.labels[key.label as usize]);
        let mut row = RowEntry {
            test: (&self.parts.test).into(),
            params: self.parts.params.clone(),
            checkpoint: label(place.key),
            occurrence: place.key.occurrence,
            kind: match place.key.kind {
                Kind::Point => KindName::Point,
                Kind::Scope => KindName::Scope,
                Kind::Call => KindName::Call,
            },
            change: place.change.map(ChangeName::from),
            renamed: ByRef::default(),
            metric: (&columns.metric.name).into(),
            unit: columns.metric.unit,
            values: ByRef::default(),
            absent: ByRef::default(),
            delta: ByRef::default(),
            percent: ByRef::default(),
            judged: ByRef::default(),
        };
        for (index, (revision, side)) in self.comparison.revisions.iter().zip(&self.cell.sides).enumerate() {
            let name = Cow::Borrowed(&*revision.name);
            let reading = self.reading(place, columns, index);
            if reading.is_none() {
                row.absent.insert(name.clone(), self.reason(place, columns, side, index));
            }
            let key = place.indices[index].map(|at| side.keys[at]).filter(|key| key.label != place.key.label);
            if let Some(key) = key {
                row.renamed.insert(name.clone(), label(key));
            }
            row.values.insert(name, reading);
        }
        for ((candidate, view), pair_column) in self.views.iter().zip(&columns.pairs) {
            let at = crate::compare::matching::Match {
                baseline: place.indices[self.comparison.baseline],
                candidate: place.indices[*candidate],
            };
            let delta = pair_column.at(&at).delta;
            let name = Cow::Borrowed(&*view.new.name);
            row.delta.insert(name.clone(), delta.map(|delta| delta.difference));
            row.percent.insert(name.clone(), delta.and_then(|delta| delta.percent));
            let ruling = view.judged(&columns.metric.name).and_then(|judged| judged.at(&at));
            row.judged.extend(ruling.map(|ruling| (name, self.significance(ruling))));
        }
        row
    }

    fn significance(&self, ruling: Ruling) -> JudgementEntry<'a> {
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
            expected: reason(self.comparison, ruling.expected).map(Cow::from),
        }
    }

    fn reading(
        &self,
        place: &AlignedCheckpoint,
        columns: &MetricColumns<'a>,
        revision: usize,
    ) -> Option<ReadingEntry<'a>> {
        let at = place.indices[revision]?;
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
        place: &AlignedCheckpoint,
        columns: &MetricColumns,
        side: &'a Aggregate,
        revision: usize,
    ) -> Cow<'a, str> {
        let failed = || side.failed.first().and_then(|&run| self.comparison.runs[run].trouble());
        match (side.availability, place.indices[revision]) {
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

/// A metric's figures, looked up once for all rows.
struct MetricColumns<'a> {
    metric: &'a Metric,
    /// By revision.
    sides: Vec<Option<Column<'a>>>,
    /// In the order of the cell's pairs.
    pairs: Vec<PairColumn<'a>>,
}

impl<'a> MetricColumns<'a> {
    /// `None` if no side of the cell has figures of the metric.
    fn new(rows: &CellRows<'a>, metric: &'a Metric) -> Option<Self> {
        let sides: Vec<_> = rows.cell.sides.iter().map(|side| side.column(&metric.name)).collect();
        let pairs = rows.views.iter().map(|(_, view)| view.column(&metric.name)).collect();
        sides.iter().any(Option::is_some).then_some(Self { metric, sides, pairs })
    }
}
