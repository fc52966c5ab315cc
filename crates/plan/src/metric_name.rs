//! Checks names of metrics, as users write them, against the catalogue.

use crate::metric::{CATALOGUE, OF_POOL, of_pool};
use memprof_support::glob;
use memprof_support::suggest;

/// Checks that a metric has this name. Names of device metrics, such as `gpu.0.peak`, depend on the
/// machine and are always accepted. So are pools of any name: `pool.torch.in_use`.
pub fn check(name: &str) -> Result<(), UnknownMetric> {
    let known = || CATALOGUE.iter().map(|(known, _)| *known);
    if name.starts_with("pool.") {
        return check_pool(name);
    }
    if name.starts_with("gpu.") || known().any(|known| known == name) {
        return Ok(());
    }
    let all: Vec<&str> = known().collect();
    Err(UnknownMetric { name: name.to_owned(), help: suggest::did_you_mean_or_list(name, "metrics", &all) })
}

fn check_pool(name: &str) -> Result<(), UnknownMetric> {
    if of_pool(name).is_some_and(|(_, part)| OF_POOL.contains(&part)) {
        return Ok(());
    }
    let pool = of_pool(name).map_or("NAME", |(pool, _)| pool);
    let all = OF_POOL.map(|part| format!("pool.{pool}.{part}"));
    let all = all.each_ref().map(String::as_str);
    Err(UnknownMetric { name: name.to_owned(), help: suggest::did_you_mean_or_list(name, "metrics", &all) })
}

/// Checks a metric to show: a name, or a pattern.
pub fn check_shown(text: &str) -> Result<(), UnknownMetric> {
    if text.contains('*') { check_pattern(text) } else { check(text) }
}

/// Checks that a metric matches this pattern, in which `*` stands for any part of a name.
pub fn check_pattern(pattern: &str) -> Result<(), UnknownMetric> {
    let Some((head, _)) = pattern.split_once('*') else {
        return if is_of_scopes(pattern) { Ok(()) } else { check(pattern) };
    };
    let known = CATALOGUE.iter().map(|(known, _)| *known);
    let scopes = OF_SCOPES.iter().flat_map(|part| FAMILIES.map(|family| format!("{family}.{part}")));
    let matches = |name: &str| glob::matches(pattern, name);
    let may_be_of = |family: &str| head.starts_with(family) || family.starts_with(head);
    if may_be_of("gpu.") || may_be_of("pool.") {
        return Ok(());
    }
    if known.clone().any(matches) || scopes.into_iter().any(|name| matches(&name)) {
        return Ok(());
    }
    let all: Vec<&str> = known.collect();
    let help = suggest::did_you_mean_or_list(pattern, "metrics", &all);
    Err(UnknownMetric { name: pattern.to_owned(), help })
}

/// The families that scopes have, beside those of GPUs.
const FAMILIES: [&str; 3] = ["heap", "cpu", "malloc"];

/// The last parts of a scope's metrics.
const OF_SCOPES: [&str; 3] = ["consumed", "peaked", "used"];

fn is_of_scopes(name: &str) -> bool {
    if let Some((_, part)) = of_pool(name) {
        return OF_SCOPES.contains(&part);
    }
    let parts = name.split_once('.');
    parts.is_some_and(|(family, part)| FAMILIES.contains(&family) && OF_SCOPES.contains(&part))
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metric '{name}'")]
pub struct UnknownMetric {
    /// The name.
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
        assert!(check("zebra").unwrap_err().help.starts_with("metrics: heap.peak, "));
    }
}
