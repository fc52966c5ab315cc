//! The file with the live blocks and the pointers between them. The test's process writes it, so it may hold anything.

use std::collections::BTreeSet;

use memprof_judge::results::stack_log::StackLog;
use memprof_judge::symbols::data_symbols::DataSymbols;
use memprof_judge::why::heap_snapshot::read;
use memprof_judge::why::held::compare;
use memprof_judge::why::hunks::Changes;
use memprof_judge::why::owner_tree::{OwnerTree, Recorded};
use memprof_judge::why::roots::StackFunction;
use memprof_judge::why::stacks::Stacks;
use memprof_judge::why::stored::StoredOwners;

use super::Target;

pub const TARGET: Target = Target {
    name: "owners",
    check,
    seeds,
    words: &["memprof1", "blocks..", "places..", "frames..", "threads.", "pointers", "roots...", "the end."],
};

/// What is accepted has each byte in one group, survives being stored, and does not differ from itself.
pub fn check(bytes: &[u8]) {
    let Ok(snapshot) = read(bytes) else { return };
    assert_eq!(snapshot, read(bytes).expect("it was read before"));
    let (log, symbols) = (StackLog::default(), DataSymbols::default());
    let stacks = Stacks::new(&log, |_, _| Vec::new());
    let in_both = BTreeSet::new();
    let (snapshot, stacks, symbols) = (&snapshot, &stacks, &symbols);
    let recorded = Recorded { snapshot, log: &log, stacks, symbols, in_both: &in_both };
    let mut function = |address: u64| vec![StackFunction { path: format!("f{address}"), is_own: true }];
    let tree = OwnerTree::new(&recorded, &mut function);
    let counted = snapshot.blocks.iter().filter(|block| !block.is_of_harness);
    assert_eq!(tree.bytes, counted.map(|block| block.size).sum::<u64>());
    assert_eq!(tree.groups.iter().map(|group| group.bytes).sum::<u64>(), tree.bytes);
    assert_eq!(tree.groups[0].held, tree.bytes);
    let stored = StoredOwners { tree: Some(tree.clone()), problem: None };
    let text = serde_json::to_string(&stored).expect("plain data");
    assert_eq!(serde_json::from_str::<StoredOwners>(&text).expect("it was written"), stored);
    let changes = Changes::default();
    assert_eq!(compare([Some(&tree), Some(&tree)], &changes).owners, []);
    let alone = compare([None, Some(&tree)], &changes);
    let held: i64 = alone.owners.iter().map(|owner| owner.difference).sum();
    assert!(u64::try_from(held).expect("bytes") <= tree.bytes);
}

/// Words of 64 bits, of which eight letters are one.
fn file(parts: &[(&str, &[u64])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, words) in parts {
        bytes.extend(name.bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    const NO_MORE: u64 = u64::MAX;
    let pair = |from: u64, to: u64| from << 32 | to;
    let a_use = |form: u64, detail: u64, length: u64| 1 << 63 | form << 61 | detail << 37 | length;
    let empty = file(&[
        ("memprof1", &[0, NO_MORE]),
        ("blocks..", &[0]),
        ("places..", &[0]),
        ("frames..", &[0]),
        ("threads.", &[0]),
        ("pointers", &[NO_MORE]),
        ("roots...", &[NO_MORE]),
        ("the end.", &[1, 0, 0, 0]),
    ]);
    // A list below a static, two that hold each other, one that nothing holds, and one of two stacks.
    let full = file(&[
        ("memprof1", &[700, 700]),
        (
            "blocks..",
            &[
                7,
                4096,
                100,
                1,
                8192,
                100,
                1,
                12288,
                100,
                2,
                16384,
                100,
                2,
                20480,
                100,
                0,
                24576,
                100,
                0,
                28672,
                100,
                1 << 32,
            ],
        ),
        ("places..", &[2, 0, 0, 1 << 20, 2 << 20, 1, 0, 3 << 20, 4 << 20]),
        ("frames..", &[2, 77, 88, 99, 110]),
        ("threads.", &[2, 1, 0, 0x6e69_616d, 0, 2, 1, 0x0074, 0]),
        (
            "pointers",
            &[
                pair(0, 1),
                a_use(0, 10, 7),
                a_use(1, 10, 3),
                pair(1, 0),
                pair(2, 3),
                a_use(3, 1, 12),
                pair(3, 2),
                pair(5, 6),
                NO_MORE,
            ],
        ),
        (
            "roots...",
            &[
                0,
                (1 << 20) + 8,
                0,
                a_use(2, 2, 3),
                1,
                0,
                1,
                2,
                0,
                5,
                2,
                1,
                5,
                3,
                0,
                6,
                a_use(0, 100, 1),
                1,
                NO_MORE,
                6,
                NO_MORE,
            ],
        ),
        ("the end.", &[1, 1000, 1, 5000]),
    ]);
    vec![empty, full]
}
