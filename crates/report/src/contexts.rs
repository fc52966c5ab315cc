//! A note with the memory cost of a GPU context. The driver takes it in every process that uses the
//! device, so it is not part of the test's own memory.

use std::collections::BTreeMap;

use crate::selection::MetricFilter;
use memprof_judge::compare::aggregate::Aggregate;
use memprof_judge::compare::comparison::Comparison;
use memprof_plan::metric_family::instance;
use memprof_support::bytes::Bytes;

/// Returns one note for each device with shown metrics.
pub(crate) fn notes(comparison: &Comparison, filter: &MetricFilter) -> Vec<String> {
    let devices = comparison.metrics.iter().filter_map(|metric| {
        let device = instance("gpu.*.context", &metric.name)?;
        let prefix = format!("gpu.{device}.");
        let mut others = comparison.metrics.iter().filter(|other| other.name.starts_with(&prefix));
        others.any(|other| filter.contains(&other.name)).then_some((device, metric.name.as_str()))
    });
    devices.filter_map(|(device, metric)| note(comparison, device, metric)).collect()
}

fn note(comparison: &Comparison, device: &str, metric: &str) -> Option<String> {
    let mut by_cost: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (index, revision) in comparison.revisions.iter().enumerate() {
        let costs = comparison.cells.iter().filter_map(|cell| cost(&cell.sides[index], metric));
        let costs: Vec<u64> = costs.collect();
        let (Some(least), Some(most)) = (costs.iter().min(), costs.iter().max()) else { continue };
        let (least, most) = (Bytes(*least).to_string(), Bytes(*most).to_string());
        let text = if least == most { least } else { format!("{least} to {most}") };
        by_cost.entry(text).or_default().push(&revision.name);
    }
    let one = by_cost.len() == 1;
    let costs: Vec<String> = by_cost
        .into_iter()
        .map(|(cost, names)| if one { cost } else { format!("{cost} in {}", names.join(" and ")) })
        .collect();
    (!costs.is_empty()).then(|| {
        format!(
            "GPU {device}: context {} (included in gpu.{device}.process and .device only)",
            costs.join(", ")
        )
    })
}

/// Returns the context's bytes. It is measured once, so every checkpoint of a run has the same
/// figure.
fn cost(side: &Aggregate, metric: &str) -> Option<u64> {
    let column = side.column(metric)?;
    let figure = (0..side.keys.len()).find_map(|checkpoint| column.figure(checkpoint))?;
    u64::try_from(figure.value).ok()
}
