//! Matches the stacks of two revisions, from the outermost frame inward.
//!
//! Frames match if they have the same function and the same line, after the diff moved it. Then the
//! same function on replaced lines. Then the same function apart from generic arguments and the
//! numbers of closures. A frame that one side lacks, because the function is inlined or gone, is
//! skipped.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::why::frame::Frame;
use crate::why::function_path::{in_module, own_part, readable};
use crate::why::hunks::{Changes, SIDES, Side};
use crate::why::stacks::Stacks;

/// At most this many frames in a row are skipped.
const MOST_SKIPPED: usize = 16;

/// Which nodes of the two trees are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    /// The candidate's node of each node of the baseline, and the other way.
    of: [FxHashMap<u32, u32>; 2],
    /// By side and the frame's position: whether the other side lacks the function.
    is_only_here: [Vec<bool>; 2],
}

/// The frames below matched ones, on both sides.
struct Pool {
    nodes: [Vec<u32>; 2],
    skipped: usize,
}

impl Matching {
    /// Matches the stacks of a baseline and a candidate.
    pub fn new(baseline: &Stacks, candidate: &Stacks, changes: &Changes) -> Self {
        let stacks = [baseline, candidate];
        let mut texts = Texts::default();
        let known: [Vec<Known>; 2] = [0, 1].map(|side| {
            let frames = stacks[side].frames();
            frames.map(|frame| Known::new(side, frame, changes, &mut texts)).collect()
        });
        let functions: [FxHashSet<usize>; 2] =
            [0, 1].map(|side| known[side].iter().map(|known| known.normalised).collect());
        let is_only_here = [0, 1].map(|side| {
            known[side].iter().map(|known| !functions[1 - side].contains(&known.normalised)).collect()
        });
        let mut matcher = Matcher { stacks, known, matched: Self { is_only_here, ..Self::default() } };
        let nodes = stacks.map(|stacks| stacks.children(0).to_vec());
        let mut pools = vec![Pool { nodes, skipped: 0 }];
        while let Some(pool) = pools.pop() {
            matcher.step(pool, &mut pools);
        }
        matcher.matched
    }

    /// Returns the other side's node of a node.
    pub(crate) fn counterpart(&self, side: Side, node: u32) -> Option<u32> {
        self.of[side as usize].get(&node).copied()
    }

    fn add(&mut self, old: u32, new: u32) {
        self.of[0].insert(old, new);
        self.of[1].insert(new, old);
    }

    /// Pairs the stacks of two sides: matched ones, then those that only one side has.
    pub fn pairs<'a>(
        &'a self,
        baseline: impl Iterator<Item = &'a u32>,
        candidate: impl Iterator<Item = &'a u32>,
    ) -> Vec<[Option<u32>; 2]> {
        let mut rest: FxHashSet<u32> = candidate.copied().collect();
        let mut pairs: Vec<[Option<u32>; 2]> = baseline
            .map(|&node| [Some(node), self.of[0].get(&node).copied().filter(|of| rest.remove(of))])
            .collect();
        let mut rest: Vec<u32> = rest.into_iter().collect();
        rest.sort_unstable();
        pairs.extend(rest.into_iter().map(|node| [None, Some(node)]));
        pairs
    }
}

/// Texts by number, because numbers are compared faster.
#[derive(Default)]
struct Texts(IndexSet<String, FxBuildHasher>);

impl Texts {
    fn number(&mut self, text: String) -> usize {
        self.0.insert_full(text).0
    }
}

/// What a frame is compared by. Functions and paths are numbers of texts.
#[derive(Clone, Copy)]
struct Known {
    function: usize,
    /// The function without generic arguments and numbers of closures.
    normalised: usize,
    line: Line,
}

/// A line, as it is in the candidate.
#[derive(Clone, Copy)]
enum Line {
    /// In this file, unchanged.
    At(usize, u32),
    /// Somewhere in the hunks of this file.
    Replaced(usize),
    /// Any line will do.
    Free,
}

impl Known {
    fn new(side: usize, frame: &Frame, changes: &Changes, texts: &mut Texts) -> Self {
        let function = frame.function.as_deref().map_or_else(|| frame.key(), readable);
        let line = match (frame.checkout_path(), frame.line) {
            (Some(path), Some(line)) if side == 0 => match changes.moved(path, line) {
                Some(moved) if moved.is_same => Line::At(texts.number(moved.path), moved.line),
                Some(moved) => Line::Replaced(texts.number(moved.path)),
                None => Line::Replaced(texts.number(path.to_owned())),
            },
            (Some(path), Some(line)) if changes.is_old_line(path, line) => {
                Line::At(texts.number(path.to_owned()), line)
            }
            (Some(path), Some(_)) => Line::Replaced(texts.number(path.to_owned())),
            // Lines of dependencies move with their version, and there is no diff of them.
            _ => Line::Free,
        };
        Self { function: texts.number(function), normalised: texts.number(frame.key()), line }
    }
}

struct Matcher<'a> {
    stacks: [&'a Stacks; 2],
    /// By side and the frame's position.
    known: [Vec<Known>; 2],
    matched: Matching,
}

impl Matcher<'_> {
    fn known(&self, side: usize, node: u32) -> Known {
        self.known[side][self.stacks[side].position(node)]
    }

    /// Matches the frames of a pool. What is below matched frames becomes a pool of its own.
    fn step(&mut self, pool: Pool, pools: &mut Vec<Pool>) {
        let mut rest = pool.nodes;
        let function: fn(Known) -> usize = |known| known.function;
        for function_of in [function, |known| known.normalised] {
            for is_same_line in [true, false] {
                let matches = self.matches(&rest, function_of, is_same_line);
                for &[old, new] in &matches {
                    self.matched.add(old, new);
                    let nodes = [self.stacks[0].children(old), self.stacks[1].children(new)];
                    pools.push(Pool { nodes: nodes.map(<[u32]>::to_vec), skipped: 0 });
                }
                for (side, nodes) in rest.iter_mut().enumerate() {
                    let taken: FxHashSet<u32> = matches.iter().map(|nodes| nodes[side]).collect();
                    nodes.retain(|node| !taken.contains(node));
                }
            }
        }
        if pool.skipped < MOST_SKIPPED && rest.iter().all(|nodes| !nodes.is_empty()) {
            pools.extend(self.skip(&rest, pool.skipped));
        }
    }

    /// Returns pairs of frames with the same function: on the same line, or both on lines that the
    /// diff has.
    fn matches(
        &self,
        nodes: &[Vec<u32>; 2],
        function_of: fn(Known) -> usize,
        is_same_line: bool,
    ) -> Vec<[u32; 2]> {
        // By function and line.
        let mut alike: BTreeMap<[usize; 3], [Vec<u32>; 2]> = BTreeMap::new();
        for (side, nodes) in nodes.iter().enumerate() {
            for &node in nodes {
                let known = self.known(side, node);
                let place = match known.line {
                    Line::At(path, line) if is_same_line => [path, line as usize],
                    Line::Replaced(path) if !is_same_line => [path, 0],
                    Line::Free => [usize::MAX, 0],
                    Line::At(..) | Line::Replaced(_) => continue,
                };
                alike.entry([function_of(known), place[0], place[1]]).or_default()[side].push(node);
            }
        }
        let pairs = alike.into_values().flat_map(|mut sides| {
            for (side, nodes) in sides.iter_mut().enumerate() {
                nodes.sort_by_key(|node| self.stacks[side].frame(*node).line);
            }
            let [old, new] = sides;
            old.into_iter().zip(new).map(|(old, new)| [old, new])
        });
        pairs.collect()
    }

    /// Replaces frames by what they call, if the other side has a frame like that.
    fn skip(&self, rest: &[Vec<u32>; 2], skipped: usize) -> Option<Pool> {
        for side in [0, 1] {
            let other = 1 - side;
            let functions: FxHashSet<usize> =
                rest[other].iter().map(|node| self.known(other, *node).normalised).collect();
            let leads = |node: u32| {
                let mut children = self.stacks[side].children(node).iter();
                children.any(|child| functions.contains(&self.known(side, *child).normalised))
            };
            if !rest[side].iter().any(|node| leads(*node)) {
                continue;
            }
            let inner = rest[side].iter().flat_map(|node| {
                if leads(*node) { self.stacks[side].children(*node).to_vec() } else { vec![*node] }
            });
            let mut nodes = rest.clone();
            nodes[side] = inner.collect();
            return Some(Pool { nodes, skipped: skipped + 1 });
        }
        None
    }
}

/// Pairs stacks that only one side has, from the closest likeness to the farthest. `changes` are `None` if they are not
/// known.
pub(crate) fn pair_leftovers(
    pairs: &mut Vec<[Option<u32>; 2]>,
    matching: &Matching,
    stacks: [&Stacks; 2],
    changes: Option<&Changes>,
) {
    let mut keys = Keys::new(stacks, &matching.is_only_here, changes);
    for likeness in
        [Likeness::Line, Likeness::Function, Likeness::Moved(Part::InModule), Likeness::Moved(Part::Name)]
    {
        pair_alike(pairs, &mut keys, likeness);
    }
}

/// Pairs stacks that only one side has, if their site is the same function and line.
pub(super) fn pair_lines(pairs: &mut Vec<[Option<u32>; 2]>, stacks: [&Stacks; 2], changes: &Changes) {
    pair_alike(pairs, &mut Keys::new(stacks, &[Vec::new(), Vec::new()], Some(changes)), Likeness::Line);
}

/// What two stacks have in common that are taken for one site.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// The function and line of the site: what is around it is compiled in another way.
    Line,
    /// The functions from the outermost one to the site: their lines were replaced, or what is inside
    /// of the site.
    Function,
    /// The same, but functions that one side lacks have only this part in common: they moved, or became methods.
    Moved(Part),
}

/// What of a function's path is compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Path,
    /// Its type and its name.
    InModule,
    Name,
}

/// The keys of frames. Each is made once: a frame is part of many stacks.
struct Keys<'a> {
    stacks: [&'a Stacks; 2],
    /// As in [`Matching`].
    is_only_here: &'a [Vec<bool>; 2],
    changes: Option<&'a Changes>,
    texts: Texts,
    /// By side, the part and the frame's position.
    known: [FxHashMap<(Part, usize), usize>; 2],
    /// By side and node: the position of the frame that names the site.
    shown: [FxHashMap<u32, Option<usize>>; 2],
}

impl<'a> Keys<'a> {
    fn new(stacks: [&'a Stacks; 2], is_only_here: &'a [Vec<bool>; 2], changes: Option<&'a Changes>) -> Self {
        let (texts, known, shown) = Default::default();
        Self { stacks, is_only_here, changes, texts, known, shown }
    }

    fn shown(&mut self, side: usize, node: u32) -> Option<usize> {
        *self.shown[side].entry(node).or_insert_with(|| self.stacks[side].shown(node))
    }

    /// Returns the number of a part of the key of a node's frame.
    fn number(&mut self, side: usize, node: u32, part: Part) -> usize {
        let stacks = self.stacks[side];
        let key = || {
            let frame = stacks.frame(node);
            let path = frame.key();
            let source = || self.changes?.source_on_both(SIDES[side], frame);
            self.texts.number(match part {
                Part::Path => path,
                // Another implementation has the same name, and is no function that moved.
                Part::InModule | Part::Name => match source() {
                    Some(source) => format!("{source} {}", in_module(&path)),
                    None if part == Part::InModule => in_module(&path),
                    None => own_part(&path).to_owned(),
                },
            })
        };
        *self.known[side].entry((part, stacks.position(node))).or_insert_with(key)
    }

    /// Returns the number of a part of the function if no stack of the other side has it, or else of its whole path.
    fn moved(&mut self, side: usize, node: u32, part: Part) -> usize {
        let is_only_here = self.is_only_here[side][self.stacks[side].position(node)];
        self.number(side, node, if is_only_here { part } else { Part::Path })
    }

    /// Returns numbers that alike stacks share. `at` is the position of the frame that names the site.
    fn of(&mut self, side: usize, node: u32, at: usize, likeness: Likeness) -> Vec<usize> {
        let stacks = self.stacks[side];
        let mut nodes = stacks.chain(node).skip(at);
        match likeness {
            Likeness::Line => {
                let Some(named) = nodes.next() else { return Vec::new() };
                let frame = stacks.frame(named);
                let line = match (frame.checkout_path(), frame.line) {
                    (Some(path), Some(line)) if side == 0 => self
                        .changes
                        .unwrap_or(&Changes::NONE)
                        .moved(path, line)
                        .map_or_else(|| path.to_owned(), |moved| format!("{}:{}", moved.path, moved.line)),
                    (Some(path), Some(line)) => format!("{path}:{line}"),
                    _ => String::new(),
                };
                vec![self.number(side, named, Part::Path), self.texts.number(line)]
            }
            Likeness::Function => nodes.map(|node| self.number(side, node, Part::Path)).collect(),
            Likeness::Moved(part) => nodes.map(|node| self.moved(side, node, part)).collect(),
        }
    }
}

/// Pairs stacks that are alike, if each side has as many of them.
fn pair_alike(pairs: &mut Vec<[Option<u32>; 2]>, keys: &mut Keys<'_>, likeness: Likeness) {
    let mut lonely: FxHashMap<Vec<usize>, [Vec<usize>; 2]> = FxHashMap::default();
    for (index, pair) in pairs.iter().enumerate() {
        let (side, node) = match pair {
            [Some(node), None] => (0, *node),
            [None, Some(node)] => (1, *node),
            _ => continue,
        };
        let Some(at) = keys.shown(side, node) else { continue };
        lonely.entry(keys.of(side, node, at, likeness)).or_default()[side].push(index);
    }
    let mut gone = FxHashSet::default();
    for [old, new] in lonely.into_values().filter(|[old, new]| old.len() == new.len()) {
        // Of a line alone, only one stack can be told from the others.
        if likeness == Likeness::Line && old.len() != 1 {
            continue;
        }
        for (old, new) in old.into_iter().zip(new) {
            pairs[old][1] = pairs[new][1];
            gone.insert(new);
        }
    }
    let mut index = 0;
    pairs.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::hunks::tests::changes;
    use crate::why::stacks::tests::stacks;

    /// Says which sites match, by their positions.
    fn matched(old: &[&[&str]], new: &[&[&str]], changes: Option<&Changes>) -> Vec<[Option<usize>; 2]> {
        let sides = [stacks(old), stacks(new)];
        let one = |side: usize, number: u32| {
            sides[side]
                .figures(&[(number, crate::results::stack_log::Figures { live: 1, ..Default::default() })])
        };
        let nodes = |side: usize, count: usize| -> Vec<u32> {
            let numbers = 1..=u32::try_from(count).unwrap();
            numbers.map(|number| *one(side, number).of_node.keys().next().unwrap()).collect()
        };
        let nodes = [nodes(0, old.len()), nodes(1, new.len())];
        let matching = Matching::new(&sides[0], &sides[1], changes.unwrap_or(&Changes::NONE));
        let mut pairs = matching.pairs(nodes[0].iter(), nodes[1].iter());
        pair_leftovers(&mut pairs, &matching, [&sides[0], &sides[1]], changes);
        let mut found: Vec<[Option<usize>; 2]> = pairs
            .into_iter()
            .map(|[old, new]| {
                let position = |side: usize, node: u32| nodes[side].iter().position(|one| *one == node);
                [old.and_then(|node| position(0, node)), new.and_then(|node| position(1, node))]
            })
            .collect();
        found.sort();
        found
    }

    const BOTH: [Option<usize>; 2] = [Some(0), Some(0)];

    #[test]
    fn moved_lines_match_and_different_lines_of_a_function_do_not() {
        let changes = changes("a\nb\nc\n", "new\na\nb\nc\n");
        let old: &[&[&str]] = &[&["a::f@src/lib.rs:2"], &["a::f@src/lib.rs:3"]];
        let new: &[&[&str]] = &[&["a::f@src/lib.rs:4"], &["a::f@src/lib.rs:3"], &["a::f@src/lib.rs:1"]];
        assert_eq!(
            matched(old, new, Some(&changes)),
            [[None, Some(2)], [Some(0), Some(1)], [Some(1), Some(0)],]
        );
    }

    #[test]
    fn replaced_lines_of_a_function_match_in_order() {
        let changes = changes("a\nx\ny\nb\n", "a\nx2\ny2\nz2\nb\n");
        let old: &[&[&str]] = &[&["a::f@src/lib.rs:2"], &["a::f@src/lib.rs:3"]];
        let new: &[&[&str]] = &[&["a::f@src/lib.rs:2"], &["a::f@src/lib.rs:3"], &["a::f@src/lib.rs:4"]];
        assert_eq!(
            matched(old, new, Some(&changes)),
            [[None, Some(2)], [Some(0), Some(0)], [Some(1), Some(1)],]
        );
    }

    #[test]
    fn renumbered_closures_and_other_generic_arguments_match() {
        let old: &[&[&str]] =
            &[&["a::f<u8>@src/lib.rs:2", "a::f<u8>::{closure#0}@src/lib.rs:3", "b::g@b-1.0.0/src/lib.rs:5"]];
        let new: &[&[&str]] = &[&[
            "a::f<u16>@src/lib.rs:2",
            "a::f<u16>::{closure#1}@src/lib.rs:3",
            "b::g@b-1.1.0/src/lib.rs:9",
        ]];
        assert_eq!(matched(old, new, None), [BOTH]);
    }

    #[test]
    fn equal_functions_come_before_those_with_other_arguments() {
        let old: &[&[&str]] = &[&["core::f<u8>"], &["core::f<u16>"]];
        let new: &[&[&str]] = &[&["core::f<u16>"], &["core::f<u32>"]];
        assert_eq!(matched(old, new, None), [[Some(0), Some(1)], [Some(1), Some(0)]]);
    }

    #[test]
    fn a_frame_that_one_side_lacks_is_skipped() {
        let inlined: &[&[&str]] =
            &[&["a::t@src/lib.rs:1", "core::iter::map", "core::iter::fold", "a::f@src/lib.rs:3"]];
        let called: &[&[&str]] = &[&["a::t@src/lib.rs:1", "core::iter::fold", "a::f@src/lib.rs:3"]];
        assert_eq!(matched(inlined, called, None), [BOTH]);
        assert_eq!(matched(called, inlined, None), [BOTH]);
    }

    #[test]
    fn what_a_function_does_inside_may_be_replaced_and_its_name_may_move() {
        let old: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::R::f@src/lib.rs:3", "core::clone"]];
        let replaced: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::R::f@src/lib.rs:9", "core::reserve"]];
        assert_eq!(matched(old, replaced, None), [BOTH]);
        let moved: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::f@src/lib.rs:20", "core::reserve"]];
        assert_eq!(matched(old, moved, None), [BOTH]);
        let other: &[&[&str]] = &[&["a::u@src/lib.rs:30", "a::g@src/lib.rs:20", "core::reserve"]];
        assert_eq!(matched(old, other, None), [[None, Some(0)], [Some(0), None]]);
    }

    #[test]
    fn functions_that_call_each_other_may_move() {
        let old: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::f@src/lib.rs:3", "a::g@src/lib.rs:7"]];
        let moved: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::m::f@src/m.rs:3", "a::m::g@src/m.rs:7"]];
        assert_eq!(matched(old, moved, None), [BOTH]);
        let methods: &[&[&str]] = &[&["a::t@src/lib.rs:1", "a::R::f@src/m.rs:3", "a::R::g@src/m.rs:7"]];
        assert_eq!(matched(old, methods, None), [BOTH]);
    }

    #[test]
    fn moved_functions_keep_their_types() {
        let t = "a::t@src/lib.rs:1";
        let old: &[&[&str]] = &[
            &[t, "a::R::f@src/lib.rs:3", "a::R::g@src/lib.rs:7"],
            &[t, "a::S::f@src/lib.rs:3", "a::S::g@src/lib.rs:7"],
        ];
        let r: &[&str] = &[t, "a::m::R::f@src/m.rs:3", "a::m::R::g@src/m.rs:7"];
        let s: &[&str] = &[t, "a::m::S::f@src/m.rs:3", "a::m::S::g@src/m.rs:7"];
        let crossed = matched(old, &[s, r], None);
        assert_eq!(crossed, [[Some(0), Some(1)], [Some(1), Some(0)]]);
        let one_is_gone = matched(old, &[s], None);
        assert_eq!(one_is_gone, [[Some(0), None], [Some(1), Some(0)]]);
    }

    #[test]
    fn a_function_that_both_sides_have_did_not_move() {
        let old: &[&[&str]] = &[
            &["a::t@src/lib.rs:1", "a::R::f@src/lib.rs:3", "a::R::g@src/lib.rs:7"],
            &["a::t@src/lib.rs:1", "a::S::f@src/lib.rs:13", "a::S::g@src/lib.rs:17"],
        ];
        let new: &[&[&str]] = &[
            &["a::t@src/lib.rs:1", "a::R::f@src/lib.rs:3", "a::R::g@src/lib.rs:7"],
            &["a::t@src/lib.rs:1", "a::R::f@src/lib.rs:3", "a::R::g@src/lib.rs:8"],
        ];
        let expected = [[None, Some(1)], [Some(0), Some(0)], [Some(1), None]];
        assert_eq!(matched(old, new, None), expected);
    }

    #[test]
    fn another_implementation_is_no_moved_function() {
        let t = "a::t@src/other.rs:1";
        let old: &[&[&str]] = &[&[t, "<a::Old as a::Mk>::mk@src/old.rs:3"]];
        let new: &[&[&str]] = &[&[t, "<a::New as a::Mk>::mk@src/new.rs:5"]];
        let apart = [[None, Some(0)], [Some(0), None]];
        assert_eq!(matched(old, new, None), [BOTH], "what the sources have is not known");
        assert_eq!(matched(old, new, Some(&Changes::NONE)), apart);
        // Both in the file that differs.
        let text =
            "struct A;\nimpl Mk for A {\n    fn mk() {}\n}\nstruct B;\nimpl Mk for B {\n    fn mk() {}\n}\n";
        let known = changes(text, &format!("{text}struct C;\n"));
        let old: &[&[&str]] = &[&[t, "<a::A as a::Mk>::mk@src/lib.rs:3"]];
        let new: &[&[&str]] = &[&[t, "<a::B as a::Mk>::mk@src/lib.rs:7"]];
        assert_eq!(matched(old, new, Some(&known)), apart);
        // The same function of a crate with another name, and one that the diff moved to another type.
        let renamed: &[&[&str]] = &[&[t, "<b::A as b::Mk>::mk@src/lib.rs:3"]];
        assert_eq!(matched(old, renamed, Some(&known)), [BOTH]);
        let moved = changes(text, &text.replace('A', "D"));
        let new: &[&[&str]] = &[&[t, "<a::D as a::Mk>::mk@src/lib.rs:3"]];
        assert_eq!(matched(old, new, Some(&moved)), [BOTH]);
    }

    #[test]
    fn what_is_around_a_site_may_be_compiled_in_another_way() {
        let old: &[&[&str]] = &[&["x::a@src/lib.rs:1", "core::p", "core::q", "core::r", "a::f@src/lib.rs:3"]];
        let new: &[&[&str]] = &[&["y::b@src/lib.rs:2", "core::s", "core::t", "a::f@src/lib.rs:3"]];
        assert_eq!(matched(old, new, None), [BOTH]);
        let twice: &[&[&str]] = &[new[0], &["z::c@src/lib.rs:4", "a::f@src/lib.rs:3"]];
        assert_eq!(matched(old, twice, None).len(), 3, "which of two is not known");
    }

    #[test]
    fn deep_recursion_matches() {
        let frames = |start: usize| -> Vec<String> {
            (0..10_000).map(|depth| format!("a::f@src/lib.rs:{}", start + depth % 3)).collect()
        };
        let sides = [frames(1), frames(1)];
        let stacks = sides.each_ref().map(|side| side.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(matched(&[&stacks[0]], &[&stacks[1]], None), [BOTH]);
    }
}
