//! Renders a comparison in any format.

use std::io::{self, Write};

use crate::bencher;
use crate::csv;
use crate::csv::checkpoints::Rows;
use crate::gitlab;
use crate::html;
use crate::json;
use crate::junit;
use crate::markdown;
use crate::options::{Format, Options, View};
use crate::perfetto;
use crate::sarif;
use crate::scopes;
use crate::single::Single;
use crate::table;
use crate::tensors::view;
use crate::test_list::TestList;
use crate::top;
use memprof_judge::compare::comparison::Comparison;

/// Writes the comparison in a format. The writer should be buffered. Returns its errors, including
/// a broken pipe.
pub fn render(
    format: Format,
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let [revision] = comparison.revisions.as_slice() {
        let single = Single { comparison, revision };
        match (format, options.view) {
            (Format::Table, View::Checkpoints) if options.is_test => {
                return TestList { single: &single, options }.write(out);
            }
            (Format::Table, View::Checkpoints) => return single.table(options, out),
            (Format::Markdown, _) => return single.markdown(options, out),
            _ => {}
        }
    }
    match format {
        Format::Table => match options.view {
            View::Checkpoints => table::render(comparison, options, out),
            View::Scopes => scopes::render(comparison, options, out),
            View::Top => top::render(comparison, options, out),
            View::Tensors => view::render_view(comparison, options, out),
        },
        Format::Markdown => markdown::render(comparison, options, out),
        Format::Html => html::render(comparison, options, out),
        Format::Csv => csv::long::render(comparison, out),
        Format::CsvWide => csv::checkpoints::render(comparison, Rows::Checkpoints, out),
        Format::CsvScopes => csv::checkpoints::render(comparison, Rows::Scopes, out),
        Format::CsvCalls => csv::traced::render_calls(comparison, out),
        Format::CsvLines => csv::traced::render_lines(comparison, out),
        Format::CsvTensors => csv::tensors::render(comparison, out),
        Format::CsvLayers => csv::layers::render(comparison, out),
        Format::CsvCauses => csv::causes::render(comparison, options, out),
        Format::CsvSites => csv::sites::render(comparison, options, out),
        Format::CsvOwners => csv::owners::render(comparison, options, out),
        Format::CsvThreads => csv::threads::render(comparison, options, out),
        Format::Bencher => bencher::render(comparison, out),
        Format::Gitlab => gitlab::render(comparison, options, out),
        Format::Sarif => sarif::render(comparison, options, out),
        Format::Json => json::render::render(comparison, options.why.as_deref(), options.proof.as_ref(), out),
        Format::Perfetto => perfetto::render(comparison, out),
        Format::Junit => junit::render(comparison, options, out),
        Format::Pprof | Format::Dhat | Format::Folded => {
            Err(io::Error::other("call sites are written to files of their own"))
        }
    }
}
