//! Who holds the memory of one moment: blocks with one type and one place that allocates are a group, and each
//! group is below the one through which alone the program reaches it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::results::stack_log::StackLog;
use crate::symbols::data_symbols::DataSymbols;
use crate::why::dominators::{Graph, NONE};
use crate::why::frame::Frame;
use crate::why::heap_snapshot::{HeapSnapshot, Holder, Pointer};
use crate::why::room::{self, Content, Reading, Room, Rooms};
use crate::why::roots::{RootName, Roots, StackFunction};
use crate::why::stacks::{Stacks, shown};

/// Groups that are kept.
const MOST_GROUPS: usize = 4096;
/// Groups below each other.
const DEEPEST: usize = 64;

/// The groups of one run, as its folder keeps them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerTree {
    /// The metric: `heap.peak`, or `heap.live` at a checkpoint.
    pub metric: String,
    /// The checkpoint that ends the peak's interval, or the one that was asked for.
    pub label: String,
    /// The 1-based occurrence of this label.
    pub occurrence: u32,
    /// The live bytes of the snapshot's blocks.
    pub bytes: u64,
    /// The bytes of the metric in the run with call stacks.
    pub expected: i64,
    /// The groups. Each comes behind its parent; the first stands for the whole program.
    pub groups: Vec<OwnerGroup>,
    /// How many words were read, and how many pointers would be expected among them by chance.
    pub words: u64,
    pub by_chance: u64,
    /// The number of pointers between blocks, and to blocks.
    pub pointers: u64,
    /// How long the program stood still, and how long the whole run took, in nanoseconds.
    pub nanoseconds: u64,
    pub run_nanoseconds: Option<u64>,
    /// What was not read.
    pub remarks: Vec<String>,
}

/// Blocks of one type, made at one place, below one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerGroup {
    /// The position of the group above.
    pub parent: u32,
    /// What holds the groups below outside of the heap; such a group has no blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootName>,
    /// The type's whole path, or why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_type: Option<String>,
    /// The innermost frame of the user's code that allocates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Frame>,
    /// Its own bytes and blocks.
    pub bytes: u64,
    pub blocks: u64,
    /// How many of its blocks are reached from the group above, and not from others of its own.
    pub entries: u64,
    /// The bytes of the group and of all below.
    pub held: u64,
    /// How much of its own blocks is used, of those of which that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
}

/// What a run recorded about one moment.
pub struct Recorded<'a> {
    pub snapshot: &'a HeapSnapshot,
    pub log: &'a StackLog,
    pub stacks: &'a Stacks,
    pub symbols: &'a DataSymbols,
    /// The types of which the program has a `Vec` and a `VecDeque`.
    pub in_both: &'a BTreeSet<String>,
}

impl OwnerTree {
    /// Finds the owners. `function` returns the functions at an address of the process, the innermost first.
    pub fn new(recorded: &Recorded<'_>, function: &mut dyn FnMut(u64) -> Vec<StackFunction>) -> Self {
        let mut filled = BTreeSet::new();
        let mut noted = |address: u64| {
            let functions = function(address);
            filled.extend(functions.iter().filter_map(|function| room::filled_by(&function.path)));
            functions
        };
        let mut roots = Roots::new(recorded.snapshot, recorded.log, recorded.symbols, &mut noted);
        let kinds = Kinds::new(recorded, &filled);
        let held = Held::new(recorded.snapshot, &kinds, &mut roots);
        let mut tree = Builder::new(recorded.snapshot, &kinds, &held).build();
        let snapshot = recorded.snapshot;
        let counted = snapshot.blocks.iter().filter(|block| !block.is_of_harness);
        tree.bytes = counted.map(|block| block.size).sum();
        tree.words = snapshot.words;
        tree.by_chance = snapshot.by_chance;
        tree.pointers = (snapshot.pointers.len() + snapshot.roots.len()) as u64;
        tree.nanoseconds = snapshot.nanoseconds;
        if !snapshot.is_whole {
            tree.remarks.push("more than 500 million pointers, so not all blocks were read".to_owned());
        }
        let ran: Vec<&str> =
            snapshot.threads.iter().filter(|thread| thread.ran).map(|thread| thread.name.as_str()).collect();
        if !ran.is_empty() {
            tree.remarks.push(format!("the stacks of running threads were not read: {}", ran.join(", ")));
        }
        tree.remarks.extend(recorded.log.incomplete.iter().cloned());
        if !snapshot.threads.iter().any(|thread| thread.is_own) {
            tree.remarks.push("no stack was read, because there is no /proc".to_owned());
        } else if snapshot.frames.is_empty() {
            tree.remarks.push("the stack could not be divided into functions".to_owned());
        }
        tree
    }

    /// Returns the bytes that are reached from outside of the heap.
    pub fn reached(&self) -> u64 {
        let is_reached = |group: &&OwnerGroup| group.root.as_ref().is_some_and(RootName::is_reached);
        self.groups.iter().filter(is_reached).map(|group| group.held).sum()
    }
}

/// What the blocks of sites are: a type, and a place.
struct Kinds {
    all: Vec<Kind>,
    contents: Vec<Content>,
    of_site: FxHashMap<u32, u32>,
}

#[derive(Clone, Default)]
struct Kind {
    type_path: Option<String>,
    no_type: Option<String>,
    made_at: Option<Frame>,
}

impl Kinds {
    fn new(recorded: &Recorded<'_>, filled: &BTreeSet<String>) -> Self {
        let mut kinds = vec![Kind { no_type: Some("no call stack".to_owned()), ..Kind::default() }];
        let (mut of_site, mut known) = (FxHashMap::default(), FxHashMap::default());
        for block in &recorded.snapshot.blocks {
            if of_site.contains_key(&block.site) {
                continue;
            }
            let Some(node) = recorded.stacks.node_of(block.site) else {
                of_site.insert(block.site, 0);
                continue;
            };
            let stack = recorded.stacks.stack(node);
            let made_at = shown(&stack).map(|index| stack[index].clone());
            let (type_path, no_type) = match recorded.stacks.type_of(node) {
                Ok(of) => (Some(of.path().to_owned()), None),
                Err(reason) => (None, Some(reason.words().to_owned())),
            };
            let place = made_at.as_ref().map(|frame| (frame.key(), frame.location()));
            let number = *known.entry((type_path.clone(), place)).or_insert_with(|| {
                kinds.push(Kind { type_path, no_type, made_at });
                u32::try_from(kinds.len() - 1).unwrap_or(0)
            });
            of_site.insert(block.site, number);
        }
        let content = |kind: &Kind| {
            let path = kind.type_path.as_deref()?;
            Some(Content::of(path, |path| recorded.stacks.size_of(path), recorded.in_both, filled))
        };
        let contents = kinds.iter().map(|kind| content(kind).unwrap_or_default()).collect();
        Self { all: kinds, contents, of_site }
    }

    fn of(&self, site: u32) -> u32 {
        self.of_site.get(&site).copied().unwrap_or(0)
    }

    /// Whether several may own a block of this site.
    fn is_shared(&self, site: u32) -> bool {
        let path = self.all[self.of(site) as usize].type_path.as_deref();
        path.is_some_and(|path| path.starts_with("alloc::sync::Arc<") || path.starts_with("alloc::rc::Rc<"))
    }
}

/// The graph of what holds what, from one root, and the names of what is not a block.
struct Held {
    graph: Graph,
    names: Vec<RootName>,
    root: u32,
    /// The room of blocks that begin something whose use is known.
    readings: FxHashMap<u32, Reading>,
}

impl Held {
    fn new(snapshot: &HeapSnapshot, kinds: &Kinds, roots: &mut Roots<'_>) -> Self {
        let count = snapshot.blocks.len();
        let blocks = Graph::new(count, snapshot.pointers.iter().copied());
        let (mut names, mut edges) = (Vec::new(), Vec::new());
        let mut numbers: FxHashMap<RootName, u32> = FxHashMap::default();
        let Claims { kept, of_blocks: claims, ranks } = kept_roots(snapshot, kinds, &blocks, roots);
        for (holder, block) in kept {
            let number = *numbers.entry(holder).or_insert_with_key(|holder| {
                names.push(holder.clone());
                u32::try_from(names.len() - 1).unwrap_or(NONE)
            });
            edges.push((number, block));
        }
        // What is left has no pointer to it, or holds itself.
        let left: Vec<bool> = claims.iter().map(|claim| *claim == NONE).collect();
        for (nodes, is_entered) in blocks.components(&left) {
            if is_entered {
                continue;
            }
            let representative = nodes.iter().copied().max_by_key(|node| {
                let block = &snapshot.blocks[*node as usize];
                (kinds.is_shared(block.site), block.size)
            });
            let Some(first) = representative else { continue };
            let is_cycle = nodes.len() > 1 || blocks.successors(first).contains(&first);
            let name = if is_cycle {
                let kind = &kinds.all[kinds.of(snapshot.blocks[first as usize].site) as usize];
                RootName::Cycle(kind.type_path.as_deref().map_or_else(|| "blocks".to_owned(), short_type))
            } else {
                RootName::NoPointer
            };
            let number = *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(NONE)
            });
            edges.push((number, first));
        }
        let first = u32::try_from(count).unwrap_or(NONE);
        let root = first + u32::try_from(names.len()).unwrap_or(0);
        let of_roots = edges.iter().map(|(number, block)| (first + number, *block));
        // What an earlier root has is not that of a later one's blocks either.
        let of_blocks = snapshot.pointers.iter().copied().filter(|(from, to)| {
            let claim = claims[*to as usize];
            claims[*from as usize] <= claim
                || claim == OF_THREADS && kinds.is_shared(snapshot.blocks[*to as usize].site)
        });
        // What was moved may still lie where it was: only what counts as the holder is believed.
        let counts = |pointer: Pointer, to: u32| match pointer {
            Pointer::Block(from) => claims[from as usize] <= claims[to as usize],
            Pointer::Root(root) => match snapshot.roots[root as usize].holder {
                // It may be filling a vector now.
                Holder::Stack(number) if !snapshot.threads[number as usize].is_own => false,
                holder => ranks.get(&holder) == Some(&claims[to as usize]),
            },
        };
        let kinds_of: Vec<u32> = snapshot.blocks.iter().map(|block| kinds.of(block.site)).collect();
        let uses = Rooms { snapshot, graph: &blocks, kinds: &kinds_of, contents: &kinds.contents };
        let readings = uses.find(|of| counts(of.pointer, of.block));
        let all = of_blocks.chain(of_roots).chain((first..root).map(|of| (root, of)));
        Self { graph: Graph::new(root as usize + 1, all), names, root, readings }
    }
}

/// The first roots that reach blocks: statics and thread-locals, and then other threads.
const OF_STATICS: u32 = 0;
const OF_THREADS: u32 = 1;

/// Which pointers from outside of the heap count.
#[derive(Default)]
struct Claims {
    kept: Vec<(RootName, u32)>,
    /// Which root each block belongs to first: the number of one, or `NONE`.
    of_blocks: Vec<u32>,
    /// The number of each holder that counts.
    ranks: FxHashMap<Holder, u32>,
}

/// Finds which pointers from outside of the heap count. A block that a static reaches stays when a function returns, so pointers from stacks to it say
/// nothing. What a function passes on to the ones that it calls is its own. What a thread was given may still be on
/// the stack of the function that started it.
fn kept_roots(snapshot: &HeapSnapshot, kinds: &Kinds, blocks: &Graph, roots: &mut Roots<'_>) -> Claims {
    let mut by_holder: Vec<(Holder, u32)> =
        snapshot.roots.iter().map(|root| (root.holder, root.block)).collect();
    by_holder.sort_unstable();
    by_holder.dedup();
    let is_own = |number: u32| snapshot.threads[number as usize].is_own;
    // The main thread waits for the test, unless it runs it.
    let is_main = |number: u32| number == 0 && !is_own(number);
    let of = |is_meant: &dyn Fn(Holder) -> bool| -> Vec<(Holder, u32)> {
        by_holder.iter().copied().filter(|(holder, _)| is_meant(*holder)).collect()
    };
    let mut claims = vec![NONE; blocks.len()];
    let (mut kept, mut ranks) = (Vec::new(), FxHashMap::default());
    let mut add = |targets: Vec<(Holder, u32)>, number: u32, claims: &mut [u32]| {
        let mut new = Vec::new();
        for (holder, block) in targets {
            let claim = claims[block as usize];
            let is_shared = claim == OF_THREADS && kinds.is_shared(snapshot.blocks[block as usize].site);
            if let Some(name) = roots.name(holder).filter(|_| claim == NONE || is_shared) {
                kept.push((name, block));
                new.push(block);
                ranks.insert(holder, number);
            }
        }
        blocks.mark(new.into_iter(), number, claims);
    };
    let global = of(&|holder| matches!(holder, Holder::Static(_) | Holder::ThreadLocal(_)));
    add(global, OF_STATICS, &mut claims);
    let others = of(&|holder| matches!(holder, Holder::Stack(number) if !is_own(number) && !is_main(number)));
    add(others, OF_THREADS, &mut claims);
    let mut number = OF_THREADS + 1;
    add(of(&|holder| matches!(holder, Holder::Stack(number) if is_own(number))), number, &mut claims);
    // The outermost frame is the last.
    let frames = of(&|holder| matches!(holder, Holder::Frame(_)));
    for frame in frames.chunk_by(|(one, _), (next, _)| one == next).rev() {
        number += 1;
        add(frame.to_vec(), number, &mut claims);
    }
    add(of(&|holder| matches!(holder, Holder::Stack(number) if is_main(number))), number + 1, &mut claims);
    Claims { kept, of_blocks: claims, ranks }
}

/// Returns a type as in sources.
pub(super) fn short_type(path: &str) -> String {
    crate::why::type_path::without_modules(path)
}

/// Puts blocks into groups, from the root down.
struct Builder<'a> {
    snapshot: &'a HeapSnapshot,
    kinds: &'a Kinds,
    held: &'a Held,
    groups: Vec<OwnerGroup>,
    /// The kind of each group's blocks; `NONE` of a root.
    kind_of: Vec<u32>,
    /// The group of each kind below a group.
    below: FxHashMap<(u32, u32), u32>,
    roots: FxHashMap<RootName, u32>,
}

impl<'a> Builder<'a> {
    fn new(snapshot: &'a HeapSnapshot, kinds: &'a Kinds, held: &'a Held) -> Self {
        let (groups, kind_of) = (vec![OwnerGroup::default()], vec![NONE]);
        let (below, roots) = (FxHashMap::default(), FxHashMap::default());
        Self { snapshot, kinds, held, groups, kind_of, below, roots }
    }

    fn build(mut self) -> OwnerTree {
        let count = self.snapshot.blocks.len();
        let mut group_of = vec![0_u32; self.held.graph.len()];
        // The one below the root that each node is reached through.
        let mut top = vec![NONE; self.held.graph.len()];
        let dominators = self.held.graph.dominators(self.held.root);
        for &(node, above) in dominators.iter().skip(1) {
            top[node as usize] = if above == self.held.root { node } else { top[above as usize] };
        }
        let shared = self.names_of_shared(&dominators, &top);
        for &(node, above) in dominators.iter().skip(1) {
            let group = if node as usize >= count {
                self.of_root(self.held.names[node as usize - count].clone())
            } else {
                let parent = match shared.get(&node) {
                    Some(names) => self.of_root(RootName::Several(names.clone())),
                    None => group_of[above as usize],
                };
                self.of_block(node, parent)
            };
            group_of[node as usize] = group;
        }
        for at in (1..self.groups.len()).rev() {
            self.groups[at].held += self.groups[at].bytes;
            let (held, parent) = (self.groups[at].held, self.groups[at].parent as usize);
            self.groups[parent].held += held;
        }
        OwnerTree { groups: kept(self.groups), ..OwnerTree::default() }
    }

    /// The names of the roots that hold a block together.
    fn names_of_shared(&self, dominators: &[(u32, u32)], top: &[u32]) -> FxHashMap<u32, Vec<RootName>> {
        let count = self.snapshot.blocks.len();
        let is_shared = |node: u32, above: u32| (node as usize) < count && above == self.held.root;
        let mut shared: FxHashMap<u32, Vec<RootName>> = dominators
            .iter()
            .skip(1)
            .filter(|(node, above)| is_shared(*node, *above))
            .map(|(node, _)| (*node, Vec::new()))
            .collect();
        for &(from, _) in dominators.iter().skip(1) {
            for to in self.held.graph.successors(from) {
                let through = top[from as usize] as usize;
                let Some(names) = shared.get_mut(to).filter(|_| through >= count && through != NONE as usize)
                else {
                    continue;
                };
                let name = &self.held.names[through - count];
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        for names in shared.values_mut() {
            names.sort();
            names.truncate(2);
        }
        shared
    }

    fn of_root(&mut self, name: RootName) -> u32 {
        if let Some(known) = self.roots.get(&name) {
            return *known;
        }
        let number = self.add(OwnerGroup { root: Some(name.clone()), ..OwnerGroup::default() }, NONE);
        self.roots.insert(name, number);
        number
    }

    fn of_block(&mut self, node: u32, parent: u32) -> u32 {
        let block = &self.snapshot.blocks[node as usize];
        if block.is_of_harness {
            return parent;
        }
        let kind = self.kinds.of(block.site);
        let (mut group, mut above, mut depth) = (None, parent, 0);
        // A list, or a tree: its blocks belong together.
        while above != 0 && depth < DEEPEST {
            if self.kind_of[above as usize] == kind {
                group = Some((above, false));
                break;
            }
            above = self.groups[above as usize].parent;
            depth += 1;
        }
        let (group, is_entry) = match group {
            Some(found) => found,
            None if depth >= DEEPEST => (parent, false),
            None => (self.below(parent, kind), true),
        };
        let found = &mut self.groups[group as usize];
        found.bytes += block.size;
        found.blocks += 1;
        found.entries += u64::from(is_entry);
        if let Some(room) = self.held.readings.get(&node).and_then(|reading| reading.room()) {
            found.room = Some(found.room.map_or(room, |known| known.plus(room)));
        }
        group
    }

    /// The group of a kind below another one.
    fn below(&mut self, parent: u32, kind: u32) -> u32 {
        if let Some(known) = self.below.get(&(parent, kind)) {
            return *known;
        }
        let Kind { type_path, no_type, made_at } = self.kinds.all[kind as usize].clone();
        let number =
            self.add(OwnerGroup { parent, type_path, no_type, made_at, ..OwnerGroup::default() }, kind);
        self.below.insert((parent, kind), number);
        number
    }

    fn add(&mut self, group: OwnerGroup, kind: u32) -> u32 {
        self.groups.push(group);
        self.kind_of.push(kind);
        u32::try_from(self.groups.len() - 1).unwrap_or(0)
    }
}

/// Keeps the groups that hold most. What the others hold counts as their parents' own.
fn kept(groups: Vec<OwnerGroup>) -> Vec<OwnerGroup> {
    let mut sizes: Vec<u64> = groups.iter().map(|group| group.held).collect();
    sizes.sort_unstable_by_key(|held| std::cmp::Reverse(*held));
    let least = sizes.get(MOST_GROUPS).copied().unwrap_or(0).max(1);
    let mut places = vec![0_u32; groups.len()];
    let mut kept: Vec<OwnerGroup> = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        let parent = places[group.parent as usize];
        if at > 0 && (group.held < least || kept.len() > 2 * MOST_GROUPS) {
            places[at] = parent;
            kept[parent as usize].bytes += group.bytes;
        } else {
            places[at] = u32::try_from(kept.len()).unwrap_or(0);
            kept.push(OwnerGroup { parent, ..group });
        }
    }
    kept
}
