//! Two revisions' named memory side by side: at which checkpoints the same is named, what that comes to against the
//! allocators' own figures, and which layers differ. A side's figures are all of one run, so that what is named and what the
//! allocator says are of the same moment.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::tensor_states::{Alive, States, Totals, alive};
use crate::results::measurement::{Kind, Measurement};
use crate::results::tensor_record::{PoolReading, TensorDevice, TensorKind};

/// One revision's part.
#[derive(Debug)]
pub struct TensorSide<'a> {
    /// The run that is shown.
    pub measurement: &'a Measurement,
    /// At how many checkpoints another run has named something else.
    pub differing: usize,
    states: States,
    /// Of points, by label and occurrence.
    places: FxHashMap<(&'a str, u32), usize>,
    /// By checkpoint: the pools that said something since the one before.
    pools: FxHashMap<usize, Vec<usize>>,
}

/// Checkpoints at which the same is named on either side, and the one of them that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The row whose figures are highest.
    pub row: usize,
    /// How many rows there are like it.
    pub rows: usize,
    /// Its highest figure, of any device.
    pub height: i64,
}

/// What is named at a checkpoint on one device, and what its allocator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFigures {
    /// What is named.
    pub totals: Totals,
    /// The allocator's figure of what is live, or why there is none.
    pub live: Result<i64, String>,
    /// Its highest since the checkpoint before, or why that is not known.
    pub peak: Result<i64, String>,
}

/// The metrics that tell of a device as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// What is live.
    pub live: String,
    /// Its peak, where the allocator has one.
    pub peak: Option<String>,
}

/// A tensor of either side, or one of each with the same name, kind and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRow<'a> {
    /// Baseline and candidate.
    pub sides: [Option<Alive<'a>>; 2],
}

/// What became of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LayerChange {
    /// In the candidate only.
    Added,
    /// In the baseline only.
    Removed,
    /// Other extents, another type, other bytes.
    Resized,
    /// It shares its storage on one side, and on the other does not or with another one.
    Shared,
}

impl DeviceFigures {
    /// What the allocator has and nobody named; negative where something named is freed already or another allocator's.
    pub fn unattributed(&self) -> Option<i128> {
        Some(i128::from(*self.live.as_ref().ok()?) - self.totals.named())
    }

    /// The peak less what lasts from step to step: activations, and all else.
    pub fn rest_at_peak(&self) -> Option<i128> {
        Some(i128::from(*self.peak.as_ref().ok()?) - self.totals.lasting())
    }
}

impl<'a> TensorSide<'a> {
    /// Of all runs whose figures count; the first is shown. `None` if there is none.
    pub fn new(runs: &[&'a Measurement]) -> Option<Self> {
        let (measurement, others) = runs.split_first()?;
        let states = States::of(measurement);
        let places = places(measurement);
        let differing: BTreeSet<usize> = others
            .iter()
            .filter(|other| !(other.tensors.is_empty() && measurement.tensors.is_empty()))
            .flat_map(|other| differing(&states, &places, other))
            .collect();
        let pools = pools(measurement);
        Some(Self { measurement, differing: differing.len(), states, places, pools })
    }

    /// The index of a checkpoint.
    pub fn place(&self, label: &str, occurrence: u32) -> Option<usize> {
        self.places.get(&(label, occurrence)).copied()
    }

    /// Whether something is named at a checkpoint, or a pool said something before it.
    pub fn is_empty_at(&self, checkpoint: usize) -> bool {
        self.states.at(checkpoint).is_empty() && !self.pools.contains_key(&checkpoint)
    }

    /// The devices on which something is named.
    pub fn devices_at(&self, checkpoint: usize) -> impl Iterator<Item = &TensorDevice> {
        self.states.at(checkpoint).totals.keys()
    }

    /// What is named on a device.
    pub fn totals_at(&self, checkpoint: usize, device: &TensorDevice) -> Totals {
        self.states.at(checkpoint).totals.get(device).cloned().unwrap_or_default()
    }

    /// What is named on a device against its allocator's figures.
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

    /// All tensors at a checkpoint, in the order of naming.
    pub fn alive_at(&self, checkpoint: usize) -> Vec<Alive<'a>> {
        alive(&self.measurement.tensors, self.measurement.checkpoints()[checkpoint].sequence)
    }

    /// What pools said since the checkpoint before, of each the last.
    pub fn pools_at(&self, checkpoint: usize) -> Vec<&'a PoolReading> {
        let pools = self.pools.get(&checkpoint).into_iter().flatten();
        pools.map(|pool| &self.measurement.tensors.pools[*pool]).collect()
    }

    /// The metrics of the allocator that a device's tensors come from, or why there are none.
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
                None => Err(format!("no figures were taken of the CUDA device {ordinal}")),
            },
            TensorDevice::Other(name) => Err(format!("no figures are taken of {name}")),
        }
    }

    fn reading(&self, checkpoint: usize, metric: &str) -> Result<i64, String> {
        let measurement = self.measurement;
        let reading = measurement.column(metric).and_then(|column| measurement.reading(column, checkpoint));
        reading.ok_or_else(|| match (measurement.absent.get(metric), metric) {
            (Some(reason), _) => format!("{metric} is absent: {reason}"),
            (None, "malloc.live") => "malloc.live is measured only if --metrics names it".to_owned(),
            (None, _) => format!("{metric} has no reading at this checkpoint"),
        })
    }

    /// The highest figure of any device on which something is named.
    fn height(&self, checkpoint: usize) -> i64 {
        let heights = self.devices_at(checkpoint).filter_map(|device| {
            let allocator = self.allocator(device).ok()?;
            let peak = allocator.peak.and_then(|peak| self.reading(checkpoint, &peak).ok());
            peak.or_else(|| self.reading(checkpoint, &allocator.live).ok())
        });
        heights.max().unwrap_or(0)
    }
}

fn places(measurement: &Measurement) -> FxHashMap<(&str, u32), usize> {
    let points = measurement.checkpoints().iter().enumerate();
    points
        .filter(|(_, checkpoint)| checkpoint.kind == Kind::Point)
        .map(|(index, checkpoint)| ((measurement.label(checkpoint), checkpoint.occurrence), index))
        .collect()
}

/// The checkpoints, by their index in the first run, at which another run has named something else.
fn differing(states: &States, places: &FxHashMap<(&str, u32), usize>, other: &Measurement) -> Vec<usize> {
    let of_other = States::of(other);
    let points = other.checkpoints().iter().enumerate();
    points
        .filter(|(_, checkpoint)| checkpoint.kind == Kind::Point)
        .filter_map(|(index, checkpoint)| {
            let place = *places.get(&(other.label(checkpoint), checkpoint.occurrence))?;
            (states.at(place) != of_other.at(index)).then_some(place)
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

/// The rows at which anything is named, those with the same tensors put together, in the order in which they first come.
/// `rows` are checkpoints of the two sides.
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

/// The highest of them, in their order; of equally high ones the first.
pub fn highest(moments: &[Moment], most: usize) -> Vec<Moment> {
    let mut order: Vec<usize> = (0..moments.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(moments[*place].height));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|place| moments[place].clone()).collect()
}

impl<'a> LayerRow<'a> {
    /// What became of it; `None` if it is the same on both sides.
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

    /// The candidate's, or else the baseline's.
    pub fn one(&self) -> Alive<'a> {
        match self.sides {
            [_, Some(one)] | [Some(one), None] => one,
            [None, None] => unreachable!("a row is of a tensor"),
        }
    }

    /// By how many bytes what it counts for grew.
    pub fn grown(&self) -> i128 {
        let [old, new] = self.sides.map(|side| i128::from(side.map_or(0, |side| side.counted)));
        new - old
    }
}

/// The tensors of both sides in the baseline's order, what only the candidate has after its predecessor there. Of several with
/// the same name, kind and device the first goes with the first.
pub fn layers<'a>(old: &[Alive<'a>], new: &[Alive<'a>]) -> Vec<LayerRow<'a>> {
    type Key<'a> = (&'a str, TensorKind, &'a TensorDevice);
    fn key<'a>(one: &Alive<'a>) -> Key<'a> {
        (&one.description.name, one.description.kind, &one.description.device)
    }
    let mut places: FxHashMap<Key, Vec<usize>> = FxHashMap::default();
    for (place, one) in old.iter().enumerate().rev() {
        places.entry(key(one)).or_default().push(place);
    }
    let mut partners: Vec<Option<Alive>> = vec![None; old.len()];
    // What is added stands after a tensor of the baseline's, or before all of them.
    let mut added: Vec<Vec<Alive>> = vec![Vec::new(); old.len() + 1];
    let mut after = 0;
    for one in new {
        match places.get_mut(&key(one)).and_then(Vec::pop) {
            Some(place) => {
                partners[place] = Some(*one);
                after = place + 1;
            }
            None => added[after].push(*one),
        }
    }
    let added_row = |one: &Alive<'a>| LayerRow { sides: [None, Some(*one)] };
    let mut rows: Vec<LayerRow> = added[0].iter().map(added_row).collect();
    for (place, one) in old.iter().enumerate() {
        rows.push(LayerRow { sides: [Some(*one), partners[place]] });
        rows.extend(added[place + 1].iter().map(added_row));
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
    fn the_rest_is_what_the_allocator_of_that_device_has_beyond_what_is_named() {
        let metrics = json!({"heap.live": 1000, "heap.peak": 1500, "gpu.3.live": 70, "gpu.3.peak": 90});
        let measurement = measurement(&[
            tensor(1, "cpu", ("w", "weight", 0, 400)),
            tensor(1, "cpu", ("a", "activation", 0, 100)),
            tensor(1, "cuda:0", ("w", "weight", 0, 80)),
            tensor(1, "malloc", ("w", "weight", 0, 1)),
            tensor(1, "other:metal:0", ("w", "weight", 0, 1)),
            tensor(1, "cuda:5", ("w", "weight", 0, 1)),
            // It is known only after the naming which device that is.
            json!({"event": "cuda_device", "ordinal": 0, "device": "3"}),
            checkpoint("here", 1, &metrics),
        ]);
        let side = side(&[&measurement]);
        let of = |device: &TensorDevice| side.figures_at(0, device);
        let cpu = of(&TensorDevice::Cpu);
        assert_eq!((cpu.unattributed(), cpu.rest_at_peak()), (Some(500), Some(1100)));
        // More is named than there is: said as it is.
        let cuda = of(&TensorDevice::Cuda(0));
        assert_eq!((cuda.unattributed(), cuda.rest_at_peak()), (Some(-10), Some(10)));
        let reasons =
            [TensorDevice::CpuMalloc, TensorDevice::Other("metal:0".to_owned()), TensorDevice::Cuda(5)]
                .map(|device| of(&device).live.unwrap_err());
        assert_eq!(
            reasons,
            [
                "malloc.live is measured only if --metrics names it",
                "no figures are taken of metal:0",
                "no figures were taken of the CUDA device 5",
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
        assert_eq!(figures.live, Err("heap.live is absent: own allocator".to_owned()));
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
        let said: Vec<_> = rows
            .iter()
            .map(|row| (&*row.one().description.name, row.change(), i64::try_from(row.grown()).unwrap()))
            .collect();
        assert_eq!(
            said,
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
    fn checkpoints_with_the_same_tensors_are_one_moment_at_the_highest_of_them() {
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
    fn a_pool_belongs_to_the_checkpoint_that_follows_and_its_last_word_counts() {
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
    fn runs_that_name_something_else_are_counted() {
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
    fn a_torn_log_tells_what_was_named_up_to_where_it_ends() {
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
