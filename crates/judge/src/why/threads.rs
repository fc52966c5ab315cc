//! Which threads allocate, and which free what they allocated: sites put together by the allocating thread's
//! name, by `--why-by thread`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::stack_log::{Figures, RecordedThread, Released, StackLog, ThreadKind, Way};
use crate::why::difference::{Group, GroupKind, Measure};
use crate::why::frame::Frame;
use crate::why::freed_by::FreedBy;
use crate::why::grouping::{Grouping, line};
use crate::why::hunks::{Changes, SIDES};
use crate::why::stacks::Stacks;

/// A thread, or all of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyThread")]
pub struct ThreadOfRun {
    /// `main`, `test`, a name, `worker-*` for names that differ in a number, `unnamed`, or `others`.
    pub name: String,
    /// Live at the run's highest peak and at its end, and allocated in the whole run.
    pub figures: Figures,
    /// Who freed what it had allocated; `null` if that is not known.
    pub freed: Option<FreedBy>,
}

/// The threads of a run. Their figures and `without_stack` add up to the run's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadsOfRun {
    /// Those that allocated, the one with most bytes first.
    pub threads: Vec<ThreadOfRun>,
    /// Memory of no known thread.
    pub without_stack: Figures,
    /// Why it is not known who frees.
    pub problem: Option<String>,
}

/// One side whose sites are put together.
#[derive(Clone, Copy)]
pub(super) struct ThreadSide<'a> {
    pub log: &'a StackLog,
    pub stacks: &'a Stacks,
    /// The figures of each site.
    pub figures: &'a [(u32, Figures)],
}

/// The names of each side's threads. Names that differ in the number at their end, `worker-3`, are one:
/// which of several workers takes a piece of work differs from run to run.
struct Names([Vec<String>; 2]);

impl Names {
    fn new(logs: [Option<&StackLog>; 2]) -> Self {
        let threads = |side: usize| logs[side].map_or(&[][..], |log| log.threads.as_slice());
        let mut numbered: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for thread in (0..2).flat_map(threads).filter(|thread| thread.kind == ThreadKind::Named) {
            numbered.entry(without_number(thread)).or_default().insert(&thread.name);
        }
        let name = |thread: &RecordedThread| match thread.kind {
            ThreadKind::Named => {
                let begin = without_number(thread);
                let is_several = thread.is_shared && begin != thread.name;
                let is_group = is_several || numbered.get(begin).is_some_and(|names| names.len() > 1);
                let name = if is_group { format!("{begin}*") } else { thread.name.clone() };
                // A thread may have the name of what others are called here.
                if ThreadKind::ALL.iter().any(|kind| kind.as_str() == name) {
                    format!("'{name}'")
                } else {
                    name
                }
            }
            kind => kind.as_str().to_owned(),
        };
        Self([0, 1].map(|side| threads(side).iter().map(name).collect()))
    }

    /// The name of a site's thread.
    fn of(&self, side: usize, log: &StackLog, number: u32) -> Option<&str> {
        let thread = log.thread_of(number)?;
        self.0[side].get(thread as usize - 1).map(String::as_str)
    }
}

/// The begin of a name before its number. The shim itself puts `*` in the place of further threads' numbers.
fn without_number(thread: &RecordedThread) -> &str {
    let name = thread.name.as_str();
    let begin = match name.strip_suffix('*').filter(|_| thread.is_shared) {
        Some(begin) => begin,
        None => name.trim_end_matches(|letter: char| letter.is_ascii_digit()),
    };
    if begin.is_empty() { name } else { begin }
}

/// Returns what the threads of each run did with the heap. `None` for a side without threads.
pub fn of_runs(logs: [Option<&StackLog>; 2]) -> [Option<ThreadsOfRun>; 2] {
    let names = Names::new(logs);
    [0, 1].map(|side| of_run(side, logs[side].filter(|log| log.has_threads())?, &names))
}

fn of_run(side: usize, log: &StackLog, names: &Names) -> Option<ThreadsOfRun> {
    let family = log.family("heap")?;
    let mut run = ThreadsOfRun { problem: problem(log), ..ThreadsOfRun::default() };
    let mut freed = freed_by(side, log, names);
    let mut sums: BTreeMap<&str, Figures> = BTreeMap::new();
    for (site, figures) in family.figures_of_run() {
        match names.of(side, log, site) {
            Some(name) => {
                let sum = sums.entry(name).or_default();
                *sum = sum.plus(figures);
            }
            None => run.without_stack = run.without_stack.plus(figures),
        }
    }
    let is_known = run.problem.is_none();
    run.threads.extend(sums.into_iter().map(|(name, figures)| ThreadOfRun {
        name: name.to_owned(),
        figures,
        freed: is_known.then(|| freed.remove(name).unwrap_or_default()),
    }));
    run.threads.sort_by(|a, b| b.figures.allocated.cmp(&a.figures.allocated).then(a.name.cmp(&b.name)));
    Some(run)
}

/// Why it is not known who frees.
fn problem(log: &StackLog) -> Option<String> {
    (!log.incomplete.is_empty()).then(|| log.incomplete.join("; "))
}

/// Who freed the blocks of each name in the whole run.
fn freed_by(side: usize, log: &StackLog, names: &Names) -> BTreeMap<String, FreedBy> {
    let mut freed: BTreeMap<String, FreedBy> = BTreeMap::new();
    let last = log.family("heap").and_then(|family| Some((family, family.intervals.len().checked_sub(1)?)));
    let pairs = last.map(|(family, last)| family.releases(last)).unwrap_or_default();
    for (pair, Released { at_end, .. }) in pairs.into_iter().filter(|(pair, _)| pair.way != Way::Grown) {
        let (Some(own), Some(name)) = (log.thread_of(pair.site), names.of(side, log, pair.site)) else {
            continue;
        };
        let of = freed.entry(name.to_owned()).or_default();
        let by = names.of(side, log, pair.by).unwrap_or("not known");
        let sum = if log.thread_of(pair.by) != Some(own) {
            of.others.entry(by.to_owned()).or_default()
        } else if log.threads[own as usize - 1].is_shared {
            &mut of.perhaps_itself
        } else {
            &mut of.itself
        };
        *sum = sum.saturating_add(at_end);
    }
    freed
}

/// A group under way.
#[derive(Default)]
struct Draft {
    figures: [Figures; 2],
    /// How many sites each side has.
    stacks: [usize; 2],
    /// By the text that a line has on both sides.
    lines: BTreeMap<String, Line>,
}

/// The sites of a thread in one line.
#[derive(Default)]
struct Line {
    /// What each side has, in the metric's unit.
    figures: [i64; 2],
    /// The site that stands for them: its side, because the candidate's is better, its size and its number.
    largest: (usize, u64, u32),
}

impl Draft {
    /// Returns the side and the number of a site in the line that differs most.
    fn site(&self) -> Option<(usize, u32)> {
        let difference = |line: &&Line| (line.figures[1] - line.figures[0]).unsigned_abs();
        let line = self.lines.values().max_by_key(|line| (difference(line), line.largest))?;
        let (side, _, number) = line.largest;
        Some((side, number))
    }
}

/// Puts the sites of a row together by the thread's name. `family` says whose figures they are.
pub(super) fn groups(
    sides: [Option<ThreadSide<'_>>; 2],
    family: &str,
    measure: Measure,
    grouping: &Grouping,
    changes: &Changes,
) -> Vec<Group> {
    let logs = sides.map(|side| side.map(|side| side.log));
    let names = Names::new(logs);
    let freed: [Option<BTreeMap<String, FreedBy>>; 2] = [0, 1].map(|side| {
        let log = logs[side].filter(|log| family == "heap" && problem(log).is_none())?;
        Some(freed_by(side, log, &names))
    });
    // Threads, what is out of focus, and what has no stack.
    let mut drafts: BTreeMap<Option<Option<&str>>, Draft> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        let Some(ThreadSide { log, stacks, figures }) = side else { continue };
        for (number, figures) in *figures {
            let key = names.of(index, log, *number).map(|name| {
                let is_in_focus = || grouping.contains(&stacks.of_site(*number));
                Some(name).filter(|_| grouping.focus.is_none() || is_in_focus())
            });
            let draft = drafts.entry(key).or_default();
            draft.figures[index] = draft.figures[index].plus(*figures);
            draft.stacks[index] += 1;
            if !matches!(key, Some(Some(_))) {
                continue;
            }
            let stack = stacks.of_site(*number);
            let frame = grouping.naming(&stack).map(|first| stack[first]);
            let known_by = frame.map_or_else(String::new, |frame| line(SIDES[index], frame, changes));
            let (of_line, figure) = (draft.lines.entry(known_by).or_default(), measure.get(*figures));
            of_line.figures[index] += figure;
            of_line.largest = of_line.largest.max((index, figure.unsigned_abs(), *number));
        }
    }
    let group = |(key, draft): (Option<Option<&str>>, Draft)| {
        let site = draft.site().and_then(|(side, number)| {
            let stacks = sides[side]?.stacks;
            Some(stacks.shared_stack(stacks.node_of(number)?))
        });
        let stack: Vec<Arc<Frame>> = site.unwrap_or_default();
        let first = grouping.naming(&stack.iter().map(Arc::as_ref).collect::<Vec<_>>()).unwrap_or(0);
        let kind = match key {
            Some(Some(name)) => GroupKind::Thread {
                name: name.to_owned(),
                location: stack.get(first).and_then(|frame| frame.location()),
                freed: freed
                    .each_ref()
                    .map(|side| side.as_ref().map(|freed| freed.get(name).cloned().unwrap_or_default())),
            },
            Some(None) => GroupKind::OutOfFocus,
            None => GroupKind::WithoutStack,
        };
        let (figures, stacks) = (draft.figures, draft.stacks[0].max(draft.stacks[1]));
        Group { kind, figures, class: None, stack, first, stacks, resized: None }
    };
    drafts.into_iter().map(group).filter(|group| group.figures != [Figures::default(); 2]).collect()
}
