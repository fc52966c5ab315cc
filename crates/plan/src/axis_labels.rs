//! An axis as a report shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A setting with several values, each of which names sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AxisLabels {
    /// The key in memprof.yaml.
    pub key: String,
    /// The values, in the order written.
    pub values: Vec<String>,
}

/// Returns the axes in one line: `profile (dev, release) × features (no features, simd)`.
pub fn in_words(axes: &[AxisLabels]) -> String {
    let words = axes.iter().map(|axis| format!("{} ({})", axis.key, axis.values.join(", ")));
    words.collect::<Vec<_>>().join(" × ")
}
