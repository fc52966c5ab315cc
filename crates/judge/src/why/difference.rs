//! The answer for one row: groups of sites with both sides' figures, and the rest.

use crate::results::stack_log::Figures;
use crate::why::class::{Class, Existence};
use crate::why::frame::Frame;
use crate::why::grouping::GroupBy;

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
    pub stack: Vec<Frame>,
    /// The index of the frame in `stack` that names the group.
    pub first: usize,
    /// The number of its stacks.
    pub stacks: usize,
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
            GroupKind::Sites { name, .. } => name,
            GroupKind::OutOfFocus => "outside of the focus",
            GroupKind::WithoutStack => "without a call stack",
        }
    }

    /// Whether both sides allocated as many blocks, with other bytes: a caller passes another length,
    /// or a type has another size.
    pub fn has_other_sizes(&self) -> bool {
        let [old, new] = self.figures;
        old.count == new.count && old.count > 0 && old.allocated != new.allocated
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
            GroupKind::Sites { location, .. } => location.as_deref(),
            GroupKind::OutOfFocus | GroupKind::WithoutStack => None,
        }
    }
}
