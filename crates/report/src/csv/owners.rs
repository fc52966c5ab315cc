//! `csv=owners`: a row per owner of memory, by `--why-by owner`.

use std::io::{self, Write};

use crate::csv::text::cell;
use crate::options::Options;
use crate::why::explained;
use memprof_judge::compare::comparison::Comparison;

/// The columns.
const HEADINGS: [&str; 14] = [
    "test",
    "ref",
    "metric",
    "checkpoint",
    "occurrence",
    "name",
    "type",
    "made_in",
    "location",
    "root",
    "held_by",
    "baseline",
    "candidate",
    "difference",
];

/// Writes the owners of each test, those with the largest difference first.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(HEADINGS)?;
    let report = options.why.as_deref().map(|why| explained::report(comparison, why));
    for held in report.iter().flat_map(|report| &report.held) {
        for owner in &held.owners {
            let side = |is_there: bool, side: usize| is_there.then(|| owner.bytes[side].to_string());
            let fields = [
                held.test.clone(),
                held.r#ref.clone(),
                held.metric.clone(),
                held.checkpoint.clone(),
                held.occurrence.to_string(),
                owner.name.clone(),
                owner.r#type.clone().unwrap_or_default(),
                owner.made_in.clone().unwrap_or_default(),
                owner.location.clone().unwrap_or_default(),
                owner.root.clone(),
                owner.held_by.clone(),
                side(held.baseline.is_some(), 0).unwrap_or_default(),
                side(held.candidate.is_some(), 1).unwrap_or_default(),
                owner.difference.to_string(),
            ];
            table.write_record(fields.iter().map(|field| cell(field).into_owned()))?;
        }
    }
    table.flush()
}
