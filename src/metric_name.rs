//! Names of metrics as users write them, checked against the catalogue.

use crate::metric::CATALOGUE;
use crate::suggest;

/// Refuses a name that no metric has, with the nearest one. The figures of devices, `gpu.0.peak`, depend on the machine and
/// are taken as they come.
pub fn check(name: &str) -> Result<(), UnknownMetric> {
    let known = || CATALOGUE.iter().map(|(known, _)| *known);
    if name.starts_with("gpu.") || known().any(|known| known == name) {
        return Ok(());
    }
    let all: Vec<&str> = known().collect();
    Err(UnknownMetric { name: name.to_owned(), help: suggest::did_you_mean_or_list(name, "metrics", &all) })
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metric '{name}'")]
pub struct UnknownMetric {
    /// The name.
    pub name: String,
    /// The nearest, or all.
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
        assert!(check("zebra").unwrap_err().help.starts_with("metrics: heap.peak, "));
    }
}
