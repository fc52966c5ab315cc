//! The tree of traced calls: who called whom, with the number of calls, and sums and maxima of
//! their figures.

// Nodes and sites have numbers of 32 bits, so that a call's guard stays small.
#![allow(clippy::cast_possible_truncation)]

use crate::lines::traced_function::NONE;
use crate::platform::untracked::Untracked;

/// Most metrics that are followed for each call. Later ones are left out.
pub(crate) const SLOTS: usize = 24;

/// Most nodes of the tree. Further calls are added up by function alone.
const MAXIMUM_NODES: usize = 1 << 15;

/// The parent of calls that no traced function made.
pub(crate) const ROOT: u32 = u32::MAX;
/// The parent of calls whose caller is not kept, because the tree is full.
pub(crate) const ELSEWHERE: u32 = u32::MAX - 1;

/// A function, reached through one chain of callers.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) site: u32,
    /// The caller's node, [`ROOT`] or [`ELSEWHERE`].
    pub(crate) parent: u32,
    pub(crate) calls: u64,
    pub(crate) recursive: u64,
    ended: u64,
    /// Calls during which a traced function ran on another thread. Their figures include that
    /// thread's.
    pub(crate) overlapped: u64,
    /// Calls whose heap figures are those of their own thread.
    pub(crate) by_thread: u64,
    /// The time of calls that are not recursive, if it is read: the sum, and the longest.
    pub(crate) nanoseconds: u64,
    pub(crate) longest: u64,
    is_changed: bool,
}

impl Node {
    /// Calls that have begun and not ended.
    pub(crate) fn open(&self) -> u64 {
        self.calls - self.ended
    }

    /// Whether its callers are not kept.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.parent == ELSEWHERE
    }
}

/// One metric's figures over the calls of a node.
#[derive(Clone, Copy)]
pub(crate) struct Aggregate {
    /// Calls that had a reading at both ends.
    pub(crate) calls: u64,
    /// Sum of the bytes consumed, or of a total's growth.
    pub(crate) sum: i64,
    pub(crate) most: i64,
    pub(crate) peaked_sum: u64,
    pub(crate) peaked_most: u64,
}

const NOTHING: Aggregate = Aggregate { calls: 0, sum: 0, most: 0, peaked_sum: 0, peaked_most: 0 };

pub(crate) struct CallTree {
    nodes: Untracked<Node>,
    /// [`SLOTS`] for each node.
    aggregates: Untracked<Aggregate>,
    /// A hash table of nodes by parent and site, with open addressing. A place that holds [`NONE`]
    /// is free.
    places: Untracked<u32>,
}

impl CallTree {
    pub(crate) const fn new() -> Self {
        Self { nodes: Untracked::new(), aggregates: Untracked::new(), places: Untracked::new() }
    }

    pub(crate) fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    pub(crate) fn aggregate(&self, node: u32, slot: usize) -> &Aggregate {
        &self.aggregates[node as usize * SLOTS + slot]
    }

    /// A call of this node begins.
    pub(crate) fn begin(&mut self, node: u32, is_recursive: bool) {
        let node = &mut self.nodes.as_mut()[node as usize];
        node.calls += 1;
        node.recursive += u64::from(is_recursive);
        node.is_changed = true;
    }

    /// A call of this node ends.
    pub(crate) fn end(&mut self, node: u32, overlapped: bool, by_thread: bool) {
        let node = &mut self.nodes.as_mut()[node as usize];
        node.ended += 1;
        node.overlapped += u64::from(overlapped);
        node.by_thread += u64::from(by_thread);
        node.is_changed = true;
    }

    pub(crate) fn add_time(&mut self, node: u32, nanoseconds: u64) {
        let node = &mut self.nodes.as_mut()[node as usize];
        node.nanoseconds += nanoseconds;
        node.longest = node.longest.max(nanoseconds);
    }

    /// Adds one call's figures: by how much the level or the total grew, and the peak above it.
    pub(crate) fn add(&mut self, node: u32, slot: usize, grown: i64, peaked: u64) {
        let aggregate = &mut self.aggregates.as_mut()[node as usize * SLOTS + slot];
        aggregate.most = if aggregate.calls == 0 { grown } else { aggregate.most.max(grown) };
        aggregate.calls += 1;
        aggregate.sum = aggregate.sum.wrapping_add(grown);
        aggregate.peaked_sum = aggregate.peaked_sum.wrapping_add(peaked);
        aggregate.peaked_most = aggregate.peaked_most.max(peaked);
    }

    /// Returns the nodes that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Untracked<u32> {
        let mut changed = Untracked::new();
        for (number, node) in self.nodes.as_mut().iter_mut().enumerate() {
            if std::mem::replace(&mut node.is_changed, false) {
                changed.push(number as u32);
            }
        }
        changed
    }

    /// The node of this site below this parent.
    pub(crate) fn find_or_add(&mut self, parent: u32, site: u32) -> u32 {
        if self.nodes.len() * 2 >= self.places.len() {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut index = hash(parent, site) & mask;
        while self.places[index] != NONE {
            let node = self.places[index];
            let known = &self.nodes[node as usize];
            if known.parent == parent && known.site == site {
                return node;
            }
            index = (index + 1) & mask;
        }
        if self.nodes.len() >= MAXIMUM_NODES && parent != ELSEWHERE {
            return self.find_or_add(ELSEWHERE, site);
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node {
            site,
            parent,
            calls: 0,
            recursive: 0,
            ended: 0,
            overlapped: 0,
            by_thread: 0,
            nanoseconds: 0,
            longest: 0,
            is_changed: false,
        });
        self.aggregates.extend(&[NOTHING; SLOTS]);
        self.places.as_mut()[index] = node;
        node
    }

    /// Doubles the table, whose length is always a power of two.
    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(64);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(NONE);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let mut index = hash(node.parent, node.site) & (length - 1);
            while places[index] != NONE {
                index = (index + 1) & (length - 1);
            }
            places.as_mut()[index] = number as u32;
        }
        self.places = places;
    }
}

fn hash(parent: u32, site: u32) -> usize {
    let word = (u64::from(parent) << 32 | u64::from(site)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as usize
}
