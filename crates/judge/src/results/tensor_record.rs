//! Named tensors in a run's log and when they were alive, and the figures of memory pools. A tensor
//! that is named repeatedly, such as a gradient, is described once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::live_sizes::LiveSizes;
use memprof_support::labels;

/// The named tensors of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorRecord {
    /// Each description once.
    pub descriptions: IndexSet<Description, FxBuildHasher>,
    /// When tensors with these descriptions were alive, in the order of the log.
    pub namings: Vec<Naming>,
    /// The figures of pools.
    pub pools: Vec<PoolReading>,
    /// How many blocks of each size were live, in the order of the log.
    pub live_sizes: Vec<LiveSizes>,
    /// The device names in the metrics `gpu.DEVICE.…`, by CUDA ordinal.
    pub cuda_devices: BTreeMap<u32, String>,
    /// The namings of groups that have not ended.
    open: FxHashMap<u64, Vec<u32>>,
}

/// The description of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    /// The layer's path.
    pub name: Box<str>,
    /// The purpose.
    pub kind: TensorKind,
    /// The dimensions.
    pub shape: Box<[u64]>,
    /// The type of its elements.
    pub dtype: Box<str>,
    pub device: TensorDevice,
    /// The number of elements times the size of one.
    pub bytes: u64,
    /// The bytes that the allocator reserves for its storage.
    pub allocated: Option<u64>,
    /// The bytes of its storage that its elements occupy: the first, and the one after the last.
    pub range: Option<[u64; 2]>,
}

/// When a tensor was alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Index of its description.
    pub description: u32,
    /// An id that tensors of a device share if they share storage. 0 if unknown.
    pub storage: u64,
    /// The sequence number of the line that names it.
    pub from: u64,
    /// The sequence number of the line that ends it. [`u64::MAX`] if there is none.
    pub until: u64,
}

/// The figures of a memory pool at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolReading {
    /// The line's sequence number.
    pub sequence: u64,
    /// The pool's name.
    pub name: String,
    /// The device whose memory it hands out.
    pub device: TensorDevice,
    /// The bytes handed out, the bytes lost to rounding, and the bytes held in total.
    pub figures: [u64; 3],
}

/// The purpose of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TensorKind {
    /// A parameter.
    Weight,
    /// The gradient of a parameter.
    Gradient,
    /// What an optimizer stores for a parameter.
    OptimizerState,
    /// The output of a layer.
    Activation,
    /// The gradient of an activation or of an input.
    IntermediateGradient,
    /// Anything else.
    #[serde(other)]
    Other,
}

impl TensorKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Weight,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::IntermediateGradient,
        Self::Other,
    ];

    /// Returns the plural: `weights`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Weight => "weights",
            Self::Gradient => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::Activation => "activations",
            Self::IntermediateGradient => "intermediate gradients",
            Self::Other => "other",
        }
    }

    /// Returns the singular: `weight`.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer state",
            Self::Activation => "activation",
            Self::IntermediateGradient => "intermediate gradient",
            Self::Other => "other",
        }
    }
}

/// The device of a tensor, which selects the allocator metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorDevice {
    /// The CPU, from Rust's global allocator.
    Cpu,
    /// The CPU, from the C library's allocator.
    CpuMalloc,
    /// A CUDA device, by its number among those that the process sees.
    Cuda(u32),
    /// Any other device, by its name.
    Other(String),
}

impl TensorDevice {
    fn from_text(text: &str) -> Self {
        let cuda = text.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
        match (text, cuda) {
            ("cpu", _) => Self::Cpu,
            ("malloc", _) => Self::CpuMalloc,
            (_, Some(ordinal)) => Self::Cuda(ordinal),
            _ => Self::Other(labels::bounded(text.strip_prefix("other:").unwrap_or(text)).into_owned()),
        }
    }
}

/// As reports show it.
impl fmt::Display for TensorDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Cpu => formatter.write_str("cpu"),
            Self::CpuMalloc => formatter.write_str("cpu (malloc)"),
            Self::Cuda(ordinal) => write!(formatter, "cuda:{ordinal}"),
            Self::Other(name) => formatter.write_str(name),
        }
    }
}

impl Description {
    /// Returns the type and dimensions: `f32 [1024, 1024]`.
    pub fn form(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("{} [{}]", self.dtype, extents.join(", ")).trim_start().to_owned()
    }
}

#[derive(Deserialize)]
struct TensorLine<'a> {
    group: u64,
    #[serde(borrow)]
    name: Cow<'a, str>,
    kind: TensorKind,
    shape: Vec<u64>,
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    #[serde(borrow)]
    device: Cow<'a, str>,
    storage: u64,
    bytes: u64,
    allocated: Option<u64>,
    range: Option<[u64; 2]>,
}

#[derive(Deserialize)]
struct EndLine {
    group: u64,
}

#[derive(Deserialize)]
struct DeviceLine {
    ordinal: u32,
    device: String,
}

#[derive(Deserialize)]
struct PoolLine<'a> {
    name: String,
    #[serde(borrow)]
    device: Cow<'a, str>,
    in_use: u64,
    padding: u64,
    reserved: u64,
}

impl TensorRecord {
    /// Takes a line of the log. Returns `None` if the event is not about tensors or pools.
    pub fn take(&mut self, event: &str, line: &[u8], sequence: u64) -> Option<serde_json::Result<()>> {
        Some(match event {
            "tensor" => serde_json::from_slice(line).map(|line| self.begin(line, sequence)),
            "tensors_end" => serde_json::from_slice(line).map(|line: EndLine| {
                for naming in self.open.remove(&line.group).unwrap_or_default() {
                    let naming = &mut self.namings[naming as usize];
                    naming.until = sequence.max(naming.from);
                }
            }),
            "cuda_device" => serde_json::from_slice(line).map(|line: DeviceLine| {
                self.cuda_devices.insert(line.ordinal, line.device);
            }),
            "pool" => serde_json::from_slice(line).map(|line: PoolLine| {
                let PoolLine { name, device, in_use, padding, reserved } = line;
                let figures = [in_use, padding, reserved];
                let (name, device) = (labels::bounded(&name).into_owned(), TensorDevice::from_text(&device));
                self.pools.push(PoolReading { sequence, name, device, figures });
            }),
            LiveSizes::EVENT => {
                LiveSizes::read(line, sequence).map(|live_sizes| self.live_sizes.push(live_sizes))
            }
            _ => return None,
        })
    }

    fn begin(&mut self, line: TensorLine, sequence: u64) {
        let description = Description {
            name: labels::bounded(&line.name).into(),
            kind: line.kind,
            shape: line.shape.into(),
            dtype: labels::bounded(&line.dtype).into(),
            device: TensorDevice::from_text(&line.device),
            bytes: line.bytes,
            allocated: line.allocated,
            range: line.range,
        };
        let (description, _) = self.descriptions.insert_full(description);
        let index = |index: usize| u32::try_from(index).expect("fewer than 2^32 namings");
        let naming = index(self.namings.len());
        self.open.entry(line.group).or_default().push(naming);
        let description = index(description);
        self.namings.push(Naming { description, storage: line.storage, from: sequence, until: u64::MAX });
    }

    /// Whether nothing was named.
    pub fn is_empty(&self) -> bool {
        self.namings.is_empty() && self.pools.is_empty()
    }

    /// Returns the description of a naming.
    pub fn description(&self, naming: usize) -> &Description {
        &self.descriptions[self.namings[naming].description as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(record: &mut TensorRecord, sequence: u64, line: &serde_json::Value) {
        let event = line["event"].as_str().unwrap();
        record.take(event, line.to_string().as_bytes(), sequence).unwrap().unwrap();
    }

    fn tensor(group: u64, name: &str, device: &str) -> serde_json::Value {
        serde_json::json!({
            "event": "tensor", "group": group, "name": name, "kind": "weight", "shape": [2, 3], "dtype": "f32",
            "device": device, "storage": 7, "bytes": 24,
        })
    }

    #[test]
    fn what_is_named_again_and_again_is_described_once() {
        let mut record = TensorRecord::default();
        for step in 0..3 {
            take(&mut record, 10 * step, &tensor(step + 1, "w", "cpu"));
            take(&mut record, 10 * step + 5, &serde_json::json!({"event": "tensors_end", "group": step + 1}));
        }
        assert_eq!((record.descriptions.len(), record.namings.len()), (1, 3));
        let lives: Vec<_> = record.namings.iter().map(|naming| (naming.from, naming.until)).collect();
        assert_eq!(lives, [(0, 5), (10, 15), (20, 25)]);
        assert_eq!(record.description(2).form(), "f32 [2, 3]");
    }

    #[test]
    fn a_group_ends_whole_and_what_never_ends_is_alive_to_the_end() {
        let mut record = TensorRecord::default();
        take(&mut record, 1, &tensor(1, "a", "cpu"));
        take(&mut record, 2, &tensor(2, "b", "cuda:1"));
        take(&mut record, 3, &tensor(1, "c", "malloc"));
        take(&mut record, 4, &serde_json::json!({"event": "tensors_end", "group": 1}));
        take(&mut record, 5, &serde_json::json!({"event": "tensors_end", "group": 9}));
        let untils: Vec<_> = record.namings.iter().map(|naming| naming.until).collect();
        assert_eq!(untils, [4, u64::MAX, 4]);
    }

    #[test]
    fn devices_are_told_apart_whatever_a_program_calls_its_own() {
        let of = |text: &str| TensorDevice::from_text(text);
        assert_eq!([of("cpu"), of("malloc"), of("cuda:3")], {
            [TensorDevice::Cpu, TensorDevice::CpuMalloc, TensorDevice::Cuda(3)]
        });
        assert_eq!(of("other:cuda:3"), TensorDevice::Other("cuda:3".to_owned()));
        assert_eq!(of("other:metal:0").to_string(), "metal:0");
    }

    #[test]
    fn a_kind_of_a_newer_shim_is_another_one() {
        let mut record = TensorRecord::default();
        let mut line = tensor(1, "a", "cpu");
        line["kind"] = "cache".into();
        take(&mut record, 1, &line);
        assert_eq!(record.description(0).kind, TensorKind::Other);
    }
}
