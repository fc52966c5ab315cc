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
    pub layers: Vec<LayerEntry>,
}

/// A layer's own figures in a forward pass, in bytes of one kind of memory. Bytes count for the
/// innermost layer, so the rows add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayerOfForward")]
pub struct LayerEntry {
    /// The name; `null` is the code of the pass outside its layers.
    pub name: Option<String>,
    /// `heap`, `malloc`, `gpu.0`.
    pub memory: String,
    /// How often it was called.
    pub calls: u64,
    /// How many layers were around its first call.
    pub depth: u64,
    /// Bytes allocated; `null` if they are not counted, as on GPUs.
    pub allocated: Option<u64>,
    /// Bytes freed inside; `null` if bytes allocated are not counted.
    pub freed: Option<i64>,
    /// Bytes of outputs that were freed after the call, and before the end of the pass.
    pub freed_later: u64,
    /// Bytes that were alive at the end of the pass.
    pub retained: i64,
    /// The highest point above its beginning, with the layers inside.
    pub peak: u64,
}

/// Returns a run's forward passes.
pub(crate) fn of_run(measurement: &Measurement) -> Vec<ForwardEntry> {
    let entry = |layer: &LayerFigures| LayerEntry {
        name: layer.name.as_deref().map(str::to_owned),
        memory: layer.memory.to_string(),
        calls: layer.calls,
        depth: layer.depth,
        allocated: layer.allocated,
        freed: layer.freed,
        freed_later: layer.freed_later,
        retained: layer.retained,
        peak: layer.peak,
    };
    let passes = measurement.layers.passes().map(|(content, passes)| ForwardEntry {
        label: content.label.to_string(),
        first: passes.first,
        passes: passes.count,
        elsewhere: content.elsewhere,
        layers: content.layers.iter().map(entry).collect(),
    });
    passes.collect()
}
