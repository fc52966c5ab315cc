//! Bencher Metric Format: the figures of each test, for a service that draws them over time.
//!
//! <https://bencher.dev/docs/reference/bencher-metric-format/>

use std::io::{self, Write};

use indexmap::IndexMap;
use serde::Serialize;

use crate::test_figures;
use crate::titles;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Comparison, Metric};

/// The figure of a whole test.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Figure {
    value: i64,
}

/// Writes the figures of the revisions that are compared with the baseline, or of a single one. A test that
/// did not pass, and a metric that is unavailable, are left out: the format has no way to say why.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut candidates: Vec<usize> = comparison.candidates().collect();
    if candidates.is_empty() {
        candidates.push(comparison.baseline);
    }
    let mut benchmarks: IndexMap<String, IndexMap<&str, Figure>> = IndexMap::new();
    for cell in &comparison.cells {
        for &revision in &candidates {
            let side = &cell.sides[revision];
            let figures: IndexMap<&str, Figure> =
                comparison.metrics.iter().filter_map(|metric| figure(side, metric)).collect();
            if figures.is_empty() || side.availability != Availability::Measured {
                continue;
            }
            let title = titles::full_title_of(&cell.id);
            let name = match candidates.len() {
                1 => title,
                _ => format!("{title} at {}", comparison.revisions[revision].name),
            };
            benchmarks.insert(name, figures);
        }
    }
    serde_json::to_writer_pretty(&mut *out, &benchmarks)?;
    writeln!(out)
}

fn figure<'a>(side: &Aggregate, metric: &'a Metric) -> Option<(&'a str, Figure)> {
    Some((&*metric.name, Figure { value: test_figures::of_test(side, metric)? }))
}
