//! What the tensors of one storage count for: no byte of it twice, and each for its own part as far as that is known.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::results::tensor_record::{Description, TensorRecord};

/// What is in a storage, tensor by tensor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The largest tensor first, of equals the one that was named first.
    pub tensors: Vec<Share>,
    /// Bytes that the allocator holds for the storage, where that is known.
    pub allocated: Option<u64>,
}

/// One tensor's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its naming.
    pub naming: usize,
    /// The bytes that it adds to what is counted before it.
    pub counted: u64,
    /// The tensor that has its bytes already, where it adds none.
    pub shares_with: Option<usize>,
}

impl Shares {
    /// Of all tensors with a storage. They count for no more than what is said of each, than the bytes of the storage that they lie in
    /// together, and than is held for it: of slices the sum, of a whole and views of it the whole, of a tensor that repeats its
    /// elements, as a broadcast one does, what there is of it.
    pub fn of(record: &TensorRecord, mut namings: Vec<usize>) -> Self {
        let describe = |naming: usize| record.description(naming);
        namings.sort_unstable_by_key(|naming| (Reverse(extent(describe(*naming))), *naming));
        let allocated = namings.iter().filter_map(|naming| describe(*naming).allocated).max();
        let mut tensors: Vec<Share> = Vec::with_capacity(namings.len());
        let mut covered = Covered::default();
        let (mut said, mut before) = (0_u64, 0);
        for naming in namings {
            let description = describe(naming);
            said = said.saturating_add(description.bytes);
            covered.add(range(description));
            let counted = said.min(covered.total).min(allocated.unwrap_or(u64::MAX));
            let adds = counted - before;
            before = counted;
            let owner = || tensors.iter().find(|other| overlap(describe(other.naming), description));
            let shares_with = if adds == 0 && description.bytes > 0 { owner() } else { None };
            tensors.push(Share { naming, counted: adds, shares_with: shares_with.map(|other| other.naming) });
        }
        Self { tensors, allocated }
    }

    /// What the allocator holds beyond what is counted.
    pub fn rounding(&self) -> u64 {
        let counted: u64 = self.tensors.iter().map(|share| share.counted).sum();
        self.allocated.map_or(0, |allocated| allocated - counted)
    }
}

/// The bytes of its storage that a tensor lies in. One of which that is not known begins where the storage does.
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

/// Bytes of a storage, as ranges that do not touch: their ends by their starts.
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

    /// What each of these tensors adds, in the order of naming, with the one that it shares with: bytes, and the range.
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
        let shares = Shares::of(&measurement(&lines).tensors, (0..tensors.len()).collect());
        let mut said = vec![(0, None); tensors.len()];
        for share in &shares.tensors {
            said[share.naming] = (share.counted, share.shares_with);
        }
        (said, shares.rounding())
    }

    #[test]
    fn slices_count_each_for_itself_and_what_nobody_named_is_beyond() {
        let slices = [(40, Some([0, 40])), (40, Some([40, 80])), (30, Some([90, 120]))];
        assert_eq!(shares(&slices, Some(128)), (vec![(40, None), (40, None), (30, None)], 18));
        assert_eq!(shares(&slices[1..2], Some(128)).1, 88);
    }

    #[test]
    fn slices_that_lie_between_each_other_count_each_for_itself() {
        // Three blocks of columns of a matrix with 8 rows of 120 bytes: each reaches from its first row to its last.
        let block = |number: u64| (320, Some([40 * number, 7 * 120 + 40 * (number + 1)]));
        let blocks = [block(0), block(1), block(2)];
        assert_eq!(shares(&blocks, None), (vec![(320, None); 3], 0));
    }

    #[test]
    fn a_view_of_what_is_named_shares_with_it_whichever_is_named_first() {
        let (whole, row) = ((400, Some([0, 400])), (40, Some([80, 120])));
        assert_eq!(shares(&[row, whole], None).0, [(0, Some(1)), (400, None)]);
        assert_eq!(shares(&[whole, row, row], None).0, [(400, None), (0, Some(0)), (0, Some(0))]);
        let halves = [(200, Some([0, 200])), (200, Some([200, 400])), row];
        assert_eq!(shares(&halves, None).0, [(200, None), (200, None), (0, Some(0))]);
        let last = (40, Some([300, 340]));
        assert_eq!(shares(&[halves[0], halves[1], last], None).0[2], (0, Some(1)));
    }

    #[test]
    fn slices_that_overlap_count_for_what_they_lie_in() {
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
    fn a_tensor_that_repeats_its_elements_counts_for_what_there_is() {
        assert_eq!(shares(&[(1000, None)], Some(10)), (vec![(10, None)], 0));
        assert_eq!(shares(&[(1000, Some([0, 40])), (40, Some([0, 40]))], None).0, [(40, None), (0, Some(0))]);
    }

    #[test]
    fn what_is_empty_shares_with_nobody_and_nonsense_ends_no_report() {
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
