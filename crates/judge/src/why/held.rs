//! Who holds more or less memory than at the baseline: the groups of two runs, compared.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::why::frame::Frame;
use crate::why::grouping::line;
use crate::why::hunks::{Changes, SIDES};
use crate::why::owner_tree::{OwnerGroup, OwnerTree, short_type};
use crate::why::room::Room;
use crate::why::roots::RootName;

/// The owners of a test's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldMemory {
    /// The metric: `heap.peak`, `heap.live`.
    pub metric: String,
    /// The checkpoint's label and occurrence at the candidate, or else at the baseline.
    pub checkpoint: (String, u32),
    /// The owners, those with the largest difference first.
    pub owners: Vec<Owner>,
    /// What is known about each side.
    pub sides: [Option<HeldSide>; 2],
    /// What limits the answer.
    pub remarks: Vec<String>,
}

/// How much of one side's memory has an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyHeldSide")]
pub struct HeldSide {
    /// Live bytes.
    pub bytes: u64,
    /// Those that are reached from statics, thread-locals and stacks.
    pub reached: u64,
    /// Words that point into a block.
    pub pointers: u64,
    /// How many of them are expected by chance.
    pub by_chance: u64,
}

/// A group that holds memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// Candidate minus baseline; of a single side, its bytes.
    pub difference: i64,
    /// The bytes that it and what it alone leads to have, by side.
    pub bytes: [u64; 2],
    /// The blocks of the group itself, by side.
    pub blocks: [u64; 2],
    /// The type's whole path.
    pub type_path: Option<String>,
    /// The type as in sources, or why it is not known.
    pub name: String,
    /// Where its blocks are allocated.
    pub made_at: Option<Frame>,
    /// What holds it.
    pub root: RootName,
    /// The groups with room for elements: its own blocks first, and then what it alone leads to, those with most
    /// to spare first.
    pub rooms: Vec<OwnerRoom>,
}

/// The room of the blocks of a group, and how much of it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerRoom {
    /// Whether these are the owner's own blocks.
    pub is_own: bool,
    pub type_path: String,
    /// As in sources.
    pub name: String,
    pub made_at: Option<Frame>,
    /// By side; `None` unless the use of all its blocks is known.
    pub sides: [Option<Room>; 2],
}

impl OwnerRoom {
    /// Returns the bytes that exact capacities would save at the candidate, or else at the baseline.
    pub fn spare(&self) -> u64 {
        self.sides[1].or(self.sides[0]).map_or(0, |room| room.spare())
    }
}

impl Owner {
    /// Returns where exact capacities would save most: at least a tenth of what the owner grew by.
    pub fn worst_room(&self) -> Option<&OwnerRoom> {
        let worst = self.rooms.iter().max_by_key(|room| (room.spare(), room.is_own))?;
        let least = u64::try_from(self.difference).ok()?.div_ceil(SPARE).max(1);
        (worst.spare() >= least).then_some(worst)
    }
}

/// What could be spared is worth a line from a tenth of the difference on.
const SPARE: u64 = 10;
/// Rooms of an owner that are kept.
const MOST_ROOMS: usize = 16;

/// The share of the differing bytes that one group below must have, to be the owner in place of this one:
/// four fifths.
const SHARE: (u64, u64) = (4, 5);

type Pair = [Option<u32>; 2];

struct Trees<'a> {
    sides: [Option<&'a OwnerTree>; 2],
    /// The groups below each group, by side.
    below: [Vec<Vec<u32>>; 2],
    changes: &'a Changes,
}

/// Compares two runs. With one, its bytes are the differences.
pub fn compare(trees: [Option<&OwnerTree>; 2], changes: &Changes) -> HeldMemory {
    let below = trees.map(|tree| {
        let groups = tree.map_or(&[][..], |tree| tree.groups.as_slice());
        let mut below = vec![Vec::new(); groups.len()];
        // A group comes behind its parent.
        for (at, group) in groups.iter().enumerate().skip(1).filter(|(at, of)| (of.parent as usize) < *at) {
            below[group.parent as usize].push(u32::try_from(at).unwrap_or(0));
        }
        below
    });
    let all = Trees { sides: trees, below, changes };
    let mut owners = Vec::new();
    for root in all.children(trees.map(|tree| tree.map(|_| 0))) {
        for group in all.children(root) {
            owners.extend(all.owner(root, group));
        }
    }
    owners.retain(|owner| owner.difference != 0);
    owners.sort_by_cached_key(|owner| {
        (std::cmp::Reverse(owner.difference.unsigned_abs()), owner.name.clone(), owner.root.clone())
    });
    let newest = trees[1].or(trees[0]);
    HeldMemory {
        metric: newest.map_or(String::new(), |tree| tree.metric.clone()),
        checkpoint: newest.map_or((String::new(), 1), |tree| (tree.label.clone(), tree.occurrence)),
        owners,
        sides: trees.map(|tree| {
            tree.map(|tree| HeldSide {
                bytes: tree.bytes,
                reached: tree.reached().min(tree.bytes),
                pointers: tree.pointers,
                by_chance: tree.by_chance,
            })
        }),
        remarks: Vec::new(),
    }
}

impl Trees<'_> {
    fn group(&self, side: usize, group: u32) -> Option<&OwnerGroup> {
        self.sides[side]?.groups.get(group as usize)
    }

    fn each(&self, pair: Pair, of: impl Fn(&OwnerGroup) -> u64) -> [u64; 2] {
        [0, 1].map(|side| pair[side].and_then(|group| self.group(side, group)).map_or(0, &of))
    }

    /// Candidate minus baseline; of a single side, its bytes.
    fn change(&self, bytes: [u64; 2]) -> i64 {
        let [old, new] = bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        if self.sides[1].is_none() { old } else { new.saturating_sub(old) }
    }

    fn held(&self, pair: Pair) -> u64 {
        self.change(self.each(pair, |group| group.held)).unsigned_abs()
    }

    /// The groups below a pair, those of both sides that are the same together.
    fn children(&self, pair: Pair) -> Vec<Pair> {
        let mut found: BTreeMap<String, Pair> = BTreeMap::new();
        for side in SIDES {
            let side_of = side as usize;
            let Some(groups) = pair[side_of].and_then(|group| self.below[side_of].get(group as usize)) else {
                continue;
            };
            for &number in groups {
                let Some(group) = self.group(side_of, number) else { continue };
                let mut key = match (&group.root, &group.made_at) {
                    (Some(root), _) => root.key(),
                    (None, Some(frame)) => {
                        let place = line(side, frame, self.changes);
                        format!("{} {place}", group.type_path.as_deref().unwrap_or_default())
                    }
                    (None, None) => group.type_path.clone().unwrap_or_default(),
                };
                // Two of one side that look the same stay apart.
                while found.get(&key).is_some_and(|known| known[side_of].is_some()) {
                    key.push('+');
                }
                found.entry(key).or_default()[side_of] = Some(number);
            }
        }
        found.into_values().collect()
    }

    /// Goes down from a single block while one below has almost all of what differs: from `Arc<State>` to the
    /// table in it, and not to the texts in the table. Of what nothing points to, the outermost block is the
    /// answer.
    fn owner(&self, root: Pair, group: Pair) -> Option<Owner> {
        let of = |pair: Pair| {
            let side = usize::from(pair[1].is_some());
            self.group(side, pair[side]?)
        };
        let held_by = of(root)?.root.clone()?;
        let mut at = group;
        while held_by.is_reached() {
            let children = self.children(at);
            let own = self.change(self.each(at, |group| group.bytes)).unsigned_abs();
            let all = children.iter().fold(own, |sum, child| sum.saturating_add(self.held(*child)));
            let Some(largest) = children.into_iter().max_by_key(|child| self.held(*child)) else { break };
            let entries = |pair: Pair| {
                let [old, new] = self.each(pair, |group| group.entries);
                old.max(new)
            };
            let has_most =
                u128::from(self.held(largest)) * u128::from(SHARE.1) >= u128::from(all) * u128::from(SHARE.0);
            if all == 0 || !has_most || entries(largest) > 1 || entries(at) > 1 {
                break;
            }
            at = largest;
        }
        let named = of(at)?;
        let bytes = self.each(at, |group| group.held);
        Some(Owner {
            difference: self.change(bytes),
            bytes,
            blocks: self.each(at, |group| group.blocks),
            type_path: named.type_path.clone(),
            name: match (&named.type_path, &named.no_type) {
                (Some(path), _) => short_type(path),
                (None, Some(reason)) => format!("({reason})"),
                (None, None) => "(no type)".to_owned(),
            },
            made_at: named.made_at.clone(),
            root: held_by,
            rooms: self.rooms(at),
        })
    }

    /// The rooms of a group and of those below it.
    fn rooms(&self, owner: Pair) -> Vec<OwnerRoom> {
        let mut found: Vec<OwnerRoom> = Vec::new();
        let mut open = vec![owner];
        while let Some(pair) = open.pop() {
            open.extend(self.children(pair));
            let groups = [0, 1].map(|side| self.group(side, pair[side]?));
            let whole = |group: &OwnerGroup| group.room.filter(|room| room.blocks == group.blocks);
            let sides = groups.map(|group| group.and_then(whole));
            let Some(named) = groups[1].or(groups[0]).filter(|_| sides != [None; 2]) else { continue };
            let Some(type_path) = named.type_path.clone() else { continue };
            let (name, made_at) = (short_type(&type_path), named.made_at.clone());
            found.push(OwnerRoom { is_own: pair == owner, type_path, name, made_at, sides });
        }
        found.sort_by_cached_key(|room| {
            let location = room.made_at.as_ref().and_then(Frame::location);
            (!room.is_own, std::cmp::Reverse(room.spare()), room.name.clone(), location)
        });
        found.truncate(MOST_ROOMS);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::stacks::tests::frame;

    /// A group of a tree: its parent, its root or its type, its bytes and entries.
    type Row<'a> = (u32, Result<RootName, &'a str>, u64, u64);

    fn tree(rows: &[Row<'_>]) -> OwnerTree {
        let mut groups = vec![OwnerGroup::default()];
        for (parent, kind, bytes, entries) in rows {
            let mut group = OwnerGroup { parent: *parent, bytes: *bytes, ..OwnerGroup::default() };
            match kind {
                Ok(root) => group.root = Some(root.clone()),
                Err(of) => {
                    group.type_path = Some((*of).to_owned());
                    group.made_at = Some(frame("a::add@src/lib.rs:7"));
                }
            }
            (group.blocks, group.entries) = (*entries, *entries);
            groups.push(group);
        }
        for at in (1..groups.len()).rev() {
            groups[at].held += groups[at].bytes;
            let (held, parent) = (groups[at].held, groups[at].parent as usize);
            groups[parent].held += held;
        }
        OwnerTree { bytes: groups[0].held, groups, ..OwnerTree::default() }
    }

    /// The owners in words, with their differences.
    fn owners(old: Option<&OwnerTree>, new: &OwnerTree) -> Vec<(i64, String, String)> {
        let held = compare([old, Some(new)], &Changes::default());
        held.owners.into_iter().map(|owner| (owner.difference, owner.name, owner.root.words())).collect()
    }

    fn cache() -> RootName {
        RootName::Static("a::CACHE".to_owned())
    }

    #[test]
    fn the_owner_is_the_table_in_the_state_and_not_what_is_in_the_table() {
        let state = |texts: u64| {
            let rows = [
                (0, Ok(cache()), 0, 0),
                (1, Err("alloc::sync::Arc<a::State>"), 40, 1),
                (2, Err("std::collections::HashMap<u8, a::Text>"), 100, 1),
                (3, Err("alloc::string::String"), 10 * texts, texts),
            ];
            tree(&rows)
        };
        let name = "HashMap<u8, Text>".to_owned();
        let by = "from static CACHE".to_owned();
        assert_eq!(owners(Some(&state(10)), &state(500)), [(4900, name.clone(), by.clone())]);
        assert_eq!(owners(Some(&state(10)), &state(10)), []);
        assert_eq!(owners(None, &state(500)), [(5100, name, by)]);
    }

    #[test]
    fn two_that_grew_belong_to_what_holds_both() {
        let rows = |one: u64, two: u64| {
            [
                (0, Ok(cache()), 0, 0),
                (1, Err("alloc::boxed::Box<a::State>"), 40, 1),
                (2, Err("alloc::vec::Vec<u8>"), one, 1),
                (2, Err("alloc::vec::Vec<u16>"), two, 1),
            ]
        };
        let found = owners(Some(&tree(&rows(10, 10))), &tree(&rows(500, 510)));
        assert_eq!(found, [(990, "Box<State>".to_owned(), "from static CACHE".to_owned())]);
        let found = owners(Some(&tree(&rows(10, 10))), &tree(&rows(500, 12)));
        assert_eq!(found, [(490, "Vec<u8>".to_owned(), "from static CACHE".to_owned())]);
    }

    #[test]
    fn of_a_leak_the_outermost_block_is_the_owner_and_roots_stay_apart() {
        let rows = [
            (0, Ok(RootName::NoPointer), 0, 0),
            (1, Err("alloc::boxed::Box<a::State>"), 40, 1),
            (2, Err("alloc::vec::Vec<u8>"), 500, 1),
            (0, Ok(cache()), 0, 0),
            (4, Err("alloc::vec::Vec<u8>"), 700, 1),
        ];
        let found = owners(None, &tree(&rows));
        let vec = (700, "Vec<u8>".to_owned(), "from static CACHE".to_owned());
        assert_eq!(found, [vec, (540, "Box<State>".to_owned(), "no pointer to it".to_owned())]);
        let held = compare([None, Some(&tree(&rows))], &Changes::default());
        assert_eq!(held.sides[1].map(|side| (side.bytes, side.reached)), Some((1240, 700)));
    }

    /// A tree whose only map has a vector of 100 B, of which so many elements of a byte are used.
    fn half_used(used: u64, blocks: u64) -> OwnerTree {
        let rows = [
            (0, Ok(cache()), 0, 0),
            (1, Err("std::collections::HashMap<u8, alloc::vec::Vec<u8>>"), 20, 1),
            (2, Err("alloc::vec::Vec<u8>"), 100, 1),
        ];
        let mut tree = tree(&rows);
        let (used, exact_bytes) = ([used; 2], Some([used; 2]));
        tree.groups[3].room = Some(Room { blocks, bytes: 100, capacity: 100, used, exact_bytes });
        tree
    }

    #[test]
    fn room_is_worth_a_line_if_a_tenth_of_the_difference_could_be_spared() {
        let worst = |used: u64| {
            let held = compare([None, Some(&half_used(used, 1))], &Changes::default());
            let owner = held.owners.first().unwrap().clone();
            owner.worst_room().map(|room| (room.is_own, room.name.clone(), room.spare()))
        };
        assert_eq!(worst(50), Some((true, "Vec<u8>".to_owned(), 50)));
        assert_eq!(worst(90), Some((true, "Vec<u8>".to_owned(), 10)));
        assert_eq!(worst(91), None);
        let shrunk = compare([Some(&half_used(50, 1)), Some(&half_used(50, 1))], &Changes::default());
        assert_eq!(shrunk.owners, [], "nothing differs");
    }

    #[test]
    fn room_of_a_group_is_that_of_all_its_blocks() {
        let held = compare([None, Some(&half_used(50, 0))], &Changes::default());
        assert_eq!(held.owners[0].rooms, [], "one of another block is not known");
    }
}
