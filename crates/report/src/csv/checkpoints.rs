//! `csv=wide` and `csv=scopes`: a row per checkpoint or scope, and columns per metric and ref.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::csv::cell_columns::CellColumns;
use crate::csv::pivot::percent;
use crate::csv::text::cell;
use crate::json::rows::{AlignedCheckpoint, aligned};
use crate::scopes::nestings;
use memprof_judge::compare::aggregate::{Column, Figure};
use memprof_judge::compare::comparison::{Cell, Comparison, Metric, PairColumn, PairView, previous_points};
use memprof_judge::compare::matching::{Key, Match, RowChange};
use memprof_judge::results::measurement::{Kind, Nesting};
use memprof_judge::results::outcome::Status;
use memprof_support::counted::counted;

/// What a file has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Checkpoints, each with the difference from the previous one too.
    Checkpoints,
    Scopes,
}

impl Rows {
    fn kind(self) -> Kind {
        match self {
            Self::Checkpoints => Kind::Point,
            Self::Scopes => Kind::Scope,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Checkpoints => "checkpoint",
            Self::Scopes => "scope",
        }
    }
}

/// Writes all checkpoints or scopes. A test without any has one row with its outcomes, and so does an
/// executable that cannot be measured, and a package whose tests did not run because their code is the same.
pub fn render(comparison: &Comparison, rows: Rows, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(comparison, rows, out);
    table.head()?;
    for cell in &comparison.cells {
        table.cell(cell)?;
    }
    for (revision, executable) in &comparison.not_measured {
        let mut record = table.cells.only_test(&executable.to_string());
        let outcome = |of| if of == *revision { "not_measured".to_owned() } else { String::new() };
        record.extend((0..comparison.revisions.len()).map(outcome));
        table.write(record)?;
    }
    for one in &comparison.same_code {
        let package = format!("{} ({})", one.package, counted(one.tests, "test"));
        let mut record = table.cells.only_test(&package);
        record.extend((0..comparison.revisions.len()).map(|_| "same_code".to_owned()));
        table.write(record)?;
    }
    table.writer.flush()
}

/// The file as it is written.
struct Table<'a, 'o> {
    comparison: &'a Comparison,
    rows: Rows,
    cells: CellColumns,
    /// The metrics with figures at such rows.
    metrics: Vec<&'a Metric>,
    columns: usize,
    writer: csv::Writer<&'o mut dyn Write>,
}

/// A metric's figures in a test.
struct MetricColumns<'a> {
    /// By revision.
    sides: Vec<Option<Column<'a>>>,
    /// By candidate, in the order of the refs.
    pairs: Vec<Option<PairColumn<'a>>>,
}

impl<'a, 'o> Table<'a, 'o> {
    fn new(comparison: &'a Comparison, rows: Rows, out: &'o mut dyn Write) -> Self {
        let has_figure = |metric: &&Metric| {
            comparison.cells.iter().flat_map(|cell| &cell.sides).any(|side| {
                let Some(column) = side.column(&metric.name) else { return false };
                let keys = side.keys.iter().enumerate();
                keys.filter(|(_, key)| key.kind == rows.kind()).any(|(at, _)| column.figure(at).is_some())
            })
        };
        let metrics = comparison.metrics.iter().filter(has_figure).collect();
        let writer = csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(out);
        Self { comparison, rows, cells: CellColumns::new(comparison), metrics, columns: 0, writer }
    }

    fn head(&mut self) -> io::Result<()> {
        let names: Vec<&str> =
            self.comparison.revisions.iter().map(|revision| revision.name.as_str()).collect();
        let mut head = self.cells.headings();
        head.extend(names.iter().map(|name| format!("outcome:{name}")));
        head.extend([self.rows.noun(), "occurrence", "change", "place"].map(str::to_owned));
        if self.rows == Rows::Scopes {
            head.push("depth".to_owned());
        }
        for metric in &self.metrics {
            head.extend(names.iter().map(|name| format!("{}:{name}", metric.name)));
            if self.rows == Rows::Checkpoints {
                head.extend(names.iter().map(|name| format!("{}:{name}:previous_delta", metric.name)));
            }
            for candidate in self.comparison.candidates() {
                let name = names[candidate];
                head.extend(["delta", "percent"].map(|part| format!("{}:{name}:{part}", metric.name)));
            }
        }
        self.columns = head.len();
        self.writer.write_record(head.iter().map(|heading| cell(heading).into_owned()))?;
        Ok(())
    }

    /// Writes a row, with empty fields at its end.
    fn write(&mut self, mut record: Vec<String>) -> io::Result<()> {
        record.resize(self.columns, String::new());
        Ok(self.writer.write_record(&record)?)
    }

    fn cell(&mut self, of: &'a Cell) -> io::Result<()> {
        let mut head = self.cells.values(&of.id);
        head.extend((0..of.sides.len()).map(|revision| self.outcome(of, revision)));
        let columns: Vec<MetricColumns> =
            self.metrics.iter().map(|metric| self.columns_of(of, &metric.name)).collect();
        let previous: Vec<Vec<Option<usize>>> =
            of.sides.iter().map(|side| previous_points(&side.keys)).collect();
        let is_tree = self.rows == Rows::Scopes;
        let nestings: Vec<FxHashMap<Key, Nesting>> = of
            .sides
            .iter()
            .filter(|_| is_tree)
            .map(|side| nestings(&self.comparison.runs, of, side))
            .collect();
        let mut is_empty = true;
        for row in aligned(self.comparison, of) {
            if row.key.kind != self.rows.kind() {
                continue;
            }
            is_empty = false;
            let mut record = head.clone();
            record.extend(self.about(of, &row, &nestings));
            for column in &columns {
                self.figures(column, &row, &previous, &mut record);
            }
            self.write(record)?;
        }
        if is_empty { self.write(head) } else { Ok(()) }
    }

    /// Returns the outcome of a revision's runs: the first that is not `ok`, if any.
    fn outcome(&self, of: &Cell, revision: usize) -> String {
        let side = &of.sides[revision];
        let runs = side.failed.iter().chain(&side.runs);
        let mut statuses = runs.map(|run| &self.comparison.runs[*run].record.outcome.status);
        statuses.next().map_or_else(String::new, |status: &Status| status.as_str().to_owned())
    }

    fn columns_of(&self, of: &'a Cell, metric: &str) -> MetricColumns<'a> {
        let view = |candidate| {
            let pair = of.pairs.iter().find(|pair| pair.candidate == candidate)?;
            Some(self.comparison.view(of, pair))
        };
        let pairs = self.comparison.candidates();
        MetricColumns {
            sides: of.sides.iter().map(|side| side.column(metric)).collect(),
            pairs: pairs.map(|candidate| view(candidate).map(|view: PairView| view.column(metric))).collect(),
        }
    }

    /// Returns the columns before the figures: label, occurrence, change, place.
    fn about(&self, of: &Cell, row: &AlignedCheckpoint, nestings: &[FxHashMap<Key, Nesting>]) -> Vec<String> {
        let label = &of.labels[row.key.label as usize];
        let change = match row.change {
            Some(RowChange::Matched) => "matched",
            Some(RowChange::Added) => "added",
            Some(RowChange::Removed) => "removed",
            Some(RowChange::Renamed) => "renamed",
            None => "",
        };
        let sides = || of.sides.iter().zip(&row.indices);
        let mut places = sides().filter_map(|(side, at)| side.place((*at)?));
        let place = places.next_back().unwrap_or_default();
        let mut about = vec![cell(label).into_owned(), row.key.occurrence.to_string()];
        about.extend([change.to_owned(), cell(place).into_owned()]);
        if self.rows == Rows::Scopes {
            let mut depths = sides().zip(nestings).filter_map(|((side, at), nestings)| {
                let nesting: &Nesting = nestings.get(&side.keys[(*at)?])?;
                Some(nesting.depth)
            });
            about.push(depths.next_back().map_or_else(String::new, |depth| depth.to_string()));
        }
        about
    }

    /// Adds a metric's columns.
    fn figures(
        &self,
        columns: &MetricColumns,
        row: &AlignedCheckpoint,
        previous: &[Vec<Option<usize>>],
        record: &mut Vec<String>,
    ) {
        let figure = |revision: usize| columns.sides[revision]?.figure(row.indices[revision]?);
        let shown = |value: Option<i128>| value.map_or_else(String::new, |value| value.to_string());
        let value = |figure: Figure| i128::from(figure.value);
        let revisions = 0..columns.sides.len();
        record.extend(revisions.clone().map(|revision| shown(figure(revision).map(value))));
        if self.rows == Rows::Checkpoints {
            let since = |revision: usize| {
                let before = previous[revision][row.indices[revision]?]?;
                Some(value(figure(revision)?) - value(columns.sides[revision]?.figure(before)?))
            };
            record.extend(revisions.map(|revision| shown(since(revision))));
        }
        for (candidate, column) in self.comparison.candidates().zip(&columns.pairs) {
            let at =
                Match { baseline: row.indices[self.comparison.baseline], candidate: row.indices[candidate] };
            let delta = column.as_ref().and_then(|column| column.at(&at).delta);
            record.push(shown(delta.map(|delta| delta.difference)));
            record.push(delta.as_ref().map_or_else(String::new, percent));
        }
    }
}
