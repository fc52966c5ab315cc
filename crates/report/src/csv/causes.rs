//! `csv=causes`: a row per cause, test, and metric that it moves there.

use std::io::{self, Write};

use crate::causes::json::{CauseEntry, CausesReport};
use crate::causes::sheet::CauseSheet;
use crate::csv::text::cell;
use crate::options::Options;
use memprof_judge::compare::comparison::Comparison;

/// The columns.
const HEADINGS: [&str; 16] = [
    "ref",
    "cause",
    "kind",
    "effect",
    "path",
    "line",
    "function",
    "text",
    "test",
    "main",
    "recorded",
    "metric",
    "checkpoint",
    "occurrence",
    "amount",
    "difference",
];

/// Writes the causes, numbered, the worst of each ref first.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let report = CausesReport::new(comparison, &CauseSheet::new(comparison, options));
    let mut table = csv::Writer::from_writer(out);
    table.write_record(HEADINGS)?;
    for (index, entry) in report.entries.iter().enumerate() {
        let CauseEntry { r#ref, kind, effect, path, line, function, text, .. } = entry;
        for test in &entry.tests {
            for moved in &test.moved {
                let fields = [
                    r#ref.clone(),
                    (index + 1).to_string(),
                    kind.clone(),
                    effect.clone(),
                    path.clone().unwrap_or_default(),
                    line.map(|line| line.to_string()).unwrap_or_default(),
                    function.clone(),
                    text.clone(),
                    test.test.clone(),
                    test.is_main.to_string(),
                    test.is_recorded.to_string(),
                    moved.metric.clone(),
                    moved.checkpoint.clone(),
                    moved.occurrence.to_string(),
                    moved.amount.to_string(),
                    moved.difference.to_string(),
                ];
                table.write_record(fields.iter().map(|field| cell(field).into_owned()))?;
            }
        }
    }
    table.flush()
}
