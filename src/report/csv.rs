//! CSV: one raw value per row, in bytes, nanoseconds or counts, for every run.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::compare::comparison::Comparison;
use crate::plan::metric::Unit;
use crate::results::measurement::{Checkpoint, Kind, said_of};
use crate::results::stored::Run;
use crate::support::labels;

/// The columns. Scripts rely on them.
pub const COLUMNS: [&str; 13] = [
    "ref",
    "revision",
    "test",
    "params",
    "repeat",
    "outcome",
    "sequence",
    "checkpoint",
    "occurrence",
    "metric",
    "unit",
    "value",
    "source",
];

/// Writes all values of all runs. A run without values gets a row with empty last fields, so that
/// its outcome is not lost. So does an executable that cannot be measured.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(out);
    writer.write_record(COLUMNS)?;
    for run in &comparison.runs {
        write_run(comparison, run, &mut writer)?;
    }
    for (revision, executable) in &comparison.not_measured {
        let revision = &comparison.revisions[*revision];
        let executable = executable.to_string();
        write_empty([&revision.name, &revision.commit, &executable, "", "0", "not_measured"], &mut writer)?;
    }
    writer.flush()
}

fn write_run(comparison: &Comparison, run: &Run, writer: &mut csv::Writer<&mut dyn Write>) -> io::Result<()> {
    let revision = &comparison.revisions[run.record.revision];
    let id = &run.record.cell;
    let test = id.test.to_string();
    let params: Vec<String> = id.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let params = params.join(";");
    let [name, commit, test, params] =
        [&revision.name, &revision.commit, &test, &params].map(|text| cell(text));
    let repeat = run.record.repeat.to_string();
    let outcome = run.record.outcome.status.as_str();
    let head = [&*name, &*commit, &*test, &*params, &repeat, outcome];
    let measurement = &*run.measurement;
    let columns: Vec<_> = measurement
        .metrics()
        .iter()
        .map(|metric| {
            let source = said_of(&measurement.sources, metric).map_or("", String::as_str);
            (cell(metric), Unit::of(metric).as_str(), cell(source))
        })
        .collect();
    let mut is_empty = true;
    let mut record = csv::ByteRecord::new();
    for (index, checkpoint) in measurement.checkpoints().iter().enumerate() {
        let label = cell(&label(measurement.label(checkpoint), checkpoint)).into_owned();
        for (column, (metric, unit, source)) in columns.iter().enumerate() {
            let Some(value) = measurement.reading(column, index) else { continue };
            is_empty = false;
            record.clear();
            for field in head {
                record.push_field(field.as_bytes());
            }
            push_number(&mut record, checkpoint.sequence);
            record.push_field(label.as_bytes());
            push_number(&mut record, checkpoint.occurrence);
            record.push_field(metric.as_bytes());
            record.push_field(unit.as_bytes());
            push_number(&mut record, value);
            record.push_field(source.as_bytes());
            writer.write_byte_record(&record)?;
        }
    }
    if is_empty {
        write_empty(head, writer)?;
    }
    Ok(())
}

/// Writes a row with empty last fields.
fn write_empty(head: [&str; 6], writer: &mut csv::Writer<&mut dyn Write>) -> io::Result<()> {
    let empty = std::iter::repeat_n("", COLUMNS.len() - head.len());
    Ok(writer.write_record(head.into_iter().chain(empty))?)
}

/// Marks the labels of scopes and calls: a checkpoint may have the same label.
fn label<'a>(label: &'a str, checkpoint: &Checkpoint) -> Cow<'a, str> {
    let label = labels::whole(label);
    match checkpoint.kind {
        Kind::Point => label,
        Kind::Scope => format!("{label} (scope)").into(),
        Kind::Call => format!("{label} (call)").into(),
    }
}

/// Returns a text for a cell. Characters that do not show are replaced, and an apostrophe precedes
/// what a spreadsheet would compute. Numbers stay numbers. An apostrophe gets another one, so
/// whoever drops the first has the text again.
pub(in crate::report) fn cell(text: &str) -> Cow<'_, str> {
    let shown = if text.contains('\t') {
        Cow::Owned(labels::one_line(&text.replace('\t', "␉")).into_owned())
    } else {
        labels::one_line(text)
    };
    let begins_formula = ['=', '+', '-', '@', '\'', '＝', '＋', '－', '＠'];
    if shown.trim_start().starts_with(begins_formula) && !is_number(&shown) {
        return Cow::Owned(format!("'{shown}"));
    }
    shown
}

fn is_number(text: &str) -> bool {
    let is_of_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    text.bytes().all(is_of_number) && text.parse::<f64>().is_ok()
}

fn push_number(record: &mut csv::ByteRecord, number: impl itoa::Integer) {
    record.push_field(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe_and_a_number_none() {
        let guarded =
            ["=1+1", "+cmd|'/c calc'!A1", "-a", "@SUM(A1)", "'quoted'", " =1", "－1", "-inf", "--5"];
        for text in guarded {
            assert_eq!(cell(text), format!("'{text}"));
        }
        for text in ["-5", "+2.5e3", "5", "done", "a=b", "layer-1", ""] {
            assert_eq!(cell(text), text);
        }
    }

    #[test]
    fn nothing_in_a_cell_acts_or_hides() {
        assert_eq!(cell("\t=1"), "␉=1");
        assert_eq!(cell("\r=1"), "␍=1");
        assert_eq!(cell("a\u{1b}[31m\n::error::\u{200b}"), "a␛[31m↵::error::<U+200B>");
    }
}
