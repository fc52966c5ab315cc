//! Call sites as folded stacks, which programs for flame graphs read: `outer;inner 1024`.
//!
//! A flame graph has no negative widths, so a difference is two graphs: what grew, and what shrank.

use std::collections::BTreeMap;
use std::io::{self, Write};

use memprof_judge::why::difference::Measure;
use memprof_judge::why::frame::Frame;
use memprof_judge::why::stacks::{StackFigures, Stacks};
use memprof_support::labels::one_line;

/// What grew and what shrank between two revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trees {
    /// Stacks with more at the candidate, and how much more.
    pub grew: BTreeMap<String, i64>,
    /// Stacks with less, and how much less.
    pub shrank: BTreeMap<String, i64>,
}

/// Returns the stacks of a run. Stacks with nothing are left out.
pub fn stacks(stacks: &Stacks, figures: &StackFigures, measure: Measure) -> BTreeMap<String, i64> {
    sums(stacks, figures, measure, Frame::name)
}

/// Returns the two trees of a difference. Functions are compared without generic arguments and
/// numbers of closures.
pub fn difference(sides: [(&Stacks, &StackFigures); 2], measure: Measure) -> Trees {
    let [old, new] = sides.map(|(stacks, figures)| sums(stacks, figures, measure, Frame::key));
    let mut trees = Trees::default();
    let mut all: BTreeMap<&String, i64> = new.iter().map(|(stack, value)| (stack, *value)).collect();
    for (stack, value) in &old {
        *all.entry(stack).or_default() -= value;
    }
    for (stack, value) in all {
        match value {
            0 => {}
            1.. => _ = trees.grew.insert(stack.clone(), value),
            _ => _ = trees.shrank.insert(stack.clone(), -value),
        }
    }
    trees
}

/// Writes stacks, one on each line.
pub fn write(stacks: &BTreeMap<String, i64>, out: &mut dyn Write) -> io::Result<()> {
    stacks
        .iter()
        .filter(|(_, value)| **value > 0)
        .try_for_each(|(stack, value)| writeln!(out, "{stack} {value}"))
}

fn sums(
    stacks: &Stacks,
    figures: &StackFigures,
    measure: Measure,
    name: fn(&Frame) -> String,
) -> BTreeMap<String, i64> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (node, of_node) in &figures.of_node {
        let stack = stacks.stack(*node);
        let names: Vec<String> = stack.iter().rev().map(|frame| plain(&name(frame))).collect();
        *sums.entry(names.join(";")).or_default() += measure.get(*of_node);
    }
    *sums.entry("[without a call stack]".to_owned()).or_default() += measure.get(figures.without_stack);
    sums.retain(|_, value| *value != 0);
    sums
}

/// A semicolon separates frames.
fn plain(name: &str) -> String {
    let name = one_line(name).replace(';', ":");
    if name.is_empty() { "unknown".to_owned() } else { name }
}
