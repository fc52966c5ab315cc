//! Forward passes in the JSON report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_judge::results::layer_record::LayerFigures;
use memprof_judge::results::measurement::Measurement;

/// Forward passes of a run that are equal in every figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Forward")]
pub struct ForwardEntry {
    /// The label, or the outermost layer's name.
    pub label: String,
    /// The 1-based occurrence of the first one under its label.
    pub first: u32,
    /// How many there are.
    pub passes: u64,
    /// Calls of layers on other threads, which are in no row.
    pub elsewhere: u64,
    /// A row for each layer and kind of memory.
    pub layers: Vec<LayerFigures>,
}

/// Returns a run's forward passes.
pub(crate) fn of_run(measurement: &Measurement) -> Vec<ForwardEntry> {
    let passes = measurement.layers.passes().map(|(content, passes)| ForwardEntry {
        label: content.label.to_string(),
        first: passes.first,
        passes: passes.count,
        elsewhere: content.elsewhere,
        layers: content.layers.clone(),
    });
    passes.collect()
}
