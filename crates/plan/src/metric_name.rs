//! Checks names of metrics, as users write them, against the catalogue.

use crate::metric::{self, Figure, METRICS, Property, Source};
use memprof_support::glob;
use memprof_support::suggest;

/// Checks that a metric has this name.
pub fn check(name: &str) -> Result<(), UnknownMetric> {
    let is_known = metric::find(name).is_some_and(|metric| {
        is_of_points(metric) || (metric.is(Property::OfScopes) && name.starts_with("gpu."))
    });
    if is_known { Ok(()) } else { Err(unknown(name)) }
}

/// Checks a metric to show: a name, or a pattern.
pub fn check_shown(text: &str) -> Result<(), UnknownMetric> {
    if text.contains('*') { check_pattern(text) } else { check(text) }
}

/// Checks that a metric matches this pattern, in which `*` stands for any part of a name.
pub fn check_pattern(pattern: &str) -> Result<(), UnknownMetric> {
    let is_known = if pattern.contains('*') {
        METRICS.iter().any(|metric| !metric.is(Property::OfLines) && may_fit(pattern, metric))
    } else {
        metric::find(pattern).is_some_and(|metric| !metric.is(Property::OfLines))
    };
    if is_known { Ok(()) } else { Err(unknown(pattern)) }
}

/// Whether a pattern may be about a metric.
fn may_fit(pattern: &str, metric: &metric::Metric) -> bool {
    let ends_of = |name| -> Option<(&str, &str)> {
        let (before, _) = str::split_once(name, '*')?;
        Some((before, str::rsplit_once(name, '*')?.1))
    };
    match (ends_of(metric.name), ends_of(pattern)) {
        // Names of devices and pools depend on the machine and the program.
        (Some((before, after)), Some((head, tail))) => {
            (head.starts_with(before) || before.starts_with(head))
                && (tail.ends_with(after) || after.ends_with(tail))
        }
        _ => glob::matches(pattern, metric.name),
    }
}

/// Checks that a leak of this metric can be found: memory that is kept shows in a level. A pattern with `*` is about the
/// levels that it fits.
///
/// # Errors
/// The metric is a peak, a total or the time, or the pattern fits only such metrics.
pub fn check_leak(metric: &str) -> Result<(), String> {
    let is_level = |metric: &metric::Metric| {
        metric.figure == Figure::Level && metric.source != Source::Clock && is_of_points(metric)
    };
    let may_leak = match metric::find(metric) {
        Some(metric) => is_level(metric),
        None if metric.contains('*') => METRICS.iter().any(|known| is_level(known) && may_fit(metric, known)),
        None => true,
    };
    if may_leak {
        return Ok(());
    }
    let reason = "is no level of memory, and shows no leak; write a level such as heap.live";
    Err(format!("'{metric}' {reason}"))
}

fn is_of_points(metric: &metric::Metric) -> bool {
    !metric.is(Property::OfScopes) && !metric.is(Property::OfLines)
}

/// Returns the error for a name, with metrics of the same device or pool, if it names one.
fn unknown(name: &str) -> UnknownMetric {
    let (group, rest) = name.split_once('.').unwrap_or_default();
    let one = rest.rsplit_once('.').map_or("NAME", |(one, _)| one);
    let points = METRICS.iter().filter(|metric| is_of_points(metric));
    let of_group = |known: &str| known.split('.').next() == Some(group) && known.contains('*');
    let mut all: Vec<String> = points
        .clone()
        .map(|metric| metric.name)
        .filter(|known| of_group(known))
        .map(|known| known.replacen('*', one, 1))
        .collect();
    if all.is_empty() {
        all = points
            .map(|metric| metric.name)
            .filter(|known| !known.contains('*'))
            .map(str::to_owned)
            .collect();
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    UnknownMetric { name: name.to_owned(), help: suggest::did_you_mean_or_list(name, "metrics", &all) }
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metric '{name}'")]
pub struct UnknownMetric {
    pub name: String,
    /// The most similar name, or all names.
    pub help: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_metric_finds_its_name() {
        assert_eq!(check("heap.peak"), Ok(()));
        assert_eq!(check("gpu.0.peak"), Ok(()));
        assert_eq!(check("heap.peek").unwrap_err().help, "did you mean 'heap.peak'?");
        assert_eq!(check_pattern("heap.*"), Ok(()));
        assert_eq!(check_pattern("heap.peaked"), Ok(()));
        assert_eq!(check_pattern("malloc.peaked"), Ok(()));
        assert_eq!(check_pattern("gpu.*.peak"), Ok(()));
        assert_eq!(check_shown("malloc.*"), Ok(()));
        assert_eq!(check_shown("heap.peak"), Ok(()));
        assert!(check_shown("mallok.*").is_err() && check_shown("heap.peaked").is_err());
        assert!(check_pattern("heep.*").unwrap_err().help.starts_with("metrics: heap.peak, "));
        assert_eq!(check_pattern("heap.peek").unwrap_err().help, "did you mean 'heap.peak'?");
        assert_eq!(check("pool.torch.in_use"), Ok(()));
        assert_eq!(check("pool.torch.1.reserved_peak"), Ok(()));
        assert_eq!(check("pool.torch.inuse").unwrap_err().help, "did you mean 'pool.torch.in_use'?");
        assert!(check("pool.in_use").unwrap_err().help.contains("pool.NAME.in_use"));
        assert_eq!(check_pattern("pool.*.in_use"), Ok(()));
        assert_eq!(check_pattern("pool.torch.peaked"), Ok(()));
        assert!(check("pool.torch.peaked").is_err() && check_pattern("pool.torch.live").is_err());
        assert_eq!(check("gpu.0.peek").unwrap_err().help, "did you mean 'gpu.0.peak'?");
        assert!(
            check("gpu.0.pool.used").and(check("gpu.0.consumed")).is_ok() && check("heap.grown").is_err()
        );
        assert!(check("zebra").unwrap_err().help.starts_with("metrics: heap.peak, "));
    }

    #[test]
    fn only_levels_of_memory_leak() {
        for level in ["heap.live", "cpu.*", "*", "*.live", "gpu.0.pro*", "pool.*.in_use", "a.later.version"] {
            assert_eq!(check_leak(level), Ok(()), "{level}");
        }
        for other in
            ["heap.peak", "heap.count", "time", "*.peak", "heap.*ed", "pool.*_peak", "gpu.*.consumed"]
        {
            check_leak(other).unwrap_err();
        }
    }
}
