//! The call sites of a comparison's tests, as each format shows them.

use std::io::{self, Write};

use crate::compare::comparison::{Comparison, PairView};
use crate::report::options::Options;
use crate::report::page::{Page, Tone};
use crate::report::titles;
use crate::report::why::json::{VERSION, WhyReport, WhyRow};
use crate::report::why::text::Sites;
use crate::report::why::{markdown, text};
use crate::support::labels::one_line;
use crate::why::explanations::{Explained, ExplainedRow, Explanations};

/// Call sites on a terminal, of a row.
const MOST_IN_TEXT: usize = 3;
/// Call sites in markdown, of a row.
const MOST_IN_MARKDOWN: usize = 5;

/// Writes the call sites of a test below its table.
pub fn write_text(view: &PairView<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some((why, test)) = of(view, options) else { return Ok(()) };
    let page = Page::new(options);
    // With one revision, there is a row for each peak, and for what is kept.
    let is_alone = test.recorded[0].is_none();
    for row in test.rows.iter().take(if is_alone { usize::MAX } else { 1 }) {
        writeln!(out)?;
        let sites = sites(view, row, why, MOST_IN_TEXT);
        if is_alone {
            text::figure_of_one(&row.difference, &sites, options, out)?;
        } else {
            text::difference(&row.difference, &sites, options, out)?;
        }
    }
    for remark in &test.remarks {
        page.line(&format!("why: {}", one_line(remark)), "", Tone::Quiet, out)?;
    }
    Ok(())
}

/// Returns the call sites of a test in markdown; empty if it has none.
pub fn markdown(view: &PairView<'_>, options: &Options) -> String {
    let Some((why, test)) = of(view, options) else { return String::new() };
    let mut text = String::new();
    if let Some(row) = test.rows.first() {
        text.push_str(&markdown::table(&row.difference, &sites(view, row, why, MOST_IN_MARKDOWN)));
    }
    for remark in &test.remarks {
        text.push_str(&format!("\n{}\n", crate::report::markdown_text::escape(&one_line(remark))));
    }
    text
}

/// Returns all call sites, for JSON.
pub fn report(comparison: &Comparison, why: &Explanations) -> WhyReport {
    let mut rows = Vec::new();
    for test in &why.tests {
        let Some(cell) = comparison.cells.iter().find(|cell| cell.id == test.cell) else { continue };
        let names =
            [comparison.baseline, test.candidate].map(|index| comparison.revisions[index].name.as_str());
        let title = titles::distinct_title(cell);
        rows.extend(test.rows.iter().map(|row| WhyRow::new(&title, names, &row.difference, row.agreements)));
    }
    WhyReport { schema: VERSION, rows }
}

fn of<'a>(view: &PairView<'_>, options: &'a Options) -> Option<(&'a Explanations, &'a Explained)> {
    let why = options.why.as_deref()?;
    Some((why, why.of(view)?))
}

fn sites<'a>(view: &PairView<'a>, row: &ExplainedRow, why: &Explanations, most: usize) -> Sites<'a> {
    let agreements = row.agreements.iter().flatten().copied().collect();
    Sites { candidate: &view.new.name, most, frames: why.frames, agreements }
}
