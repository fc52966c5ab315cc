//! The named memory at each checkpoint of a run: totals by device and kind, each storage counted
//! once. Linear in namings and checkpoints: each checkpoint only processes the tensors that began
//! or ended since the previous one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::compare::shared_storage::{Share, Shares};
use crate::results::measurement::Measurement;
use crate::results::tensor_record::{Description, Naming, TensorDevice, TensorKind, TensorRecord};

/// The state of the named memory at each checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    /// The index of each checkpoint's state.
    pub of_checkpoint: Vec<usize>,
    /// Each distinct state once. The first is empty.
    pub states: Vec<State>,
}

/// The named memory at one moment. Two states are equal if they hold the same tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Totals by device.
    pub totals: BTreeMap<TensorDevice, Totals>,
    /// A sum of all descriptions' hashes, independent of their order.
    fingerprint: u128,
}

/// The named memory of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// By kind, in the order of [`TensorKind::ALL`].
    pub kinds: [KindTotal; TensorKind::ALL.len()],
    /// Bytes that the allocator holds for storages beyond their named bytes, if known.
    pub rounding: i128,
    /// The number of storages.
    pub storages: u64,
    /// The number of storages whose allocated size is known.
    pub with_allocated: u64,
}

/// The total of one kind of tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KindTotal {
    /// Bytes, each storage counted once. Programs report these numbers, so they may exceed any real
    /// memory.
    pub bytes: i128,
    /// The number of tensors, including those that share a storage.
    pub tensors: u64,
}

/// A tensor that was alive at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive<'a> {
    /// The tensor as it was named.
    pub description: &'a Description,
    /// The bytes that it counts for; 0 if another tensor counts them.
    pub counted: u64,
    /// The tensor that counts them; of several, the largest.
    pub shares_with: Option<&'a str>,
}

impl Totals {
    /// Returns the total of one kind.
    pub fn of_kind(&self, kind: TensorKind) -> KindTotal {
        self.kinds[kind as usize]
    }

    /// Returns all named bytes, including rounding.
    pub fn named(&self) -> i128 {
        self.kinds.iter().fold(self.rounding, |sum, kind| sum + kind.bytes)
    }

    /// Returns the bytes that outlive a step: weights, gradients and optimizer state.
    pub(crate) fn lasting(&self) -> i128 {
        let lasting = [TensorKind::Weight, TensorKind::Gradient, TensorKind::OptimizerState];
        lasting.iter().map(|kind| self.of_kind(*kind).bytes).sum()
    }

    fn is_empty(&self) -> bool {
        self.kinds.iter().all(|kind| kind.tensors == 0)
    }
}

impl State {
    /// Whether nothing was named.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }
}

/// The tensors of one storage.
#[derive(Default)]
struct Storage {
    namings: BTreeSet<usize>,
    /// What the totals include for them.
    counted: Option<StorageTotals>,
    is_stale: bool,
}

/// What the tensors of one storage add to the totals.
struct StorageTotals {
    kinds: Vec<(TensorKind, u64)>,
    rounding: u64,
    is_allocated_known: bool,
}

impl StorageTotals {
    fn from_record(record: &TensorRecord, namings: Vec<usize>) -> Self {
        let shares = Shares::from_record(record, namings);
        let kind = |share: &Share| record.description(share.naming).kind;
        let is_allocated_known = shares.allocated.is_some();
        let kinds = shares.tensors.iter().map(|share| (kind(share), share.counted)).collect();
        Self { kinds, rounding: shares.rounding(), is_allocated_known }
    }

    fn add_to(&self, totals: &mut Totals) {
        for (kind, bytes) in &self.kinds {
            totals.kinds[*kind as usize].bytes += i128::from(*bytes);
        }
        totals.rounding += i128::from(self.rounding);
        totals.storages += 1;
        totals.with_allocated += u64::from(self.is_allocated_known);
    }

    fn take_from(&self, totals: &mut Totals) {
        for (kind, bytes) in &self.kinds {
            totals.kinds[*kind as usize].bytes -= i128::from(*bytes);
        }
        totals.rounding -= i128::from(self.rounding);
        totals.storages -= 1;
        totals.with_allocated -= u64::from(self.is_allocated_known);
    }
}

type StorageKey<'a> = (&'a TensorDevice, u64);

/// Tracks the live tensors while reading the log in order.
struct StateTracker<'a> {
    record: &'a TensorRecord,
    state: State,
    storages: FxHashMap<StorageKey<'a>, Storage>,
    /// The storages whose tensors have changed since they were counted.
    stale: Vec<StorageKey<'a>>,
    /// By index of the description.
    hashes: Vec<u128>,
}

impl<'a> StateTracker<'a> {
    fn new(record: &'a TensorRecord) -> Self {
        let hashes = record.descriptions.iter().map(hash).collect();
        Self { record, state: State::default(), storages: FxHashMap::default(), stale: Vec::new(), hashes }
    }

    fn begin(&mut self, naming: usize) {
        self.change(naming, Transition::Begins);
    }

    fn end(&mut self, naming: usize) {
        self.change(naming, Transition::Ends);
    }

    fn change(&mut self, naming: usize, change: Transition) {
        let record = self.record;
        let description = record.description(naming);
        let storage = record.namings[naming].storage;
        let hash = self.hashes[record.namings[naming].description as usize];
        let begins = change == Transition::Begins;
        self.state.fingerprint = match change {
            Transition::Begins => self.state.fingerprint.wrapping_add(hash),
            Transition::Ends => self.state.fingerprint.wrapping_sub(hash),
        };
        let totals = self.state.totals.entry(description.device.clone()).or_default();
        let tensors = &mut totals.kinds[description.kind as usize].tensors;
        *tensors = if begins { *tensors + 1 } else { *tensors - 1 };
        if storage == 0 {
            let alone = StorageTotals::from_record(record, vec![naming]);
            return if begins { alone.add_to(totals) } else { alone.take_from(totals) };
        }
        let key = (&description.device, storage);
        let shared = self.storages.entry(key).or_default();
        if begins {
            shared.namings.insert(naming);
        } else {
            shared.namings.remove(&naming);
        }
        if !std::mem::replace(&mut shared.is_stale, true) {
            self.stale.push(key);
        }
    }

    /// Counts the changed storages. Runs only at checkpoints: a storage may have many tensors,
    /// which come one by one.
    fn settle(&mut self) {
        for key in self.stale.drain(..) {
            let Some(storage) = self.storages.get_mut(&key) else { continue };
            let totals = self.state.totals.entry(key.0.clone()).or_default();
            if let Some(counted) = storage.counted.take() {
                counted.take_from(totals);
            }
            storage.is_stale = false;
            if storage.namings.is_empty() {
                self.storages.remove(&key);
                continue;
            }
            let counted = StorageTotals::from_record(self.record, storage.namings.iter().copied().collect());
            counted.add_to(totals);
            storage.counted = Some(counted);
        }
        self.state.totals.retain(|_, totals| !totals.is_empty());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transition {
    Begins,
    Ends,
}

/// A hash that is the same in every run and on every machine.
fn hash(description: &Description) -> u128 {
    let Description { name, kind, shape, dtype, device, bytes, allocated, range } = description;
    let text = format!("{name:?} {kind:?} {shape:?} {dtype:?} {device:?} {bytes} {allocated:?} {range:?}");
    let hash = blake3::hash(text.as_bytes());
    let first: [u8; 16] = hash.as_bytes()[..16].try_into().expect("a hash has 32 bytes");
    u128::from_le_bytes(first)
}

impl States {
    /// Returns the states at all checkpoints of a run, including scopes.
    pub(crate) fn from_measurement(measurement: &Measurement) -> Self {
        let record = &measurement.tensors;
        let mut states = Self { of_checkpoint: Vec::new(), states: vec![State::default()] };
        let mut known: FxHashMap<State, usize> = FxHashMap::from_iter([(State::default(), 0)]);
        let mut tracker = StateTracker::new(record);
        let mut begins = order(record, |naming| naming.from).into_iter().peekable();
        let mut ends = order(record, |naming| naming.until).into_iter().peekable();
        let mut current = 0;
        for checkpoint in measurement.checkpoints() {
            let mut has_changed = false;
            loop {
                let begin = begins.peek().map_or(u64::MAX, |naming| record.namings[*naming].from);
                let end = ends.peek().map_or(u64::MAX, |naming| record.namings[*naming].until);
                if begin.min(end) > checkpoint.sequence {
                    break;
                }
                has_changed = true;
                if begin <= end {
                    tracker.begin(begins.next().unwrap_or_default());
                } else {
                    tracker.end(ends.next().unwrap_or_default());
                }
            }
            if has_changed {
                tracker.settle();
                current = *known.entry(tracker.state.clone()).or_insert_with(|| {
                    states.states.push(tracker.state.clone());
                    states.states.len() - 1
                });
            }
            states.of_checkpoint.push(current);
        }
        states
    }

    /// Returns the state at a checkpoint.
    pub fn at(&self, checkpoint: usize) -> &State {
        &self.states[self.of_checkpoint[checkpoint]]
    }
}

fn order(record: &TensorRecord, of: impl Fn(&Naming) -> u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..record.namings.len()).collect();
    order.sort_by_key(|naming| of(&record.namings[*naming]));
    order
}

/// Returns the tensors alive at a line of the log, in the order of naming.
pub(crate) fn alive(record: &TensorRecord, sequence: u64) -> Vec<Alive<'_>> {
    let lives = |naming: &usize| {
        let naming = &record.namings[*naming];
        naming.from < sequence && sequence < naming.until
    };
    let namings: Vec<usize> = (0..record.namings.len()).filter(lives).collect();
    let mut storages: FxHashMap<StorageKey, Vec<usize>> = FxHashMap::default();
    let mut counted: FxHashMap<usize, Share> = FxHashMap::default();
    for &naming in &namings {
        match record.namings[naming].storage {
            0 => counted.extend(shares(record, vec![naming])),
            storage => {
                storages.entry((&record.description(naming).device, storage)).or_default().push(naming);
            }
        }
    }
    counted.extend(storages.into_values().flat_map(|namings| shares(record, namings)));
    let alive = |naming: usize| Alive {
        description: record.description(naming),
        counted: counted[&naming].counted,
        shares_with: counted[&naming].shares_with.map(|owner| &*record.description(owner).name),
    };
    namings.into_iter().map(alive).collect()
}

fn shares(record: &TensorRecord, namings: Vec<usize>) -> impl Iterator<Item = (usize, Share)> {
    Shares::from_record(record, namings).tensors.into_iter().map(|share| (share.naming, share))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::sample_log::{checkpoint, end, measurement, tensor};

    fn cpu(states: &States, checkpoint: usize) -> Totals {
        states.at(checkpoint).totals.get(&TensorDevice::Cpu).cloned().unwrap_or_default()
    }

    #[test]
    fn the_order_of_the_log_decides_what_is_alive_at_each_checkpoint() {
        let here = |label: &str| checkpoint(label, 1, &json!({}));
        let measurement = measurement(&[
            here("start"),
            tensor(1, "cpu", ("w", "weight", 0, 100)),
            tensor(2, "cuda:0", ("g", "gradient", 0, 30)),
            here("both"),
            end(1),
            here("one"),
            end(2),
            tensor(3, "cpu", ("w", "weight", 0, 100)),
            here("again"),
        ]);
        let states = States::from_measurement(&measurement);
        assert_eq!(states.of_checkpoint, [0, 1, 2, 3]);
        assert!(states.at(0).is_empty());
        assert_eq!(cpu(&states, 1).of_kind(TensorKind::Weight), KindTotal { bytes: 100, tensors: 1 });
        assert_eq!(states.at(1).totals[&TensorDevice::Cuda(0)].of_kind(TensorKind::Gradient).bytes, 30);
        assert_eq!(states.at(2).totals.keys().collect::<Vec<_>>(), [&TensorDevice::Cuda(0)]);
        let sequence = measurement.checkpoints()[3].sequence;
        let names: Vec<_> =
            alive(&measurement.tensors, sequence).iter().map(|one| &*one.description.name).collect();
        assert_eq!(names, ["w"]);
    }

    #[test]
    fn the_same_tensors_later_are_the_same_state() {
        let here = |occurrence| checkpoint("step", occurrence, &json!({}));
        let mut lines = vec![tensor(1, "cpu", ("w", "weight", 9, 100))];
        for step in 0..4 {
            // At another address each time.
            lines.extend([
                here(2 * step + 1),
                tensor(u64::from(step) + 2, "cpu", ("g", "gradient", u64::from(step) + 10, 100)),
                here(2 * step + 2),
                end(u64::from(step) + 2),
            ]);
        }
        let states = States::from_measurement(&measurement(&lines));
        assert_eq!(states.of_checkpoint, [1, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn a_shared_storage_counts_for_the_first_tensor_until_that_ends() {
        let here = |label: &str| checkpoint(label, 1, &json!({}));
        let measurement = measurement(&[
            tensor(1, "cpu", ("embedding", "weight", 7, 400)),
            tensor(2, "cpu", ("head", "other", 7, 400)),
            tensor(3, "cuda:0", ("elsewhere", "weight", 7, 400)),
            here("tied"),
            end(1),
            here("one is left"),
        ]);
        let states = States::from_measurement(&measurement);
        let of = |at, kind| cpu(&states, at).of_kind(kind);
        assert_eq!(of(0, TensorKind::Weight), KindTotal { bytes: 400, tensors: 1 });
        assert_eq!(of(0, TensorKind::Other), KindTotal { bytes: 0, tensors: 1 });
        assert_eq!((cpu(&states, 0).storages, cpu(&states, 0).named()), (1, 400));
        assert_eq!(of(1, TensorKind::Other), KindTotal { bytes: 400, tensors: 1 });
        let alive = alive(&measurement.tensors, measurement.checkpoints()[0].sequence);
        let counted: Vec<_> = alive.iter().map(|one| (one.counted, one.shares_with)).collect();
        assert_eq!(counted, [(400, None), (0, Some("embedding")), (400, None)]);
    }

    #[test]
    fn a_view_that_is_named_before_the_whole_does_not_own_its_storage() {
        let measurement = measurement(&[
            tensor(1, "cpu", ("row", "other", 7, 40)),
            tensor(1, "cpu", ("whole", "weight", 7, 400)),
            checkpoint("here", 1, &json!({})),
        ]);
        let alive = alive(&measurement.tensors, measurement.checkpoints()[0].sequence);
        let counted: Vec<_> = alive.iter().map(|one| (one.counted, one.shares_with)).collect();
        assert_eq!(counted, [(0, Some("whole")), (400, None)]);
    }

    #[test]
    fn rounding_is_what_the_allocator_holds_beyond_the_elements() {
        let mut rounded = tensor(1, "cpu", ("rounded", "weight", 1, 100));
        rounded["allocated"] = 128.into();
        let mut repeated = tensor(1, "cpu", ("repeated", "other", 2, 1000));
        repeated["allocated"] = 10.into();
        let unknown = tensor(1, "cpu", ("unknown", "other", 3, 5));
        let states = States::from_measurement(&measurement(&[
            rounded,
            repeated,
            unknown,
            checkpoint("here", 1, &json!({})),
        ]));
        let totals = cpu(&states, 0);
        assert_eq!((totals.rounding, totals.storages, totals.with_allocated), (28, 3, 2));
        // The broadcast tensor has 10 bytes of storage.
        assert_eq!(totals.of_kind(TensorKind::Other).bytes, 15);
        assert_eq!(totals.named(), 100 + 28 + 15);
    }

    #[test]
    fn bytes_beyond_any_memory_do_not_overflow() {
        let huge = |group| tensor(group, "cpu", ("huge", "weight", group, u64::MAX));
        let here = |label: &str| checkpoint(label, 1, &json!({}));
        let states =
            States::from_measurement(&measurement(&[huge(1), huge(2), here("a"), end(1), end(2), here("b")]));
        assert_eq!(cpu(&states, 0).named(), 2 * i128::from(u64::MAX));
        assert!(states.at(1).is_empty());
    }
}
