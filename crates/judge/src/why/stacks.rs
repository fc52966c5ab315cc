//! Recorded stacks with their functions, as one tree for a run. Inlined functions are frames of their
//! own.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxBuildHasher, FxHashMap};

use indexmap::IndexSet;

use crate::results::stack_log::{Figures, Module, Node, StackLog};
use crate::why::frame::{Frame, FrameKind, Owner};
use crate::why::slots::Unit;
use crate::why::types::{self, NoType, SiteType};

/// The stacks of a run as a tree. Node 0 is the root; the outermost frames are its children.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: IndexSet<Arc<Frame>, FxBuildHasher>,
    /// What is asked of each frame in many stacks, at its position.
    traits: Vec<Traits>,
    nodes: Vec<TreeNode>,
    /// The children of all nodes, one node after the other.
    children: Vec<u32>,
    /// Where those of each node begin, and the end.
    first_children: Vec<u32>,
    /// The stack of each site, at its number minus 1.
    sites: Vec<Site>,
    types: OnceLock<Types>,
    /// The sizes of types, by their paths.
    sizes: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct TreeNode {
    parent: u32,
    frame: u32,
}

#[derive(Clone, Copy, Debug)]
struct Site {
    /// The innermost node of its stack; 0 if the stack is empty.
    whole: u32,
    /// That without the allocator's own frames.
    node: u32,
}

#[derive(Clone, Copy, Debug)]
struct Traits {
    kind: FrameKind,
    is_of_allocator: bool,
    calls_body: bool,
}

/// What the blocks of each site's node are.
#[derive(Clone, Debug, Default)]
struct Types {
    /// The type that allocates.
    of: FxHashMap<u32, SiteType>,
    /// What there is room for.
    units: FxHashMap<u32, Option<Unit>>,
}

/// The figures of a run's stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFigures {
    /// By the innermost node.
    pub of_node: BTreeMap<u32, Figures>,
    /// What has no stack: allocated before recording began, or not in the sample.
    pub without_stack: Figures,
}

impl Stacks {
    /// Finds the functions of all frames. `resolve` gets a module and an address in its file, or no
    /// module and an address of the process. It returns the function there and those that it is
    /// inlined into, the innermost first; nothing if it knows none.
    pub fn new(log: &StackLog, mut resolve: impl FnMut(Option<&Module>, u64) -> Vec<Arc<Frame>>) -> Self {
        let mut stacks = Self {
            frames: IndexSet::default(),
            traits: Vec::new(),
            nodes: vec![TreeNode { parent: 0, frame: 0 }],
            children: Vec::new(),
            first_children: Vec::new(),
            sites: Vec::new(),
            types: OnceLock::new(),
            sizes: BTreeMap::new(),
        };
        let mut resolved: FxHashMap<(Option<u32>, u64), Vec<u32>> = FxHashMap::default();
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        // The new node of each node of the log.
        let mut innermost: Vec<u32> = vec![0];
        for &Node { parent, module, address } in &log.nodes {
            let frames = resolved.entry((module, address)).or_insert_with(|| {
                let module = module.and_then(|number| log.module(number));
                let mut frames = resolve(module, address);
                if frames.is_empty() {
                    let module = module.map(|module| module.path.clone());
                    frames.push(Arc::new(Frame::unknown(module, address)));
                }
                frames.into_iter().map(|frame| stacks.frame_number(frame)).collect()
            });
            let parent = innermost[parent as usize];
            // Stacks of a test begin with its body.
            let calls_body = frames.iter().any(|&frame| stacks.traits[frame as usize].calls_body);
            let node = frames
                .iter()
                .rev()
                .filter(|_| !calls_body)
                .fold(if calls_body { 0 } else { parent }, |parent, &frame| {
                    *known.entry((parent, frame)).or_insert_with(|| stacks.add(parent, frame))
                });
            innermost.push(node);
        }
        let site = |&node: &u32| {
            let whole = innermost[node as usize];
            Site { whole, node: stacks.cut(whole) }
        };
        stacks.sites = log.sites.iter().map(site).collect();
        stacks.link_children();
        stacks
    }

    /// Lists the children of all nodes, in the order of their numbers.
    fn link_children(&mut self) {
        let mut ends = vec![0_u32; self.nodes.len() + 1];
        for node in &self.nodes[1..] {
            ends[node.parent as usize + 1] += 1;
        }
        for index in 1..ends.len() {
            ends[index] += ends[index - 1];
        }
        self.first_children.clone_from(&ends);
        self.children = vec![0; self.nodes.len() - 1];
        for (number, node) in (1..).zip(&self.nodes[1..]) {
            let next = &mut ends[node.parent as usize];
            self.children[*next as usize] = number;
            *next += 1;
        }
    }

    /// Returns the types that allocate. Most reports do not ask for them.
    fn types(&self) -> &Types {
        self.types.get_or_init(|| {
            let mut types = Types::default();
            for &Site { whole, node } in &self.sites {
                let stack = self.stack(whole);
                let found = types::of_stack(&stack);
                let functions = stack.iter().filter_map(|frame| frame.function.as_deref());
                let unit = found.as_ref().ok().and_then(|of| Unit::of(of.path(), functions));
                let known = types.units.entry(node).or_insert_with(|| unit.clone());
                if *known != unit {
                    *known = None;
                }
                // The allocator's own frames, which are cut, may be those of different types.
                let known = types.of.entry(node).or_insert_with(|| found.clone());
                if *known != found {
                    *known = Err(NoType::Inlined);
                }
            }
            types
        })
    }

    /// Adds what is known about the sizes of types.
    #[must_use]
    pub fn with_sizes(self, sizes: BTreeMap<String, u64>) -> Self {
        Self { sizes, ..self }
    }

    /// Whether the size of any type is known.
    pub(super) fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Returns the size of a type, by its path.
    pub(super) fn size_of(&self, path: &str) -> Option<u64> {
        self.sizes.get(path).copied()
    }

    /// Returns how many elements these bytes of a node have room for, if that is certain. `most` is the number of
    /// its blocks at most.
    pub(super) fn slots(&self, node: u32, bytes: u64, most: u64) -> Option<u64> {
        let unit = self.types().units.get(&node)?.as_ref()?;
        unit.slots(bytes, self.size_of(unit.path())?, most)
    }

    fn frame_number(&mut self, frame: Arc<Frame>) -> u32 {
        let (position, is_new) = self.frames.insert_full(frame);
        if is_new {
            let frame = &self.frames[position];
            let (is_of_allocator, calls_body) = (frame.is_of_allocator(), frame.calls_body());
            self.traits.push(Traits { kind: frame.kind(), is_of_allocator, calls_body });
        }
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    fn add(&mut self, parent: u32, frame: u32) -> u32 {
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(TreeNode { parent, frame });
        number
    }

    /// Cuts the allocator's own frames at the inner end, unless there are no others.
    fn cut(&self, node: u32) -> u32 {
        let mut outer = node;
        while outer != 0 && self.traits[self.position(outer)].is_of_allocator {
            outer = self.nodes[outer as usize].parent;
        }
        if outer == 0 { node } else { outer }
    }

    /// Returns the frame of a node.
    ///
    /// # Panics
    /// It is the root, or there is no such node.
    pub fn frame(&self, node: u32) -> &Frame {
        assert!(node != 0, "the root has no frame");
        &self.frames[self.nodes[node as usize].frame as usize]
    }

    /// Returns the frames of a stack, the innermost first, to be kept.
    pub fn shared_stack(&self, node: u32) -> Vec<Arc<Frame>> {
        self.chain(node).map(|node| Arc::clone(&self.frames[self.position(node)])).collect()
    }

    /// Returns the position in [`Self::frames`] of a node's frame.
    pub(super) fn position(&self, node: u32) -> usize {
        self.nodes[node as usize].frame as usize
    }

    /// Returns the nodes of a stack, the innermost first.
    pub fn chain(&self, node: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(node), |node| Some(self.nodes[*node as usize].parent))
            .take_while(|node| *node != 0)
    }

    /// Returns the frames of a stack, the innermost first.
    pub fn stack(&self, node: u32) -> Vec<&Frame> {
        self.chain(node).map(|node| self.frame(node)).collect()
    }

    /// Returns the frames that a node's frame calls.
    pub(super) fn children(&self, node: u32) -> &[u32] {
        let [first, end] = [0, 1].map(|next| self.first_children[node as usize + next] as usize);
        &self.children[first..end]
    }

    /// Returns the index of the frame that names a stack's site: as [`shown`].
    pub(super) fn shown(&self, node: u32) -> Option<usize> {
        naming(self.chain(node).map(|node| self.traits[self.position(node)].kind))
    }

    /// Returns all frames, each once.
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().map(Arc::as_ref)
    }

    /// Returns the stack of a site, the innermost frame first; empty if it is not known.
    pub fn of_site(&self, site: u32) -> Vec<&Frame> {
        self.node_of(site).map_or_else(Vec::new, |node| self.stack(node))
    }

    /// Returns the innermost node of a site's stack; `None` if it is not known.
    pub(crate) fn node_of(&self, site: u32) -> Option<u32> {
        let site = site.checked_sub(1).and_then(|index| self.sites.get(index as usize))?;
        Some(site.node).filter(|node| *node != 0)
    }

    /// Returns the type that allocates at a site's innermost node, or why it is not known.
    pub fn type_of(&self, node: u32) -> SiteType {
        self.types().of.get(&node).cloned().unwrap_or(Err(NoType::NoName))
    }

    /// Adds up the figures of sites with the same stack.
    pub fn figures(&self, of_sites: &[(u32, Figures)]) -> StackFigures {
        let mut figures = StackFigures::default();
        for (site, of_site) in of_sites {
            let sum = match self.node_of(*site) {
                None => &mut figures.without_stack,
                Some(node) => figures.of_node.entry(node).or_default(),
            };
            *sum = sum.plus(*of_site);
        }
        figures
    }
}

/// Returns the index of the frame that names the site: the innermost of the user's code; else of a
/// dependency, of the standard library, or of all.
pub fn shown(stack: &[&Frame]) -> Option<usize> {
    naming(stack.iter().map(|frame| frame.kind()))
}

/// As [`shown`], by the kinds of frames.
pub(super) fn naming(kinds: impl Iterator<Item = FrameKind>) -> Option<usize> {
    let mut kinds = kinds.peekable();
    // The test harness calls the user's code in a thread of its own. Outside of the harness is only
    // the `main` that the compiler generates, in the test's file.
    let begins_in_harness = kinds.peek()?.is_of_harness;
    let own = kinds.take_while(|kind| begins_in_harness || !kind.is_of_harness);
    let owner = |kind: FrameKind| if begins_in_harness { kind.owner.max(Owner::Std) } else { kind.owner };
    // The first of equal ones is the innermost.
    own.map(owner).enumerate().min_by_key(|(_, owner)| *owner).map(|(index, _)| index)
}

/// Returns the frames for people, the innermost first: from this one, which names the site, to the
/// outermost one of the user or a dependency. The test harness is outside of it.
pub fn displayed_from<'a>(stack: &[&'a Frame], first: usize) -> Vec<&'a Frame> {
    if first >= stack.len() {
        return Vec::new();
    }
    let is_of_program = |frame: &&Frame| frame.owner() <= Owner::Dependency;
    let last = stack.iter().rposition(is_of_program).unwrap_or(stack.len() - 1);
    stack[first..=last.max(first)].to_vec()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::why::frame::Place;

    /// Returns a frame of `function@src/file.rs:7`, of `function@name-1.0.2/src/file.rs:7` in a
    /// dependency, of `function@name#commit/src/file.rs:7` in one from git, or of `function`, which is
    /// the standard library's.
    pub(crate) fn frame(text: &str) -> Frame {
        let (function, at) = text.rsplit_once('@').unwrap_or((text, "std/lib.rs:1"));
        let (file, line) = at.split_once(':').unwrap();
        let place = match file.split_once('/').unwrap() {
            ("src" | "tests", _) => Place::Checkout(file.to_owned()),
            ("std", path) => Place::Std(path.to_owned()),
            (package, path) => {
                if let Some((name, rev)) = package.split_once('#') {
                    Place::Git { name: name.into(), rev: rev.into(), path: path.into() }
                } else {
                    let (name, version) = package.rsplit_once('-').unwrap();
                    Place::Registry { name: name.into(), version: version.into(), path: path.into() }
                }
            }
        };
        Frame {
            function: Some(function.to_owned()),
            place: Some(place),
            line: Some(line.parse().unwrap()),
            is_inlined: false,
            address: None,
        }
    }

    /// Returns the stacks of sites, each written from the outermost frame inward.
    pub(crate) fn stacks(sites: &[&[&str]]) -> Stacks {
        let mut names: Vec<&str> = Vec::new();
        let mut log = StackLog::default();
        for site in sites {
            let mut parent = 0;
            for name in *site {
                let index = names.iter().position(|one| one == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                log.nodes.push(Node { parent, module: None, address: index as u64 });
                parent = u32::try_from(log.nodes.len()).unwrap();
            }
            log.sites.push(parent);
        }
        // `outer > inner` is a function and one that is inlined into it.
        Stacks::new(&log, |_, address| {
            let inlined: Vec<&str> = names[usize::try_from(address).unwrap()].rsplit(" > ").collect();
            let last = inlined.len() - 1;
            let frames = inlined.iter().enumerate();
            frames.map(|(index, name)| Arc::new(Frame { is_inlined: index < last, ..frame(name) })).collect()
        })
    }

    fn names(stack: &[&Frame]) -> Vec<String> {
        stack.iter().map(|frame| frame.name()).collect()
    }

    #[test]
    fn the_main_that_calls_the_harness_names_no_site() {
        let texts = ["alloc::f", "test::test_main", "t::main@tests/t.rs:1"];
        let frames = texts.map(frame);
        assert_eq!(shown(&frames.iter().collect::<Vec<_>>()), Some(0));
        let own = ["alloc::f", "t::reads@tests/t.rs:7", "test::run_test", "t::main@tests/t.rs:1"].map(frame);
        assert_eq!(shown(&own.iter().collect::<Vec<_>>()), Some(1));
    }

    #[test]
    fn a_site_is_the_innermost_frame_of_the_user() {
        let stacks = stacks(&[&[
            "main",
            "test::run",
            "a::tests::t@src/lib.rs:90",
            "a::push@src/lib.rs:7",
            "serde::grow@serde-1.0.0/src/lib.rs:3",
            "alloc::vec::Vec<T>::push",
            "alloc::raw_vec::RawVec<T>::grow_one",
            "__rust_alloc",
        ]]);
        let stack = stacks.stack(stacks.sites[0].node);
        assert_eq!(stack[0].name(), "alloc::vec::Vec<T>::push", "the allocator's own frames are cut");
        assert_eq!(stack.last().unwrap().name(), "main", "the harness stays for flame graphs");
        assert_eq!(names(&displayed_from(&stack, shown(&stack).unwrap())), ["a::push", "a::tests::t"]);
    }

    #[test]
    fn without_the_user_a_dependency_names_the_site_then_the_standard_library() {
        let stacks = stacks(&[
            &["std::thread::start", "rayon::run@rayon-1.0.0/src/lib.rs:3", "alloc::vec::Vec<T>::push"],
            &["std::thread::start", "std::thread::name"],
            &["__rust_alloc"],
        ]);
        let displayed = |site: usize| {
            let stack = stacks.stack(stacks.sites[site].node);
            names(&displayed_from(&stack, shown(&stack).unwrap()))
        };
        assert_eq!(displayed(0), ["rayon::run"]);
        assert_eq!(displayed(1), ["std::thread::name", "std::thread::start"]);
        assert_eq!(displayed(2), ["__rust_alloc"], "a stack of nothing else is kept");
    }

    #[test]
    fn inlined_functions_are_frames_and_equal_stacks_are_one() {
        let log_sites: &[&[&str]] =
            &[&["a::f@src/lib.rs:3 > a::g@src/lib.rs:9"], &["a::f@src/lib.rs:3 > a::g@src/lib.rs:9"]];
        let stacks = stacks(log_sites);
        assert_eq!(names(&stacks.stack(stacks.sites[0].node)), ["a::g", "a::f"]);
        assert!(stacks.stack(stacks.sites[0].node)[0].is_inlined);
        let one = Figures { at_peak: 1, live: 2, allocated: 3, count: 4 };
        let figures = stacks.figures(&[(1, one), (2, one), (0, one), (9, one)]);
        assert_eq!(figures.of_node.into_values().collect::<Vec<_>>(), [one.plus(one)]);
        assert_eq!(figures.without_stack, one.plus(one), "site 0, and one that the log does not have");
    }

    #[test]
    fn a_recursion_of_ten_thousand_frames_is_a_stack() {
        let frames: Vec<String> = (1..=10_000).map(|line| format!("a::f@src/lib.rs:{line}")).collect();
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        let stacks = stacks(&[&frames]);
        assert_eq!(stacks.stack(stacks.sites[0].node).len(), 10_000);
    }
}
