//! How much of a block's room for elements is used: by the words beside the pointers to it. They are believed only
//! if they fit the block's size and type.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::why::containers::{Kind, container, container_of};
use crate::why::dominators::Graph;
use crate::why::heap_snapshot::{Form, HeapSnapshot, Use};

/// The room of blocks for elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The blocks whose use is known, and their bytes.
    pub blocks: u64,
    pub bytes: u64,
    /// How many elements have room.
    pub capacity: u64,
    /// How many there are: at least, and at most. They differ if a copy of the words is left from before.
    pub used: [u64; 2],
    /// The bytes that an exact capacity would take, in the same way; `None` if that is not certain.
    pub exact_bytes: Option<[u64; 2]>,
}

impl Room {
    /// Returns the room of one block.
    fn of(bytes: u64, capacity: u64, used: u64, exact_bytes: Option<u64>) -> Self {
        let exact_bytes = exact_bytes.map(|bytes| [bytes; 2]);
        Self { blocks: 1, bytes, capacity, used: [used; 2], exact_bytes }
    }

    /// Returns the room of these blocks and others.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: [u64; 2], two: [u64; 2]| [0, 1].map(|at| one[at].saturating_add(two[at]));
        Self {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes.saturating_add(other.bytes),
            capacity: self.capacity.saturating_add(other.capacity),
            used: sum(self.used, other.used),
            exact_bytes: self.exact_bytes.zip(other.exact_bytes).map(|(one, two)| sum(one, two)),
        }
    }

    /// Returns what both readings of the same blocks allow.
    fn or(self, other: Self) -> Self {
        let either = |one: [u64; 2], two: [u64; 2]| [one[0].min(two[0]), one[1].max(two[1])];
        Self {
            used: either(self.used, other.used),
            exact_bytes: self.exact_bytes.zip(other.exact_bytes).map(|(one, two)| either(one, two)),
            ..self
        }
    }

    /// Returns the bytes that an exact capacity would save at least; 0 if that is not certain.
    pub fn spare(&self) -> u64 {
        self.bytes.saturating_sub(self.exact_bytes.map_or(self.bytes, |[_, most]| most))
    }
}

/// What the blocks of a type hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// Elements of so many bytes. `is_doubtful` says that the program also has a `VecDeque` of them, and the block
    /// of one may become that of the other.
    Vector {
        element: u64,
        is_doubtful: bool,
    },
    Deque {
        element: u64,
        is_doubtful: bool,
    },
    /// The buckets of a hash table, and the bytes of an element if they are known.
    Table {
        element: Option<u64>,
    },
    /// A node of a B-tree.
    Tree,
    /// Something that always fills its blocks, or is not known.
    #[default]
    Other,
}

impl Content {
    /// Returns it for a type. `size_of` returns the size of a type by its path. `both` are the elements of which
    /// there are a `Vec` and a `VecDeque`, and `filled` those of vectors that are being filled.
    pub(super) fn of(
        type_path: &str,
        size_of: impl Fn(&str) -> Option<u64>,
        both: &BTreeSet<String>,
        filled: &BTreeSet<String>,
    ) -> Self {
        let Some(found) = container(type_path) else { return Self::Other };
        let argument = found.arguments.first().map_or("u8", String::as_str);
        if is_vector(found.kind) && filled.contains(argument) {
            return Self::Other;
        }
        let size = || size_of(argument).filter(|size| *size > 0);
        let is_doubtful = both.contains(argument);
        match found.kind {
            Kind::Text => Self::Vector { element: 1, is_doubtful },
            Kind::Vec | Kind::BinaryHeap => {
                size().map_or(Self::Other, |element| Self::Vector { element, is_doubtful })
            }
            Kind::VecDeque => size().map_or(Self::Other, |element| Self::Deque { element, is_doubtful }),
            Kind::RawTable => Self::Table { element: size() },
            Kind::Map => Self::Table { element: size_of(&format!("({})", found.arguments.join(", "))) },
            Kind::Set => Self::Table { element: size_of(&format!("({argument}, ())")) },
            Kind::BTree => Self::Tree,
            Kind::RawVec | Kind::Pointer | Kind::LinkedList => Self::Other,
        }
    }
}

/// What the uses of a block say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Known(Room),
    /// It may be something else.
    Doubtful,
}

impl Reading {
    pub(super) fn room(self) -> Option<Room> {
        match self {
            Self::Known(room) => Some(room),
            Self::Doubtful => None,
        }
    }
}

/// What is needed to read the uses of a snapshot.
pub(super) struct Rooms<'a> {
    pub(super) snapshot: &'a HeapSnapshot,
    /// The pointers between blocks.
    pub(super) graph: &'a Graph,
    /// The number of each block's type and place, and the content by that number.
    pub(super) kinds: &'a [u32],
    pub(super) contents: &'a [Content],
}

/// Returns the element of a vector whose length is not that of its elements while this function runs: it is written
/// at the end.
pub(super) fn filled_by(function: &str) -> Option<String> {
    const PARTS: [&str; 9] = [
        "extend",
        "from_iter",
        "from_elem",
        "retain",
        "dedup",
        "splice",
        "extract_if",
        "drain",
        "in_place_collect",
    ];
    let is_meant = PARTS.iter().any(|part| function.contains(part));
    let found = container_of(function).filter(|found| is_meant && is_vector(found.kind))?;
    Some(found.arguments.into_iter().next().unwrap_or_else(|| "u8".to_owned()))
}

fn is_vector(kind: Kind) -> bool {
    matches!(kind, Kind::RawVec | Kind::Vec | Kind::VecDeque | Kind::BinaryHeap | Kind::Text)
}

impl Rooms<'_> {
    /// Returns the room of each block that begins something whose use is known. Only uses that `counts` are read.
    pub(super) fn find(&self, counts: impl Fn(&Use) -> bool) -> FxHashMap<u32, Reading> {
        let mut found: FxHashMap<u32, Reading> = FxHashMap::default();
        for of in self.snapshot.uses.iter().filter(|of| counts(of)) {
            if let Some(read) = self.read(of) {
                let known = found.entry(of.block).or_insert(read);
                *known = match (*known, read) {
                    (Reading::Known(known), Reading::Known(read)) => Reading::Known(known.or(read)),
                    _ => Reading::Doubtful,
                };
            }
        }
        found
    }

    /// Reads one use; `None` if it does not fit the block.
    fn read(&self, of: &Use) -> Option<Reading> {
        let size = self.snapshot.blocks[of.block as usize].size;
        let elements = |element: u64, bytes: u32| {
            let capacity = size.checked_div(element).filter(|_| u64::from(bytes) == element)?;
            let fits = capacity.checked_mul(element) == Some(size) && of.length <= capacity;
            fits.then(|| Room::of(size, capacity, of.length, Some(of.length * element)))
        };
        match (self.contents[self.kinds[of.block as usize] as usize], of.form) {
            (Content::Vector { element, .. }, Form::Vector(bytes))
            | (Content::Deque { element, .. }, Form::Deque(bytes)) => {
                elements(element, bytes).map(Reading::Known)
            }
            (Content::Vector { element, is_doubtful: true }, Form::Deque(bytes))
            | (Content::Deque { element, is_doubtful: true }, Form::Vector(bytes)) => {
                (u64::from(bytes) == element).then_some(Reading::Doubtful)
            }
            (Content::Table { element }, Form::Table(bits)) => {
                table(size, bits, of.length, element).map(Reading::Known)
            }
            (Content::Tree, Form::Tree(height)) => self.tree(of.block, height, of.length).map(Reading::Known),
            _ => None,
        }
    }

    /// Returns the room of a whole B-tree. Its nodes point to each other, all leaves are as deep as its height, and
    /// each node but the root has 5 to 11 elements.
    fn tree(&self, root: u32, height: u32, length: u64) -> Option<Room> {
        let most = 1 + length.checked_sub(1)? / 5;
        let kind = self.kinds[root as usize];
        let (mut nodes, mut known) = (vec![(root, 0)], FxHashSet::from_iter([root]));
        let mut at = 0;
        while let Some(&(node, depth)) = nodes.get(at) {
            let before = nodes.len();
            for &next in self.graph.successors(node) {
                if known.contains(&next) || !self.graph.successors(next).contains(&node) {
                    continue;
                }
                if depth == height || nodes.len() as u64 >= most || self.kinds[next as usize] != kind {
                    return None;
                }
                known.insert(next);
                nodes.push((next, depth + 1));
            }
            if depth < height && nodes.len() == before {
                return None;
            }
            at += 1;
        }
        let blocks = nodes.len() as u64;
        let bytes = nodes.iter().map(|(node, _)| self.snapshot.blocks[*node as usize].size).sum();
        let capacity = 11 * blocks;
        (length <= capacity).then(|| Room { blocks, ..Room::of(bytes, capacity, length, None) })
    }
}

/// Returns the room of a hash table of so many bytes. Behind the elements are a byte for each bucket, and a group
/// of 8 or 16 bytes.
fn table(size: u64, bits: u32, used: u64, element: Option<u64>) -> Option<Room> {
    let buckets = 1_u64.checked_shl(bits).filter(|buckets| *buckets < size)?;
    let capacity = room_of(buckets);
    if used > capacity {
        return None;
    }
    let bytes = |buckets: u64, (element, group): (u64, u64)| {
        let elements = buckets.checked_mul(element)?.checked_next_multiple_of(group)?;
        elements.checked_add(buckets + group)
    };
    // From sixteen buckets on, no byte is between the elements and what is behind them.
    let own = |group: u64| size.checked_sub(buckets + group).filter(|_| buckets >= 16).map(|of| of / buckets);
    let layouts = [16, 8].into_iter().filter_map(|group| Some((element.or_else(|| own(group))?, group)));
    let layout = layouts.into_iter().find(|layout| bytes(buckets, *layout) == Some(size));
    let exact_buckets = match used {
        0 => 0,
        1..=3 => 4,
        4..=7 => 8,
        _ => (used * 8 / 7).checked_next_power_of_two()?.max(16),
    };
    let exact_bytes = match layout {
        _ if exact_buckets == 0 => Some(0),
        _ if exact_buckets >= buckets => Some(size),
        // Newer compilers give small elements more room.
        Some((element, _)) if exact_buckets < 16 && element <= 3 => None,
        layout => layout.and_then(|layout| bytes(exact_buckets, layout)),
    };
    Some(Room::of(size, capacity, used, exact_bytes))
}

/// Returns how many elements a hash table has room for.
fn room_of(buckets: u64) -> u64 {
    if buckets < 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::heap_snapshot::{Block, Pointer};

    const VECTOR: Content = Content::Vector { element: 8, is_doubtful: false };
    const TABLE: Content = Content::Table { element: None };

    /// Reads uses of blocks: each block's size and content, the pointers between them, and the uses.
    fn find(
        blocks: &[(u64, Content)],
        pointers: &[(u32, u32)],
        uses: &[(u32, Form, u64)],
    ) -> Vec<(u32, Room)> {
        let block =
            |(size, _): &(u64, Content)| Block { address: 0, size: *size, site: 1, is_of_harness: false };
        let of = |&(block, form, length): &(u32, Form, u64)| Use {
            pointer: Pointer::Root(0),
            block,
            form,
            length,
        };
        let snapshot = HeapSnapshot {
            blocks: blocks.iter().map(block).collect(),
            uses: uses.iter().map(of).collect(),
            ..HeapSnapshot::default()
        };
        let graph = Graph::new(blocks.len(), pointers.iter().copied());
        let contents: Vec<Content> = blocks.iter().map(|(_, content)| *content).collect();
        // Equal contents are one kind.
        let kind = |content: &Content| contents.iter().position(|one| one == content).unwrap();
        let kinds: Vec<u32> = contents.iter().map(|content| u32::try_from(kind(content)).unwrap()).collect();
        let rooms = Rooms { snapshot: &snapshot, graph: &graph, kinds: &kinds, contents: &contents };
        let found = rooms.find(|_| true).into_iter();
        let mut found: Vec<_> = found.filter_map(|(block, reading)| Some((block, reading.room()?))).collect();
        found.sort_unstable_by_key(|(block, _)| *block);
        found
    }

    /// The capacity and the use of one block, and what an exact capacity takes.
    fn one(size: u64, content: Content, uses: &[(Form, u64)]) -> Option<(u64, [u64; 2], Option<[u64; 2]>)> {
        let uses: Vec<_> = uses.iter().map(|(form, length)| (0, *form, *length)).collect();
        let found = find(&[(size, content)], &[], &uses);
        found.first().map(|(_, room)| (room.capacity, room.used, room.exact_bytes))
    }

    #[test]
    fn a_vector_is_believed_if_capacity_and_element_are_the_block() {
        assert_eq!(one(80, VECTOR, &[(Form::Vector(8), 3)]), Some((10, [3, 3], Some([24, 24]))));
        assert_eq!(one(80, VECTOR, &[(Form::Vector(4), 3)]), None, "elements of another size");
        assert_eq!(one(84, VECTOR, &[(Form::Vector(8), 3)]), None, "no whole number of elements");
        assert_eq!(one(80, VECTOR, &[(Form::Vector(8), 11)]), None, "more than there is room for");
        assert_eq!(one(80, Content::Other, &[(Form::Vector(8), 3)]), None);
        let neighbours =
            [(Form::Vector(40), 2), (Form::Deque(8), 7), (Form::Tree(0), 3), (Form::Table(2), 1)];
        assert_eq!(one(80, VECTOR, &neighbours), None, "what no vector has");
        let both = [&neighbours[..], &[(Form::Vector(8), 3)]].concat();
        assert_eq!(one(80, VECTOR, &both), Some((10, [3, 3], Some([24, 24]))));
        let twice = [(Form::Vector(8), 3), (Form::Vector(8), 9)];
        assert_eq!(one(80, VECTOR, &twice), Some((10, [3, 9], Some([24, 72]))), "a copy is left");
    }

    #[test]
    fn a_vector_that_may_be_a_deque_is_not_believed() {
        let deque = Content::Deque { element: 8, is_doubtful: false };
        let read = [(Form::Vector(8), 3), (Form::Deque(8), 7)];
        assert_eq!(one(80, deque, &read), Some((10, [7, 7], Some([56, 56]))));
        let doubtful = [
            Content::Vector { element: 8, is_doubtful: true },
            Content::Deque { element: 8, is_doubtful: true },
        ];
        for content in doubtful {
            assert_eq!(one(80, content, &read), None);
        }
        assert_eq!(one(80, doubtful[0], &read[..1]), Some((10, [3, 3], Some([24, 24]))));
    }

    #[test]
    fn a_hash_table_has_seven_eighths_of_its_buckets_and_shrinks_to_a_power_of_two() {
        let size = |buckets: u64, element: u64| buckets * element + buckets + 16;
        let read = |buckets: u32, used| one(size(1 << buckets, 24), TABLE, &[(Form::Table(buckets), used)]);
        assert_eq!(read(11, 1500), Some((1792, [1500, 1500], Some([size(2048, 24); 2]))));
        assert_eq!(read(11, 10), Some((1792, [10, 10], Some([size(16, 24); 2]))));
        assert_eq!(read(11, 0), Some((1792, [0, 0], Some([0, 0]))));
        assert_eq!(read(11, 1793), None, "more than there is room for");
        assert_eq!(read(4, 5), Some((14, [5, 5], Some([size(8, 24); 2]))));
        assert_eq!(read(2, 3), Some((3, [3, 3], Some([size(4, 24); 2]))));
        let known = Content::Table { element: Some(24) };
        assert_eq!(
            one(size(8, 24), known, &[(Form::Table(3), 2)]),
            Some((7, [2, 2], Some([size(4, 24); 2])))
        );
        assert_eq!(
            one(size(8, 24), TABLE, &[(Form::Table(3), 2)]),
            Some((7, [2, 2], None)),
            "of which size?"
        );
        let bytes = Content::Table { element: Some(1) };
        assert_eq!(one(size(64, 1), bytes, &[(Form::Table(6), 2)]), Some((56, [2, 2], None)));
        // Processors without SSE2 look at eight bytes together.
        assert_eq!(one(2048 * 25 + 8, TABLE, &[(Form::Table(11), 10)]).unwrap().2, Some([16 * 25 + 8; 2]));
        assert_eq!(one(40, TABLE, &[(Form::Table(40), 10)]), None);
        assert_eq!(one(40, TABLE, &[(Form::Table(4), 10)]).unwrap().2, Some([40; 2]));
    }

    #[test]
    fn a_tree_is_believed_if_its_nodes_are_as_deep_as_it_is_high_and_full_enough() {
        let nodes = |count: usize| vec![(100, Content::Tree); count];
        // A root with three leaves, and blocks that they point to.
        let pointers = [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0), (1, 4), (4, 4)];
        let mut blocks = nodes(4);
        blocks.push((8, Content::Other));
        let read = |height, length| find(&blocks, &pointers, &[(0, Form::Tree(height), length)]);
        let room = Room { blocks: 4, ..Room::of(400, 44, 20, None) };
        assert_eq!(read(1, 20), [(0, room)]);
        assert_eq!(read(1, 45), [], "more than there is room for");
        assert_eq!(read(1, 15), [], "too few for so many nodes");
        assert_eq!(read(0, 11), []);
        assert_eq!(read(2, 20), [], "the leaves are not so deep");
        let of_leaf = find(&blocks, &pointers, &[(1, Form::Tree(1), 20)]);
        assert_eq!(of_leaf, [], "what was the root before");
        let mut others = blocks.clone();
        others[3].1 = VECTOR;
        assert_eq!(find(&others, &pointers, &[(0, Form::Tree(1), 20)]), [], "a node of another type");
        assert_eq!(find(&nodes(1), &[], &[(0, Form::Tree(0), 0)]), []);
        let leaf = Room { blocks: 1, ..Room::of(100, 11, 7, None) };
        assert_eq!(find(&nodes(1), &[], &[(0, Form::Tree(0), 7)]), [(0, leaf)]);
    }

    #[test]
    fn types_say_what_blocks_hold() {
        let none = BTreeSet::new();
        let of = |path: &str, size: Option<u64>| Content::of(path, |_| size, &none, &none);
        assert_eq!(
            of("alloc::vec::Vec<a::Token>", Some(24)),
            Content::Vector { element: 24, is_doubtful: false }
        );
        assert_eq!(of("alloc::vec::Vec<a::Token>", None), Content::Other);
        assert_eq!(of("alloc::string::String", None), Content::Vector { element: 1, is_doubtful: false });
        assert_eq!(of("alloc::vec::Vec<()>", Some(0)), Content::Other);
        assert_eq!(of("std::collections::HashMap<u8, u8>", None), TABLE);
        assert_eq!(of("alloc::collections::btree::set::BTreeSet<u8>", None), Content::Tree);
        assert_eq!(of("alloc::boxed::Box<[u8]>", Some(1)), Content::Other);
        let bytes = BTreeSet::from(["u8".to_owned()]);
        let doubtful = Content::of("alloc::string::String", |_| None, &bytes, &none);
        assert_eq!(doubtful, Content::Vector { element: 1, is_doubtful: true });
        assert_eq!(Content::of("alloc::string::String", |_| None, &none, &bytes), Content::Other);
        let filled = |function: &str| filled_by(function);
        assert_eq!(filled("alloc::vec::Vec<a::T>::extend_trusted::<I>").as_deref(), Some("a::T"));
        assert_eq!(filled("alloc::vec::Vec<a::T>::push"), None, "the length is written each time");
        assert_eq!(filled("std::collections::HashMap<u8, u8>::extend"), None);
    }

    #[test]
    fn what_could_be_spared_is_certain() {
        let one = Room::of(800, 100, 40, Some(320));
        assert_eq!((one.spare(), one.plus(one).spare()), (480, 960));
        assert_eq!(one.or(Room::of(800, 100, 90, Some(720))).spare(), 80);
        assert_eq!(one.plus(Room::of(100, 11, 5, None)).spare(), 0);
    }
}
