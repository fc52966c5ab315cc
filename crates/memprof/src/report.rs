//! A report from inside the program. Without `cargo memprof`, there is nothing to report.

use std::fmt;

use crate::shared::figure::NOT_MEASURED;

/// The figures so far, as text: the result of [`report`](crate::report). `{}` shows it.
pub struct Report(());

impl Report {
    pub(crate) const fn new() -> Self {
        Self(())
    }

    /// Shows the report in a notebook. evcxr calls it for the last expression of a cell.
    pub fn evcxr_display(&self) {
        println!("{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NOT_MEASURED)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
