//! `csv=sites`: a row per call site, or per what `--why-by` puts together.

use std::io::{self, Write};

use crate::csv::full_names;
use crate::csv::text::cell;
use crate::options::Options;
use crate::why::explained;
use crate::why::json::WhyRow;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::stack_log::Figures;
use memprof_judge::why::difference::Measure;

/// The columns.
const HEADINGS: [&str; 21] = [
    "test",
    "ref",
    "metric",
    "checkpoint",
    "occurrence",
    "limit",
    "by",
    "kind",
    "name",
    "type",
    "element.baseline",
    "element.candidate",
    "location",
    "class",
    "baseline",
    "candidate",
    "difference",
    "stacks",
    "baseline_capacity",
    "candidate_capacity",
    "title",
];

/// Writes the sites of each explained row, those with the largest difference first.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(HEADINGS)?;
    let names = full_names(comparison);
    let report = options.why.as_deref().map(|why| explained::report(comparison, why));
    for row in report.iter().flat_map(|report| &report.rows) {
        // A row has a side.
        let Some(side) = row.candidate.as_ref().or(row.baseline.as_ref()) else { continue };
        for group in &row.groups {
            let sizes = group.element_bytes.unwrap_or_default();
            let element = |side: usize| sizes[side].map(|size| size.to_string()).unwrap_or_default();
            let room = group.capacity.unwrap_or_default();
            let capacity = |side: usize| room[side].map(|count| count.to_string()).unwrap_or_default();
            let fields = [
                names[&row.test].clone(),
                side.r#ref.clone(),
                row.metric.clone(),
                side.checkpoint.clone(),
                side.occurrence.to_string(),
                row.is_limit.to_string(),
                row.by.clone(),
                group.kind.clone(),
                group.name.clone(),
                group.r#type.clone().unwrap_or_default(),
                element(0),
                element(1),
                group.location.clone().unwrap_or_default(),
                group.class.as_ref().map(|class| class.kind.clone()).unwrap_or_default(),
                row.baseline.as_ref().map(|_| figure(row, group.baseline)).unwrap_or_default(),
                row.candidate.as_ref().map(|_| figure(row, group.candidate)).unwrap_or_default(),
                group.difference.to_string(),
                group.stacks.to_string(),
                capacity(0),
                capacity(1),
                row.test.clone(),
            ];
            table.write_record(fields.iter().map(|field| cell(field).into_owned()))?;
        }
    }
    table.flush()
}

/// Returns the row's figure of a side.
fn figure(row: &WhyRow, figures: Figures) -> String {
    let figure = match Measure::of_metric(&row.metric) {
        Some((_, Measure::AtPeak)) => figures.at_peak,
        Some((_, Measure::Live)) => figures.live,
        Some((_, Measure::Allocated)) => figures.allocated,
        Some((_, Measure::Count)) => figures.count,
        None => return String::new(),
    };
    figure.to_string()
}
