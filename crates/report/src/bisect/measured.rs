//! The list of commits that a search measured, similar to `git log`: for a terminal, as markdown
//! and as CSV.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::csv::text::cell;
use crate::markdown_text::escape_but_hashes;
use crate::options::Options;
use crate::text::{NONE, difference, figure, percent};
use memprof_judge::compare::comparison::Delta;
use memprof_run::bisect::report_data::{MeasuredCommit, SearchReport};
use memprof_support::labels::{cut, one_line, width};

/// The columns of the CSV. Scripts rely on them.
pub(crate) const COLUMNS: [&str; 19] = [
    "commit",
    "date",
    "author",
    "subject",
    "tag",
    "metric",
    "unit",
    "value",
    "min",
    "max",
    "runs",
    "skipped",
    "compared_with",
    "difference",
    "step",
    "seconds",
    "test",
    "name",
    "params",
];

/// The least width of the column of subjects.
const LEAST_SUBJECT: usize = 12;

/// Writes one commit of one test per row, with raw figures.
pub(crate) fn csv<'a>(
    reports: impl Iterator<Item = &'a SearchReport>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for report in reports {
        rows(report, &mut writer)?;
    }
    writer.flush()
}

fn rows<W: Write>(report: &SearchReport, writer: &mut csv::Writer<W>) -> io::Result<()> {
    let params: Vec<String> = report.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    for commit in &report.measured {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let facts = &commit.facts;
        let difference = commit.difference.map(|difference| difference.to_string()).unwrap_or_default();
        writer.write_record([
            facts.commit.as_str(),
            &facts.date,
            &cell(&facts.author),
            &cell(&facts.subject),
            &cell(commit.tag.as_deref().unwrap_or_default()),
            &cell(&report.query.metric),
            report.unit.as_str(),
            &number(commit.value),
            &number(commit.samples.iter().copied().min()),
            &number(commit.samples.iter().copied().max()),
            &commit.samples.len().to_string(),
            &cell(commit.skipped.as_deref().unwrap_or_default()),
            commit.compared_with.as_deref().unwrap_or_default(),
            &difference,
            if commit.is_step { "true" } else { "false" },
            &commit.seconds.map(|seconds| format!("{seconds:.3}")).unwrap_or_default(),
            &cell(&report.test),
            &cell(&report.title),
            &cell(&params.join(" ")),
        ])?;
    }
    Ok(())
}

/// Returns the cells of a row: mark, commit, day, figure, difference, percentage, and subject or
/// reason.
fn row(report: &SearchReport, commit: &MeasuredCommit) -> [String; 7] {
    let unit = report.unit;
    let delta = commit.value.zip(commit.difference).and_then(|(value, difference)| {
        let before = i64::try_from(i128::from(value) - difference).ok()?;
        Some(Delta::between(before, value))
    });
    // `~5` marks a median of five runs that differ.
    let varied = commit.samples.iter().any(|sample| *sample != commit.samples[0]);
    let value = commit.value.map_or(NONE.to_owned(), |value| figure(value, unit));
    let runs = if varied { format!("{value} ~{}", commit.samples.len()) } else { value };
    let subject = one_line(&commit.facts.subject);
    let text = match (&commit.skipped, &commit.tag) {
        (Some(reason), _) => format!("skipped: {}", one_line(reason)),
        (None, Some(tag)) => format!("{tag} · {subject}"),
        (None, None) => subject.into_owned(),
    };
    [
        if commit.is_step { "*" } else { "" }.to_owned(),
        commit.facts.short().to_owned(),
        commit.facts.day().to_owned(),
        runs,
        delta.map_or(String::new(), |delta| difference(delta.difference, unit)),
        delta.map_or(String::new(), |delta| percent(&delta)),
        text,
    ]
}

fn headings(report: &SearchReport) -> [String; 7] {
    let delta = if report.result.is_some() { format!("Δ to {}", report.good.name) } else { "Δ".to_owned() };
    ["", "commit", "date", &report.query.metric, &delta, "Δ %", "subject"].map(str::to_owned)
}

/// Writes a table that fits the terminal. Subjects are cut.
pub(crate) fn table(report: &SearchReport, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![headings(report)];
    rows.extend(report.measured.iter().map(|commit| row(report, commit)));
    let mut widths = [0; 7];
    for row in &rows {
        for (column, text) in row.iter().enumerate() {
            widths[column] = widths[column].max(width(text));
        }
    }
    let total = options.width.unwrap_or(100);
    let before: usize = widths[..6].iter().map(|width| width + 2).sum();
    let room = total.saturating_sub(before + 1).max(LEAST_SUBJECT);
    for row in &rows {
        let mut line = String::new();
        for (column, text) in row.iter().enumerate().take(6) {
            let space = " ".repeat(widths[column] - width(text));
            // Figures are right-aligned.
            let (left, right) = if column >= 3 { (&*space, "") } else { ("", &*space) };
            _ = write!(line, "{left}{text}{right}  ");
        }
        line.push_str(&cut(&row[6], room));
        writeln!(out, " {}", line.trim_end())?;
    }
    Ok(())
}

/// Writes a markdown table.
pub(crate) fn markdown(report: &SearchReport, out: &mut dyn Write) -> io::Result<()> {
    let line = |row: [String; 7]| {
        format!("| {} |", row.iter().map(|text| escape_but_hashes(text)).collect::<Vec<_>>().join(" | "))
    };
    writeln!(out, "{}", line(headings(report)))?;
    writeln!(out, "| --- | --- | --- | ---: | ---: | ---: | --- |")?;
    for commit in &report.measured {
        writeln!(out, "{}", line(row(report, commit)))?;
    }
    Ok(())
}
