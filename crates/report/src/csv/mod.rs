//! CSV: raw values one by one, or tables of checkpoints, scopes, calls, lines, tensors, layers and call stacks.
//! Writes to the writer that it is given; changes nothing else.

pub(crate) mod causes;
mod cell_columns;
pub(crate) mod checkpoints;
pub(crate) mod layers;
pub(crate) mod long;
pub(crate) mod owners;
mod pivot;
pub(crate) mod sites;
pub(crate) mod tensors;
pub(crate) mod text;
pub(crate) mod threads;
pub(crate) mod traced;

use std::collections::HashMap;

use crate::titles;
use memprof_judge::compare::comparison::Comparison;

/// Returns each test's full name by its title, which may depend on the tests beside it.
fn full_names(comparison: &Comparison) -> HashMap<String, String> {
    let cells = comparison.cells.iter();
    cells.map(|cell| (titles::distinct_title(cell), cell.id.full_name())).collect()
}
