//! `csv=causes`: a row per cause, test, and metric that it moves there.

use std::io::{self, Write};

use crate::causes::json::CauseEntry;
use crate::causes::sheet::CauseSheet;
use crate::csv::cell_columns::CellColumns;
use crate::csv::text::cell;
use crate::options::Options;
use memprof_judge::compare::comparison::Comparison;

/// The columns before those of the cell.
const OF_CAUSE: [&str; 8] = ["ref", "cause", "kind", "effect", "path", "line", "function", "text"];

/// The columns behind them.
const OF_TEST: [&str; 7] = ["main", "recorded", "metric", "checkpoint", "occurrence", "amount", "difference"];

/// Writes the causes, numbered, the worst of each ref first.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let sheet = CauseSheet::new(comparison, options);
    let cells = CellColumns::new(comparison);
    let mut table = csv::Writer::from_writer(out);
    let [before, behind] = [&OF_CAUSE[..], &OF_TEST].map(|names| names.iter().map(|name| (*name).to_owned()));
    table.write_record(before.chain(cells.headings()).chain(behind))?;
    let causes = comparison.candidates().flat_map(|candidate| sheet.all_causes_of(candidate));
    for (index, cause) in causes.enumerate() {
        let entry = CauseEntry::new(comparison, &cause);
        for (test, of) in entry.tests.iter().zip(&cause.cause.tests) {
            for moved in &test.moved {
                let CauseEntry { r#ref, kind, effect, path, line, function, text, .. } = &entry;
                let of_cause = [
                    r#ref.clone(),
                    (index + 1).to_string(),
                    kind.clone(),
                    effect.clone(),
                    path.clone().unwrap_or_default(),
                    line.map(|line| line.to_string()).unwrap_or_default(),
                    function.clone(),
                    text.clone(),
                ];
                let of_test = [
                    test.is_main.to_string(),
                    test.is_recorded.to_string(),
                    moved.metric.clone(),
                    moved.checkpoint.clone(),
                    moved.occurrence.to_string(),
                    moved.amount.to_string(),
                    moved.difference.to_string(),
                ];
                let [before, behind] = [&of_cause[..], &of_test]
                    .map(|fields| fields.iter().map(|field| cell(field).into_owned()));
                let of_cell = cells.values(&comparison.cells[of.cell].id);
                table.write_record(before.chain(of_cell).chain(behind))?;
            }
        }
    }
    table.flush()
}
