//! The columns that say which cell a row is about: test, name, and each parameter.

use indexmap::IndexSet;

use crate::csv::text::cell;
use memprof_judge::compare::comparison::Comparison;
use memprof_plan::resolved::CellId;

/// `test` and `name`, then the parameters of all tests of a comparison, in the order in which they
/// first occur.
pub(super) struct CellColumns {
    params: Vec<String>,
}

impl CellColumns {
    pub(super) fn new(comparison: &Comparison) -> Self {
        let cells = comparison.cells.iter().map(|cell| &cell.id);
        let runs = comparison.runs.iter().map(|run| &run.record.cell);
        let names: IndexSet<&String> =
            cells.chain(runs).flat_map(|id| &id.params).map(|(name, _)| name).collect();
        Self { params: names.into_iter().cloned().collect() }
    }

    /// Returns the headings of all columns.
    pub(super) fn headings(&self) -> Vec<String> {
        ["test", "name"].map(str::to_owned).into_iter().chain(self.param_headings()).collect()
    }

    /// Returns the test, the cell's name and its parameters. Two entries of `memprof.yaml` may run
    /// one test under two names.
    pub(super) fn values(&self, id: &CellId) -> Vec<String> {
        let names = [id.full_name(), id.title.clone()].map(|name| cell(&name).into_owned());
        names.into_iter().chain(self.param_values(id)).collect()
    }

    /// Returns the values for something that is no test, such as an executable.
    pub(super) fn only_test(&self, test: &str) -> Vec<String> {
        let mut values = vec![cell(test).into_owned()];
        values.resize(2 + self.params.len(), String::new());
        values
    }

    /// Returns `param.batch` for each parameter. A plain name could be that of another column.
    pub(super) fn param_headings(&self) -> impl Iterator<Item = String> + '_ {
        self.params.iter().map(|name| cell(&format!("param.{name}")).into_owned())
    }

    /// Returns a test's values; empty for a parameter that it does not have.
    pub(super) fn param_values(&self, id: &CellId) -> Vec<String> {
        let value = |name: &String| id.params.iter().find(|(known, _)| known == name);
        self.params
            .iter()
            .map(|name| value(name).map_or_else(String::new, |(_, value)| cell(value).into_owned()))
            .collect()
    }

    /// Returns empty values.
    pub(super) fn no_params(&self) -> Vec<String> {
        vec![String::new(); self.params.len()]
    }
}
