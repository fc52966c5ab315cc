//! One entry for every format of a comparison's report.

use std::io::{self, Write};

use crate::compare::comparison::Comparison;
use crate::report::csv;
use crate::report::json;
use crate::report::junit;
use crate::report::markdown;
use crate::report::options::{Format, Options, View};
use crate::report::scopes;
use crate::report::table;
use crate::report::tensors::totals;
use crate::report::top;

/// Writes the comparison in a form. The writer should be buffered; its errors, a broken pipe among them, are returned.
pub fn render(
    format: Format,
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => match options.view {
            View::Checkpoints => table::render(comparison, options, out),
            View::Scopes => scopes::render(comparison, options, out),
            View::Top => top::render(comparison, options, out),
            View::Tensors => totals::render_view(comparison, options, out),
        },
        Format::Markdown => markdown::render(comparison, options, out),
        Format::Csv => csv::render(comparison, out),
        Format::Json => json::render::render(comparison, out),
        Format::Junit => junit::render(comparison, out),
    }
}
