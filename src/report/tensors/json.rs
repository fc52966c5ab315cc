//! Named memory in the JSON report: of each run what was named from when to when and what that came to at its checkpoints, of
//! each candidate which layers differ.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::comparison::Comparison;
use crate::compare::tensor_comparison::{LayerChange, LayerRow, TensorSide, layers};
use crate::compare::tensor_states::Alive;
use crate::report::tensors::totals::TensorReport;
use crate::results::measurement::{Kind, Measurement};
use crate::results::tensor_record::{Description, TensorDevice, TensorKind};

/// What a run named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tensors")]
pub struct TensorsOfRun {
    /// What was alive at any checkpoint, each once, in the order of naming.
    pub named: Vec<NamedEntry>,
    /// What that came to, at each checkpoint at which something was named or a pool had said something.
    pub checkpoints: Vec<CheckpointEntry>,
}

/// A tensor that was alive, once or again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedTensor")]
pub struct NamedEntry {
    /// What it is.
    #[serde(flatten)]
    pub tensor: TensorEntry,
    /// Its storage when it was first named, the same for all on that device that share it; `null` if it is not known.
    pub storage: Option<u64>,
    /// Bytes that the allocator holds for the storage; `null` where that is not known.
    pub allocated: Option<u64>,
    /// How often it was alive: a gradient is named anew at each step.
    pub times: u64,
    /// The first checkpoint at which it was alive.
    pub first: CheckpointName,
    /// The last, of the last time.
    pub last: CheckpointName,
}

/// A tensor as it was named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tensor")]
pub struct TensorEntry {
    /// The layer's path.
    pub name: String,
    /// What it is for.
    pub kind: TensorKind,
    /// `cpu`, `cpu (malloc)` for memory of the C library's allocator, `cuda:0`, or another name.
    pub device: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub dtype: String,
    /// Elements times the size of one.
    pub bytes: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Place")]
pub struct CheckpointName {
    /// The label.
    pub checkpoint: String,
    /// The how-manieth of this label it is, from 1.
    pub occurrence: u32,
}

/// What was named at a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedMemory")]
pub struct CheckpointEntry {
    /// Where.
    #[serde(flatten)]
    pub place: CheckpointName,
    /// By device.
    pub devices: Vec<DeviceEntry>,
    /// What pools said since the checkpoint before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolEntry>,
}

/// What was named on a device, against its allocator's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamedOnDevice")]
pub struct DeviceEntry {
    /// `cpu`, `cpu (malloc)`, `cuda:0`, or another name.
    pub device: String,
    /// By kind: bytes, each storage counted once.
    pub bytes: IndexMap<TensorKind, i128, FxBuildHasher>,
    /// By kind: how many tensors, those included that share.
    pub tensors: IndexMap<TensorKind, u64, FxBuildHasher>,
    /// Different storages.
    pub storages: u64,
    /// Of these, how many it is known of what the allocator holds for them.
    pub storages_with_allocated: u64,
    /// What it holds for those beyond what is in them.
    pub rounding: i128,
    /// The metric that says what is live on the device; `null` if there is none.
    pub metric: Option<String>,
    /// What it says.
    pub live: Option<i64>,
    /// That less all that is named and the rounding; negative where something named is freed already, or another allocator's.
    pub unattributed: Option<i128>,
    /// The peak since the checkpoint before.
    pub peak: Option<i64>,
    /// That less the weights, gradients and optimizer state named here.
    pub rest_at_peak: Option<i128>,
    /// Why there is no figure of what is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What a framework's pool said of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pool")]
pub struct PoolEntry {
    /// Its name.
    pub name: String,
    /// Whose memory it hands out.
    pub device: String,
    /// Bytes handed out.
    pub in_use: u64,
    /// Bytes lost to rounding.
    pub padding: u64,
    /// Bytes held.
    pub reserved: u64,
}

/// Layers that differ between the baseline and a candidate, at checkpoints at which the same tensors are named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Layers")]
pub struct LayersEntry {
    /// The candidate.
    pub r#ref: String,
    /// `package::binary::test`.
    pub test: String,
    /// The cell's parameters.
    pub params: IndexMap<String, String, FxBuildHasher>,
    /// The checkpoint of them whose figures are highest, as rows name it.
    pub checkpoint: String,
    /// How many checkpoints there are.
    pub checkpoints: usize,
    /// How many tensors are the same.
    pub unchanged: usize,
    /// Those that differ.
    pub changed: Vec<ChangedEntry>,
}

/// A layer that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChangedTensor")]
pub struct ChangedEntry {
    /// `added`, `removed`, `resized`, or `shared` where it shares its storage otherwise than before.
    pub change: LayerChange,
    /// In the baseline.
    pub baseline: Option<CountedEntry>,
    /// In the candidate.
    pub candidate: Option<CountedEntry>,
}

/// A tensor and what it counts for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CountedTensor")]
pub struct CountedEntry {
    /// What it is.
    #[serde(flatten)]
    pub tensor: TensorEntry,
    /// The bytes that it counts for: 0 where others have them already.
    pub counted: u64,
    /// The name of the one that has, or of the largest of those.
    pub shares_with: Option<String>,
}

impl TensorEntry {
    fn of(description: &Description) -> Self {
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

/// What a run named; `None` if it named nothing.
pub(in crate::report) fn of_run(measurement: &Measurement) -> Option<TensorsOfRun> {
    if measurement.tensors.is_empty() {
        return None;
    }
    let side = TensorSide::new(&[measurement])?;
    let points: Vec<usize> = (0..measurement.checkpoints().len())
        .filter(|index| measurement.checkpoints()[*index].kind == Kind::Point)
        .collect();
    let place = |index: usize| {
        let checkpoint = &measurement.checkpoints()[index];
        let label = measurement.label(checkpoint).to_owned();
        CheckpointName { checkpoint: label, occurrence: checkpoint.occurrence }
    };
    let record = &measurement.tensors;
    let before =
        |sequence: u64| points.partition_point(|index| measurement.checkpoints()[*index].sequence < sequence);
    let mut named: IndexMap<u32, NamedEntry, FxBuildHasher> = IndexMap::default();
    for (number, naming) in record.namings.iter().enumerate() {
        let (first, end) = (before(naming.from), before(naming.until));
        if first == end {
            continue;
        }
        let description = record.description(number);
        let entry = named.entry(naming.description).or_insert_with(|| NamedEntry {
            tensor: TensorEntry::of(description),
            storage: (naming.storage != 0).then_some(naming.storage),
            allocated: description.allocated,
            times: 0,
            first: place(points[first]),
            last: place(points[end - 1]),
        });
        entry.times += 1;
        if entry.times > 1 {
            entry.last = place(points[end - 1]);
        }
    }
    let checkpoints = points.iter().filter(|index| !side.is_empty_at(**index)).map(|&index| {
        let devices = side.devices_at(index).map(|device| device_entry(&side, index, device));
        let pools = side.pools_at(index).into_iter().map(|pool| {
            let [in_use, padding, reserved] = pool.figures;
            PoolEntry { name: pool.name.clone(), device: pool.device.to_string(), in_use, padding, reserved }
        });
        CheckpointEntry { place: place(index), devices: devices.collect(), pools: pools.collect() }
    });
    Some(TensorsOfRun { named: named.into_values().collect(), checkpoints: checkpoints.collect() })
}

fn device_entry(side: &TensorSide, checkpoint: usize, device: &TensorDevice) -> DeviceEntry {
    let figures = side.figures_at(checkpoint, device);
    let totals = &figures.totals;
    let kinds = || TensorKind::ALL.into_iter().filter(|kind| totals.of(*kind).tensors > 0);
    DeviceEntry {
        device: device.to_string(),
        bytes: kinds().map(|kind| (kind, totals.of(kind).bytes)).collect(),
        tensors: kinds().map(|kind| (kind, totals.of(kind).tensors)).collect(),
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

/// Where layers differ, in every pair that was compared.
pub(in crate::report) fn changes(comparison: &Comparison) -> Vec<LayersEntry> {
    let mut entries = Vec::new();
    for view in comparison.pairs().filter(crate::compare::comparison::PairView::is_compared) {
        let part = TensorReport::of_pair(comparison, &view);
        for moment in part.moments().iter().filter(|moment| part.is_on_both_sides(moment)) {
            let rows = layers(&part.alive(moment, 0), &part.alive(moment, 1));
            let changed: Vec<ChangedEntry> = rows.iter().filter_map(changed).collect();
            entries.push(LayersEntry {
                r#ref: view.new.name.clone(),
                test: view.cell.id.test.to_string(),
                params: view.cell.id.params.iter().cloned().collect(),
                checkpoint: part.label(moment).to_owned(),
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
            tensor: TensorEntry::of(one.description),
            counted: one.counted,
            shares_with: one.shares_with.map(str::to_owned),
        })
    };
    let [baseline, candidate] = row.sides.map(counted);
    Some(ChangedEntry { change: row.change()?, baseline, candidate })
}
