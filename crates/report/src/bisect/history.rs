//! The chart above the list of a history.

use std::io::{self, Write};

use crate::options::Options;
use crate::text::figure;
use memprof_run::bisect::chart::Chart;
use memprof_run::bisect::report_data::SearchReport;

/// The chart's height in lines, if there is one test.
pub(super) const HEIGHT: usize = 8;

/// Draws the figure by commit, with the steps marked.
pub(crate) fn chart(
    report: &SearchReport,
    height: usize,
    options: &Options,
    unicode: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let figures: Vec<Option<i64>> = report.measured.iter().map(|commit| commit.value).collect();
    let steps = report.measured.iter().enumerate().filter(|(_, commit)| commit.is_step);
    let marks: Vec<(usize, bool)> =
        steps.map(|(index, commit)| (index, commit.difference.unwrap_or_default() > 0)).collect();
    let unit = report.unit;
    let label = |value: i64| figure(value, unit);
    let chart = Chart {
        figures: &figures,
        marks: &marks,
        label: &label,
        width: options.width.unwrap_or(100),
        height,
        unicode,
    };
    let lines = chart.lines();
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    if lines.is_empty() { Ok(()) } else { writeln!(out) }
}
