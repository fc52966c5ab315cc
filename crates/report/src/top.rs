//! `--view top`: the checkpoints that grew most, against the baseline and against the previous
//! checkpoint.

use std::cmp::Reverse;
use std::io::{self, Write};

use crate::frame::Foot;
use crate::options::Options;
use crate::page::{CompactLine, Page, Text, Tone};
use crate::selection::MetricFilter;
use crate::text;
use crate::titles;
use memprof_judge::compare::aggregate::Availability;
use memprof_judge::compare::comparison::{Cell, Comparison, Delta, previous_points};
use memprof_plan::metric::Unit;

/// The length of a list, without `--rows all`.
const MOST: usize = 10;

/// A figure that grew.
struct GrownFigure {
    test: String,
    checkpoint: String,
    before: i64,
    after: i64,
}

/// One list: what grew, under a heading.
struct GrowthList {
    heading: String,
    unit: Unit,
    grown: Vec<GrownFigure>,
    /// Whether lines name their test.
    has_several_tests: bool,
}

/// Writes two lists for each shown metric and each revision: the growth against the baseline, if
/// there is one, and the growth since the previous checkpoint.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let filter = MetricFilter::new(options);
    let has_several_tests = comparison.cells.len() > 1;
    page.reasons(comparison, options, out)?;
    let metrics = filter.of_points(comparison);
    for metric in &metrics {
        for candidate in comparison.candidates() {
            let [old, new] = [comparison.baseline, candidate].map(|index| &comparison.revisions[index].name);
            let heading = format!("{}: largest growth from {old} to {new}", metric.name);
            let grown = against_baseline(comparison, candidate, &metric.name);
            GrowthList { heading, unit: metric.unit, grown, has_several_tests }.write(page, options, out)?;
        }
    }
    for metric in &metrics {
        let revisions: Vec<usize> = match comparison.revisions.len() {
            1 => vec![0],
            _ => comparison.candidates().collect(),
        };
        for revision in revisions {
            let name = &comparison.revisions[revision].name;
            let heading = format!("{}: largest growth since the previous checkpoint, in {name}", metric.name);
            let cells = comparison.cells.iter();
            let grown = cells.flat_map(|cell| since_previous(cell, revision, &metric.name)).collect();
            GrowthList { heading, unit: metric.unit, grown, has_several_tests }.write(page, options, out)?;
        }
    }
    page.whole_troubles(comparison, out)?;
    Foot { comparison, options, filter: &filter, answers: &[], not_judged: None, remarks: Vec::new() }
        .write(page, out)
}

fn against_baseline(comparison: &Comparison, candidate: usize, metric: &str) -> Vec<GrownFigure> {
    let mut grown = Vec::new();
    for view in comparison.pairs().filter(|view| view.pair.candidate == candidate) {
        let column = view.column(metric);
        for row in view.rows {
            let figures = column.at(row);
            if let (Some(old), Some(new), Some(_)) = (figures.baseline, figures.candidate, figures.delta)
                && new.value > old.value
            {
                grown.push(GrownFigure {
                    test: titles::title(&view),
                    checkpoint: text::row_label(&view, row),
                    before: old.value,
                    after: new.value,
                });
            }
        }
    }
    grown
}

fn since_previous(cell: &Cell, revision: usize, metric: &str) -> Vec<GrownFigure> {
    let side = &cell.sides[revision];
    let Some(column) = side.column(metric).filter(|_| side.availability != Availability::Missing) else {
        return Vec::new();
    };
    let previous = previous_points(&side.keys);
    let grown = |(index, previous): (usize, &Option<usize>)| {
        let (before, after) = (column.figure((*previous)?)?.value, column.figure(index)?.value);
        let [from, to] = [(*previous)?, index].map(|at| side.keys[at].shown(&cell.labels));
        (after > before).then(|| GrownFigure {
            test: titles::distinct_title(cell),
            checkpoint: format!("{from} → {to}"),
            before,
            after,
        })
    };
    previous.iter().enumerate().filter_map(grown).collect()
}

impl GrowthList {
    fn write(mut self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        page.line(&self.heading, "", Tone::Heading, out)?;
        if self.grown.is_empty() {
            page.line("nothing grew", " ", Tone::Quiet, out)?;
            return writeln!(out);
        }
        // A stable sort: of equal growths, the earlier one comes first.
        self.grown.sort_by_key(|grown| Reverse(i128::from(grown.after) - i128::from(grown.before)));
        let all = self.grown.len();
        let shown = if options.all_rows() { all } else { MOST.min(all) };
        let lines: Vec<CompactLine> = self.grown[..shown].iter().map(|grown| self.line(grown)).collect();
        page.compact(&lines, out)?;
        if shown < all {
            page.line(&format!("… {} more grew: --rows all", all - shown), " ", Tone::Quiet, out)?;
        }
        writeln!(out)
    }

    fn line(&self, grown: &GrownFigure) -> CompactLine {
        let delta = Delta::between(grown.before, grown.after);
        CompactLine {
            test: if self.has_several_tests { grown.test.clone() } else { String::new() },
            metric: String::new(),
            cells: [
                Text::figure(Some(grown.before), self.unit),
                Text::figure(Some(grown.after), self.unit),
                Text::new(text::difference(delta.difference, self.unit), Tone::Growth),
                Text::new(text::percent(&delta), Tone::Growth),
            ],
            at: Text::new(grown.checkpoint.clone(), Tone::Plain),
        }
    }
}
