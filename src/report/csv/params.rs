//! A column for each parameter.

use indexmap::IndexSet;

use crate::compare::comparison::Comparison;
use crate::plan::resolved::CellId;
use crate::report::csv::text::cell;

/// The parameters of all tests of a comparison, in the order in which they first occur.
pub(super) struct ParamColumns(Vec<String>);

impl ParamColumns {
    pub(super) fn of(comparison: &Comparison) -> Self {
        let cells = comparison.cells.iter().map(|cell| &cell.id);
        let runs = comparison.runs.iter().map(|run| &run.record.cell);
        let names: IndexSet<&String> =
            cells.chain(runs).flat_map(|id| &id.params).map(|(name, _)| name).collect();
        Self(names.into_iter().cloned().collect())
    }

    /// Returns `param.batch` for each parameter. A plain name could be that of another column.
    pub(super) fn headings(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|name| cell(&format!("param.{name}")).into_owned())
    }

    /// Returns a test's values; empty for a parameter that it does not have.
    pub(super) fn values(&self, id: &CellId) -> Vec<String> {
        let value = |name: &String| id.params.iter().find(|(known, _)| known == name);
        self.0
            .iter()
            .map(|name| value(name).map_or_else(String::new, |(_, value)| cell(value).into_owned()))
            .collect()
    }

    /// Returns empty values.
    pub(super) fn none(&self) -> Vec<String> {
        vec![String::new(); self.0.len()]
    }
}
