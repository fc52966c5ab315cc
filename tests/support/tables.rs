//! CSV files as tables.

use std::collections::BTreeMap;

use memprof_judge::compare::comparison::Comparison;
use memprof_report::options::{Format, Options};

/// The rows of a report as maps from heading to field. Every row has as many fields as there are different
/// headings.
pub fn table(format: Format, comparison: &Comparison) -> Vec<BTreeMap<String, String>> {
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, &Options::default(), &mut out).unwrap();
    let mut reader = csv::Reader::from_reader(out.as_slice());
    let heads: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows = reader.records().map(|row| {
        // The reader refuses a row of another length.
        let row = row.unwrap();
        heads.iter().cloned().zip(row.iter().map(str::to_owned)).collect::<BTreeMap<_, _>>()
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == heads.len()), "a heading is there twice: {heads:?}");
    rows
}
