//! A proof as CSV: a row for each line of the report.

use std::io::{self, Write};

use crate::csv::text::cell;
use crate::proof::lines::{ProofLine, lines};
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_run::bisect::parts::record::HunkPlace;

/// The columns. Scripts rely on them.
const COLUMNS: [&str; 14] = [
    "kind",
    "difference",
    "unit",
    "proven",
    "path",
    "first_line",
    "last_line",
    "what",
    "note",
    "hunks",
    "metric",
    "test",
    "baseline",
    "candidate",
];

/// Writes the rows. Their differences add up to that of the commits.
pub(super) fn render(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    lines(report).iter().try_for_each(|line| writer.write_record(row(line, report)))?;
    writer.flush()
}

fn row(line: &ProofLine, report: &ProofReport) -> [String; 14] {
    let first = line.hunks.first().filter(|_| line.kind == "part");
    let [first_line, last_line] = first
        .and_then(|hunk| hunk.lines)
        .map_or([String::new(), String::new()], |lines| lines.map(|line| line.to_string()));
    let hunks: Vec<String> = line.hunks.iter().map(HunkPlace::shown).collect();
    let text = |text: &str| cell(text).into_owned();
    [
        line.kind.to_owned(),
        line.difference.to_string(),
        report.unit.as_str().to_owned(),
        line.is_proven.to_string(),
        text(first.map_or("", |hunk| &hunk.path)),
        first_line,
        last_line,
        text(&line.what),
        text(&line.note),
        text(&hunks.join(" ")),
        text(&report.query.metric),
        text(&report.test),
        report.baseline.facts.commit.clone(),
        report.candidate.facts.commit.clone(),
    ]
}
