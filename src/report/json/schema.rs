//! The JSON report's types, and its schema.

use std::borrow::Cow;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compare::comparison::Comparison;
use crate::compare::evaluation::Conclusion;
use crate::compare::matching::RowChange;
use crate::plan::metric::Unit;
use crate::report::tensors::json::{LayersEntry, TensorsOfRun};
use crate::results::trace_facts::TraceFacts;
use crate::results::trace_record::TraceRecord;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::Expected;

/// The version of the report's format. Fields may be added within a version, none is taken away or changed.
pub const VERSION: u32 = 2;

/// Something by the name of a ref.
pub(in crate::report) type ByRef<'a, T> = IndexMap<Cow<'a, str>, T, FxBuildHasher>;

/// The JSON report of `cargo memprof`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Report")]
pub struct Report<'a> {
    /// The version of this format.
    pub version: u32,
    /// What was compared.
    pub plan: Identity<'a>,
    /// What all verdicts come to.
    pub verdict: Answer,
    /// Where it was measured; `null` if that is not known.
    pub environment: Value,
    /// What is larger than it may be, whatever the baseline is.
    pub breaches: Vec<BreachEntry<'a>>,
    /// A row for each checkpoint and metric that any ref has a figure of.
    pub rows: Vec<RowEntry<'a>>,
    /// Each run and its outcome.
    pub cells: Vec<CellRun<'a>>,
    /// What must be said beside the figures: absences, differing sources and environments, oddities of logs.
    pub notes: Vec<String>,
    /// By ref: the functions that were to be traced.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub traced: ByRef<'a, TraceFacts>,
    /// By candidate and test: which named tensors differ from the baseline's, where any were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayersEntry>,
}

/// What was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct Identity<'a> {
    /// The run's name.
    pub id: Cow<'a, str>,
    /// When it was planned, RFC 3339.
    pub created: Cow<'a, str>,
    /// The version of cargo-memprof that measured.
    pub tool: Cow<'a, str>,
    /// The name of the ref that the others are compared with.
    pub baseline: Cow<'a, str>,
    /// The refs, in the order given.
    pub refs: Vec<Ref<'a>>,
}

/// What all verdicts come to, in numbers of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct Answer {
    /// The exit code that the verdicts alone lead to; a failed build or test leads to 3 where this is 0.
    pub exit_code: u8,
    /// Regressed, and not expected to.
    pub regressed: usize,
    /// Above an upper limit, or left behind, and not expected to.
    pub breaches: usize,
    /// Regressed or above a limit as `allow` expects.
    pub expected: usize,
    /// Of which the runs do not tell.
    pub inconclusive: usize,
    /// Improved.
    pub improved: usize,
    /// Unchanged.
    pub unchanged: usize,
    /// Without a figure on a side that could be compared.
    pub missing: usize,
}

impl Answer {
    /// In numbers of rows.
    pub(in crate::report) fn of(conclusion: &Conclusion) -> Self {
        Self {
            exit_code: conclusion.exit_code() as u8,
            regressed: conclusion.regressed,
            breaches: conclusion.breaches,
            expected: conclusion.expected,
            inconclusive: conclusion.inconclusive,
            improved: conclusion.improved,
            unchanged: conclusion.unchanged,
            missing: conclusion.missing,
        }
    }
}

/// A figure that is larger than it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Breach")]
pub struct BreachEntry<'a> {
    /// The candidate.
    pub r#ref: Cow<'a, str>,
    /// `package::binary::test`.
    pub test: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// The checkpoint's label.
    pub checkpoint: Cow<'a, str>,
    /// The how-manieth checkpoint of this label it is, from 1.
    pub occurrence: u32,
    /// The metric's name.
    pub metric: Cow<'a, str>,
    /// Of what: `limit`, or `leak` for the growth from `start` to `done`.
    pub kind: Cow<'a, str>,
    /// The greatest figure of the runs.
    pub value: i64,
    /// What it may be.
    pub limit: u64,
    /// Why it was expected.
    pub expected: Option<Cow<'a, str>>,
}

/// How a verdict was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judgement")]
pub struct JudgementEntry<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the figures are proven not to vary and were compared to the unit.
    pub exact: bool,
    /// The median of all differences between runs; `null` where nothing was judged.
    pub change: Option<i128>,
    /// The least change that the runs allow; `null` where they allow any.
    pub low: Option<i128>,
    /// The greatest.
    pub high: Option<i128>,
    /// How much more is a change.
    pub limit: Option<u64>,
    /// Whether that is the figure's own error, which is more than the limit that was set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit_raised: bool,
    /// Why the change was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Cow<'a, str>>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Ref")]
pub struct Ref<'a> {
    /// Its name in this report.
    pub name: Cow<'a, str>,
    /// What the user wrote.
    pub spec: Cow<'a, str>,
    /// Full hash of the commit.
    pub commit: Cow<'a, str>,
    /// Full hash of the tree.
    pub tree: Cow<'a, str>,
}

/// One metric at one checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct RowEntry<'a> {
    /// `package::binary::test`.
    pub test: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// The checkpoint's label; the baseline's where it was renamed.
    pub checkpoint: Cow<'a, str>,
    /// The how-manieth checkpoint of this label it is, from 1.
    pub occurrence: u32,
    /// `scope` where the figures are differences between the ends of a piece of code.
    pub kind: KindName,
    /// What became of the checkpoint; `null` where no two sides were measured to their end. With several candidates,
    /// what became of it in the first that has it.
    pub change: Option<ChangeName>,
    /// By ref: its label, where it is not the row's.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub renamed: ByRef<'a, Cow<'a, str>>,
    /// The metric's name.
    pub metric: Cow<'a, str>,
    /// What the numbers count.
    pub unit: Unit,
    /// By ref: the figure; `null` where there is none.
    pub values: ByRef<'a, Option<ReadingEntry<'a>>>,
    /// By ref: why there is no figure.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub absent: ByRef<'a, Cow<'a, str>>,
    /// By candidate: its value minus the baseline's; `null` where they are not compared.
    pub delta: ByRef<'a, Option<i128>>,
    /// By candidate: the same in percent of the baseline; `null` also where the baseline is not above zero.
    pub percent: ByRef<'a, Option<f64>>,
    /// By candidate: the verdict. Metrics that no limit is set for have none.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub judged: ByRef<'a, JudgementEntry<'a>>,
}

/// A metric at a checkpoint, over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reading")]
pub struct ReadingEntry<'a> {
    /// The median of the runs.
    pub value: i64,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// How many runs had a reading here.
    pub runs: u32,
    /// Whether several runs all read the same.
    pub exact: bool,
    /// The value minus that at the previous checkpoint of the same ref; `null` for the first and for scopes.
    pub previous_delta: Option<i128>,
    /// Where the figure comes from.
    pub source: Option<Cow<'a, str>>,
    /// Whether it is of a run that did not pass, logged before it ended. Such figures are never compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// One run of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cell")]
pub struct CellRun<'a> {
    /// The ref's name.
    pub r#ref: Cow<'a, str>,
    /// `package::binary::test`.
    pub test: Cow<'a, str>,
    /// The cell's name in reports for people.
    pub title: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// `ok`, `failed`, `timeout`, `killed`, `out_of_memory`, `build_failed`, `not_in_this_ref`, `ignored`, `refused`.
    pub outcome: Cow<'a, str>,
    /// The outcome in words, with exit code, signal or limit.
    pub detail: String,
    /// Why the figures of this run are not compared; `null` if they are.
    pub not_compared: Option<String>,
    /// The panic message, the compiler's first error.
    pub message: Option<Cow<'a, str>>,
    /// What the figures must be read with.
    pub marks: Vec<Cow<'a, str>>,
    /// The devices that the run was given, by UUID; `null` where it was given none in particular.
    pub devices: Option<Vec<Cow<'a, str>>>,
    /// The folder with the run's log and output, relative to the run of the tool.
    pub folder: Cow<'a, str>,
    /// What traced functions did; absent where none were traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Cow<'a, TraceRecord>>,
    /// What was named; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TensorsOfRun>,
}

/// What became of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Change")]
pub enum ChangeName {
    /// On both sides.
    Matched,
    /// In the candidate only.
    Added,
    /// In the baseline only.
    Removed,
    /// On both sides, under different labels.
    Renamed,
}

/// What a checkpoint's figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Kind")]
pub enum KindName {
    /// The state at a point.
    Point,
    /// What changed over a piece of code.
    Scope,
    /// The same over a call of a traced function.
    Call,
}

impl From<RowChange> for ChangeName {
    fn from(change: RowChange) -> Self {
        match change {
            RowChange::Matched => Self::Matched,
            RowChange::Added => Self::Added,
            RowChange::Removed => Self::Removed,
            RowChange::Renamed => Self::Renamed,
        }
    }
}

/// The JSON Schema of the report.
pub fn schema() -> Value {
    schemars::schema_for!(Report<'static>).to_value()
}

/// Why a change was expected, if it was and still is.
pub(in crate::report) fn reason(comparison: &Comparison, expected: Option<Expected>) -> Option<&str> {
    let expected = expected.filter(|expected| !expected.has_expired)?;
    comparison.allow.get(expected.index).map(|allowance| allowance.reason.as_str())
}

/// A cell's identity as rows and runs state it.
pub(in crate::report) struct RunRecordParts<'a> {
    pub(in crate::report) test: String,
    pub(in crate::report) params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
}

impl<'a> RunRecordParts<'a> {
    pub(in crate::report) fn of(cell: &'a crate::plan::resolved::CellId) -> Self {
        let params = cell.params.iter().map(|(name, value)| (name.into(), value.into()));
        Self { test: cell.test.to_string(), params: params.collect() }
    }
}
