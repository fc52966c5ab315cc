//! How many elements the blocks of a site have room for, where the layout of a type and the sum of their bytes tell:
//! in nodes of B-trees, and in hash tables.

use std::collections::BTreeSet;

use crate::why::containers::{Kind, container};
use crate::why::function_path::length_of_arguments;
use crate::why::type_path::cleaned;

/// What the blocks of a site are, by the path of the type whose size is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A node of a B-tree, by the path of its leaves. Inner nodes have more bytes.
    Node(String, u64),
    /// A hash table with these elements.
    Table(String),
}

/// Elements of a node.
const NODE: u64 = 11;
/// More allocations at a site, and their bytes are not divided into tables.
const MOST_TABLES: u64 = 48;
/// Most bytes of an element, so that no sum overflows.
const LARGEST: u64 = 1 << 40;

/// Returns the node of a B-tree that a function names. An inner node is a leaf and twelve pointers.
pub(super) fn node(function: &str) -> Option<(String, u64)> {
    const NODES: [(&str, u64); 2] = [("LeafNode", 0), ("InternalNode", 12 * 8)];
    const MODULE: &str = "alloc::collections::btree::node::";
    NODES.iter().find_map(|(name, more)| {
        let (_, behind) = function.split_once(&format!("{MODULE}{name}"))?;
        let arguments = behind.strip_prefix("::").unwrap_or(behind);
        let end = arguments.starts_with('<').then(|| length_of_arguments(arguments))?;
        Some((cleaned(&format!("{MODULE}LeafNode{}", &arguments[..end])), *more))
    })
}

/// Returns the elements of a type that is a hash table.
pub(super) fn pair(of: &str) -> Option<String> {
    let found = container(of)?;
    match (found.kind, found.arguments.as_slice()) {
        (Kind::RawTable, [element]) => Some(element.clone()),
        (Kind::Map, [key, value]) => Some(format!("({key}, {value})")),
        (Kind::Set, [element]) => Some(format!("({element}, ())")),
        _ => None,
    }
}

/// Whether blocks of this type have room for elements, and something else.
pub(super) fn has_slots(of: &str) -> bool {
    container(of).is_some_and(|found| found.kind == Kind::BTree) || pair(of).is_some()
}

impl Unit {
    /// Returns what the blocks of a type are that a stack allocates; its innermost frame is the first.
    pub(super) fn of<'a>(of: &str, mut functions: impl Iterator<Item = &'a str>) -> Option<Self> {
        match container(of)?.kind {
            Kind::BTree => functions.find_map(node).map(|(leaf, more)| Self::Node(leaf, more)),
            _ => pair(of).map(Self::Table),
        }
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Node(path, _) | Self::Table(path) => path,
        }
    }

    /// Returns how many elements these bytes have room for, if only one number is possible. `size` is that of the
    /// type, and `most` the number of blocks that there may be.
    pub(super) fn slots(&self, bytes: u64, size: u64, most: u64) -> Option<u64> {
        match self {
            _ if size == 0 => None,
            Self::Node(_, more) => {
                let size = size.checked_add(*more)?;
                bytes.is_multiple_of(size).then(|| NODE * (bytes / size))
            }
            Self::Table(_) => tables(bytes, size, most),
        }
    }
}

/// Returns the room of hash tables. Each has a power of two of buckets, and behind the elements a byte for each and a
/// group of 8 or 16 bytes.
fn tables(bytes: u64, element: u64, most: u64) -> Option<u64> {
    if bytes == 0 || most > MOST_TABLES || element > LARGEST {
        return (bytes == 0).then_some(0);
    }
    let mut found = BTreeSet::new();
    for group in [8, 16] {
        let small = |buckets: u64| (buckets * element).next_multiple_of(group) + buckets + group;
        for fours in 0..=most {
            for eights in 0..=most - fours {
                let Some(rest) = bytes.checked_sub(fours * small(4) + eights * small(8)) else { break };
                for others in 0..=most - fours - eights {
                    let Some(rest) = rest.checked_sub(others * group) else { break };
                    let buckets = rest / (element + 1);
                    // So many powers of two from sixteen on.
                    let is_sum = buckets.is_multiple_of(16)
                        && u64::from(buckets.count_ones()) <= others
                        && others <= buckets / 16;
                    if rest.is_multiple_of(element + 1) && is_sum {
                        found.insert(3 * fours + 7 * eights + buckets / 8 * 7);
                    }
                }
            }
        }
    }
    found.pop_first().filter(|_| found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_names() {
        let leaf = "alloc::collections::btree::node::LeafNode<u16, a::Token>";
        let inner = leaf.replace("Leaf", "Internal");
        let boxed = |node: &str| format!("alloc::boxed::Box<{node}>::try_new_uninit_in");
        assert_eq!(node(&boxed(leaf)), Some((leaf.to_owned(), 0)));
        assert_eq!(node(&boxed(&inner)), Some((leaf.to_owned(), 96)));
        assert_eq!(node(&format!("{leaf}::new::<alloc::alloc::Global>")), Some((leaf.to_owned(), 0)));
        let path = "alloc::collections::btree::node::LeafNode::<u16, a::Token>::new";
        assert_eq!(node(path), Some((leaf.to_owned(), 0)));
        assert_eq!(node("alloc::collections::btree::node::NodeRef<u16>::new_leaf"), None);
        assert_eq!(node("alloc::collections::btree::node::LeafNode::new"), None);
    }

    #[test]
    fn a_node_has_eleven_slots() {
        let leaf = Unit::Node("n".to_owned(), 0);
        assert_eq!(leaf.slots(3 * 544, 544, 1), Some(33));
        assert_eq!(leaf.slots(3 * 544 + 1, 544, 1), None);
        assert_eq!(leaf.slots(544, 0, 1), None);
        assert_eq!(Unit::Node("n".to_owned(), 96).slots(2 * 640, 544, 1), Some(22));
    }

    #[test]
    fn the_room_of_tables_is_known_if_only_one_is_possible() {
        let pair = Unit::Table("p".to_owned());
        let size = |buckets: u64, element: u64| (buckets * element).next_multiple_of(16) + buckets + 16;
        assert_eq!(pair.slots(size(2048, 24), 24, 12), Some(1792));
        assert_eq!(pair.slots(size(2048, 24) + size(1024, 24), 24, 12), Some(1792 + 896), "it grows");
        assert_eq!(pair.slots(size(4, 24), 24, 1), Some(3));
        assert_eq!(pair.slots(size(8, 3), 3, 1), Some(7));
        assert_eq!(pair.slots(size(8, 3), 3, 2), None, "or two of four buckets with groups of eight bytes");
        assert_eq!(pair.slots(2048 * 25 + 8, 24, 12), Some(1792), "groups of eight bytes");
        assert_eq!(pair.slots(size(2048, 24), 24, 40), None, "or 34 small ones");
        assert_eq!(pair.slots(size(2048, 24), 24, 1000), None);
        assert_eq!(pair.slots(size(2048, 24) + 1, 24, 12), None);
        assert_eq!(pair.slots(0, 24, 1000), Some(0));
    }

    proptest::proptest! {
        #[test]
        fn a_number_is_that_of_the_tables(bits in proptest::collection::vec(2_u32..14, 1..5), element in 1_u64..80) {
            let buckets = bits.iter().map(|bits| 1_u64 << bits);
            let bytes = buckets.clone().map(|of| (of * element).next_multiple_of(16) + of + 16).sum();
            let room: u64 = buckets.map(|of| if of < 8 { of - 1 } else { of / 8 * 7 }).sum();
            let found = tables(bytes, element, bits.len() as u64 + 3);
            proptest::prop_assert!(found.is_none_or(|found| found == room), "{found:?} {room}");
        }
    }
}
