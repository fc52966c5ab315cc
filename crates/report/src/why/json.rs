//! Call sites as JSON, with a version of its own.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::why::threads::WhyThreads;
use memprof_judge::results::stack_log::Figures;
use memprof_judge::why::agreement::Agreement;
use memprof_judge::why::class::{ChangedEnd, Class, Ended};
use memprof_judge::why::difference::{CheckpointName, Difference, Group, GroupKind};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::held::{HeldMemory, HeldSide, Owner, OwnerRoom};
use memprof_judge::why::hunks::{Hunk, HunkAt, Side};
use memprof_judge::why::room::Room;
use memprof_judge::why::versions::ChangedDependency;
use memprof_plan::metric::Unit;

/// The version of this format. Within a version, fields may be added, but not removed or changed.
pub const VERSION: u32 = 2;

/// The call sites of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Why")]
pub struct WhyReport {
    /// The version of this format.
    pub schema: u32,
    /// The frames of all call stacks, each once. Groups give positions in it.
    #[serde(default)]
    pub frames: Vec<WhyFrame>,
    /// One entry for each row.
    pub rows: Vec<WhyRow>,
    /// Who holds the memory of each test, by `--why-by owner`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<WhyHeld>,
    /// What the threads of each test and side allocated, and who freed it, by `--why-by thread`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<WhyThreads>,
    /// Live bytes over time, of each test and side.
    #[serde(default)]
    pub timelines: Vec<WhyTimeline>,
    /// Why tests have no call sites, or no lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<WhyRemark>,
    /// How many tests were left out, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// Who holds the memory of one test at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyHeld {
    /// The test, with its parameters.
    pub test: String,
    /// The name of the candidate, or of the only ref.
    pub r#ref: String,
    /// The metric: `heap.peak`, or `heap.live` at a checkpoint.
    pub metric: String,
    /// The checkpoint's label.
    pub checkpoint: String,
    /// The 1-based occurrence of this label.
    pub occurrence: u32,
    /// How much of the baseline's bytes has an owner; `null` without a baseline.
    pub baseline: Option<HeldSide>,
    /// The same of the candidate, or of the only revision.
    pub candidate: Option<HeldSide>,
    /// The owners, those with the largest difference first.
    pub owners: Vec<WhyOwner>,
    /// What limits the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Blocks of one type, made at one place, and what they hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyOwner {
    /// The type as in sources, or in parentheses why it is not known.
    pub name: String,
    /// The type with its modules.
    pub r#type: Option<String>,
    /// The function that allocates the blocks.
    pub made_in: Option<String>,
    /// The file and the line.
    pub location: Option<String>,
    /// What holds them: `static`, `thread_local`, `stack`, `thread`, `several`, `no_pointer`, `cycle`.
    pub root: String,
    /// The same in words: `from static CACHE`.
    pub held_by: String,
    /// Candidate minus baseline; of a single side, its bytes.
    pub difference: i64,
    /// The bytes that it and what it alone leads to have, at the baseline and at the candidate.
    pub bytes: [u64; 2],
    /// The blocks of the owner itself.
    pub blocks: [u64; 2],
    /// Where there is room for elements, and it is known how many there are: the owner's own blocks first, then
    /// what it alone leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<WhyRoom>,
}

/// Vectors, hash tables or B-trees of one type and place, and how much of their capacity is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyRoom {
    /// Whether these are the owner's own blocks.
    pub is_own: bool,
    /// The type as in sources.
    pub name: String,
    /// The type with its modules.
    pub r#type: String,
    /// The function that allocates the blocks.
    pub made_in: Option<String>,
    /// The file and the line.
    pub location: Option<String>,
    /// At the baseline; `null` unless the use of all its blocks is known.
    pub baseline: Option<WhyUse>,
    /// At the candidate.
    pub candidate: Option<WhyUse>,
}

/// The capacity of blocks, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyUse {
    /// The number of blocks.
    pub blocks: u64,
    /// The elements that they have room for.
    pub capacity: u64,
    /// The elements that there are: at least, and at most. They differ if a vector was moved, and the old place
    /// still has another length.
    pub used: [u64; 2],
    /// The bytes of the blocks.
    pub capacity_bytes: u64,
    /// The bytes that an exact capacity would take, at least and at most; `null` if that is not certain, as for
    /// B-trees.
    pub used_bytes: Option<[u64; 2]>,
}

impl From<&OwnerRoom> for WhyRoom {
    fn from(room: &OwnerRoom) -> Self {
        let side = |side: usize| room.sides[side].map(WhyUse::from);
        Self {
            is_own: room.is_own,
            name: room.name.clone(),
            r#type: room.type_path.clone(),
            made_in: room.made_at.as_ref().map(Frame::name),
            location: room.made_at.as_ref().and_then(Frame::location),
            baseline: side(0),
            candidate: side(1),
        }
    }
}

impl From<Room> for WhyUse {
    fn from(room: Room) -> Self {
        let Room { blocks, bytes, capacity, used, exact_bytes } = room;
        Self { blocks, capacity, used, capacity_bytes: bytes, used_bytes: exact_bytes }
    }
}

impl WhyHeld {
    /// Takes the owners of a test.
    pub fn new(test: &str, name: &str, held: &HeldMemory) -> Self {
        Self {
            test: test.to_owned(),
            r#ref: name.to_owned(),
            metric: held.metric.clone(),
            checkpoint: held.checkpoint.0.clone(),
            occurrence: held.checkpoint.1,
            baseline: held.sides[0],
            candidate: held.sides[1],
            owners: held.owners.iter().map(WhyOwner::from).collect(),
            remarks: held.remarks.clone(),
        }
    }
}

impl From<&Owner> for WhyOwner {
    fn from(owner: &Owner) -> Self {
        Self {
            name: owner.name.clone(),
            r#type: owner.type_path.clone(),
            made_in: owner.made_at.as_ref().map(Frame::name),
            location: owner.made_at.as_ref().and_then(Frame::location),
            root: owner.root.kind().to_owned(),
            held_by: owner.root.words(),
            difference: owner.difference,
            bytes: owner.bytes,
            blocks: owner.blocks,
            rooms: owner.rooms.iter().map(WhyRoom::from).collect(),
        }
    }
}

/// What limits the answer for a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyRemark {
    /// The test, with its parameters.
    pub test: String,
    /// The name of the candidate, or of the only ref.
    pub r#ref: String,
    /// The reason.
    pub text: String,
}

/// Live bytes of one run over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyTimeline {
    /// The test, with its parameters.
    pub test: String,
    /// The name of the ref.
    pub r#ref: String,
    /// The family of metrics: `heap`.
    pub family: String,
    /// When the first bucket begins, in nanoseconds; negative before `start`.
    pub begin: i64,
    /// The nanoseconds of a bucket.
    pub width: u64,
    /// The least and the most live bytes in each bucket.
    pub buckets: Vec<[i64; 2]>,
    /// The checkpoints on the same clock.
    pub checkpoints: Vec<WhyCheckpoint>,
}

/// A checkpoint on a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyCheckpoint {
    /// The label.
    pub label: String,
    /// The 1-based occurrence of this label.
    pub occurrence: u32,
    /// When it was logged, in nanoseconds since `start`.
    pub nanoseconds: u64,
}

/// The call sites of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyRow {
    /// The test, with its parameters.
    pub test: String,
    /// The metric.
    pub metric: String,
    /// What its figures count.
    pub unit: Unit,
    /// The baseline; `null` if it has no such checkpoint, and with one revision.
    pub baseline: Option<WhySide>,
    /// The candidate, or the only revision; `null` if it has no such checkpoint.
    pub candidate: Option<WhySide>,
    /// Candidate minus baseline; of a single side, its figure.
    pub difference: i64,
    /// What sites have in common in a group: `site`, `line`, `function`, `module`, `crate`, `hunk`,
    /// `type`, `thread`, or `owner`: as `line`.
    pub by: String,
    /// Whether it is what the candidate had where it broke a limit. There is no baseline then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_limit: bool,
    /// Whether the figures are estimates from a sample.
    pub is_estimate: bool,
    /// What the runs with call stacks left out.
    pub incomplete: Vec<String>,
    /// The groups, those with the largest difference first. Their figures add up to the row's.
    pub groups: Vec<WhyGroup>,
}

/// One side of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhySide {
    /// The name of the ref.
    pub r#ref: String,
    /// The checkpoint's label.
    pub checkpoint: String,
    /// The 1-based occurrence of this label.
    pub occurrence: u32,
    /// The figures of the run with call stacks.
    pub figures: Figures,
    /// How its figure compares with the plain runs: `equal`, `within_range`, `differs`, `unknown`.
    pub agreement: String,
    /// What it has more than the nearest plain run.
    pub differs_by: i64,
    /// By type: what of the row's figure has a type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<i64>,
}

/// Sites that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyGroup {
    /// `sites`; `out_of_focus` for stacks that `--focus` leaves out; `without_stack` for memory that
    /// has no call stack. By type: `type`, and `no_type` for sites whose type is not known. By thread: `thread`.
    pub kind: String,
    /// The function, module, crate, hunk, type or thread; of `no_type`, the reason.
    pub name: String,
    /// The type with its modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// The bytes of an element at the baseline and at the candidate, if the type's blocks hold nothing else
    /// and its layout is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element_bytes: Option<[Option<u64>; 2]>,
    /// How many elements the type's bytes have room for at the baseline and at the candidate, where the layout tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<[Option<u64>; 2]>,
    /// The file, and the line if all sites have the same; of a type or thread, those of the site that differs most;
    /// `null` if unknown.
    pub location: Option<String>,
    /// What the diff has to do with it; `null` without a diff, without line tables, and by thread.
    pub class: Option<WhyClass>,
    /// The figures at the baseline.
    pub baseline: Figures,
    /// The figures at the candidate.
    pub candidate: Figures,
    /// Candidate minus baseline of the row's figure.
    pub difference: i64,
    /// Whether both sides allocated as many blocks since the last checkpoint, with other bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_other_sizes: bool,
    /// The number of call stacks.
    pub stacks: usize,
    /// The call stack that differs most, the innermost frame first: positions in the report's `frames`, from 0.
    pub stack: Vec<usize>,
}

/// What the diff has to do with a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyClass {
    /// `changed`, `new`, `deleted`, `called_from_changed`, `dependency_changed`, `ended_elsewhere`,
    /// `debug_information`, `unchanged`.
    pub kind: String,
    /// The place in the diff of changed code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<WhyHunk>,
    /// The nearest changed function that leads to the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<WhyFrame>,
    /// The changed dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<ChangedDependency>,
    /// Where one side ends blocks that live on, on the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<WhyEnded>,
}

/// Where one side ends blocks that live on, on the other one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyEnded {
    /// The side that ends them: `baseline` or `candidate`.
    pub side: String,
    /// How it does so: `freed`, `shrunk`, or `grown` if another site owns the block from then on.
    pub way: String,
    /// Whether the other side ends as many there, but only after its peak.
    pub is_before_peak: bool,
    /// The nearest function that is in the diff, or else the innermost one of the repository.
    pub function: String,
    /// The file and the line of its call.
    pub location: Option<String>,
    /// The changed function: this one, or the one that takes its place on the other side.
    pub changed: Option<String>,
    /// Whether the changed function is `changed`, `new` or `deleted`.
    pub change: Option<String>,
}

/// A place in the diff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyHunk {
    /// The file.
    pub path: String,
    /// `@@ -7,2 +7,3 @@`.
    pub header: String,
    /// The first line before, and the number of lines. Without lines, the place is before the first.
    pub old: [u32; 2],
    /// The first line after, and the number of lines.
    pub new: [u32; 2],
}

/// A frame of a call stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyFrame {
    /// The function, or an address.
    pub function: String,
    /// The file and the line.
    pub location: Option<String>,
    /// Whether it is inlined into the next frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_inlined: bool,
}

/// The frames of a report's call stacks, each once: thousands of stacks have the same few thousand frames.
#[derive(Debug, Default)]
pub struct FrameTable<'a>(IndexSet<&'a Frame, FxBuildHasher>);

impl<'a> FrameTable<'a> {
    /// Returns the positions of a stack's frames.
    fn positions(&mut self, stack: &'a [Arc<Frame>]) -> Vec<usize> {
        stack.iter().map(|frame| self.0.insert_full(frame).0).collect()
    }

    /// Returns the frames for the report.
    pub fn frames(&self) -> Vec<WhyFrame> {
        self.0.iter().map(|frame| WhyFrame::from(*frame)).collect()
    }
}

impl WhyRow {
    /// Takes the sites of a row. The refs and the agreements with the plain runs are by side.
    pub fn new<'a>(
        test: &str,
        refs: [&str; 2],
        difference: &'a Difference,
        agreements: [Option<Agreement>; 2],
        frames: &mut FrameTable<'a>,
    ) -> Self {
        let side = |side: usize| {
            let CheckpointName { label, occurrence } = difference.checkpoints[side].as_ref()?;
            let agreement = agreements[side].unwrap_or(Agreement::Unknown);
            let differs_by = if let Agreement::Differs { by, .. } = agreement { by } else { 0 };
            let run = if difference.is_growth { 1 } else { side };
            Some(WhySide {
                r#ref: refs[run].to_owned(),
                checkpoint: label.clone(),
                occurrence: *occurrence,
                figures: difference.totals[side].unwrap_or_default(),
                agreement: word(agreement).to_owned(),
                differs_by,
                typed: difference.typed().map(|sides| sides[side]),
            })
        };
        Self {
            test: test.to_owned(),
            metric: difference.metric.clone(),
            unit: Unit::of_metric(&difference.metric),
            baseline: side(0),
            candidate: side(1),
            difference: difference.whole(),
            by: difference.by.as_str().to_owned(),
            is_limit: false,
            is_estimate: difference.sample.is_some(),
            incomplete: difference.incomplete.clone(),
            groups: difference.groups.iter().map(|group| entry(difference, group, frames)).collect(),
        }
    }
}

/// Returns the JSON Schema of the report.
pub fn schema() -> Value {
    schemars::schema_for!(WhyReport).to_value()
}

fn word(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Equal => "equal",
        Agreement::WithinRange { .. } => "within_range",
        Agreement::Differs { .. } => "differs",
        Agreement::Unknown => "unknown",
    }
}

fn entry<'a>(difference: &Difference, group: &'a Group, frames: &mut FrameTable<'a>) -> WhyGroup {
    let kind = match &group.kind {
        GroupKind::Sites { .. } => "sites",
        GroupKind::Type { .. } => "type",
        GroupKind::NoType(_) => "no_type",
        GroupKind::Thread { .. } => "thread",
        GroupKind::OutOfFocus => "out_of_focus",
        GroupKind::WithoutStack => "without_stack",
    };
    WhyGroup {
        kind: kind.to_owned(),
        name: group.name().to_owned(),
        r#type: match &group.kind {
            GroupKind::Type { of, .. } => Some(of.path().to_owned()),
            _ => None,
        },
        element_bytes: match &group.kind {
            GroupKind::Type { sizes, .. } if *sizes != [None; 2] => Some(*sizes),
            _ => None,
        },
        capacity: Some(difference.room(group)).filter(|room| *room != [None; 2]),
        location: group.location().map(str::to_owned),
        class: group.class.as_ref().map(WhyClass::from),
        baseline: group.figures[0],
        candidate: group.figures[1],
        difference: difference.of_group(group),
        has_other_sizes: group.has_other_sizes(),
        stacks: group.stacks,
        stack: frames.positions(&group.stack),
    }
}

impl From<&Frame> for WhyFrame {
    fn from(frame: &Frame) -> Self {
        Self { function: frame.name(), location: frame.location(), is_inlined: frame.is_inlined }
    }
}

impl From<&Ended> for WhyEnded {
    fn from(ended: &Ended) -> Self {
        let side = match ended.side {
            Side::Baseline => "baseline",
            Side::Candidate => "candidate",
        };
        let (changed, change) = match &ended.change {
            Some(ChangedEnd::Code { function, existence, .. }) => {
                (Some(function.clone()), Some(existence.as_str().to_owned()))
            }
            Some(ChangedEnd::Dependency(_)) | None => (None, None),
        };
        let (function, location) = (ended.function.clone(), ended.location.clone());
        Self {
            side: side.to_owned(),
            way: ended.way.as_str().to_owned(),
            is_before_peak: ended.is_before_peak,
            function,
            location,
            changed,
            change,
        }
    }
}

impl From<&HunkAt> for WhyHunk {
    fn from(at: &HunkAt) -> Self {
        let Hunk { old, new } = &at.hunk;
        let lines = |range: &std::ops::Range<u32>| [range.start, range.end - range.start];
        Self { path: at.path.clone(), header: at.hunk.to_string(), old: lines(old), new: lines(new) }
    }
}

impl From<&Class> for WhyClass {
    fn from(class: &Class) -> Self {
        let caller = if let Class::CalledFrom(from, _) = class {
            let location = Some(from.location.clone());
            Some(WhyFrame { function: from.function.clone(), location, is_inlined: false })
        } else {
            None
        };
        let ended = if let Class::Ended(ended) = class { Some(WhyEnded::from(&**ended)) } else { None };
        Self {
            kind: class.kind().to_owned(),
            hunk: class.hunk().map(WhyHunk::from),
            caller,
            dependency: class.dependency().cloned(),
            ended,
        }
    }
}
