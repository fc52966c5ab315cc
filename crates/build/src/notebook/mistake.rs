//! What in a notebook cannot be translated: the cell, the line in it, and what to write instead.

use memprof_support::user_error::UserError;

/// A place in a notebook that cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The cell's number among the code cells, from 1.
    pub cell: usize,
    /// The line in the cell, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl Mistake {
    /// Returns the error about this place of the notebook with this name.
    pub(crate) fn in_notebook(self, name: &str) -> UserError {
        let Self { cell, line, what, instead } = self;
        UserError::new(format!("{name}: cell {cell}, line {line}: {what}")).help(instead)
    }
}
