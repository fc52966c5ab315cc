//! Compares two revisions' named memory: checkpoints with the same tensors, totals against the
//! allocators' figures, and layers that differ. All figures of a side come from one run, so that
//! they belong to the same moment.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::tensor_states::{Alive, States, Totals, alive};
use crate::compare::unnamed_blocks::UnnamedBlocks;
use crate::results::live_sizes;
use crate::results::measurement::{Kind, Measurement};
use crate::results::tensor_record::{PoolReading, TensorDevice, TensorKind};
use memprof_plan::metric_family::family_of_point;

/// One revision's named memory in a cell.
#[derive(Debug)]
pub struct TensorSide<'a> {
    /// The run that is shown.
    pub measurement: &'a Measurement,
    /// The number of checkpoints at which another run named other tensors.
    pub differing: usize,
    states: States,
    /// The index of each point, by label and occurrence.
    indices: FxHashMap<(&'a str, u32), usize>,
    /// The pool readings since the previous checkpoint, by checkpoint.
    pools: FxHashMap<usize, Vec<usize>>,
}

/// A group of checkpoints with the same named tensors, and the one that reports show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The row with the highest figures.
    pub row: usize,
    /// The number of rows in the group.
    pub rows: usize,
    /// The row's highest figure on any device.
    pub height: i64,
}

/// A device's named memory at a checkpoint, and its allocator's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFigures {
    /// The named memory.
    pub totals: Totals,
    /// The allocator's live bytes, or why they are unavailable.
    pub live: Result<i64, String>,
    /// The peak since the previous checkpoint, or why that is unavailable.
    pub peak: Result<i64, String>,
}

/// The metrics of a device's allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Live bytes.
    pub live: String,
    /// The peak, if the allocator has one.
    pub peak: Option<String>,
}

/// A tensor of one side, or one of each with the same name, kind and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRow<'a> {
    /// Baseline and candidate.
    pub sides: [Option<Alive<'a>>; 2],
}

/// How a tensor changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LayerChange {
    /// In the candidate only.
    Added,
    /// In the baseline only.
    Removed,
    /// The shape, element type or size changed.
    Resized,
    /// Shares its storage with another tensor than before, or on one side only.
    Shared,
}

impl DeviceFigures {
    /// Returns the live bytes that no named tensor explains. Negative if a named tensor is freed
    /// already or belongs to another allocator.
    pub fn unattributed(&self) -> Option<i128> {
        Some(i128::from(*self.live.as_ref().ok()?) - self.totals.named())
    }

    /// Returns the peak minus weights, gradients and optimizer state: activations and everything
    /// else.
    pub fn rest_at_peak(&self) -> Option<i128> {
        Some(i128::from(*self.peak.as_ref().ok()?) - self.totals.lasting())
    }
}

impl<'a> TensorSide<'a> {
    /// Takes the runs that may be shown. The first one is shown; `None` if there is none.
    pub fn new(runs: &[&'a Measurement]) -> Option<Self> {
        let (measurement, others) = runs.split_first()?;
        let states = States::from_measurement(measurement);
        let indices = indices(measurement);
        let differing: BTreeSet<usize> = others
            .iter()
            .filter(|other| !(other.tensors.is_empty() && measurement.tensors.is_empty()))
            .flat_map(|other| differing(&states, &indices, other))
            .collect();
        let pools = pools(measurement);
        Some(Self { measurement, differing: differing.len(), states, indices, pools })
    }

    /// Returns the index of a checkpoint.
    pub fn place(&self, label: &str, occurrence: u32) -> Option<usize> {
        self.indices.get(&(label, occurrence)).copied()
    }

    /// Whether a checkpoint has neither named tensors nor pool readings.
    pub fn is_empty_at(&self, checkpoint: usize) -> bool {
        self.states.at(checkpoint).is_empty() && !self.pools.contains_key(&checkpoint)
    }

    /// Returns the devices with named tensors.
    pub fn devices_at(&self, checkpoint: usize) -> impl Iterator<Item = &TensorDevice> {
        self.states.at(checkpoint).totals.keys()
    }

    /// Returns the named memory of a device.
    pub fn totals_at(&self, checkpoint: usize, device: &TensorDevice) -> Totals {
        self.states.at(checkpoint).totals.get(device).cloned().unwrap_or_default()
    }

    /// Returns the named memory of a device with its allocator's figures.
    pub fn figures_at(&self, checkpoint: usize, device: &TensorDevice) -> DeviceFigures {
        let totals = self.totals_at(checkpoint, device);
        let figures = match self.allocator(device) {
            Ok(allocator) => {
                let peak = match &allocator.peak {
                    Some(peak) => self.reading(checkpoint, peak),
                    None => Err(format!("{} has no peak", allocator.live)),
                };
                [self.reading(checkpoint, &allocator.live), peak]
            }
            Err(reason) => [Err(reason.clone()), Err(reason)],
        };
        let [live, peak] = figures;
        DeviceFigures { totals, live, peak }
    }

    /// Returns the blocks of a device's allocator that no tensor is named in; `None` if the log does not
    /// have their sizes.
    pub fn unnamed_at(&self, checkpoint: usize, device: &TensorDevice) -> Option<UnnamedBlocks> {
        let record = &self.measurement.tensors;
        let allocator = self.allocator(device).ok()?;
        let family = family_of_point(&allocator.live)?;
        let sequence = self.measurement.checkpoints()[checkpoint].sequence;
        let live = live_sizes::before(&record.live_sizes, family, sequence)?;
        Some(UnnamedBlocks::from_record(record, device, sequence, live))
    }

    /// Returns all tensors at a checkpoint, in the order of naming.
    pub fn alive_at(&self, checkpoint: usize) -> Vec<Alive<'a>> {
        alive(&self.measurement.tensors, self.measurement.checkpoints()[checkpoint].sequence)
    }

    /// Returns the last reading of each pool since the previous checkpoint.
    pub fn pools_at(&self, checkpoint: usize) -> Vec<&'a PoolReading> {
        let pools = self.pools.get(&checkpoint).into_iter().flatten();
        pools.map(|pool| &self.measurement.tensors.pools[*pool]).collect()
    }

    /// Returns the metrics of the allocator behind a device's tensors, or why there are none.
    pub fn allocator(&self, device: &TensorDevice) -> Result<Allocator, String> {
        let of = |live: &str, peak: Option<&str>| Allocator {
            live: live.to_owned(),
            peak: peak.map(str::to_owned),
        };
        match device {
            TensorDevice::Cpu => Ok(of("heap.live", Some("heap.peak"))),
            TensorDevice::CpuMalloc => Ok(of("malloc.live", None)),
            TensorDevice::Cuda(ordinal) => match self.measurement.tensors.cuda_devices.get(ordinal) {
                Some(name) => Ok(of(&format!("gpu.{name}.live"), Some(&format!("gpu.{name}.peak")))),
                None => Err(format!("CUDA device {ordinal} was not measured")),
            },
            TensorDevice::Other(name) => Err(format!("cargo memprof cannot measure {name}")),
        }
    }

    fn reading(&self, checkpoint: usize, metric: &str) -> Result<i64, String> {
        let measurement = self.measurement;
        let reading = measurement.column(metric).and_then(|column| measurement.reading(column, checkpoint));
        reading.ok_or_else(|| match (measurement.absent.get(metric), metric) {
            (Some(reason), _) => format!("{metric} is unavailable: {reason}"),
            (None, "malloc.live") => "malloc.live is read on request only: --metrics malloc.live".to_owned(),
            (None, _) => format!("{metric} has no reading at this checkpoint"),
        })
    }

    /// Returns the highest figure of any device with named tensors.
    pub fn height(&self, checkpoint: usize) -> i64 {
        let heights = self.devices_at(checkpoint).filter_map(|device| {
            let allocator = self.allocator(device).ok()?;
            let peak = allocator.peak.and_then(|peak| self.reading(checkpoint, &peak).ok());
            peak.or_else(|| self.reading(checkpoint, &allocator.live).ok())
        });
        heights.max().unwrap_or(0)
    }
}

fn indices(measurement: &Measurement) -> FxHashMap<(&str, u32), usize> {
    let points = measurement.checkpoints().iter().enumerate();
    points
        .filter(|(_, checkpoint)| checkpoint.kind == Kind::Point)
        .map(|(index, checkpoint)| ((measurement.label(checkpoint), checkpoint.occurrence), index))
        .collect()
}

/// Returns the checkpoints, as indices of the first run, at which another run named other tensors.
fn differing(states: &States, indices: &FxHashMap<(&str, u32), usize>, other: &Measurement) -> Vec<usize> {
    let of_other = States::from_measurement(other);
    let points = other.checkpoints().iter().enumerate();
    points
        .filter(|(_, checkpoint)| checkpoint.kind == Kind::Point)
        .filter_map(|(index, checkpoint)| {
            let first = *indices.get(&(other.label(checkpoint), checkpoint.occurrence))?;
            (states.at(first) != of_other.at(index)).then_some(first)
        })
        .collect()
}

fn pools(measurement: &Measurement) -> FxHashMap<usize, Vec<usize>> {
    let record = &measurement.tensors;
    let mut pools = FxHashMap::default();
    let mut next = 0;
    let points = measurement.checkpoints().iter().enumerate();
    for (index, checkpoint) in points.filter(|(_, checkpoint)| checkpoint.kind == Kind::Point) {
        let mut last: IndexMap<(&str, &TensorDevice), usize, FxBuildHasher> = IndexMap::default();
        while let Some(pool) = record.pools.get(next).filter(|pool| pool.sequence < checkpoint.sequence) {
            last.insert((&pool.name, &pool.device), next);
            next += 1;
        }
        if !last.is_empty() {
            pools.insert(index, last.into_values().collect());
        }
    }
    pools
}

/// Groups the rows with named tensors by the tensors' state, in the order of first occurrence.
/// `rows` holds checkpoint indices of both sides.
pub fn moments(sides: [Option<&TensorSide<'_>>; 2], rows: &[[Option<usize>; 2]]) -> Vec<Moment> {
    let mut moments: IndexMap<_, Moment, FxBuildHasher> = IndexMap::default();
    for (number, row) in rows.iter().enumerate() {
        let both = [0, 1].map(|side| sides[side].zip(row[side]));
        if both.iter().flatten().all(|(side, place)| side.is_empty_at(*place)) {
            continue;
        }
        let key = both.map(|both| {
            let (side, place) = both?;
            Some((side.states.of_checkpoint[place], side.pools.contains_key(&place)))
        });
        let height = both.iter().flatten().next_back().map_or(0, |(side, place)| side.height(*place));
        let moment = moments.entry(key).or_insert(Moment { row: number, rows: 0, height });
        moment.rows += 1;
        if height > moment.height {
            (moment.row, moment.height) = (number, height);
        }
    }
    moments.into_values().collect()
}

/// Returns the `most` highest moments, in their order. Among equals, the first ones.
pub fn highest(moments: &[Moment], most: usize) -> Vec<Moment> {
    let mut order: Vec<usize> = (0..moments.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(moments[*place].height));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|place| moments[place].clone()).collect()
}

impl<'a> LayerRow<'a> {
    /// Returns how the tensor changed; `None` if it did not.
    pub fn change(&self) -> Option<LayerChange> {
        match self.sides {
            [Some(old), Some(new)] => {
                let is_same_form = (old.description.bytes, &old.description.shape, &old.description.dtype)
                    == (new.description.bytes, &new.description.shape, &new.description.dtype);
                match (is_same_form, old.shares_with == new.shares_with) {
                    (false, _) => Some(LayerChange::Resized),
                    (true, false) => Some(LayerChange::Shared),
                    (true, true) => None,
                }
            }
            [None, _] => Some(LayerChange::Added),
            [_, None] => Some(LayerChange::Removed),
        }
    }

    /// Returns the candidate's tensor, or else the baseline's.
    pub fn one(&self) -> Alive<'a> {
        match self.sides {
            [_, Some(one)] | [Some(one), None] => one,
            [None, None] => unreachable!("a row has at least one tensor"),
        }
    }

    /// Returns the growth of its counted bytes.
    pub fn grown(&self) -> i128 {
        let [old, new] = self.sides.map(|side| i128::from(side.map_or(0, |side| side.counted)));
        new - old
    }
}

/// Matches the tensors of both sides by name, kind and device; among equals, the first with the
/// first. Rows follow the baseline; an added tensor follows its predecessor in the candidate.
pub fn layers<'a>(old: &[Alive<'a>], new: &[Alive<'a>]) -> Vec<LayerRow<'a>> {
    type LayerKey<'a> = (&'a str, TensorKind, &'a TensorDevice);
    fn key<'a>(one: &Alive<'a>) -> LayerKey<'a> {
        (&one.description.name, one.description.kind, &one.description.device)
    }
    let mut indices: FxHashMap<LayerKey, Vec<usize>> = FxHashMap::default();
    for (index, one) in old.iter().enumerate().rev() {
        indices.entry(key(one)).or_default().push(index);
    }
    let mut partners: Vec<Option<Alive>> = vec![None; old.len()];
    // Added tensors follow a tensor of the baseline, or come first.
    let mut added: Vec<Vec<Alive>> = vec![Vec::new(); old.len() + 1];
    let mut after = 0;
    for one in new {
        match indices.get_mut(&key(one)).and_then(Vec::pop) {
            Some(index) => {
                partners[index] = Some(*one);
                after = index + 1;
            }
            None => added[after].push(*one),
        }
    }
    let added_row = |one: &Alive<'a>| LayerRow { sides: [None, Some(*one)] };
    let mut rows: Vec<LayerRow> = added[0].iter().map(added_row).collect();
    for (index, one) in old.iter().enumerate() {
        rows.push(LayerRow { sides: [Some(*one), partners[index]] });
        rows.extend(added[index + 1].iter().map(added_row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::sample_log::{checkpoint, end, measurement, tensor};
    use crate::results::shim_log;

    fn side<'a>(runs: &[&'a Measurement]) -> TensorSide<'a> {
        TensorSide::new(runs).unwrap()
    }

    #[test]
    fn each_devices_allocator_determines_its_unattributed_memory() {
        let metrics = json!({"heap.live": 1000, "heap.peak": 1500, "gpu.3.live": 70, "gpu.3.peak": 90});
        let measurement = measurement(&[
            tensor(1, "cpu", ("w", "weight", 0, 400)),
            tensor(1, "cpu", ("a", "activation", 0, 100)),
            tensor(1, "cuda:0", ("w", "weight", 0, 80)),
            tensor(1, "malloc", ("w", "weight", 0, 1)),
            tensor(1, "other:metal:0", ("w", "weight", 0, 1)),
            tensor(1, "cuda:5", ("w", "weight", 0, 1)),
            // The log names the device only after the tensor.
            json!({"event": "cuda_device", "ordinal": 0, "device": "3"}),
            checkpoint("here", 1, &metrics),
        ]);
        let side = side(&[&measurement]);
        let of = |device: &TensorDevice| side.figures_at(0, device);
        let cpu = of(&TensorDevice::Cpu);
        assert_eq!((cpu.unattributed(), cpu.rest_at_peak()), (Some(500), Some(1100)));
        // More is named than is live: the difference is negative.
        let cuda = of(&TensorDevice::Cuda(0));
        assert_eq!((cuda.unattributed(), cuda.rest_at_peak()), (Some(-10), Some(10)));
        let reasons =
            [TensorDevice::CpuMalloc, TensorDevice::Other("metal:0".to_owned()), TensorDevice::Cuda(5)]
                .map(|device| of(&device).live.unwrap_err());
        assert_eq!(
            reasons,
            [
                "malloc.live is read on request only: --metrics malloc.live",
                "cargo memprof cannot measure metal:0",
                "CUDA device 5 was not measured",
            ]
        );
    }

    #[test]
    fn an_allocator_without_a_figure_gives_its_reason() {
        let measurement = measurement(&[
            json!({"event": "absent", "metric": "heap.live", "reason": "own allocator"}),
            tensor(1, "cpu", ("w", "weight", 0, 400)),
            checkpoint("here", 1, &json!({})),
        ]);
        let figures = side(&[&measurement]).figures_at(0, &TensorDevice::Cpu);
        assert_eq!(figures.live, Err("heap.live is unavailable: own allocator".to_owned()));
        assert_eq!((figures.unattributed(), figures.rest_at_peak()), (None, None));
    }

    #[test]
    fn layers_are_matched_by_name_kind_and_device() {
        let old = measurement(&[
            tensor(1, "cpu", ("embedding", "weight", 7, 400)),
            tensor(1, "cpu", ("head", "weight", 7, 400)),
            tensor(1, "cpu", ("old", "weight", 0, 10)),
            tensor(1, "cpu", ("0", "weight", 0, 100)),
            tensor(1, "cpu", ("0", "gradient", 0, 100)),
            checkpoint("here", 1, &json!({})),
        ]);
        let new = measurement(&[
            tensor(1, "cpu", ("first", "weight", 0, 1)),
            tensor(1, "cpu", ("embedding", "weight", 1, 400)),
            tensor(1, "cpu", ("head", "weight", 2, 400)),
            tensor(1, "cpu", ("0", "weight", 0, 140)),
            tensor(1, "cuda:0", ("0", "gradient", 0, 100)),
            checkpoint("here", 1, &json!({})),
        ]);
        let [old, new] = [&old, &new].map(|measurement| side(&[measurement]).alive_at(0));
        let rows = layers(&old, &new);
        let changes: Vec<_> = rows
            .iter()
            .map(|row| (&*row.one().description.name, row.change(), i64::try_from(row.grown()).unwrap()))
            .collect();
        assert_eq!(
            changes,
            [
                ("first", Some(LayerChange::Added), 1),
                ("embedding", None, 0),
                ("head", Some(LayerChange::Shared), 400),
                ("old", Some(LayerChange::Removed), -10),
                ("0", Some(LayerChange::Resized), 40),
                ("0", Some(LayerChange::Added), 100),
                ("0", Some(LayerChange::Removed), -100),
            ]
        );
    }

    #[test]
    fn checkpoints_with_the_same_tensors_are_one_moment() {
        let at =
            |label: &str, occurrence, peak: i64| checkpoint(label, occurrence, &json!({"heap.peak": peak}));
        let run = |peaks: [i64; 4]| {
            measurement(&[
                at("start", 1, 9000),
                tensor(1, "cpu", ("w", "weight", 0, 400)),
                at("step", 1, peaks[0]),
                at("step", 2, peaks[1]),
                tensor(2, "cpu", ("g", "gradient", 0, 400)),
                at("backward", 1, peaks[2]),
                end(2),
                at("step", 3, peaks[3]),
            ])
        };
        let (old, new) = (run([1, 2, 3, 4]), run([5, 9, 3, 4]));
        let [old, new] = [&old, &new].map(|measurement| side(&[measurement]));
        let rows: Vec<[Option<usize>; 2]> = (0..5).map(|place| [Some(place); 2]).collect();
        let moments = moments([Some(&old), Some(&new)], &rows);
        assert_eq!(moments, [Moment { row: 2, rows: 3, height: 9 }, Moment { row: 3, rows: 1, height: 3 }]);
        assert_eq!(highest(&moments, 1), moments[..1]);
        assert_eq!(highest(&[moments[1].clone(), moments[0].clone()], 1), moments[..1]);
        assert_eq!(highest(&moments, 2), moments);
        assert_eq!((new.place("step", 3), new.place("step", 4)), (Some(4), None));
    }

    #[test]
    fn the_last_reading_of_a_pool_belongs_to_the_next_checkpoint() {
        let pool = |in_use: u64| json!({"event": "pool", "name": "p", "device": "cuda:0", "in_use": in_use, "padding": 1, "reserved": 64});
        let measurement = measurement(&[
            pool(1),
            pool(2),
            checkpoint("here", 1, &json!({})),
            checkpoint("there", 1, &json!({})),
        ]);
        let side = side(&[&measurement]);
        let figures: Vec<_> = side.pools_at(0).iter().map(|pool| pool.figures).collect();
        assert_eq!(figures, [[2, 1, 64]]);
        assert!(side.pools_at(1).is_empty() && side.is_empty_at(1));
    }

    #[test]
    fn runs_that_name_other_tensors_are_counted() {
        let run = |bytes| {
            measurement(&[
                tensor(1, "cpu", ("w", "weight", 0, 400)),
                checkpoint("here", 1, &json!({})),
                tensor(2, "cpu", ("g", "gradient", bytes, bytes)),
                checkpoint("there", 1, &json!({})),
            ])
        };
        let (first, second, third) = (run(8), run(8), run(12));
        assert_eq!(side(&[&first, &second]).differing, 0);
        assert_eq!(side(&[&first, &second, &third]).differing, 1);
    }

    #[test]
    fn a_torn_log_keeps_the_tensors_before_its_end() {
        let text = crate::results::sample_log::text(&[
            tensor(1, "cpu", ("w", "weight", 0, 400)),
            checkpoint("here", 1, &json!({"heap.live": 500})),
            tensor(2, "cpu", ("g", "gradient", 0, 400)),
        ]);
        let measurement = shim_log::read(&text.as_bytes()[..text.len() - 20], "log.jsonl").unwrap();
        assert!(measurement.notes[0].starts_with("line 3 is cut off"), "{:?}", measurement.notes);
        let side = side(&[&measurement]);
        assert_eq!(side.alive_at(0).len(), 1);
        assert_eq!(side.figures_at(0, &TensorDevice::Cpu).unattributed(), Some(100));
    }
}
