//! Metrics that no run logs: they are computed from others, if somebody asks for them.

use std::sync::Arc;

use crate::results::measurement::{Kind, Measurement, said_of};
use crate::results::stored::{Results, Run};
use crate::verdict::limits::LEAK_FROM;
use memprof_plan::metric::{ABOVE_START, derived};
use memprof_plan::metric_family::level_and_peak;
use memprof_support::glob;

/// Returns the results with the metrics that the plan asks for; `None` if it asks for none.
pub(crate) fn with_derived(results: &Results) -> Option<Results> {
    let judging = &results.plan.request.judging;
    let rules = judging.rules.iter().map(|rule| rule.metric.as_str());
    let of_budget =
        judging.budget.iter().flat_map(|budget| &budget.limits).map(|limit| limit.metric.as_str());
    let asked = results.plan.request.derived.iter().map(String::as_str);
    let wanted = derived(asked.chain(rules).chain(of_budget));
    if wanted.is_empty() {
        return None;
    }
    let mut with = results.clone();
    for Run { measurement, .. } in &mut with.runs {
        let families: Vec<String> = families(measurement);
        for family in families {
            let name = format!("{family}.{ABOVE_START}");
            if wanted.iter().any(|pattern| glob::matches(pattern, &name)) {
                add(Arc::make_mut(measurement), &family, &name);
            }
        }
    }
    Some(with)
}

/// Returns what has a peak, or why it has none: `heap`, `cpu`, `gpu.0`.
fn families(measurement: &Measurement) -> Vec<String> {
    let names = measurement.metrics().iter().map(|name| &**name);
    let names = names.chain(measurement.absent.keys().map(String::as_str));
    let mut families: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".peak")).map(str::to_owned).collect();
    families.dedup();
    families
}

/// Adds the peak since the last checkpoint, above the level at `start`.
fn add(measurement: &mut Measurement, family: &str, name: &str) {
    let Some([level, peak]) = level_and_peak(family) else { return };
    let reason = |metric: &str| said_of(&measurement.absent, metric).cloned();
    let is_start = |label: &str, kind: Kind| label == LEAK_FROM && kind == Kind::Point;
    let mut checkpoints = measurement.checkpoints().iter();
    let start = checkpoints.position(|one| is_start(measurement.label(one), one.kind));
    let start = start.and_then(|at| measurement.reading(measurement.column(&level)?, at));
    let (Some(column), Some(start)) = (measurement.column(&peak), start) else {
        let reason = reason(&peak).or_else(|| reason(&level));
        let reason = reason.unwrap_or_else(|| format!("{peak}, or {level} at `{LEAK_FROM}`, was not read"));
        measurement.absent.insert(name.to_owned(), reason);
        return;
    };
    let above = |at: usize| measurement.reading(column, at)?.checked_sub(start);
    let values: Vec<Option<i64>> = (0..measurement.checkpoints().len()).map(above).collect();
    let source = said_of(&measurement.sources, &peak).cloned().unwrap_or_default();
    // It ends where the peak does.
    if let Some(reason) = reason(&peak) {
        measurement.absent.insert(name.to_owned(), reason);
    }
    measurement.add_column(name, &values, &source);
}
