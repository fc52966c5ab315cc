//! The call stacks that a run recorded: frames, sites, and the bytes of each site in each interval
//! between two checkpoints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::live_sizes::{self, LiveSizes};

/// The call stacks of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLog {
    /// How the stacks were recorded; `None` if the run recorded none.
    pub recording: Option<Recording>,
    /// The executable and its libraries.
    pub modules: Vec<Module>,
    /// The frames as a tree. The node with the number `n` is at `n - 1`; 0 is the root.
    pub nodes: Vec<Node>,
    /// The innermost node of each site. The site with the number `n` is at `n - 1`; 0 is what has no
    /// site.
    pub sites: Vec<u32>,
    /// The threads of sites, if the run was asked for them. The one with the number `n` is at `n - 1`.
    pub threads: Vec<RecordedThread>,
    /// The number of each site's thread; 0 if it is not known. Empty if the run was not asked.
    pub site_threads: Vec<u32>,
    /// The figures, by family of metrics.
    pub families: Vec<Family>,
    /// Live bytes over time.
    pub timelines: Vec<Timeline>,
    /// How many blocks of each size and site were live, in the order of the log.
    pub live_sizes: Vec<LiveSizes>,
    /// The sequence numbers of the checkpoints behind the first of these, by label and occurrence.
    pub sized_checkpoints: BTreeMap<(String, u32), u64>,
    /// What was left out, in words.
    pub incomplete: Vec<String>,
    /// Oddities of the log: torn lines, lines of other processes.
    pub notes: Vec<String>,
    /// Whether the process logged its end.
    pub ended: bool,
}

/// A thread that allocates or frees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedThread {
    /// What it is called.
    pub kind: ThreadKind,
    /// The name that it has at its first allocation; empty for all kinds but [`ThreadKind::Named`].
    pub name: String,
    /// Whether it is all further threads of this name, which are not told apart.
    pub is_shared: bool,
}

/// What a thread is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// The process's first thread.
    Main,
    /// The one in which libtest runs the test.
    Test,
    /// A thread with a name of its own.
    Named,
    /// A thread without one.
    Unnamed,
    /// Threads of many names.
    Others,
}

impl ThreadKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Main, Self::Test, Self::Named, Self::Unnamed, Self::Others];

    /// Returns its name in logs and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Test => "test",
            Self::Named => "named",
            Self::Unnamed => "unnamed",
            Self::Others => "others",
        }
    }
}

/// How stacks were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Recording {
    /// Where the site of a block is kept: `headers` or `table`.
    pub blocks: String,
    /// What walks the stack: `table` or `unwinder`.
    pub walker: String,
    /// Why the table does not.
    pub reason: Option<String>,
    /// One allocation of so many bytes is recorded on average; `None` if all are.
    pub sample: Option<u64>,
}

/// The executable or a shared library.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Module {
    /// The number in frames; 0 is the executable.
    pub number: u32,
    /// The library's path; empty for the executable.
    pub path: String,
    /// What the loader added to the addresses of the file.
    pub bias: u64,
    /// The first address in the process.
    pub begin: u64,
    /// The address behind its last one.
    pub end: u64,
}

/// A frame and the one outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of the calling frame; 0 for the outermost.
    pub parent: u32,
    /// The module's number; `None` if the address is in no module.
    pub module: Option<u32>,
    /// The address in the module's file, or in the process if there is no module.
    pub address: u64,
}

/// A family of metrics that stacks are recorded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name: `heap`, `gpu.0`.
    pub name: String,
    /// The intervals, in order. Each ends at a checkpoint.
    pub intervals: Vec<Interval>,
}

/// What happened from one checkpoint to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The label of the checkpoint at its end.
    pub label: String,
    /// The 1-based occurrence of this label.
    pub occurrence: u32,
    /// When it ended, in nanoseconds of the log's clock.
    pub nanoseconds: u64,
    /// The sums over all sites.
    pub total: Figures,
    /// How many allocations and deallocations there were in the moment of the peak; the heap only.
    pub peak_event: Option<u64>,
    /// The sites that changed, by their numbers.
    pub(super) changes: Vec<(u32, Figures)>,
    /// The pairs of sites that released more.
    pub(super) releases: Vec<(ReleasingPair, Released)>,
}

/// A site that allocates, and one where its blocks end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleasingPair {
    /// The site that allocates.
    pub site: u32,
    /// The site that ends the block.
    pub by: u32,
    /// How it does so.
    pub way: Way,
}

/// How bytes of a site end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// The block is freed.
    Freed,
    /// The block is reallocated, and smaller.
    Shrunk,
    /// The block is reallocated, and larger: it belongs to another site from then on.
    Grown,
}

impl Way {
    /// Returns its name in files and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Freed => "freed",
            Self::Shrunk => "shrunk",
            Self::Grown => "grown",
        }
    }
}

/// The bytes that ended since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Up to the moment of the interval's peak.
    pub at_peak: i64,
    /// Up to the interval's end.
    pub at_end: i64,
}

/// The figures of sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyFigures")]
pub struct Figures {
    /// Live bytes in the moment of the interval's peak.
    pub at_peak: i64,
    /// Live bytes at the checkpoint.
    pub live: i64,
    /// Bytes allocated since the last checkpoint.
    pub allocated: i64,
    /// Allocations since the last checkpoint.
    pub count: i64,
}

/// Live bytes over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub family: String,
    /// When the first bucket begins, in nanoseconds of the log's clock. Negative before `start`.
    pub begin: i64,
    /// The nanoseconds of a bucket.
    pub width: u64,
    /// The least and the most live bytes in each bucket.
    pub buckets: Vec<[i64; 2]>,
}

impl Released {
    /// Adds both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            at_peak: self.at_peak.saturating_add(other.at_peak),
            at_end: self.at_end.saturating_add(other.at_end),
        }
    }
}

impl StackLog {
    /// Returns the live blocks of an allocator at a checkpoint, by size and site.
    pub fn live_sizes_at(&self, family: &str, label: &str, occurrence: u32) -> Option<&LiveSizes> {
        let sequence = self.sized_checkpoints.get(&(label.to_owned(), occurrence))?;
        live_sizes::before(&self.live_sizes, family, *sequence)
    }

    /// Whether the run told its threads apart.
    pub fn has_threads(&self) -> bool {
        !self.site_threads.is_empty()
    }

    /// Returns the number of a site's thread; `None` if it is not known.
    pub fn thread_of(&self, site: u32) -> Option<u32> {
        let index = site.checked_sub(1)? as usize;
        self.site_threads.get(index).copied().filter(|thread| *thread != 0)
    }

    /// Returns a family's intervals.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Returns a module by its number.
    pub fn module(&self, number: u32) -> Option<&Module> {
        self.modules.iter().find(|module| module.number == number)
    }
}

impl Family {
    /// Returns the index of the interval that ends at this checkpoint.
    pub fn at(&self, label: &str, occurrence: u32) -> Option<usize> {
        self.intervals
            .iter()
            .position(|interval| interval.occurrence == occurrence && interval.label == label)
    }

    /// Returns the index of the interval with the highest peak.
    pub fn highest(&self) -> Option<usize> {
        let peaks = self.intervals.iter().enumerate();
        // The first of several that are equal.
        peaks.rev().max_by_key(|(_, interval)| interval.total.at_peak).map(|(index, _)| index)
    }

    /// Returns the figures of every site in an interval, by the site's number, without those that
    /// are all zero. Their sum is the interval's total.
    ///
    /// # Panics
    /// There is no such interval.
    pub fn figures(&self, interval: usize) -> Vec<(u32, Figures)> {
        let mut live = Levels::default();
        self.intervals[..interval].iter().for_each(|earlier| live.pass(earlier));
        settled(&self.intervals[interval], live.during(&self.intervals[interval]))
    }

    /// Returns the number of allocations of every site up to the end of an interval.
    ///
    /// # Panics
    /// There is no such interval.
    pub fn allocations(&self, interval: usize) -> BTreeMap<u32, i64> {
        let mut counts = BTreeMap::new();
        for (site, figures) in self.intervals[..=interval].iter().flat_map(|interval| &interval.changes) {
            *counts.entry(*site).or_default() += figures.count;
        }
        counts
    }

    /// Returns where blocks ended up to an interval: since the run began, for each pair of sites.
    ///
    /// # Panics
    /// There is no such interval.
    pub fn releases(&self, interval: usize) -> BTreeMap<ReleasingPair, Released> {
        let mut releases = BTreeMap::new();
        for earlier in &self.intervals[..interval] {
            let still = |released: Released| Released { at_peak: released.at_end, ..released };
            releases.extend(earlier.releases.iter().map(|(pair, released)| (*pair, still(*released))));
        }
        releases.extend(self.intervals[interval].releases.iter().copied());
        releases
    }

    /// Returns the figures of every site in the whole run: at its highest peak, at its end, and
    /// allocated from its start to its end.
    pub fn figures_of_run(&self) -> Vec<(u32, Figures)> {
        let (Some(highest), Some(last)) = (self.highest(), self.intervals.len().checked_sub(1)) else {
            return Vec::new();
        };
        let mut sums: BTreeMap<u32, Figures> = BTreeMap::new();
        let mut live = Levels::default();
        for (index, interval) in self.intervals.iter().enumerate() {
            if index == highest || index == last {
                for (site, figures) in settled(interval, live.during(interval)) {
                    let sum = sums.entry(site).or_default();
                    sum.at_peak += if index == highest { figures.at_peak } else { 0 };
                    sum.live += if index == last { figures.live } else { 0 };
                }
            }
            let allocated = |one: Figures| Figures { at_peak: 0, live: 0, ..one };
            let mut rest = allocated(interval.total);
            for (site, figures) in interval.changes.iter().filter(|(site, _)| *site != 0) {
                let sum = sums.entry(*site).or_default();
                *sum = sum.plus(allocated(*figures));
                rest = rest.minus(allocated(*figures));
            }
            let without_site = sums.entry(0).or_default();
            *without_site = without_site.plus(rest);
            live.pass(interval);
        }
        sums.into_iter().filter(|(_, figures)| *figures != Figures::default()).collect()
    }
}

/// Puts into site 0 what no site has: allocations that a sample left out.
fn settled(interval: &Interval, mut sites: BTreeMap<u32, Figures>) -> Vec<(u32, Figures)> {
    let sum = sites.values().fold(Figures::default(), |sum, one| sum.plus(*one));
    let without_site = sites.entry(0).or_default();
    *without_site = without_site.plus(interval.total.minus(sum));
    sites.into_iter().filter(|(_, figures)| *figures != Figures::default()).collect()
}

/// The live bytes of each site between two intervals.
#[derive(Default)]
struct Levels(BTreeMap<u32, i64>);

impl Levels {
    fn pass(&mut self, interval: &Interval) {
        for (site, figures) in &interval.changes {
            self.0.insert(*site, figures.live);
        }
    }

    /// A site that did not change was at its level during the whole interval.
    fn during(&self, interval: &Interval) -> BTreeMap<u32, Figures> {
        let still = |live: i64| Figures { at_peak: live, live, ..Figures::default() };
        let mut sites: BTreeMap<u32, Figures> =
            self.0.iter().map(|(site, live)| (*site, still(*live))).collect();
        sites.extend(interval.changes.iter().copied());
        sites
    }
}

impl Figures {
    /// Adds each figure.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            at_peak: self.at_peak.saturating_add(other.at_peak),
            live: self.live.saturating_add(other.live),
            allocated: self.allocated.saturating_add(other.allocated),
            count: self.count.saturating_add(other.count),
        }
    }

    /// Subtracts each figure.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            at_peak: self.at_peak.saturating_sub(other.at_peak),
            live: self.live.saturating_sub(other.live),
            allocated: self.allocated.saturating_sub(other.allocated),
            count: self.count.saturating_sub(other.count),
        }
    }
}
