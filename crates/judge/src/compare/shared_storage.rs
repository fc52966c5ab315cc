//! How many bytes each tensor of a shared storage counts for. No byte counts twice.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::results::tensor_record::{Description, TensorRecord};

/// The tensors of one storage.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Largest first; among equals, the one that was named first.
    pub tensors: Vec<Share>,
    /// Bytes that the allocator holds for the storage, if known.
    pub allocated: Option<u64>,
}

/// One tensor's share of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index of its naming.
    pub naming: usize,
    /// Bytes that it adds to those of the tensors before it.
    pub counted: u64,
    /// The tensor that counts its bytes already, if it adds none.
    pub shares_with: Option<usize>,
}

impl Shares {
    /// Divides a storage among its tensors. Together they never count more than their own sizes,
    /// the part of the storage that they cover, and what the allocator holds. So slices add up, a
    /// view of a whole adds nothing, and a broadcast tensor counts only the bytes that exist.
    pub(crate) fn from_record(record: &TensorRecord, mut namings: Vec<usize>) -> Self {
        let describe = |naming: usize| record.description(naming);
        namings.sort_unstable_by_key(|naming| (Reverse(extent(describe(*naming))), *naming));
        let allocated = namings.iter().filter_map(|naming| describe(*naming).allocated).max();
        let mut tensors: Vec<Share> = Vec::with_capacity(namings.len());
        let mut covered = Covered::default();
        let (mut own_sizes, mut before) = (0_u64, 0);
        for naming in namings {
            let description = describe(naming);
            own_sizes = own_sizes.saturating_add(description.bytes);
            covered.add(range(description));
            let counted = own_sizes.min(covered.total).min(allocated.unwrap_or(u64::MAX));
            let adds = counted - before;
            before = counted;
            let owner = || tensors.iter().find(|other| overlap(describe(other.naming), description));
            let shares_with = if adds == 0 && description.bytes > 0 { owner() } else { None };
            tensors.push(Share { naming, counted: adds, shares_with: shares_with.map(|other| other.naming) });
        }
        Self { tensors, allocated }
    }

    /// Returns the bytes that the allocator holds beyond the counted ones.
    pub fn rounding(&self) -> u64 {
        let counted: u64 = self.tensors.iter().map(|share| share.counted).sum();
        self.allocated.map_or(0, |allocated| allocated - counted)
    }
}

/// Returns the bytes of its storage that a tensor covers. An unknown range starts at the storage's
/// start.
fn range(description: &Description) -> [u64; 2] {
    description.range.unwrap_or([0, description.bytes])
}

fn extent(description: &Description) -> u64 {
    let [start, end] = range(description);
    description.bytes.min(end.saturating_sub(start))
}

fn overlap(one: &Description, other: &Description) -> bool {
    let [one, other] = [range(one), range(other)];
    one[0] < other[1] && other[0] < one[1]
}

/// The covered bytes of a storage: separate ranges, each end by its start.
#[derive(Default)]
struct Covered {
    ends: BTreeMap<u64, u64>,
    total: u64,
}

impl Covered {
    fn add(&mut self, [mut start, mut end]: [u64; 2]) {
        if start >= end {
            return;
        }
        while let Some((&other, &its_end)) = self.ends.range(..=end).next_back() {
            if its_end < start {
                break;
            }
            self.ends.remove(&other);
            self.total -= its_end - other;
            (start, end) = (start.min(other), end.max(its_end));
        }
        self.ends.insert(start, end);
        self.total += end - start;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::sample_log::{measurement, tensor};

    /// Takes tensors as bytes and range. Returns for each, in the order of naming, what it adds and
    /// whom it shares with; and the rounding.
    fn shares(
        tensors: &[(u64, Option<[u64; 2]>)],
        allocated: Option<u64>,
    ) -> (Vec<(u64, Option<usize>)>, u64) {
        let lines: Vec<_> = tensors
            .iter()
            .map(|(bytes, range)| {
                let mut line = tensor(1, "cpu", ("t", "weight", 7, *bytes));
                line["range"] = json!(range);
                line["allocated"] = json!(allocated);
                line
            })
            .collect();
        let shares = Shares::from_record(&measurement(&lines).tensors, (0..tensors.len()).collect());
        let mut counted = vec![(0, None); tensors.len()];
        for share in &shares.tensors {
            counted[share.naming] = (share.counted, share.shares_with);
        }
        (counted, shares.rounding())
    }

    #[test]
    fn slices_add_up_and_unnamed_bytes_are_rounding() {
        let slices = [(40, Some([0, 40])), (40, Some([40, 80])), (30, Some([90, 120]))];
        assert_eq!(shares(&slices, Some(128)), (vec![(40, None), (40, None), (30, None)], 18));
        assert_eq!(shares(&slices[1..2], Some(128)).1, 88);
    }

    #[test]
    fn interleaved_slices_add_up() {
        // Three blocks of columns of a matrix with 8 rows of 120 bytes: each reaches from its first
        // row to its last.
        let block = |number: u64| (320, Some([40 * number, 7 * 120 + 40 * (number + 1)]));
        let blocks = [block(0), block(1), block(2)];
        assert_eq!(shares(&blocks, None), (vec![(320, None); 3], 0));
    }

    #[test]
    fn a_view_shares_with_the_whole_whichever_is_named_first() {
        let (whole, row) = ((400, Some([0, 400])), (40, Some([80, 120])));
        assert_eq!(shares(&[row, whole], None).0, [(0, Some(1)), (400, None)]);
        assert_eq!(shares(&[whole, row, row], None).0, [(400, None), (0, Some(0)), (0, Some(0))]);
        let halves = [(200, Some([0, 200])), (200, Some([200, 400])), row];
        assert_eq!(shares(&halves, None).0, [(200, None), (200, None), (0, Some(0))]);
        let last = (40, Some([300, 340]));
        assert_eq!(shares(&[halves[0], halves[1], last], None).0[2], (0, Some(1)));
    }

    #[test]
    fn overlapping_slices_count_what_they_cover() {
        let slices = [(60, Some([0, 60])), (60, Some([40, 100]))];
        assert_eq!(shares(&slices, None).0, [(60, None), (40, None)]);
    }

    #[test]
    fn without_ranges_the_largest_counts() {
        assert_eq!(shares(&[(40, None), (400, None), (400, None)], Some(512)), {
            (vec![(0, Some(1)), (400, None), (0, Some(1))], 112)
        });
    }

    #[test]
    fn a_broadcast_tensor_counts_the_bytes_that_exist() {
        assert_eq!(shares(&[(1000, None)], Some(10)), (vec![(10, None)], 0));
        assert_eq!(shares(&[(1000, Some([0, 40])), (40, Some([0, 40]))], None).0, [(40, None), (0, Some(0))]);
    }

    #[test]
    fn an_empty_tensor_shares_with_none_and_nonsense_does_not_panic() {
        let empty = (0, Some([0, 0]));
        assert_eq!(shares(&[empty, empty, (8, Some([0, 8]))], None).0, [(0, None), (0, None), (8, None)]);
        let huge = (u64::MAX, Some([0, u64::MAX]));
        assert_eq!(shares(&[huge, huge, (8, Some([9, 1]))], None).0[..2], [(u64::MAX, None), (0, Some(0))]);
    }

    #[test]
    fn thousands_of_slices_of_one_storage_take_no_time() {
        let slices: Vec<_> = (0..5_000).map(|number| (8, Some([8 * number, 8 * number + 8]))).collect();
        assert!(shares(&slices, None).0.iter().all(|share| *share == (8, None)));
        assert!(shares(&vec![(8, None); 5_000], None).0[1..].iter().all(|share| *share == (0, Some(0))));
    }
}
