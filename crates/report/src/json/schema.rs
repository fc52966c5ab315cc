//! The types of the JSON report, and its schema.

use std::borrow::Cow;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::causes::json::CausesReport;
use crate::tensors::forwards_json::ForwardEntry;
use crate::tensors::json::{LayersEntry, TensorsOfRun};
use crate::why::json::WhyReport;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::completeness;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::matching::RowChange;
use memprof_judge::results::measurement::Kind;
use memprof_judge::results::same_code::SameCode;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_judge::results::trace_record::TraceRecord;
use memprof_judge::verdict::kinds::Verdict;
use memprof_judge::verdict::limits::Expected;
use memprof_plan::axis_labels::AxisLabels;
use memprof_plan::lock_differences::MovedDependency;
use memprof_plan::metric::Unit;
use memprof_plan::program::ProgramCall;
use memprof_plan::random_numbers::RandomNumbers;

/// The version of the report's format. Within a version, fields may be added, but not removed or
/// changed.
pub const VERSION: u32 = 3;

/// Values by the name of a ref.
pub(crate) type ByRef<'a, T> = IndexMap<Cow<'a, str>, T, FxBuildHasher>;

/// The JSON report of `cargo memprof`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Report")]
pub struct Report<'a> {
    /// The version of this format.
    pub version: u32,
    /// What was compared.
    pub plan: Identity<'a>,
    /// The verdicts in numbers of rows.
    pub verdict: Answer,
    /// The machine that measured; `null` if unknown.
    pub environment: Value,
    /// Figures above an absolute limit, and leaks.
    pub breaches: Vec<BreachEntry<'a>>,
    /// One row for each checkpoint and metric with a figure of any ref.
    pub rows: Vec<RowEntry<'a>>,
    /// Each run and its outcome.
    pub cells: Vec<CellRun<'a>>,
    /// The test executables that cannot be measured, so that their tests have no figures. If there
    /// are any, the exit code is 3, unless 1 or 4 applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasuredEntry<'a>>,
    /// The tests that did not run because their code is the same at all refs, by package. They count as
    /// unchanged for the exit code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_code: Vec<SameCode>,
    /// The refs that did not build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_builds: Vec<FailedBuildEntry<'a>>,
    /// Notes: unavailable metrics, differing sources and environments, problems in logs.
    pub notes: Vec<String>,
    /// The functions that trace patterns match, by ref.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub traced: ByRef<'a, TraceFacts>,
    /// Named tensors that differ from the baseline's, by candidate and test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayersEntry>,
    /// What moved memory: places in the diff, and updated dependencies; absent if no test ran with call
    /// stacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<CausesReport>,
    /// The call sites of tests that ran once more with call stacks; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<WhyReport>,
    /// What `--why proven` found of the worst change, in the format of `prove`; absent if nothing was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<serde_json::Value>,
}

/// What was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct Identity<'a> {
    /// The run's name.
    pub id: Cow<'a, str>,
    /// When the run was planned, RFC 3339.
    pub created: Cow<'a, str>,
    /// The version of cargo-memprof that measured.
    pub tool: Cow<'a, str>,
    /// The name of the ref that all others are compared with.
    pub baseline: Cow<'a, str>,
    /// The refs, in the given order.
    pub refs: Vec<Ref<'a>>,
    /// The random numbers of the tests: `same` for all refs in a round, or each process its `own`.
    pub random: RandomNumbers,
    /// The axes whose combinations are the refs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisLabels>,
}

/// The verdicts in numbers of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct Answer {
    /// The exit code that this comparison leads to. The process ends with another one only if the command itself
    /// has a reason, such as an interrupt (130).
    pub exit_code: u8,
    /// Unexpected regressions.
    pub regressed: usize,
    /// Unexpected figures above an upper limit, unexpected leaks, and memory assertions of tests that do
    /// not hold.
    pub breaches: usize,
    /// Growth, certain or not, breached limits and leaks that `allow` expects.
    pub expected: usize,
    /// Rows with too much noise, or too few runs, for a verdict.
    pub inconclusive: usize,
    /// Rows that improved.
    pub improved: usize,
    /// Unchanged rows.
    pub unchanged: usize,
    /// Rows without a comparable figure on one side.
    pub missing: usize,
    /// What became of the tests, for each candidate. A test counts once, by the worst of its rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestCounts>,
}

/// The tests of a candidate, by what became of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    /// The candidate's name.
    pub r#ref: String,
    /// Tests that both revisions should have run: the sum of all below, up to `unchanged`.
    pub tests: usize,
    /// Tests with an unexpected regression.
    pub regressed: usize,
    /// Tests with a figure above an absolute limit, a leak or a memory assertion that does not hold,
    /// and no regression.
    pub over_limit: usize,
    /// Tests that failed at the candidate, or that do not always pass at the baseline.
    pub failed: usize,
    /// Tests without a comparable figure, such as after a failed build.
    pub not_compared: usize,
    /// Tests with too much noise, or too few runs, for a verdict. Also those that may only have shrunk.
    pub inconclusive: usize,
    /// Tests that grew, or may have grown, as `allow` expects.
    pub expected: usize,
    /// Tests that improved.
    pub improved: usize,
    /// Tests whose checkpoints were added, removed or renamed, and that did not change otherwise.
    pub restructured: usize,
    /// Tests that no rule judges.
    pub not_judged: usize,
    /// Tests that are unchanged in what was judged. A figure that is judged by default was not judged, or the
    /// heap could not be measured.
    pub partly_judged: usize,
    /// Tests without a change above a limit.
    pub unchanged: usize,
    /// Tests that only the baseline has.
    pub only_in_baseline: usize,
    /// Tests that only the candidate has.
    pub only_in_candidate: usize,
    /// Tests that failed at the baseline and pass at the candidate.
    pub fixed: usize,
    /// Tests that a revision ignores.
    pub ignored: usize,
}

impl Answer {
    /// Copies the numbers of the comparison's conclusion.
    pub(crate) fn from_comparison(comparison: &Comparison, tests: Vec<TestCounts>) -> Self {
        let conclusion = Conclusion::from_comparison(comparison);
        Self {
            exit_code: completeness::exit_code(comparison) as u8,
            regressed: conclusion.regressed,
            breaches: conclusion.breaches,
            expected: conclusion.expected,
            inconclusive: conclusion.inconclusive,
            improved: conclusion.improved,
            unchanged: conclusion.unchanged,
            missing: conclusion.missing,
            tests,
        }
    }
}

/// A test executable that cannot be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NotMeasured")]
pub struct NotMeasuredEntry<'a> {
    /// The ref's name.
    pub r#ref: Cow<'a, str>,
    /// `package::binary`.
    pub executable: Cow<'a, str>,
    /// Why it cannot be measured.
    pub reason: Cow<'a, str>,
}

/// A ref that did not build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FailedBuild")]
pub struct FailedBuildEntry<'a> {
    /// The ref's name.
    pub r#ref: Cow<'a, str>,
    /// The first errors of the compiler or of cargo.
    pub errors: Cow<'a, str>,
    /// The whole log, relative to the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Cow<'a, str>>,
    /// Which lock file the build used, if the ref has none committed: `dependencies of 2024-05-01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<Cow<'a, str>>,
}

/// A figure above an absolute limit, or a leak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Breach")]
pub struct BreachEntry<'a> {
    /// The candidate. For a test that is no candidate of a pair, the only ref.
    pub r#ref: Cow<'a, str>,
    /// `package::binary::test`; for a program, with its arguments.
    pub test: Cow<'a, str>,
    /// The cell's title in reports for people. It tells two entries of `tests` for one test apart.
    #[serde(default)]
    pub title: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// The checkpoint's label.
    pub checkpoint: Cow<'a, str>,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// The metric's name.
    pub metric: Cow<'a, str>,
    /// `limit` for an upper limit, or `leak` for the growth from `start` to `done`.
    pub kind: Cow<'a, str>,
    /// The highest figure of the runs.
    pub value: i64,
    /// The limit.
    pub limit: u64,
    /// File and line of the limit, if it is of a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Cow<'a, str>>,
    /// Why `allow` expects it; `null` if it is unexpected.
    pub expected: Option<Cow<'a, str>>,
}

/// How a verdict was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judgement")]
pub struct JudgementEntry<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the figures provably do not vary, so that the comparison is exact.
    pub exact: bool,
    /// The median of all differences between runs; `null` if there was nothing to compare.
    pub change: Option<i128>,
    /// The lower bound of the change; `null` if unknown.
    pub low: Option<i128>,
    /// The upper bound of the change; `null` if unknown.
    pub high: Option<i128>,
    /// Smaller changes are ignored; `null` if there was nothing to compare.
    pub limit: Option<u64>,
    /// Whether this limit is the measurement error, which exceeds the configured limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit_raised: bool,
    /// Whether the change is freed memory that the C library kept, which is no verdict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Why `allow` expects the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Cow<'a, str>>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Ref")]
pub struct Ref<'a> {
    /// The name in this report.
    pub name: Cow<'a, str>,
    /// The ref as the user wrote it.
    pub spec: Cow<'a, str>,
    /// The full hash of the commit.
    pub commit: Cow<'a, str>,
    /// The full hash of the tree.
    pub tree: Cow<'a, str>,
    /// How it differs from the baseline apart from the commit, in words: dependencies and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// The packages of its lock file that differ from the baseline's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<MovedDependency>,
    /// The settings that differ from the baseline's, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Cow<'a, str>>,
}

/// One metric at one checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct RowEntry<'a> {
    /// `package::binary::test`; for a program, with its arguments.
    pub test: Cow<'a, str>,
    /// The cell's title in reports for people. It tells two entries of `tests` for one test apart.
    #[serde(default)]
    pub title: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// The checkpoint's label; if renamed, the baseline's.
    pub checkpoint: Cow<'a, str>,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// What the figures describe: the state at a point, or the change over a scope or a call.
    pub kind: Kind,
    /// How the checkpoint changed, in the first candidate that has it; `null` without complete
    /// runs.
    pub change: Option<RowChange>,
    /// By ref: its label, if it differs from the row's.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub renamed: ByRef<'a, Cow<'a, str>>,
    /// The metric's name.
    pub metric: Cow<'a, str>,
    /// The unit of the numbers.
    pub unit: Unit,
    /// By ref: the figure; `null` if unavailable.
    pub values: ByRef<'a, Option<ReadingEntry<'a>>>,
    /// By ref: why the figure is unavailable.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub absent: ByRef<'a, Cow<'a, str>>,
    /// By candidate: its value minus the baseline's, or the difference in `compared`; `null` if not compared.
    pub delta: ByRef<'a, Option<i128>>,
    /// By candidate: the same in percent; also `null` if the baseline is zero or negative.
    pub percent: ByRef<'a, Option<f64>>,
    /// By candidate: the figures of the baseline and the candidate that `delta` compares, if they are not those in
    /// `values`. If only one side has a checkpoint before this one, peaks and totals are compared since the last
    /// checkpoint that both have. If a side has runs with random numbers that the other lacks, these are left out.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub compared: ByRef<'a, [i64; 2]>,
    /// By candidate: the verdict. Metrics without limits have none.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub judged: ByRef<'a, JudgementEntry<'a>>,
}

/// A metric at a checkpoint, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reading")]
pub struct ReadingEntry<'a> {
    /// The median of the runs.
    pub value: i64,
    /// The lowest reading.
    pub min: i64,
    /// The highest reading.
    pub max: i64,
    /// The number of runs with a reading here.
    pub runs: u32,
    /// Whether several runs read exactly the same.
    pub exact: bool,
    /// The value minus that at the previous checkpoint; `null` for the first one and for scopes.
    pub previous_delta: Option<i128>,
    /// How the figure was measured.
    pub source: Option<Cow<'a, str>>,
    /// Whether it comes from a run that did not pass. Such figures are never compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// One run of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cell")]
pub struct CellRun<'a> {
    /// The ref's name.
    pub r#ref: Cow<'a, str>,
    /// `package::binary::test`; for a program, with its arguments.
    pub test: Cow<'a, str>,
    /// The cell's title in reports for people.
    pub title: Cow<'a, str>,
    /// The cell's parameters.
    pub params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
    /// What the program was given; absent for a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Cow<'a, ProgramCall>>,
    /// The number of the repeat, from 0.
    pub repeat: u32,
    /// `ok`, `failed`, `over_limit`, `timeout`, `killed`, `out_of_memory`, `build_failed`, `not_measured`,
    /// `not_in_this_ref`, `ignored`, `refused`, `interrupted`.
    pub outcome: Cow<'a, str>,
    /// The outcome in words, with exit code, signal or limit.
    pub detail: String,
    /// Why the figures of this run are not compared; `null` if they are.
    pub not_compared: Option<String>,
    /// The panic message, or the compiler's first error.
    pub message: Option<Cow<'a, str>>,
    /// Remarks on the run that affect its figures.
    pub marks: Vec<Cow<'a, str>>,
    /// The UUIDs of the run's devices; `null` if it had no particular ones.
    pub devices: Option<Vec<Cow<'a, str>>>,
    /// The folder with the run's log and output, relative to the report's run folder.
    pub folder: Cow<'a, str>,
    /// The traced functions; absent if none were traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Cow<'a, TraceRecord>>,
    /// The named memory; absent if nothing was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TensorsOfRun>,
    /// The forward passes, layer by layer, equal ones once; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwards: Vec<ForwardEntry>,
}

/// Returns the JSON Schema of the report.
pub fn schema() -> Value {
    schemars::schema_for!(Report<'static>).to_value()
}

/// Returns why a change is expected, unless the entry of `allow` has expired.
pub(crate) fn reason(comparison: &Comparison, expected: Option<Expected>) -> Option<&str> {
    let expected = expected.filter(|expected| !expected.has_expired)?;
    comparison.allow.get(expected.index).map(|allowance| allowance.reason.as_str())
}

/// A cell's identity in rows and runs.
pub(crate) struct RunRecordParts<'a> {
    pub(crate) test: String,
    pub(crate) title: String,
    pub(crate) params: IndexMap<Cow<'a, str>, Cow<'a, str>, FxBuildHasher>,
}

impl<'a> RunRecordParts<'a> {
    pub(crate) fn for_cell(cell: &'a memprof_plan::resolved::CellId) -> Self {
        let params = cell.params.iter().map(|(name, value)| (name.into(), value.into()));
        Self { test: cell.full_name(), title: cell.title.clone(), params: params.collect() }
    }
}
