//! The families of metrics that traced calls and lines show: `gpu.0`, `gpu.0.pool`, `heap`, `cpu`.

use std::collections::BTreeSet;

use crate::options::Options;
use crate::selection::MetricFilter;
use memprof_judge::compare::trace_comparison::CallRow;
use memprof_plan::metric::known;
use memprof_plan::metric_family::families_of_scopes;
use memprof_support::glob;

/// Returns the families with figures of calls.
pub(super) fn of_calls(rows: &[CallRow]) -> Vec<String> {
    let sides = rows.iter().flat_map(|row| row.sides.iter().flatten());
    let metrics = sides.flat_map(|figures| figures.sums.keys()).map(String::as_str);
    families_of_scopes(metrics).into_iter().map(str::to_owned).collect()
}

/// Returns the sums of calls to show beside families: the time, if it was read, and those that were
/// chosen.
pub(super) fn totals(rows: &[CallRow], options: &Options) -> Vec<String> {
    let sides = rows.iter().flat_map(|row| row.sides.iter().flatten());
    let metrics: BTreeSet<&String> = sides.flat_map(|figures| figures.sums.keys()).collect();
    let asked = options.metrics.as_deref().unwrap_or_default();
    let is_asked =
        |metric: &&String| options.all || asked.iter().any(|pattern| glob::matches(pattern, metric));
    let is_usual = |metric: &&String| asked.is_empty() && *metric == "time";
    let totals = metrics.into_iter().filter(|metric| known(metric).is_total());
    totals.filter(|metric| is_usual(metric) || is_asked(metric)).cloned().collect()
}

/// Returns the family of a metric: `gpu.0` of `gpu.0.peak`.
pub(super) fn of_metric(metric: &str) -> &str {
    metric.rsplit_once('.').map_or(metric, |(family, _)| family)
}

/// Returns the families to show: the chosen ones, if there are any. Pools are part of a device, and
/// shown on request.
pub(super) fn shown(families: Vec<String>, options: &Options) -> Vec<String> {
    if options.all {
        return families;
    }
    let asked = options.metrics.as_deref().unwrap_or_default();
    let filter = MetricFilter::new(options);
    let asks_for_pools = asked.iter().any(|pattern| pattern.contains("pool"));
    let rest: Vec<String> =
        families.into_iter().filter(|family| asks_for_pools || !family.contains(".pool")).collect();
    let is_asked = |family: &&String| {
        ["consumed", "peaked", "peak"].iter().any(|part| filter.contains(&format!("{family}.{part}")))
    };
    let chosen: Vec<String> = rest.iter().filter(is_asked).cloned().collect();
    if asked.is_empty() || chosen.is_empty() { rest } else { chosen }
}
