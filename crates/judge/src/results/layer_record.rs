//! The forward passes of a run's log, and what each layer allocated, freed and kept. Equal passes
//! are kept once, because a training has many.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_support::labels;

/// The forward passes of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerRecord {
    /// Passes that are equal in label and layers, in the order of the first of each.
    equal: IndexMap<PassContent, Passes, FxBuildHasher>,
    /// The sequence number of the line that ends each pass, in order.
    ends: Vec<u64>,
    /// The pass whose layers are being read.
    current: Option<(PassContent, u32)>,
}

/// A pass without its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassContent {
    /// The label, or the outermost layer's name.
    pub label: Box<str>,
    /// Calls of layers on other threads, which are in no row.
    pub elsewhere: u64,
    /// A row for each layer and kind of memory.
    pub layers: Vec<LayerFigures>,
}

/// Which passes are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// The 1-based occurrence of the first one under its label.
    pub first: u32,
    /// How many there are.
    pub count: u64,
}

/// A layer's own figures in a forward pass, in bytes of one kind of memory. Bytes count for the
/// innermost layer, so the rows add up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayerOfForward")]
pub struct LayerFigures {
    /// The name; `null` is the code of the pass outside its layers.
    pub name: Option<Box<str>>,
    /// `heap`, `malloc`, `gpu.0`.
    pub memory: Box<str>,
    /// How often it was called.
    pub calls: u64,
    /// How many layers were around its first call.
    pub depth: u64,
    /// Bytes allocated; `null` if they are not counted, as on GPUs.
    pub allocated: Option<u64>,
    /// Bytes freed inside: those allocated that did not remain; `null` if bytes allocated are not counted.
    pub freed: Option<i64>,
    /// Bytes of outputs that were freed after the call, and before the end of the pass.
    pub freed_later: u64,
    /// Bytes that were alive at the end of the pass.
    pub retained: i64,
    /// The highest point above its beginning, with the layers inside.
    pub peak: u64,
}

#[derive(Deserialize)]
struct PassLine {
    label: String,
    occurrence: u32,
    elsewhere: u64,
}

impl LayerRecord {
    /// Takes a line of the log. Returns `None` if the event is not about forward passes.
    pub fn take(&mut self, event: &str, line: &[u8], sequence: u64) -> Option<serde_json::Result<()>> {
        Some(match event {
            "forward" => serde_json::from_slice(line).map(|line: PassLine| {
                self.settle();
                self.ends.push(sequence);
                let label = labels::bounded(&line.label).into();
                let content = PassContent { label, elsewhere: line.elsewhere, layers: Vec::new() };
                self.current = Some((content, line.occurrence));
            }),
            "layer" => serde_json::from_slice(line).map(|mut layer: LayerFigures| {
                layer.name = layer.name.map(|name| labels::bounded(&name).into());
                if let Some((content, _)) = &mut self.current {
                    content.layers.push(layer);
                }
            }),
            _ => return None,
        })
    }

    /// Ends the last pass. Called at the end of the log.
    pub fn settle(&mut self) {
        if let Some((content, first)) = self.current.take() {
            self.equal.entry(content).or_insert(Passes { first, count: 0 }).count += 1;
        }
    }

    /// Returns the passes, equal ones once.
    pub fn passes(&self) -> impl Iterator<Item = (&PassContent, Passes)> {
        self.equal.iter().map(|(content, passes)| (content, *passes))
    }

    /// Returns the number of the pass, from 1, that had not ended at this line of the log.
    pub fn pass_at(&self, sequence: u64) -> usize {
        self.ends.partition_point(|end| *end < sequence) + 1
    }

    /// Whether there was no forward pass.
    pub fn is_empty(&self) -> bool {
        self.equal.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn layer(name: Option<&str>, retained: i64) -> Value {
        json!({
            "event": "layer", "name": name, "memory": "heap", "calls": 1, "depth": 0, "allocated": 100,
            "freed": 100 - retained, "freed_later": 0, "retained": retained, "peak": 100,
        })
    }

    fn record(lines: &[Value]) -> LayerRecord {
        let mut record = LayerRecord::default();
        for line in lines {
            let event = line["event"].as_str().unwrap();
            record.take(event, line.to_string().as_bytes(), 0).unwrap().unwrap();
        }
        record.settle();
        record
    }

    #[test]
    fn equal_passes_are_kept_once_with_their_number() {
        let pass = |occurrence: u32| json!({"event": "forward", "label": "train", "occurrence": occurrence, "elsewhere": 0});
        let record = record(&[
            pass(1),
            layer(None, 0),
            layer(Some("mlp.0"), 60),
            pass(2),
            layer(None, 0),
            layer(Some("mlp.0"), 70),
            pass(3),
            layer(None, 0),
            layer(Some("mlp.0"), 60),
        ]);
        let passes: Vec<_> =
            record.passes().map(|(content, passes)| (content.layers[1].retained, passes)).collect();
        let expected = [(60, Passes { first: 1, count: 2 }), (70, Passes { first: 2, count: 1 })];
        assert_eq!(passes, expected);
    }

    #[test]
    fn a_layer_without_a_pass_is_left_out() {
        assert!(record(&[layer(Some("mlp.0"), 60)]).is_empty());
    }
}
