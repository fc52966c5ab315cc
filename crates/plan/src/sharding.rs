//! Which shard runs which test.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cells::PlannedCell;
use crate::resolved::{CellId, Plan};
use crate::shard::Shard;

/// The tests of all shards, as each shard knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllTests {
    /// How many there are.
    pub count: usize,
    /// A hash of their names.
    pub digest: String,
}

impl AllTests {
    /// Describes these tests, in whatever order they come. Equal ones count once.
    pub fn from_cells<'a>(cells: impl Iterator<Item = &'a CellId>) -> Self {
        let mut cells: Vec<&CellId> = cells.collect();
        cells.sort_unstable();
        cells.dedup();
        let mut hasher = blake3::Hasher::new();
        for cell in &cells {
            // Lengths keep apart what would be equal when joined.
            let mut part = |text: &str| {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            };
            part(&cell.test.to_string());
            part(&format!("{:?}", cell.test.kind));
            for (name, value) in &cell.params {
                part(name);
                part(value);
            }
        }
        Self { count: cells.len(), digest: hasher.finalize().to_hex().to_string() }
    }
}

/// Returns the number of each test's shard, from 1. Each shard gets about the same time, by how long
/// the tests took before; a test without a past counts like the median of the others. Without any
/// past, each shard gets about the same number of tests.
///
/// Equal arguments give an equal result, whatever their order.
pub fn numbers<'a>(
    cells: impl Iterator<Item = &'a CellId>,
    times: &BTreeMap<CellId, Duration>,
    count: u32,
) -> BTreeMap<&'a CellId, u32> {
    let mut known: Vec<Duration> = times.values().copied().collect();
    known.sort_unstable();
    let usual = known.get(known.len() / 2).copied().unwrap_or(Duration::from_secs(1));
    let time = |cell: &CellId| times.get(cell).copied().unwrap_or(usual).as_nanos().max(1);
    let mut longest_first: Vec<&CellId> = cells.collect();
    longest_first.sort_unstable();
    longest_first.dedup();
    longest_first.sort_by_key(|cell| std::cmp::Reverse(time(cell)));
    // The shard with the least time so far gets the next test; of equal ones the first.
    let mut shards: std::collections::BinaryHeap<_> =
        (1..=count).map(|number| std::cmp::Reverse((0_u128, number))).collect();
    let mut numbers = BTreeMap::new();
    for cell in longest_first {
        let Some(std::cmp::Reverse((sum, number))) = shards.pop() else { break };
        numbers.insert(cell, number);
        shards.push(std::cmp::Reverse((sum + time(cell), number)));
    }
    numbers
}

/// Keeps the cells of a shard. Returns what there is in all shards.
pub fn keep(cells: &mut Vec<PlannedCell>, shard: Shard, times: &BTreeMap<CellId, Duration>) -> AllTests {
    let all = AllTests::from_cells(cells.iter().map(|planned| &planned.cell));
    let numbers = numbers(cells.iter().map(|planned| &planned.cell), times, shard.count);
    let own: Vec<bool> =
        cells.iter().map(|planned| numbers.get(&planned.cell) == Some(&shard.number)).collect();
    let mut own = own.into_iter();
    cells.retain(|_| own.next() == Some(true));
    all
}

/// Makes a plan that of a shard.
pub fn take(plan: &mut Plan, shard: Shard) {
    plan.request.shard = Some(shard);
    plan.notes.push(shard.note());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::TargetKind;
    use crate::resolved::TestId;

    fn cell(name: &str) -> CellId {
        let test =
            TestId { package: "p".into(), binary: "b".into(), kind: TargetKind::Test, name: name.into() };
        CellId { test, params: Vec::new(), title: name.into(), program: None }
    }

    #[test]
    fn long_tests_are_spread_and_unknown_ones_count_like_the_median() {
        let cells: Vec<CellId> = ["a", "b", "c", "d", "new"].map(cell).into();
        let times = [("a", 100), ("b", 60), ("c", 40), ("d", 1)];
        let times =
            times.into_iter().map(|(name, seconds)| (cell(name), Duration::from_secs(seconds))).collect();
        let numbers = numbers(cells.iter(), &times, 2);
        let of = |name: &str| numbers[&cell(name)];
        // a: 100 | b: 60, "new": 60 | c: 40 goes to a, d to the smaller.
        assert_eq!((of("a"), of("b"), of("new"), of("c"), of("d")), (1, 2, 2, 1, 2));
    }

    #[test]
    fn the_digest_tells_tests_apart_and_not_their_order() {
        let [a, b, ab] = ["a", "b", "ab"].map(cell);
        assert_eq!(
            AllTests::from_cells([&a, &b, &a].into_iter()),
            AllTests::from_cells([&b, &a].into_iter())
        );
        assert_ne!(
            AllTests::from_cells([&a, &b].into_iter()).digest,
            AllTests::from_cells([&ab].into_iter()).digest
        );
        let mut with_params = a.clone();
        with_params.params.push(("n".into(), "1".into()));
        assert_ne!(
            AllTests::from_cells([&a].into_iter()).digest,
            AllTests::from_cells([&with_params].into_iter()).digest
        );
    }

    proptest! {
        #[test]
        fn every_test_is_in_one_shard_and_shards_are_even(count in 1..9_u32, tests in 0..60_usize, seed: u64) {
            let mut cells: Vec<CellId> = (0..tests).map(|number| cell(&format!("t{number}"))).collect();
            let even = numbers(cells.iter(), &BTreeMap::new(), count);
            prop_assert_eq!(even.len(), tests);
            for shard in 1..=count {
                let own = even.values().filter(|number| **number == shard).count();
                prop_assert!(own.abs_diff(tests / count as usize) <= 1, "{} of {}", own, tests);
            }
            let even: BTreeMap<CellId, u32> = even.into_iter().map(|(cell, number)| (cell.clone(), number)).collect();
            // The order of the tests does not matter.
            let len = cells.len().max(1);
            cells.rotate_left(usize::try_from(seed % len as u64).unwrap());
            let again = numbers(cells.iter(), &BTreeMap::new(), count);
            prop_assert!(again.iter().all(|(cell, number)| even[*cell] == *number));
        }
    }
}
