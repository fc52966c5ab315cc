//! A table with one row per thing, and one column per figure and ref.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};

use crate::csv::text::cell;
use memprof_judge::compare::comparison::{Comparability, Comparison, Delta, PairView};

/// A value of a column.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Number(i64),
    Text(String),
}

/// Ends the name of a figure that is the largest of a single call.
pub(super) const MOST: &str = ".most";

/// Returns a percentage with four digits after the point, which sorts and computes well.
pub(super) fn percent(delta: &Delta) -> String {
    delta.percent.map_or_else(String::new, |percent| format!("{percent:.4}"))
}

/// The values of a row, by column and revision.
type Values = BTreeMap<(usize, usize), Field>;

/// The table as it grows.
pub(super) struct Pivot<'a> {
    comparison: &'a Comparison,
    /// The headings of the keys.
    keys: Vec<String>,
    /// Names of figures, in the order in which they first occur.
    columns: IndexSet<String>,
    /// By key. The cell's index tells how the figures compare.
    rows: IndexMap<(usize, Vec<String>), Values>,
}

impl<'a> Pivot<'a> {
    pub(super) fn new(comparison: &'a Comparison, keys: Vec<String>) -> Self {
        Self { comparison, keys, columns: IndexSet::new(), rows: IndexMap::new() }
    }

    /// Adds figures of a revision to the row with this key.
    pub(super) fn add(
        &mut self,
        cell: usize,
        key: Vec<String>,
        revision: usize,
        fields: impl IntoIterator<Item = (String, Field)>,
    ) {
        let row = self.rows.entry((cell, key)).or_default();
        for (column, field) in fields {
            let column = self.columns.insert_full(column).0;
            row.insert((column, revision), field);
        }
    }

    /// Writes the table: the keys, then for each figure a column per ref, and the candidates'
    /// differences.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        let names: Vec<&str> =
            self.comparison.revisions.iter().map(|revision| revision.name.as_str()).collect();
        let mut head: Vec<String> = self.keys.clone();
        let numeric: Vec<bool> = (0..self.columns.len()).map(|column| self.is_numeric(column)).collect();
        for (column, name) in self.columns.iter().enumerate() {
            head.extend(names.iter().map(|of| format!("{name}:{of}")));
            if numeric[column] {
                let of = self.comparison.candidates().map(|candidate| names[candidate]);
                head.extend(of.flat_map(|of| ["delta", "percent"].map(|part| format!("{name}:{of}:{part}"))));
            }
        }
        writer.write_record(head.iter().map(|heading| cell(heading).into_owned()))?;
        for ((number, key), values) in &self.rows {
            let mut record: Vec<String> = key.iter().map(|text| cell(text).into_owned()).collect();
            for (column, is_numeric) in numeric.iter().enumerate() {
                record.extend((0..names.len()).map(|revision| shown(values.get(&(column, revision)))));
                if *is_numeric {
                    for candidate in self.comparison.candidates() {
                        record.extend(self.difference(*number, values, column, candidate));
                    }
                }
            }
            writer.write_record(record)?;
        }
        writer.flush()
    }

    fn is_numeric(&self, column: usize) -> bool {
        let mut all = self.rows.values().flatten();
        all.any(|((of, _), field)| *of == column && matches!(field, Field::Number(_)))
    }

    /// Returns a difference and its percentage; both are empty if the figures may not be compared.
    fn difference(&self, cell: usize, values: &Values, column: usize, candidate: usize) -> [String; 2] {
        let of = |revision| match values.get(&(column, revision)) {
            Some(Field::Number(value)) => Some(*value),
            _ => None,
        };
        let cell = &self.comparison.cells[cell];
        let pair = cell.pairs.iter().find(|pair| pair.candidate == candidate);
        let view: Option<PairView> = pair.map(|pair| self.comparison.view(cell, pair));
        let metric = self.columns[column].strip_suffix(MOST).unwrap_or(&self.columns[column]);
        let is_comparable =
            view.is_some_and(|view| view.column(metric).comparability == Comparability::Comparable);
        match of(self.comparison.baseline).zip(of(candidate)).filter(|_| is_comparable) {
            Some((old, new)) => {
                let delta = Delta::between(old, new);
                [delta.difference.to_string(), percent(&delta)]
            }
            None => [String::new(), String::new()],
        }
    }
}

fn shown(field: Option<&Field>) -> String {
    match field {
        Some(Field::Number(value)) => value.to_string(),
        Some(Field::Text(text)) => cell(text).into_owned(),
        None => String::new(),
    }
}
