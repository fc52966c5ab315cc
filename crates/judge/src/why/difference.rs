//! The answer for one row: groups of sites with both sides' figures, and the rest.

use std::sync::Arc;

use crate::results::stack_log::Figures;
use crate::why::class::{Class, Existence};
use crate::why::frame::Frame;
use crate::why::freed_by::FreedBy;
use crate::why::grouping::GroupBy;
use crate::why::types::{AllocatedType, NoType};

/// Which of a site's figures explains a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes in the moment of the peak: `*.peak`.
    AtPeak,
    /// Bytes at the end: `*.live`.
    Live,
    /// Bytes allocated: `*.allocated`.
    Allocated,
    /// Allocations: `*.count`.
    Count,
}

/// The sites of one row, grouped.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The metric: `heap.peak`.
    pub metric: String,
    pub measure: Measure,
    /// The checkpoint of each side; `None` if a side has none.
    pub checkpoints: [Option<CheckpointName>; 2],
    /// Whether the sides are two checkpoints of one run.
    pub is_growth: bool,
    /// The sums over all sites. A side that lacks the checkpoint has none.
    pub totals: [Option<Figures>; 2],
    /// What sites have in common in a group.
    pub by: GroupBy,
    /// The groups, those with the largest difference first.
    pub groups: Vec<Group>,
    /// One allocation of so many bytes was recorded on average, so the figures of sites are estimates;
    /// `None` if all were.
    pub sample: Option<u64>,
    /// What the run left out, in words.
    pub incomplete: Vec<String>,
}

/// A checkpoint's label and its 1-based occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointName {
    pub label: String,
    /// The occurrence of this label.
    pub occurrence: u32,
}

/// Sites that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What the group is.
    pub kind: GroupKind,
    /// The sums over its sites, for each side.
    pub figures: [Figures; 2],
    /// What the diff has to do with it: with the site that differs most; `None` if there is no diff,
    /// or if frames have no lines.
    pub class: Option<Class>,
    /// The whole stack of that site at the candidate, or else at the baseline. The innermost frame
    /// is the first.
    pub stack: Vec<Arc<Frame>>,
    /// The index of the frame in `stack` that names the group.
    pub first: usize,
    /// The number of its stacks.
    pub stacks: usize,
    /// The type that it allocates as many of as before, if that alone explains the difference.
    pub resized: Option<Resized>,
}

/// A type that has another size at each revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resized {
    /// Its whole path.
    pub path: String,
    /// As in sources.
    pub name: String,
    /// Its bytes at the baseline and the candidate.
    pub sizes: [u64; 2],
}

/// Elements of a type's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// How many the bytes have room for.
    pub count: u64,
    /// The bytes of one.
    pub size: u64,
}

/// What a group is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// Sites with this name: a function, a module, a crate, or a hunk.
    Sites {
        name: String,
        /// The file, and the line where all have the same.
        location: Option<String>,
    },
    /// Sites that allocate this type.
    Type {
        of: AllocatedType,
        /// The type in words: with modules only if another one has the same name.
        name: String,
        /// The file and line of the site that differs most.
        location: Option<String>,
        /// The size of an element on each side, if the type's blocks hold nothing else.
        sizes: [Option<u64>; 2],
        /// How many elements the bytes of each side have room for, if the type's blocks hold something else, too.
        slots: [Option<u64>; 2],
    },
    /// Sites whose type is not known, by `--why-by type`.
    NoType(NoType),
    /// Sites whose memory this thread allocated, or threads of this name.
    Thread {
        name: String,
        /// The file and line of the site that differs most.
        location: Option<String>,
        /// Who freed its blocks in the whole run, by side; `None` if it is not known.
        freed: [Option<FreedBy>; 2],
    },
    /// Stacks without a match of `--focus`.
    OutOfFocus,
    /// Memory without a stack: allocated before recording began, or not in the sample.
    WithoutStack,
}

impl Measure {
    /// Returns the measure of a metric and its family, `heap` of `heap.peak`; `None` if no site has
    /// such a figure.
    pub fn of_metric(metric: &str) -> Option<(&str, Self)> {
        let (family, part) = metric.rsplit_once('.')?;
        let measure = match part {
            "peak" => Self::AtPeak,
            "live" => Self::Live,
            "allocated" => Self::Allocated,
            "count" => Self::Count,
            _ => return None,
        };
        Some((family, measure))
    }

    /// Returns this one of the figures.
    pub fn get(self, figures: Figures) -> i64 {
        match self {
            Self::AtPeak => figures.at_peak,
            Self::Live => figures.live,
            Self::Allocated => figures.allocated,
            Self::Count => figures.count,
        }
    }
}

impl Difference {
    /// Returns the difference of the row; of a single side, its figure.
    pub fn whole(&self) -> i64 {
        self.change(self.totals.map(Option::unwrap_or_default))
    }

    /// Whether no group differs.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| self.of_group(group) == 0)
    }

    /// Returns the difference of a group; of a single side, its figure.
    pub fn of_group(&self, group: &Group) -> i64 {
        self.change(group.figures)
    }

    /// Returns the difference of all but the first groups.
    pub fn elsewhere(&self, shown: usize) -> i64 {
        self.groups.iter().skip(shown).map(|group| self.of_group(group)).sum()
    }

    /// Returns the standard error of a group's difference, if it is an estimate.
    pub fn standard_error(&self, group: &Group) -> Option<u64> {
        let bytes: u64 = group.figures.iter().map(|one| self.measure.get(*one).unsigned_abs()).sum();
        Some(bytes.saturating_mul(self.sample?).isqrt())
    }

    /// Returns what of each side's figure has a type; `None` unless groups are types.
    pub fn typed(&self) -> Option<[i64; 2]> {
        let groups = || self.groups.iter().filter(|group| matches!(group.kind, GroupKind::Type { .. }));
        let of = |side: usize| groups().map(|group| self.measure.get(group.figures[side])).sum();
        (self.by == GroupBy::Type).then(|| [of(0), of(1)])
    }

    /// Returns the number of elements of each side that a type's bytes have room for, with the size of one.
    /// `None` if a side is not there, has no size, or other bytes.
    pub fn elements(&self, group: &Group) -> [Option<Elements>; 2] {
        let GroupKind::Type { sizes, .. } = &group.kind else { return [None; 2] };
        let of = |side: usize| {
            // A side without the type has no element of it.
            let size = sizes[side].or(sizes[1 - side]).filter(|size| *size > 0)?;
            let bytes = u64::try_from(self.measure.get(group.figures[side])).ok()?;
            let is_of_elements = self.measure != Measure::Count && bytes % size == 0;
            (self.totals[side].is_some() && is_of_elements).then(|| Elements { count: bytes / size, size })
        };
        [of(0), of(1)]
    }

    /// Returns how many elements of each side a type's bytes have room for; `None` if that is not certain.
    pub fn room(&self, group: &Group) -> [Option<u64>; 2] {
        let GroupKind::Type { slots, .. } = group.kind else { return [None; 2] };
        let elements = self.elements(group);
        [0, 1].map(|side| elements[side].map(|of| of.count).or(slots[side]))
    }

    /// Whether both are of one side, and of the same figure.
    pub(super) fn is_about_the_same(&self, other: &Self) -> bool {
        (&self.metric, &self.checkpoints) == (&other.metric, &other.checkpoints)
    }

    /// Whether there is one side only.
    pub fn is_alone(&self) -> bool {
        self.checkpoints[0].is_none() || self.checkpoints[1].is_none()
    }

    fn change(&self, figures: [Figures; 2]) -> i64 {
        let [old, new] = figures.map(|of| self.measure.get(of));
        if self.checkpoints[1].is_none() { old } else { new - old }
    }

    /// Sorts groups by the size of their difference, then by name.
    pub(super) fn sort(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        groups.sort_by_cached_key(|group| {
            (std::cmp::Reverse(self.of_group(group).unsigned_abs()), group.kind.clone())
        });
        self.groups = groups;
    }
}

impl Group {
    /// Returns its name.
    pub fn name(&self) -> &str {
        match &self.kind {
            GroupKind::Sites { name, .. } | GroupKind::Type { name, .. } | GroupKind::Thread { name, .. } => {
                name
            }
            GroupKind::NoType(reason) => reason.words(),
            GroupKind::OutOfFocus => "outside of the focus",
            GroupKind::WithoutStack => "without a call stack",
        }
    }

    /// Whether the frame that names it is in the user's repository.
    pub(super) fn is_in_checkout(&self) -> bool {
        self.stack.get(self.first).is_some_and(|frame| frame.checkout_path().is_some())
    }

    /// Whether both sides allocated as many blocks, with other bytes: a caller passes another length,
    /// or a type has another size.
    pub fn has_other_sizes(&self) -> bool {
        let [old, new] = self.figures;
        old.count == new.count && old.count > 0 && old.allocated != new.allocated
    }

    /// Whether both sides have room for as many elements of these sizes.
    pub(super) fn has_as_many(&self, sizes: [u64; 2], measure: Measure) -> bool {
        let [old, new] = [0, 1].map(|side| {
            let bytes = u64::try_from(measure.get(self.figures[side])).ok().filter(|bytes| *bytes > 0)?;
            (bytes.checked_rem(sizes[side])? == 0).then(|| bytes / sizes[side])
        });
        measure != Measure::Count && old.is_some() && old == new
    }

    /// A function that both sides have under different names is neither new nor deleted.
    pub(super) fn settled(mut self) -> Self {
        if let Some(Class::Changed(existence, _)) = &mut self.class
            && self.figures.iter().all(|figures| *figures != Figures::default())
        {
            *existence = Existence::Both;
        }
        self
    }

    /// Returns its file, and the line where all sites have the same.
    pub fn location(&self) -> Option<&str> {
        match &self.kind {
            GroupKind::Sites { location, .. }
            | GroupKind::Type { location, .. }
            | GroupKind::Thread { location, .. } => location.as_deref(),
            GroupKind::NoType(_) | GroupKind::OutOfFocus | GroupKind::WithoutStack => None,
        }
    }
}
