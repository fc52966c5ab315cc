//! `--view top`: the checkpoints that grew most, from the baseline to a candidate and from one checkpoint to the next.

use std::io::{self, Write};

use crate::compare::aggregate::Availability;
use crate::compare::comparison::{Cell, Comparison, Delta, previous_points};
use crate::plan::metric::Unit;
use crate::report::options::Options;
use crate::report::page::{CompactLine, Page, Text, Tone};
use crate::report::selection::MetricFilter;
use crate::report::summary;
use crate::report::text;

/// How many are shown of each list, unless all rows are asked for.
const MOST: usize = 10;

/// A figure that grew.
struct GrownFigure {
    test: String,
    checkpoint: String,
    before: i64,
    after: i64,
}

/// Writes two lists for each metric shown and each revision: what grew against the baseline, if there is one, and what grew
/// from the checkpoint before.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let wanted = MetricFilter::new(options);
    let several = comparison.cells.len() > 1;
    let metrics = wanted.of_points(comparison);
    for metric in &metrics {
        for candidate in comparison.candidates() {
            let [old, new] = [comparison.baseline, candidate].map(|index| &comparison.revisions[index].name);
            let heading = format!("{}: grew most from {old} to {new}", metric.name);
            let growths = against_baseline(comparison, candidate, &metric.name);
            list(page, &heading, metric.unit, growths, several, options, out)?;
        }
    }
    for metric in &metrics {
        let revisions: Vec<usize> = match comparison.revisions.len() {
            1 => vec![0],
            _ => comparison.candidates().collect(),
        };
        for revision in revisions {
            let name = &comparison.revisions[revision].name;
            let heading = format!("{}: grew most from the checkpoint before, in {name}", metric.name);
            let growths = comparison.cells.iter().flat_map(|cell| steps(cell, revision, &metric.name));
            list(page, &heading, metric.unit, growths.collect(), several, options, out)?;
        }
    }
    page.foot(comparison, options, &wanted, None, 0, out)
}

fn against_baseline(comparison: &Comparison, candidate: usize, metric: &str) -> Vec<GrownFigure> {
    let pairs = comparison.cells.iter().flat_map(|cell| {
        let pairs = cell.pairs.iter().filter(|pair| pair.candidate == candidate);
        pairs.map(|pair| comparison.view(cell, pair))
    });
    let mut growths = Vec::new();
    for view in pairs {
        let column = view.column(metric);
        for row in view.rows {
            let entry = column.at(row);
            if let (Some(old), Some(new), Some(_)) = (entry.baseline, entry.candidate, entry.delta)
                && new.value > old.value
            {
                growths.push(GrownFigure {
                    test: summary::title(&view),
                    checkpoint: text::row_label(&view, row),
                    before: old.value,
                    after: new.value,
                });
            }
        }
    }
    growths
}

fn steps(cell: &Cell, revision: usize, metric: &str) -> Vec<GrownFigure> {
    let side = &cell.sides[revision];
    let Some(column) = side.column(metric).filter(|_| side.availability != Availability::Missing) else {
        return Vec::new();
    };
    let previous = previous_points(&side.keys);
    let growth = |(index, previous): (usize, &Option<usize>)| {
        let (before, after) = (column.figure((*previous)?)?.value, column.figure(index)?.value);
        let [from, to] = [(*previous)?, index].map(|at| side.keys[at].shown(&cell.labels));
        (after > before).then(|| GrownFigure {
            test: summary::distinct_title(cell),
            checkpoint: format!("{from} → {to}"),
            before,
            after,
        })
    };
    previous.iter().enumerate().filter_map(growth).collect()
}

fn list(
    page: Page,
    heading: &str,
    unit: Unit,
    mut growths: Vec<GrownFigure>,
    with_tests: bool,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    page.line(heading, "", Tone::Heading, out)?;
    if growths.is_empty() {
        page.line("nothing grew", " ", Tone::Quiet, out)?;
        return writeln!(out);
    }
    // Stable: of equal growths, the earlier one first.
    growths.sort_by_key(|growth| std::cmp::Reverse(i128::from(growth.after) - i128::from(growth.before)));
    let shown = if options.all_rows { growths.len() } else { MOST.min(growths.len()) };
    let lines: Vec<CompactLine> = growths[..shown]
        .iter()
        .map(|growth| {
            let delta = Delta::between(growth.before, growth.after);
            let figure = |value| Text::new(text::figure(value, unit), Tone::Plain);
            CompactLine {
                test: if with_tests { growth.test.clone() } else { String::new() },
                metric: String::new(),
                cells: [
                    figure(growth.before),
                    figure(growth.after),
                    Text::new(text::difference(delta.difference, unit), Tone::Growth),
                    Text::new(text::percent(&delta), Tone::Growth),
                ],
                at: Text::new(growth.checkpoint.clone(), Tone::Plain),
            }
        })
        .collect();
    page.compact(&lines, out)?;
    if shown < growths.len() {
        page.line(&format!("… {} more grew: --all-rows", growths.len() - shown), " ", Tone::Quiet, out)?;
    }
    writeln!(out)
}
