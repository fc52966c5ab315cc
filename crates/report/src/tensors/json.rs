//! Named memory in the JSON report: each run's tensors and their totals at checkpoints, and the
//! layers that differ.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tensors::report::TensorReport;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::tensor_comparison::{LayerChange, LayerRow, TensorSide, layers};
use memprof_judge::compare::tensor_states::Alive;
use memprof_judge::compare::unnamed_blocks::UnnamedSize;
use memprof_judge::results::measurement::{Kind, Measurement};
use memprof_judge::results::tensor_record::{Description, PoolReading, TensorDevice, TensorKind};

/// A run's named memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tensors")]
pub struct TensorsOfRun {
    /// The tensors that were alive at any checkpoint, each once, in the order of naming.
    pub named: Vec<NamedEntry>,
    /// The totals at each checkpoint with named tensors or pool readings.
    pub checkpoints: Vec<CheckpointEntry>,
    /// The live blocks that no tensor is named in, at the highest of these checkpoints, by device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<UnnamedEntry>,
}

/// The live blocks of a device that no tensor is named in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Unnamed")]
pub struct UnnamedEntry {
    /// The checkpoint.
    #[serde(flatten)]
    pub place: CheckpointName,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// Smaller blocks are not counted by size.
    pub least: u64,
    /// The number of blocks.
    pub count: u64,
    /// The bytes.
    pub bytes: u64,
    /// The sizes, those with most bytes first.
    pub sizes: Vec<UnnamedSize>,
    /// Named storages for which there is no block of their size. Blocks of theirs may be listed here.
    pub named_without_block: u64,
    /// Whether all blocks of at least that size were counted.
    pub is_complete: bool,
}

/// A tensor that was alive, once or repeatedly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedTensor")]
pub struct NamedEntry {
    /// The tensor as it was named.
    #[serde(flatten)]
    pub tensor: TensorEntry,
    /// The number of its storage, equal for tensors that share it; `null` if unknown.
    pub storage: Option<u64>,
    /// Bytes that the allocator holds for the storage; `null` if unknown.
    pub allocated: Option<u64>,
    /// How often it was named. A gradient is named again at each step.
    pub times: u64,
    /// The first checkpoint at which it was alive.
    pub first: CheckpointName,
    /// The last checkpoint at which it was alive.
    pub last: CheckpointName,
}

/// A tensor as it was named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tensor")]
pub struct TensorEntry {
    /// The layer's path.
    pub name: String,
    /// What the tensor is for.
    pub kind: TensorKind,
    /// `cpu`, `cpu (malloc)` for memory of the C library's allocator, `cuda:0`, or another name.
    pub device: String,
    /// The sizes of its dimensions.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub dtype: String,
    /// The number of elements times the size of an element.
    pub bytes: u64,
}

/// The name of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Place")]
pub struct CheckpointName {
    /// The label.
    pub checkpoint: String,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
}

/// The named memory at a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedMemory")]
pub struct CheckpointEntry {
    /// The checkpoint.
    #[serde(flatten)]
    pub place: CheckpointName,
    /// The named memory of each device.
    pub devices: Vec<DeviceEntry>,
    /// The pool readings since the previous checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolEntry>,
}

/// The named memory of a device, with its allocator's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedOnDevice")]
pub struct DeviceEntry {
    /// `cpu`, `cpu (malloc)`, `cuda:0`, or another name.
    pub device: String,
    /// By kind: bytes, each storage counted once.
    pub bytes: IndexMap<TensorKind, i128, FxBuildHasher>,
    /// By kind: the number of tensors, including those that share a storage.
    pub tensors: IndexMap<TensorKind, u64, FxBuildHasher>,
    /// The number of different storages.
    pub storages: u64,
    /// The number of storages whose allocated size is known.
    pub storages_with_allocated: u64,
    /// Bytes that the allocator rounds these storages up by: allocated bytes less named bytes.
    pub rounding: i128,
    /// The metric of the device's live memory; `null` if there is none.
    pub metric: Option<String>,
    /// The value of this metric; `null` if unavailable.
    pub live: Option<i64>,
    /// `live` minus named bytes and rounding. Negative if named tensors are freed already, or
    /// belong to another allocator.
    pub unattributed: Option<i128>,
    /// The peak since the previous checkpoint; `null` if unavailable.
    pub peak: Option<i64>,
    /// `peak` minus the weights, gradients and optimizer state.
    pub rest_at_peak: Option<i128>,
    /// Why `live` is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What a framework's memory pool reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pool")]
pub struct PoolEntry {
    /// The name.
    pub name: String,
    /// The device whose memory it manages.
    pub device: String,
    /// Bytes handed out.
    pub in_use: u64,
    /// Bytes lost to rounding.
    pub padding: u64,
    /// Bytes held.
    pub reserved: u64,
}

/// The layers that differ from the baseline's, at checkpoints with the same named tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Layers")]
pub struct LayersEntry {
    /// The candidate.
    pub r#ref: String,
    /// `package::binary::test`.
    pub test: String,
    /// The cell's title in reports for people.
    #[serde(default)]
    pub title: String,
    /// The cell's parameters.
    pub params: IndexMap<String, String, FxBuildHasher>,
    /// The checkpoint with the highest figures, as tables name it.
    pub checkpoint: String,
    /// The number of checkpoints in the group.
    pub checkpoints: usize,
    /// The number of unchanged tensors.
    pub unchanged: usize,
    /// The tensors that differ.
    pub changed: Vec<ChangedEntry>,
}

/// A layer that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChangedTensor")]
pub struct ChangedEntry {
    /// `added`, `removed`, `resized`, or `shared` if it shares its storage differently.
    pub change: LayerChange,
    /// The baseline's tensor.
    pub baseline: Option<CountedEntry>,
    /// The candidate's tensor.
    pub candidate: Option<CountedEntry>,
}

/// A tensor and the bytes that it counts for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CountedTensor")]
pub struct CountedEntry {
    /// The tensor as it was named.
    #[serde(flatten)]
    pub tensor: TensorEntry,
    /// The bytes that it counts for; 0 if another tensor counts them.
    pub counted: u64,
    /// The tensor that counts them; of several, the largest.
    pub shares_with: Option<String>,
}

impl TensorEntry {
    fn from_description(description: &Description) -> Self {
        Self {
            name: description.name.to_string(),
            kind: description.kind,
            device: description.device.to_string(),
            shape: description.shape.to_vec(),
            dtype: description.dtype.to_string(),
            bytes: description.bytes,
        }
    }
}

/// Returns a run's named memory; `None` if it named nothing.
pub(crate) fn of_run(measurement: &Measurement) -> Option<TensorsOfRun> {
    if measurement.tensors.is_empty() {
        return None;
    }
    let is_point = |index: &usize| measurement.checkpoints()[*index].kind == Kind::Point;
    let points = (0..measurement.checkpoints().len()).filter(is_point).collect();
    let run = NamingRun { measurement, points };
    let side = TensorSide::new(&[measurement])?;
    Some(TensorsOfRun {
        named: run.named(),
        checkpoints: run.checkpoints(&side),
        unnamed: run.unnamed(&side),
    })
}

/// A run with named memory.
struct NamingRun<'a> {
    measurement: &'a Measurement,
    /// Indices of the checkpoints that are points.
    points: Vec<usize>,
}

impl NamingRun<'_> {
    fn checkpoint_name(&self, index: usize) -> CheckpointName {
        let checkpoint = &self.measurement.checkpoints()[index];
        let label = self.measurement.label(checkpoint).to_owned();
        CheckpointName { checkpoint: label, occurrence: checkpoint.occurrence }
    }

    /// Returns the number of points before a line of the log.
    fn points_before(&self, sequence: u64) -> usize {
        self.points.partition_point(|index| self.measurement.checkpoints()[*index].sequence < sequence)
    }

    /// Returns the tensors that were alive at any point, each once.
    fn named(&self) -> Vec<NamedEntry> {
        let record = &self.measurement.tensors;
        let mut named: IndexMap<u32, NamedEntry, FxBuildHasher> = IndexMap::default();
        for (number, naming) in record.namings.iter().enumerate() {
            let (first, end) = (self.points_before(naming.from), self.points_before(naming.until));
            if first == end {
                continue;
            }
            let description = record.description(number);
            let last = self.checkpoint_name(self.points[end - 1]);
            let entry = named.entry(naming.description).or_insert_with(|| NamedEntry {
                tensor: TensorEntry::from_description(description),
                storage: (naming.storage != 0).then_some(naming.storage),
                allocated: description.allocated,
                times: 0,
                first: self.checkpoint_name(self.points[first]),
                last: last.clone(),
            });
            entry.times += 1;
            entry.last = last;
        }
        named.into_values().collect()
    }

    /// Returns the totals at each point with named tensors or pool readings.
    fn checkpoints(&self, side: &TensorSide) -> Vec<CheckpointEntry> {
        let entry = |&index: &usize| {
            let devices = side.devices_at(index).map(|device| device_entry(side, index, device));
            let pools = side.pools_at(index).into_iter().map(PoolEntry::from_reading);
            CheckpointEntry {
                place: self.checkpoint_name(index),
                devices: devices.collect(),
                pools: pools.collect(),
            }
        };
        self.points.iter().filter(|index| !side.is_empty_at(**index)).map(entry).collect()
    }

    /// Returns the unnamed blocks at the highest point with named tensors; of several, at the first.
    fn unnamed(&self, side: &TensorSide) -> Vec<UnnamedEntry> {
        let points = self.points.iter().rev().filter(|index| !side.is_empty_at(**index));
        let Some(&index) = points.max_by_key(|index| side.height(**index)) else { return Vec::new() };
        let of_device = |device: &TensorDevice| {
            let found = side.unnamed_at(index, device)?;
            Some(UnnamedEntry {
                place: self.checkpoint_name(index),
                device: device.to_string(),
                least: found.least,
                count: found.count,
                bytes: found.bytes,
                sizes: found.sizes,
                named_without_block: found.without_block,
                is_complete: !found.is_incomplete,
            })
        };
        side.devices_at(index).filter_map(of_device).collect()
    }
}

impl PoolEntry {
    fn from_reading(pool: &PoolReading) -> Self {
        let [in_use, padding, reserved] = pool.figures;
        Self { name: pool.name.clone(), device: pool.device.to_string(), in_use, padding, reserved }
    }
}

fn device_entry(side: &TensorSide, checkpoint: usize, device: &TensorDevice) -> DeviceEntry {
    let figures = side.figures_at(checkpoint, device);
    let totals = &figures.totals;
    let kinds = || TensorKind::ALL.into_iter().filter(|kind| totals.of_kind(*kind).tensors > 0);
    DeviceEntry {
        device: device.to_string(),
        bytes: kinds().map(|kind| (kind, totals.of_kind(kind).bytes)).collect(),
        tensors: kinds().map(|kind| (kind, totals.of_kind(kind).tensors)).collect(),
        storages: totals.storages,
        storages_with_allocated: totals.with_allocated,
        rounding: totals.rounding,
        metric: side.allocator(device).ok().map(|allocator| allocator.live),
        live: figures.live.as_ref().ok().copied(),
        unattributed: figures.unattributed(),
        peak: figures.peak.as_ref().ok().copied(),
        rest_at_peak: figures.rest_at_peak(),
        absent: figures.live.as_ref().err().cloned(),
    }
}

/// Returns the layers that differ, for every compared pair.
pub(crate) fn changes(comparison: &Comparison) -> Vec<LayersEntry> {
    let mut entries = Vec::new();
    for view in comparison.pairs().filter(PairView::is_compared) {
        let tensors = TensorReport::of_pair(comparison, &view);
        for moment in tensors.moments().iter().filter(|moment| tensors.is_on_both_sides(moment)) {
            let rows = layers(&tensors.alive(moment, 0), &tensors.alive(moment, 1));
            let changed: Vec<ChangedEntry> = rows.iter().filter_map(changed).collect();
            entries.push(LayersEntry {
                r#ref: view.new.name.clone(),
                test: view.cell.id.full_name(),
                title: view.cell.id.title.clone(),
                params: view.cell.id.params.iter().cloned().collect(),
                checkpoint: tensors.label(moment).to_owned(),
                checkpoints: moment.rows,
                unchanged: rows.len() - changed.len(),
                changed,
            });
        }
    }
    entries
}

fn changed(row: &LayerRow) -> Option<ChangedEntry> {
    let counted = |one: Option<Alive>| {
        one.map(|one| CountedEntry {
            tensor: TensorEntry::from_description(one.description),
            counted: one.counted,
            shares_with: one.shares_with.map(str::to_owned),
        })
    };
    let [baseline, candidate] = row.sides.map(counted);
    Some(ChangedEntry { change: row.change()?, baseline, candidate })
}
