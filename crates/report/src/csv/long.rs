//! `csv`, or `csv=long`: one raw value per row, in bytes, nanoseconds or counts, for every run.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::csv::cell_columns::CellColumns;
use crate::csv::text::cell;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::measurement::{Checkpoint, Kind, said_of};
use memprof_judge::results::stored::Run;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels;

/// The columns before those of the parameters. Scripts rely on them.
pub(crate) const COLUMNS: [&str; 15] = [
    "ref",
    "revision",
    "test",
    "name",
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
    "clock",
];

/// Writes all values of all runs. A run without values gets a row with empty last fields, so that
/// its outcome is not lost. So does an executable that cannot be measured, and a package whose tests did not
/// run because their code is the same.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(out);
    let columns = CellColumns::new(comparison);
    writer.write_record(COLUMNS.into_iter().map(str::to_owned).chain(columns.param_headings()))?;
    for run in &comparison.runs {
        write_run(comparison, &columns, run, &mut writer)?;
    }
    for (revision, executable) in &comparison.not_measured {
        let revision = &comparison.revisions[*revision];
        let [name, commit] = [&revision.name, &revision.commit].map(|text| cell(text));
        let executable = executable.to_string();
        let head = [&*name, &commit, &cell(&executable), "", "", "0", "not_measured"];
        write_empty(head, &columns.no_params(), &mut writer)?;
    }
    for one in &comparison.same_code {
        let package = format!("{} ({})", one.package, counted(one.tests, "test"));
        write_empty(["", "", &cell(&package), "", "", "0", "same_code"], &columns.no_params(), &mut writer)?;
    }
    // A failed build has a row of its own if no test shows it.
    for revision in comparison.failed_builds.keys().filter(|_| comparison.cells.is_empty()) {
        let revision = &comparison.revisions[*revision];
        let [name, commit] = [&revision.name, &revision.commit].map(|text| cell(text));
        write_empty([&*name, &commit, "", "", "", "0", "build_failed"], &columns.no_params(), &mut writer)?;
    }
    writer.flush()
}

fn write_run(
    comparison: &Comparison,
    cell_columns: &CellColumns,
    run: &Run,
    writer: &mut csv::Writer<&mut dyn Write>,
) -> io::Result<()> {
    let revision = &comparison.revisions[run.record.revision];
    let id = &run.record.cell;
    let test = id.full_name();
    let params: Vec<String> = id.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let params = params.join(";");
    let [of, commit, test, name, params] =
        [&revision.name, &revision.commit, &test, &id.title, &params].map(|text| cell(text));
    let repeat = run.record.repeat.to_string();
    let outcome = run.record.outcome.status.as_str();
    let values_of_params = cell_columns.param_values(id);
    let head = [&*of, &*commit, &*test, &*name, &*params, &repeat, outcome];
    let measurement = &*run.measurement;
    let columns: Vec<_> = measurement
        .metrics()
        .iter()
        .map(|metric| {
            let source = said_of(&measurement.sources, metric).map_or("", String::as_str);
            (cell(metric), Unit::of_metric(metric).as_str(), cell(source))
        })
        .collect();
    let mut is_empty = true;
    let mut record = csv::ByteRecord::new();
    for (index, checkpoint) in measurement.checkpoints().iter().enumerate() {
        let label = cell(&label(measurement.label(checkpoint), checkpoint)).into_owned();
        let clock = clock(measurement.began, checkpoint);
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
            record.push_field(clock.as_bytes());
            for value in &values_of_params {
                record.push_field(value.as_bytes());
            }
            writer.write_byte_record(&record)?;
        }
    }
    if is_empty {
        write_empty(head, &values_of_params, writer)?;
    }
    Ok(())
}

/// Writes a row without a value.
fn write_empty(
    head: [&str; 7],
    params: &[String],
    writer: &mut csv::Writer<&mut dyn Write>,
) -> io::Result<()> {
    let empty = std::iter::repeat_n("", COLUMNS.len() - head.len());
    Ok(writer.write_record(head.into_iter().chain(empty).chain(params.iter().map(String::as_str)))?)
}

/// Returns when a checkpoint was logged, by the clock on the wall; empty if the log does not say.
fn clock(began: Option<u64>, checkpoint: &Checkpoint) -> String {
    let nanoseconds = began.map(|began| i128::from(began) + i128::from(checkpoint.nanoseconds));
    let time = nanoseconds.and_then(|nanoseconds| jiff::Timestamp::from_nanosecond(nanoseconds).ok());
    time.map_or_else(String::new, |time| format!("{time:.6}"))
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

fn push_number(record: &mut csv::ByteRecord, number: impl itoa::Integer) {
    record.push_field(itoa::Buffer::new().format(number).as_bytes());
}
