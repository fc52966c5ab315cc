//! `csv=calls` and `csv=lines`: a row per traced function, and a row per traced line.

use std::io::{self, Write};

use crate::csv::cell_columns::CellColumns;
use crate::csv::pivot::{Field, MOST, Pivot};
use crate::trace::calls::trace_side;
use memprof_judge::compare::comparison::{Cell, Comparison};
use memprof_judge::compare::trace_comparison::{CallFigures, LineFigures, TraceSide, calls, lines};
use memprof_judge::results::trace_record::LineRecord;

/// Writes a row for each traced function and the callers through which it was reached.
pub(crate) fn render_calls(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let cells = CellColumns::new(comparison);
    let mut table = Pivot::new(comparison, headings(&cells, &["function", "callers", "depth", "apart"]));
    for (number, cell) in comparison.cells.iter().enumerate() {
        for (revisions, sides) in compared_sides(comparison, cell) {
            let mut callers: Vec<String> = Vec::new();
            for row in calls(&sides) {
                callers.truncate(row.depth);
                let mut key = cells.values(&cell.id);
                let above = if row.elsewhere { "unknown".to_owned() } else { callers.join(" > ") };
                let apart = row.apart.clone().unwrap_or_default();
                let name =
                    if apart.is_empty() { row.label.clone() } else { format!("{} ({apart})", row.label) };
                key.extend([row.label.clone(), above, row.depth.to_string(), apart]);
                for (revision, figures) in revisions.iter().zip(&row.sides) {
                    let fields = figures.iter().flat_map(of_calls);
                    table.add(number, key.clone(), *revision, fields);
                }
                callers.push(name);
            }
        }
    }
    table.write(out)
}

/// Writes a row for each line of a traced function that ran.
pub(crate) fn render_lines(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let cells = CellColumns::new(comparison);
    let of_calls = |line: &LineRecord| line.call.is_some();
    let is_per_call = comparison.runs.iter().any(|run| run.measurement.trace.lines.iter().any(of_calls));
    let keys = ["function", "at", "row", "text", "call"];
    let keys = if is_per_call { &keys[..] } else { &keys[..4] };
    let mut table = Pivot::new(comparison, headings(&cells, keys));
    for (number, cell) in comparison.cells.iter().enumerate() {
        for (revisions, sides) in compared_sides(comparison, cell) {
            for profile in lines(&sides) {
                let files = profile.at.each_ref().map(|at| at.as_ref().and_then(|at| at.rsplit_once(':')));
                for row in &profile.rows {
                    // A line is known by its number in the baseline, or in the only ref that has it.
                    let id = match &row.sides {
                        [Some((line, _)), _] => line.to_string(),
                        [None, Some((line, _))] => {
                            format!("+{line} {}", comparison.revisions[revisions[1]].name)
                        }
                        [None, None] => continue,
                    };
                    let mut key = cells.values(&cell.id);
                    let at = profile.at.iter().flatten().next().cloned().unwrap_or_default();
                    key.extend([profile.label.clone(), at, id, row.text.clone()]);
                    key.extend(
                        is_per_call.then(|| profile.call.map_or_else(String::new, |call| call.to_string())),
                    );
                    for (side, revision) in revisions.iter().enumerate() {
                        let Some((line, Some(figures))) = &row.sides[side] else { continue };
                        let place = files[side].map(|(file, _)| format!("{file}:{line}")).unwrap_or_default();
                        table.add(number, key.clone(), *revision, of_line(place, figures));
                    }
                }
            }
        }
    }
    table.write(out)
}

/// Returns each pair's sides with their revisions, or those of a single revision.
fn compared_sides<'a>(comparison: &'a Comparison, cell: &'a Cell) -> Vec<(Vec<usize>, [TraceSide<'a>; 2])> {
    let side =
        |revision: usize| trace_side(comparison, &cell.sides[revision], &comparison.revisions[revision].name);
    let baseline = comparison.baseline;
    if cell.alone.is_some() {
        return vec![(vec![0], [side(0), TraceSide::default()])];
    }
    let pair = |candidate: usize| (vec![baseline, candidate], [side(baseline), side(candidate)]);
    cell.pairs.iter().map(|pair_of| pair(pair_of.candidate)).collect()
}

fn headings(cells: &CellColumns, keys: &[&str]) -> Vec<String> {
    cells.headings().into_iter().chain(keys.iter().map(|key| (*key).to_owned())).collect()
}

fn of_calls(figures: &CallFigures) -> Vec<(String, Field)> {
    let CallFigures { calls, recursive, open, overlapped, sums, most } = figures;
    let counts = [("calls", calls), ("recursive", recursive), ("open", open), ("overlapped", overlapped)];
    let counts = counts.into_iter().map(|(name, value)| (name.to_owned(), *value));
    // Peaks of several calls do not add up.
    let sums = sums.iter().filter(|(name, _)| !name.ends_with(".peaked"));
    let sums = sums.map(|(name, value)| (name.clone(), *value));
    let most = most.iter().map(|(name, value)| (format!("{name}{MOST}"), *value));
    counts.chain(sums).chain(most).map(|(name, value)| (name, Field::Number(value))).collect()
}

fn of_line(place: String, figures: &LineFigures) -> Vec<(String, Field)> {
    let fields = [("place", Field::Text(place)), ("times", Field::Number(figures.times))];
    let metrics = figures.metrics.iter().map(|(name, value)| (name.clone(), Field::Number(*value)));
    fields.into_iter().map(|(name, field)| (name.to_owned(), field)).chain(metrics).collect()
}
