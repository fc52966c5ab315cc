//! The call stacks of a row as a tree with both sides' bytes, for a flame graph.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::html::plain::shown;
use memprof_judge::results::stack_log::Figures;
use memprof_judge::why::difference::{CheckpointName, Difference, Measure};
use memprof_judge::why::explanations::Recorded;
use memprof_judge::why::frame::{Frame, Owner};
use memprof_plan::metric::Unit;

/// Smaller stacks are put together, so that a page stays small.
const MOST_STACKS: usize = 2000;

/// A tree of functions. Node 0 is the root; parents come before their children.
#[derive(Serialize)]
pub(super) struct Flame {
    metric: String,
    label: String,
    unit: Unit,
    /// The revisions of the two sides.
    refs: [usize; 2],
    /// The checkpoints of the two sides, if both are of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<[String; 2]>,
    names: Vec<String>,
    /// By name: the file and the line of the first frame that has it.
    places: Vec<Option<String>>,
    parents: Vec<u32>,
    /// By node: its name. The root's means nothing.
    name: Vec<u32>,
    /// By side: each node's own bytes, or blocks. A side without the checkpoint has none.
    #[serde(rename = "self")]
    own: [Option<Vec<i64>>; 2],
}

/// What each side has of a stack, and the places of its frames.
type SidesOfStack = ([i64; 2], Vec<Option<String>>);

/// Returns the tree of a row.
pub(super) fn flame(
    difference: &Difference,
    recorded: &[Option<Recorded>; 2],
    refs: [usize; 2],
) -> Option<Flame> {
    let (family, measure) = Measure::of_metric(&difference.metric)?;
    let mut stacks: BTreeMap<Vec<String>, SidesOfStack> = BTreeMap::new();
    let mut has = [false; 2];
    let runs = if difference.is_growth { [1, 1] } else { [0, 1] };
    for (side, checkpoint) in difference.checkpoints.iter().enumerate() {
        let (Some(checkpoint), Some(recorded)) = (checkpoint, &recorded[runs[side]]) else { continue };
        let Some(family) = recorded.log.family(family) else { continue };
        let Some(interval) = family.at(&checkpoint.label, checkpoint.occurrence) else { continue };
        has[side] = true;
        let figures = recorded.stacks.figures(&family.figures(interval));
        let mut add = |names: Vec<String>, places: Vec<Option<String>>, of: Figures| {
            let value = measure.get(of);
            if value != 0 {
                stacks.entry(names).or_insert_with(|| ([0; 2], places)).0[side] += value;
            }
        };
        for (node, of_node) in &figures.of_node {
            let stack = recorded.stacks.stack(*node);
            let frames = of_program(&stack);
            let names = frames.iter().map(|frame| shown(&frame.key())).collect();
            add(names, frames.iter().map(|frame| frame.location().as_deref().map(shown)).collect(), *of_node);
        }
        add(vec!["without a call stack".to_owned()], vec![None], figures.without_stack);
    }
    if !has.contains(&true) {
        return None;
    }
    let name = difference.checkpoints.iter().rev().flatten().next()?;
    let mut tree = Tree::new();
    let mut all: Vec<_> = stacks.into_iter().collect();
    all.sort_by_key(|(_, (values, _))| std::cmp::Reverse(values[0].abs().max(values[1].abs())));
    for (index, (names, (values, places))) in all.iter().enumerate() {
        if index < MOST_STACKS {
            tree.add(names, places, *values);
        } else {
            tree.add(&["smaller stacks".to_owned()], &[None], *values);
        }
    }
    Some(Flame {
        metric: difference.metric.clone(),
        label: shown(&name.label),
        unit: Unit::of_metric(&difference.metric),
        refs: runs.map(|run| refs[run]),
        checkpoints: difference.is_growth.then(|| names_of_sides(difference)),
        names: tree.names,
        places: tree.places,
        parents: tree.parents,
        name: tree.name,
        own: [0, 1].map(|side| has[side].then(|| tree.own.iter().map(|own| own[side]).collect())),
    })
}

/// The names of both sides' checkpoints: `done`, `round #2`.
fn names_of_sides(difference: &Difference) -> [String; 2] {
    let name = |CheckpointName { label, occurrence }: &CheckpointName| match occurrence {
        1 => shown(label),
        occurrence => format!("{} #{occurrence}", shown(label)),
    };
    difference.checkpoints.each_ref().map(|one| one.as_ref().map(name).unwrap_or_default())
}

/// The frames from the outermost one of the user or a dependency to the innermost one with a name,
/// the outermost first. Outside of these is what starts threads and tests, and inside of them may be a
/// driver's library.
fn of_program<'a>(stack: &[&'a Frame]) -> Vec<&'a Frame> {
    let first = stack.iter().position(|frame| frame.function.is_some()).unwrap_or(0);
    let stack = &stack[first..];
    let is_of_program = |frame: &&Frame| frame.owner() <= Owner::Dependency;
    let last = stack.iter().rposition(is_of_program).unwrap_or(stack.len().saturating_sub(1));
    stack.iter().take(last + 1).rev().copied().collect()
}

struct Tree {
    names: Vec<String>,
    places: Vec<Option<String>>,
    numbers: FxHashMap<String, u32>,
    parents: Vec<u32>,
    name: Vec<u32>,
    own: Vec<[i64; 2]>,
    nodes: FxHashMap<(u32, u32), u32>,
}

impl Tree {
    fn new() -> Self {
        Self {
            names: Vec::new(),
            places: Vec::new(),
            numbers: FxHashMap::default(),
            parents: vec![0],
            name: vec![0],
            own: vec![[0; 2]],
            nodes: FxHashMap::default(),
        }
    }

    fn add(&mut self, names: &[String], places: &[Option<String>], values: [i64; 2]) {
        let mut node = 0;
        for (name, place) in names.iter().zip(places) {
            let number = *self.numbers.entry(name.clone()).or_insert_with(|| {
                self.names.push(name.clone());
                self.places.push(place.clone());
                number(self.names.len() - 1)
            });
            node = *self.nodes.entry((node, number)).or_insert_with(|| {
                self.parents.push(node);
                self.name.push(number);
                self.own.push([0; 2]);
                self::number(self.parents.len() - 1)
            });
        }
        let own = &mut self.own[node as usize];
        own[0] += values[0];
        own[1] += values[1];
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_with_a_common_beginning_share_their_nodes() {
        let mut tree = Tree::new();
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        tree.add(&texts(&["main", "a"]), &[None, None], [1, 2]);
        tree.add(&texts(&["main", "b"]), &[None, None], [0, 5]);
        tree.add(&texts(&["main", "a"]), &[None, None], [10, 0]);
        assert_eq!(tree.parents, [0, 0, 1, 1]);
        assert_eq!(tree.names, ["main", "a", "b"]);
        assert_eq!(tree.own, [[0, 0], [0, 0], [11, 2], [0, 5]]);
    }
}
