//! The live blocks of an allocator that no named tensor is in, by their sizes.
//!
//! A named storage takes one block of the size that the allocator holds for it. Blocks of one size
//! are not told apart.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::shared_storage::Shares;
use crate::results::live_sizes::LiveSizes;
use crate::results::tensor_record::{TensorDevice, TensorRecord};

/// The unnamed blocks of a device at a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnnamedBlocks {
    /// Smaller blocks are not counted by size.
    pub least: u64,
    /// The sizes with unnamed blocks, those with most bytes first.
    pub sizes: Vec<UnnamedSize>,
    /// Unnamed blocks in all.
    pub count: u64,
    pub bytes: u64,
    /// Named storages of at least that size for which there is no block.
    pub without_block: u64,
    /// Whether some blocks are missing here.
    pub is_incomplete: bool,
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnnamedSize {
    /// Bytes of each block.
    pub bytes: u64,
    /// The number of blocks without a name.
    pub count: u64,
    /// The number of all blocks of this size.
    pub of: u64,
}

impl UnnamedBlocks {
    /// Takes the blocks of a device's allocator, and the tensors that are alive at a line of the log.
    pub(crate) fn from_record(
        record: &TensorRecord,
        device: &TensorDevice,
        sequence: u64,
        live: &LiveSizes,
    ) -> Self {
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for size in &live.sizes {
            let count = all.entry(size.bytes).or_default();
            *count = count.saturating_add(size.count);
        }
        let mut unnamed = all.clone();
        let mut without_block = 0;
        for held in held(record, device, sequence).into_iter().filter(|held| *held >= live.least) {
            match unnamed.get_mut(&held).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => without_block += 1,
            }
        }
        let mut sizes: Vec<UnnamedSize> = unnamed
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(bytes, count)| UnnamedSize { bytes, count, of: all[&bytes] })
            .collect();
        sizes.sort_by_key(|size| std::cmp::Reverse((size.bytes_in_all(), size.bytes)));
        Self {
            least: live.least,
            count: sizes.iter().map(|size| size.count).fold(live.rest[0], u64::saturating_add),
            bytes: sizes.iter().map(UnnamedSize::bytes_in_all).fold(live.rest[1], u64::saturating_add),
            sizes,
            without_block,
            is_incomplete: !live.is_whole || live.rest[0] > 0,
        }
    }
}

impl UnnamedSize {
    /// Returns the bytes of all unnamed blocks of this size.
    pub fn bytes_in_all(&self) -> u64 {
        self.bytes.saturating_mul(self.count)
    }
}

/// Returns the bytes that the allocator holds for each named storage of a device; those of its largest
/// tensor where that is not known.
fn held(record: &TensorRecord, device: &TensorDevice, sequence: u64) -> Vec<u64> {
    let lives = |naming: &usize| {
        let lives = &record.namings[*naming];
        lives.from < sequence && sequence < lives.until && record.description(*naming).device == *device
    };
    let mut held = Vec::new();
    let mut storages: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let mut of = |namings: Vec<usize>| {
        let largest = namings.iter().map(|naming| record.description(*naming).bytes).max();
        held.extend(Shares::from_record(record, namings).allocated.or(largest));
    };
    for naming in (0..record.namings.len()).filter(lives) {
        match record.namings[naming].storage {
            0 => of(vec![naming]),
            storage => storages.entry(storage).or_default().push(naming),
        }
    }
    storages.into_values().for_each(of);
    held
}

/// Returns the sizes of both revisions' unnamed blocks, those with most bytes first.
pub fn sizes_of(revisions: [Option<&UnnamedBlocks>; 2]) -> Vec<u64> {
    let mut most: BTreeMap<u64, u64> = BTreeMap::new();
    for size in revisions.iter().flatten().flat_map(|one| &one.sizes) {
        let all = most.entry(size.bytes).or_default();
        *all = (*all).max(size.bytes_in_all());
    }
    let mut order: Vec<(u64, u64)> = most.into_iter().map(|(bytes, all)| (all, bytes)).collect();
    order.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    order.into_iter().map(|(_, bytes)| bytes).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::live_sizes::SizeCount;
    use crate::results::sample_log::{end, measurement, tensor};

    fn live(sizes: &[(u64, u64)]) -> LiveSizes {
        let sizes = sizes.iter().map(|&(bytes, count)| SizeCount { bytes, count, site: 0 });
        LiveSizes {
            sequence: 0,
            family: "heap".into(),
            least: 4096,
            is_whole: true,
            sizes: sizes.collect(),
            rest: [0; 2],
        }
    }

    #[test]
    fn each_named_storage_takes_one_block_of_its_size() {
        let rounded = json!({
            "event": "tensor", "group": 1, "name": "r", "kind": "weight", "shape": [1250], "dtype": "f32",
            "device": "cpu", "storage": 9, "bytes": 5000, "allocated": 8192,
        });
        let run = measurement(&[
            tensor(1, "cpu", ("w", "weight", 1, 4096)),
            tensor(1, "cpu", ("tied", "weight", 1, 4096)),
            tensor(1, "cpu", ("small", "weight", 2, 400)),
            tensor(1, "cuda:0", ("g", "weight", 3, 4096)),
            rounded,
            tensor(1, "cpu", ("freed", "weight", 0, 70_000)),
            tensor(2, "cpu", ("ended", "weight", 0, 4096)),
            end(2),
        ]);
        let live = live(&[(4096, 3), (8192, 1), (12_000, 2)]);
        let found = UnnamedBlocks::from_record(&run.tensors, &TensorDevice::Cpu, u64::MAX - 1, &live);
        let size = |bytes, count, of| UnnamedSize { bytes, count, of };
        assert_eq!(found.sizes, [size(12_000, 2, 2), size(4096, 2, 3)]);
        assert_eq!((found.count, found.bytes, found.without_block), (4, 32_192, 1));
        assert!(!found.is_incomplete);
    }

    #[test]
    fn what_the_log_had_no_room_for_counts_and_makes_the_list_incomplete() {
        let nothing = TensorRecord::default();
        let one = LiveSizes { rest: [5, 50_000], ..live(&[(4096, 1)]) };
        let found = UnnamedBlocks::from_record(&nothing, &TensorDevice::Cpu, 1, &one);
        assert_eq!((found.count, found.bytes, found.is_incomplete), (6, 54_096, true));
    }

    #[test]
    fn numbers_of_a_damaged_log_do_not_overflow() {
        let nothing = TensorRecord::default();
        let huge = LiveSizes { rest: [u64::MAX; 2], ..live(&[(4096, u64::MAX), (4096, 1), (8192, 9)]) };
        let found = UnnamedBlocks::from_record(&nothing, &TensorDevice::Cpu, 1, &huge);
        assert_eq!((found.count, found.bytes), (u64::MAX, u64::MAX));
    }

    #[test]
    fn sizes_of_two_sides_are_ordered_by_the_larger_one() {
        let nothing = TensorRecord::default();
        let of =
            |sizes: &[(u64, u64)]| UnnamedBlocks::from_record(&nothing, &TensorDevice::Cpu, 1, &live(sizes));
        let [old, new] = [of(&[(4096, 10), (8192, 1)]), of(&[(8192, 4), (50_000, 1)])];
        assert_eq!(sizes_of([Some(&old), Some(&new)]), [50_000, 4096, 8192]);
        assert_eq!(sizes_of([None, None]), Vec::<u64>::new());
    }
}
