//! Attributes the figures of rows to call sites: of two revisions, of one, or of two checkpoints of
//! one run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::results::stack_log::{Family, Figures, StackLog};
use crate::why::class::{Class, Diff, FrameFacts};
use crate::why::difference::{CheckpointName, Difference, Group, GroupKind, Measure, Resized};
use crate::why::frame::Frame;
use crate::why::grouping::{GroupBy, Grouping};
use crate::why::hunks::{Changes, SIDES, Side};
use crate::why::matching::{Matching, pair_leftovers};
use crate::why::own_crates::OwnCrates;
use crate::why::releases::{Release, Releases};
use crate::why::slots;
use crate::why::stacks::{StackFigures, Stacks};
use crate::why::threads::{self, ThreadSide};
use crate::why::type_path;
use crate::why::types::SiteType;
use memprof_support::counted::{counted, grouped};
use memprof_support::suggest;

/// One side: what a run recorded, with its functions.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRun<'a> {
    pub log: &'a StackLog,
    pub stacks: &'a Stacks,
}

/// At most this many labels of checkpoints are listed.
const MOST_LABELS: usize = 12;

/// One test with call stacks, at a baseline and a candidate.
pub struct Attribution<'a> {
    sides: [RecordedRun<'a>; 2],
    diff: &'a Diff,
    matching: Matching,
    /// By side and the frame's position.
    facts: [Vec<FrameFacts>; 2],
}

/// A row of the report: a metric at a checkpoint, which may have another label on each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The metric: `heap.peak`.
    pub metric: String,
    /// The checkpoint of each side; `None` if the side lacks it.
    pub checkpoints: [Option<CheckpointName>; 2],
}

/// Why a row has no sites.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Sites have no such figure.
    #[error("{0} has no call sites; heap.peak, heap.live, heap.allocated and heap.count have")]
    Metric(String),
    /// The run recorded no stacks for this family.
    #[error("the run with call stacks recorded none for {0}")]
    Family(String),
    /// The run did not reach this checkpoint.
    #[error("the run with call stacks has no checkpoint {checkpoint}; {help}")]
    Checkpoint {
        /// The label that was asked for, in quotes, and its occurrence if only that is wrong: `'done' #2`.
        checkpoint: String,
        /// Those that it may be.
        help: String,
    },
    /// The sites do not add up to the row.
    #[error("the sites add up to {found} instead of {expected}")]
    Sum {
        /// The sum over the sites.
        found: String,
        /// The row's figure.
        expected: String,
    },
}

/// One side of a row: its figures by stack, and their sum.
struct OneSide {
    checkpoint: CheckpointName,
    of_sites: Vec<(u32, Figures)>,
    figures: StackFigures,
    total: Figures,
    /// The allocations of each innermost node since the run began.
    allocations: BTreeMap<u32, u64>,
}

impl<'a> Attribution<'a> {
    /// Matches the stacks of two runs.
    pub fn new(baseline: RecordedRun<'a>, candidate: RecordedRun<'a>, diff: &'a Diff) -> Self {
        let matching = Matching::new(baseline.stacks, candidate.stacks, diff.changes());
        let sides = [baseline, candidate];
        let mut facts = SIDES.map(|side| {
            let frames = sides[side as usize].stacks.frames();
            frames.map(|frame| diff.facts(side, frame)).collect()
        });
        FrameFacts::forget_one_sided(&mut facts);
        Self { sides, diff, matching, facts }
    }

    /// Attributes the difference of a row to its sites.
    pub fn answer(&self, question: &Question, grouping: &Grouping) -> Result<Difference, NoAnswer> {
        let [baseline, candidate] = &question.checkpoints;
        let side = |side: usize, checkpoint: &Option<CheckpointName>| match checkpoint {
            Some(checkpoint) => self.sides[side].at(&question.metric, checkpoint).map(Some),
            None => Ok(None),
        };
        let sides = [side(0, baseline)?, side(1, candidate)?];
        let stacks = self.sides.map(|side| side.stacks);
        let nodes = |side: usize| sides[side].iter().flat_map(|side| side.figures.of_node.keys());
        let mut pairs = self.matching.pairs(nodes(0), nodes(1));
        pair_leftovers(&mut pairs, &self.matching, stacks, self.diff.changes.as_ref());
        let measure = Measure::of_metric(&question.metric).map(|(_, measure)| measure);
        let at = [0, 1].map(|side| {
            self.sides[side].interval(&question.metric, question.checkpoints[side].as_ref()?).ok()
        });
        let releases = measure
            .and_then(|measure| Releases::new(stacks, at, measure, &self.matching, self.diff.changes()));
        let diff = Some((self.diff, &self.facts));
        let sheet = Sheet { diff, releases, ..Sheet::new(stacks, grouping) };
        sheet.difference(&question.metric, &sides, &pairs, self.sides.map(|side| side.log))
    }
}

impl RecordedRun<'_> {
    /// Attributes a figure at a checkpoint to its sites. The figures are the candidate's; there is
    /// no baseline.
    pub fn answer(
        &self,
        metric: &str,
        checkpoint: &CheckpointName,
        grouping: &Grouping,
    ) -> Result<Difference, NoAnswer> {
        let sides = [None, Some(self.at(metric, checkpoint)?)];
        let nodes = sides.iter().flatten().flat_map(|side| side.figures.of_node.keys());
        let pairs: Vec<_> = nodes.map(|node| [None, Some(*node)]).collect();
        Sheet::new([self.stacks; 2], grouping).difference(metric, &sides, &pairs, [self.log; 2])
    }

    /// Attributes what a figure grew from one checkpoint of the run to another.
    pub fn growth(
        &self,
        metric: &str,
        from: &CheckpointName,
        to: &CheckpointName,
        grouping: &Grouping,
    ) -> Result<Difference, NoAnswer> {
        let sides = [self.at(metric, from)?, self.at(metric, to)?];
        let mut pairs: BTreeMap<u32, [Option<u32>; 2]> = BTreeMap::new();
        for (index, side) in sides.iter().enumerate() {
            for &node in side.figures.of_node.keys() {
                pairs.entry(node).or_default()[index] = Some(node);
            }
        }
        let pairs: Vec<_> = pairs.into_values().collect();
        let sheet = Sheet::new([self.stacks; 2], grouping);
        let found = sheet.difference(metric, &sides.map(Some), &pairs, [self.log; 2])?;
        Ok(Difference { is_growth: true, ..found })
    }

    /// Finds the interval that ends at a checkpoint.
    fn interval(&self, metric: &str, checkpoint: &CheckpointName) -> Result<(&Family, usize), NoAnswer> {
        let (family, _) = Measure::of_metric(metric).ok_or_else(|| NoAnswer::Metric(metric.to_owned()))?;
        let family: &Family = self.log.family(family).ok_or_else(|| NoAnswer::Family(family.to_owned()))?;
        let interval = family.at(&checkpoint.label, checkpoint.occurrence);
        let unknown = || {
            let mut known: Vec<&str> = Vec::new();
            for interval in &family.intervals {
                if !known.contains(&interval.label.as_str()) && known.len() < MOST_LABELS {
                    known.push(&interval.label);
                }
            }
            // The label may be right, and its number wrong.
            let CheckpointName { label, occurrence } = checkpoint;
            let count = family.intervals.iter().filter(|one| one.label == *label).count();
            if count > 0 {
                let help = format!("it was reached {}", counted(count, "time"));
                return NoAnswer::Checkpoint { checkpoint: format!("'{label}' #{occurrence}"), help };
            }
            let help = suggest::did_you_mean_or_list(label, "its checkpoints", &known);
            NoAnswer::Checkpoint { checkpoint: format!("'{label}'"), help }
        };
        Ok((family, interval.ok_or_else(unknown)?))
    }

    fn at(&self, metric: &str, checkpoint: &CheckpointName) -> Result<OneSide, NoAnswer> {
        let (family, interval) = self.interval(metric, checkpoint)?;
        let of_sites = family.figures(interval);
        let mut allocations: BTreeMap<u32, u64> = BTreeMap::new();
        for (site, count) in family.allocations(interval) {
            if let Some(node) = self.stacks.node_of(site) {
                *allocations.entry(node).or_default() += u64::try_from(count).unwrap_or(0);
            }
        }
        Ok(OneSide {
            allocations,
            checkpoint: checkpoint.clone(),
            figures: self.stacks.figures(&of_sites),
            of_sites,
            total: family.intervals[interval].total,
        })
    }
}

/// Where groups are put together.
struct Sheet<'a> {
    stacks: [&'a Stacks; 2],
    diff: Option<(&'a Diff, &'a [Vec<FrameFacts>; 2])>,
    releases: Option<Releases<'a>>,
    grouping: &'a Grouping,
    /// Known if sites are put together by crate or module.
    own_crates: OwnCrates,
}

/// A group, and the stack that stands for it: the one that differs most.
struct Draft {
    group: Group,
    key: (u8, String),
    largest: u64,
    stack: Option<(usize, u32)>,
    /// How many elements the bytes of each side have room for.
    slots: [Option<u64>; 2],
}

impl<'a> Sheet<'a> {
    /// A sheet without a diff.
    fn new(stacks: [&'a Stacks; 2], grouping: &'a Grouping) -> Self {
        let frames = stacks.iter().flat_map(|stacks| stacks.frames());
        let frames = frames.filter(|_| matches!(grouping.by, GroupBy::Module | GroupBy::Crate));
        Self { stacks, diff: None, releases: None, grouping, own_crates: OwnCrates::from_frames(frames) }
    }

    fn difference(
        &self,
        metric: &str,
        sides: &[Option<OneSide>; 2],
        pairs: &[[Option<u32>; 2]],
        logs: [&StackLog; 2],
    ) -> Result<Difference, NoAnswer> {
        let (family, measure) =
            Measure::of_metric(metric).ok_or_else(|| NoAnswer::Metric(metric.to_owned()))?;
        let measured = || logs.iter().zip(sides).filter(|(_, side)| side.is_some()).map(|(log, _)| log);
        let mut incomplete: Vec<String> = measured().flat_map(|log| log.incomplete.clone()).collect();
        incomplete.dedup();
        let mut difference = Difference {
            metric: metric.to_owned(),
            measure,
            checkpoints: sides.each_ref().map(|side| side.as_ref().map(|side| side.checkpoint.clone())),
            is_growth: false,
            totals: sides.each_ref().map(|side| side.as_ref().map(|side| side.total)),
            by: self.grouping.by,
            groups: Vec::new(),
            sample: measured().find_map(|log| log.recording.as_ref()?.sample),
            incomplete,
        };
        if self.grouping.by == GroupBy::Thread {
            let of_threads = [0, 1].map(|side| {
                let figures = sides[side].as_ref()?.of_sites.as_slice();
                Some(ThreadSide { log: logs[side], stacks: self.stacks[side], figures })
            });
            difference.groups = threads::groups(of_threads, family, measure, self.grouping, self.changes());
            check_sums(&difference)?;
            difference.sort();
            return Ok(difference);
        }
        let mut drafts: BTreeMap<(u8, String), Draft> = BTreeMap::new();
        for (index, pair) in self.settled_pairs(pairs).iter().enumerate() {
            let figures = [0, 1].map(|side| {
                let of_side = sides[side].as_ref().zip(pair[side]);
                of_side.and_then(|(of, node)| of.figures.of_node.get(&node)).copied().unwrap_or_default()
            });
            if figures == [Figures::default(); 2] {
                continue;
            }
            let [old, new] = figures.map(|figures| measure.get(figures));
            let mut draft = self.draft(*pair, figures, index, new - old);
            draft.largest = difference.of_group(&draft.group).unsigned_abs();
            draft.slots = [0, 1].map(|side| self.slots(side, sides[side].as_ref()?, pair[side], measure));
            match drafts.entry(draft.key.clone()) {
                Entry::Vacant(entry) => _ = entry.insert(draft),
                Entry::Occupied(mut entry) => entry.get_mut().add(draft, self.grouping.by),
            }
        }
        difference.groups =
            drafts.into_values().map(|draft| self.settled(draft, difference.measure)).collect();
        name_types(&mut difference.groups);
        let without_stack = sides
            .each_ref()
            .map(|side| side.as_ref().map_or_else(Figures::default, |side| side.figures.without_stack));
        if without_stack != [Figures::default(); 2] {
            difference.groups.push(Group {
                kind: GroupKind::WithoutStack,
                figures: without_stack,
                class: None,
                stack: Vec::new(),
                first: 0,
                stacks: 0,
                resized: None,
            });
        }
        check_sums(&difference)?;
        difference.sort();
        Ok(difference)
    }

    /// Code that is the same may allocate another type: then each side is a stack of its own.
    fn settled_pairs(&self, pairs: &[[Option<u32>; 2]]) -> Vec<[Option<u32>; 2]> {
        let split = |pair: &[Option<u32>; 2]| match *pair {
            [Some(old), Some(new)]
                if self.grouping.by == GroupBy::Type
                    && self.stacks[0].type_of(old) != self.stacks[1].type_of(new) =>
            {
                vec![[Some(old), None], [None, Some(new)]]
            }
            pair => vec![pair],
        };
        pairs.iter().flat_map(split).collect()
    }

    /// Returns the group of one stack.
    fn draft(&self, pair: [Option<u32>; 2], figures: [Figures; 2], index: usize, difference: i64) -> Draft {
        let stacks = [0, 1].map(|side| pair[side].map(|node| self.stacks[side].stack(node)));
        let is_in_focus = stacks.iter().flatten().any(|stack| self.grouping.contains(stack));
        let side = if pair[1].is_some() { Side::Candidate } else { Side::Baseline };
        let stack = stacks[side as usize].as_deref().unwrap_or_default();
        let first = self.grouping.naming(stack).filter(|_| is_in_focus);
        let frame = first.map(|first| stack[first]);
        let by = self.grouping.by;
        let (class, key, kind) = match frame {
            Some(frame) => {
                let class = self.class(pair, &stacks);
                let class = class.map(|class| self.with_release(class, pair, difference));
                let (name, location) = by.title(frame, class.as_ref(), &self.own_crates);
                if let Some(node) = pair[side as usize].filter(|_| by == GroupBy::Type) {
                    let (key, kind) = of_type(self.stacks[side as usize].type_of(node), location);
                    (class, key, kind)
                } else {
                    let class_of = class.as_ref();
                    let key = by.key(side, frame, class_of, self.changes(), &self.own_crates, index);
                    (class, (0, key), GroupKind::Sites { name, location })
                }
            }
            None => (None, (1, String::new()), GroupKind::OutOfFocus),
        };
        let stack = frame.and(pair[side as usize]).map(|node| (side as usize, node));
        let first = first.unwrap_or(0);
        let group = Group { kind, figures, class, stack: Vec::new(), first, stacks: 1, resized: None };
        Draft { group, key, largest: 0, stack, slots: [None; 2] }
    }

    /// Returns how many elements the bytes of a node have room for.
    fn slots(&self, side: usize, of: &OneSide, node: Option<u32>, measure: Measure) -> Option<u64> {
        let Some(node) = node.filter(|_| measure != Measure::Count && self.grouping.by == GroupBy::Type)
        else {
            return Some(0);
        };
        let figures = of.figures.of_node.get(&node).copied().unwrap_or_default();
        let bytes = u64::try_from(measure.get(figures)).ok()?;
        let most = of.allocations.get(&node).copied().unwrap_or(0);
        self.stacks[side].slots(node, bytes, most)
    }

    fn settled(&self, draft: Draft, measure: Measure) -> Group {
        let Draft { mut group, stack, slots, .. } = draft;
        if let Some((side, node)) = stack {
            group.stack = self.stacks[side].shared_stack(node);
            if matches!(group.kind, GroupKind::Sites { .. }) {
                let resized = self.resized(side, node);
                group.resized = resized.filter(|resized| group.has_as_many(resized.sizes, measure));
            }
        }
        if let GroupKind::Type { of, sizes, slots: of_group, .. } = &mut group.kind {
            let is_known = measure != Measure::Count && slots::has_slots(of.path());
            *of_group = slots.map(|slots| slots.filter(|_| is_known));
            let element = of.element();
            *sizes = self.stacks.map(|stacks| stacks.size_of(element.as_deref()?));
        }
        group.settled()
    }

    /// Returns the type of the elements that are allocated on a stack, if its size differs.
    fn resized(&self, side: usize, node: u32) -> Option<Resized> {
        if self.stacks.iter().any(|stacks| !stacks.has_sizes()) {
            return None;
        }
        let element = self.stacks[side].type_of(node).ok()?.element()?;
        let sizes = self.stacks.map(|stacks| stacks.size_of(&element));
        let [Some(old), Some(new)] = sizes else { return None };
        let name = type_path::without_modules(&element);
        (old != new).then_some(Resized { path: element, name, sizes: [old, new] })
    }

    fn changes(&self) -> &Changes {
        static NONE: Changes = Changes::NONE;
        self.diff.map_or(&NONE, |(diff, _)| diff.changes())
    }

    /// The candidate's stack decides, and the baseline's if that is unchanged: its code may be gone.
    fn class(&self, pair: [Option<u32>; 2], stacks: &[Option<Vec<&Frame>>; 2]) -> Option<Class> {
        let (diff, facts) = self.diff?;
        let of = |side: usize| {
            let chain = self.stacks[side].chain(pair[side]?);
            let facts: Vec<_> = chain.map(|node| &facts[side][self.stacks[side].position(node)]).collect();
            diff.class(SIDES[side], stacks[side].as_ref()?, &facts)
        };
        match of(1) {
            None => of(0),
            Some(Class::Unchanged) => of(0).or(Some(Class::Unchanged)),
            changed => changed,
        }
    }
}

impl Sheet<'_> {
    /// Code that is the same may have blocks that end elsewhere. If a caller is changed, only an end
    /// in changed code says more.
    fn with_release(&self, class: Class, pair: [Option<u32>; 2], difference: i64) -> Class {
        let (Class::Unchanged | Class::CalledFrom(..), Some((diff, facts))) = (&class, self.diff) else {
            return class;
        };
        let found = self.releases.as_ref().and_then(|releases| releases.explain(pair, difference));
        let ended = found.and_then(|Release { side, way, is_before_peak, node }| {
            let stacks = self.stacks[side as usize];
            let facts: Vec<_> =
                stacks.chain(node).map(|node| &facts[side as usize][stacks.position(node)]).collect();
            diff.ended(side, (way, is_before_peak), &stacks.stack(node), &facts)
        });
        match ended {
            Some(ended) if ended.change.is_some() || class == Class::Unchanged => {
                Class::Ended(Box::new(ended))
            }
            _ => class,
        }
    }
}

impl Draft {
    fn add(&mut self, other: Self, by: GroupBy) {
        // What is put together by name is changed if any part of it is.
        let is_name = matches!(by, GroupBy::Function | GroupBy::Module | GroupBy::Crate);
        let classes = [&self.group.class, &other.group.class].map(Clone::clone);
        let weight = |class: &Option<Class>| class.as_ref().map(Class::weight);
        let most = classes.into_iter().max_by_key(weight).flatten();
        let figures = [0, 1].map(|side| self.group.figures[side].plus(other.group.figures[side]));
        let stacks = self.group.stacks + other.group.stacks;
        let slots = [0, 1].map(|side| Some(self.slots[side]?.saturating_add(other.slots[side]?)));
        // A name at the candidate is better than the one before.
        let has_candidate = other.group.figures[1] != Figures::default();
        if other.largest > self.largest || (other.largest == self.largest && has_candidate) {
            *self = other;
        }
        self.group.figures = figures;
        self.group.stacks = stacks;
        self.slots = slots;
        if is_name {
            self.group.class = most;
        }
    }
}

/// Returns the key and the kind of the group of a type.
fn of_type(found: SiteType, location: Option<String>) -> ((u8, String), GroupKind) {
    match found {
        Ok(of) => {
            let (name, path) = (of.short(), of.path().to_owned());
            let kind = GroupKind::Type { name, of, location, sizes: [None; 2], slots: [None; 2] };
            ((0, path), kind)
        }
        Err(reason) => ((2, reason.words().to_owned()), GroupKind::NoType(reason)),
    }
}

/// Types with the same last name get their modules.
fn name_types(groups: &mut [Group]) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups.iter() {
        *count.entry(group.name().to_owned()).or_default() += 1;
    }
    for group in groups {
        if let GroupKind::Type { of, name, .. } = &mut group.kind
            && count.get(name).is_some_and(|count| *count > 1)
        {
            of.path().clone_into(name);
        }
    }
}

fn check_sums(difference: &Difference) -> Result<(), NoAnswer> {
    for (side, total) in difference.totals.iter().enumerate() {
        let groups = difference.groups.iter();
        let sum = groups.fold(Figures::default(), |sum, group| sum.plus(group.figures[side]));
        if sum != total.unwrap_or_default() {
            let shown = |figures: Figures| grouped(difference.measure.get(figures).into());
            return Err(NoAnswer::Sum { found: shown(sum), expected: shown(total.unwrap_or_default()) });
        }
    }
    Ok(())
}
