//! `memprof.yaml` as written: every key, its meaning and its values.
//! `reconcile` combines it with the flags.

use camino::Utf8Path;

use crate::checkpoint_at::CheckpointAt;
use crate::config::axes::AxesEntry;
use crate::config::device_pool::PoolNames;
use crate::config::flag::{COMPARISONS, Flag, JUDGES, NOTEBOOK, REPORTS, RUNS, Section};
use crate::config::mapping::{Key, Mapping, OneOrMany, OpenMapping, mapping};
use crate::config::values::{
    Absolute, Amount, CallLimit, Day, Delay, Dependency, ExpectedCode, LockfileDate, Parsed, Percentage,
    Refspec, RegularExpression, Seconds, Value,
};
use crate::config::yaml::{List, Scalar};
use crate::dependency_change::DependencyChange;
use crate::expression::Expression;
use crate::jobs::Jobs;
use crate::metric_family::MetricGroup;
use crate::pair_pattern::PairPattern;
use crate::random_numbers::RandomNumbers;
use crate::repeat::Repeat;
use crate::request::{Ignored, OverlayMode, TargetKind};
use crate::settings::{BuildSettings, RunSettings, settings};
use crate::title::Template;
use crate::trace_pattern::TracePattern;
use crate::trace_periods::TracePeriods;
use memprof_support::user_error::UserError;

/// The name of the file.
pub const FILE_NAME: &str = "memprof.yaml";

settings!(mapping);

mapping! {
    /// A ref with settings of its own.
    #[schemars(transform = or_text)]
    pub struct RefEntry {
        /// The ref
        "ref" => spec: Scalar<String>,
        /// The name in the report [default: the ref as written]
        "name" => name: Scalar<String>,
        /// Cargo features for this ref, in addition to the common ones
        "features" => features: List<Scalar<String>>,
        /// Variables for this ref, over the common ones
        "env" => env: OpenMapping<Scalar<Value>>,
        /// The toolchain for this ref
        "toolchain" => toolchain: Scalar<String>,
        /// Cargo's build profile for this ref, in place of the common one
        "profile" => profile: Scalar<String>,
        /// Whether to build this ref without the default features
        "no-default-features" => no_default_features: Scalar<bool>,
        /// Settings for cargo for this ref, after the common ones
        "config" => config: List<Scalar<String>>,
        /// The lock file for this ref in place of its own: a file, or a ref that has committed one
        "lockfile" => lockfile: Scalar<String>,
        /// Dependencies for this ref in place of its lock file's: `serde@1.0.200`, `serde=../serde`, or
        /// `serde=URL@REV`
        "with" => with: List<Scalar<Parsed<DependencyChange>>>,
    }
}

mapping! {
    /// A selection of tests, or a program, and how they run.
    #[schemars(transform = or_text)]
    pub struct TestEntry {
        /// The cells' name in the report: `bert/{batch}`, also with `{test}`, `{package}`, `{binary}`
        /// [default: the test's path and its parameters, `hf_fwd[batch=8]`]
        "name" => name: Scalar<Parsed<Template>>,
        /// Run tests whose `package::binary::test` contains these words: 'hf and not (bwd or slow)'
        ///
        /// Case does not matter.
        "filter" => filter: Scalar<Parsed<Expression>>
            = Flag::new(Section::Tests, "filter", "EXPRESSION").short('k'),
        /// Run tests whose `package::binary::test` matches this regular expression
        "regex" => regex: Scalar<RegularExpression> = Flag::new(Section::Tests, "regex", "REGEX"),
        /// Run the test with exactly this path, or this `package::binary::test`
        "exact" => exact: List<Scalar<String>> = Flag::new(Section::Tests, "exact", "NAME"),
        /// Skip tests whose path contains this text
        "skip" => skip: List<Scalar<String>> = Flag::new(Section::Tests, "skip", "TEXT"),
        /// What to do with tests marked `#[ignore]`: `skip`, `include` or `only` [default: skip]
        "ignored" => ignored: Scalar<Ignored> as "`--ignored`, `--include-ignored`",
        /// Only tests of this package, or the program's package
        "package" => package: Scalar<String>,
        /// Only tests of this kind of target: `lib`, `bin`, `test`, `example`, `bench`
        "kind" => kind: Scalar<TargetKind>,
        /// The binary to run as a program, with its `main`, in place of tests
        "bin" => bin: Scalar<String> as "`--bin`",
        /// The example to run as a program, in place of tests
        "example" => example: Scalar<String> as "`--example`",
        /// The program's arguments; with `params`, `{NAME}` stands for a parameter's value
        "args" => args: List<Scalar<Value>> as "`-- ARGS`, `--arg`",
        /// The file that the program reads from its standard input [default: empty]
        "stdin" => stdin: Scalar<String> as "`--stdin`",
        /// The text that the program reads from its standard input
        "stdin-text" => stdin_text: Scalar<String>,
        /// The exit code that the program succeeds with [default: 0]
        "exit-code" => exit_code: Scalar<ExpectedCode>,
        /// Cargo features that these tests need, in addition to the common ones
        "features" => features: List<Scalar<String>>,
        /// Variables of these runs, over those of the ref
        "env" => env: OpenMapping<Scalar<Value>>,
        /// Parameters, each a list of values; each combination is a cell, and has them in its variables
        "params" => params: OpenMapping<ParameterValues> as "`--param`",
        /// The GPUs that these tests see: NVML's index, the beginning of a UUID, a list of them, or `none`
        "device" => device: DeviceNames as "`--device`",
        /// As at the top level
        "timeout" => timeout: Scalar<Seconds>,
        /// As at the top level
        "repeat" => repeat: Scalar<Repeat>,
    }
}

mapping! {
    /// Files that are added to every revision.
    pub struct OverlayEntry {
        /// The ref that has the files, or `.` for the disk [default: `.`]
        "from" => from: Scalar<String> as "`REF:` before the path",
        /// A patch for every revision's own files, in place of the other keys
        "patch" => patch: Scalar<String> as "`--overlay-patch`",
        /// Files and folders: `SRC`, `SRC=DST`, or a mapping
        "paths" => paths: List<PathEntry> as "`--overlay SRC=DST`",
        /// The package that they go into, wherever a revision has its folder [default: the repository's root]
        "package" => package: Scalar<String> as "`--overlay-package`",
        /// Whether tests go into the package, or into a crate of their own: `package`, `external` [default:
        /// package]
        "mode" => mode: Scalar<OverlayMode> as "`--overlay-mode`",
        /// Dev-dependencies of the external crate
        "dependencies" => dependencies: OpenMapping<Scalar<Dependency>> as "`--overlay-dependency 'NAME = VALUE'`",
    }
}

mapping! {
    /// A file or folder of an overlay.
    #[schemars(transform = or_text)]
    pub struct PathEntry {
        /// Where the file is
        "source" => source: Scalar<String>,
        /// Where it goes [default: the same path]
        "destination" => destination: Scalar<String>,
    }
}

mapping! {
    /// A pattern of cells. Keys that are absent match anything.
    #[schemars(transform = or_text)]
    pub struct CellEntry {
        /// The ref, by name or as written
        "ref" => r#ref: Scalar<String>,
        /// A `-k` expression over the test
        "test" => test: Scalar<Parsed<Expression>>,
        /// Values of parameters
        "params" => params: OpenMapping<Scalar<Value>>,
    }
}

mapping! {
    /// How much a metric may grow: `5%`, `16MiB`, or both, and then both must be exceeded. `off`
    /// allows any growth.
    #[schemars(transform = or_text_or_number)]
    pub struct ThresholdEntry {
        /// Growth in percent of the baseline
        "percent" => percent: Scalar<Percentage> as "`--threshold METRIC=5%`",
        /// Growth in the metric's own unit
        "bytes" => bytes: Scalar<Absolute> as "`--threshold METRIC=16MiB`",
        /// How large the metric may be, regardless of the baseline
        "limit" => limit: Scalar<Absolute> as "`--limit METRIC=8GiB`",
        /// How much larger a level such as `heap.live` may be at `done` than at `start`
        "leak" => leak: Scalar<Absolute> as "`--leak METRIC=64KiB`",
        /// Only in these tests: a `-k` expression
        "test" => test: Scalar<Parsed<Expression>> as "`…,test=hf`",
        /// Only at checkpoints with this label; `*` matches any part
        "checkpoint" => checkpoint: Scalar<String> as "`…,checkpoint=done*`",
        /// Whether to allow any growth
        "off" => off: Scalar<bool> as "`--threshold METRIC=off`",
    }
}

mapping! {
    /// A change that is expected.
    pub struct AllowEntry {
        /// Why the change is expected; required, and last in the flag
        "reason" => reason: Scalar<String> as "`--allow …,reason=TEXT`",
        /// The metric; `*` matches any part of its name
        "metric" => metric: Scalar<MetricPattern> as "`metric=…`",
        /// A `-k` expression over the test
        "test" => test: Scalar<Parsed<Expression>> as "`test=…`",
        /// The checkpoint's label; `*` matches any part
        "checkpoint" => checkpoint: Scalar<String> as "`checkpoint=…`",
        /// The largest growth that is expected, `20%` or `64MiB` [default: any]
        "limit" => limit: Scalar<Amount> as "`limit=…`",
        /// The last day on which the entry counts, `2026-12-31` [default: no end]
        "until" => until: Scalar<Day> as "`until=…`",
    }
}

mapping! {
    /// Where revisions without a lock file get one from.
    pub struct LockfileEntry {
        /// Use this ref's lock file for revisions that have none committed
        "from" => from: Scalar<String> = Flag::new(Section::Checkout, "lockfile-from", "REF"),
        /// Resolve dependencies as of this date for revisions that have no lock file committed; `commit` is
        /// the time of the newest of them [default: `today`, or `commit` if that does not build]
        "date" => date: Scalar<LockfileDate>
            = Flag::new(Section::Checkout, "lockfile-date", "commit|today|YYYY-MM-DD").without("lockfile-from"),
    }
}

/// A flag of the commands that measure functions.
const fn trace(long: &'static str, value: &'static str) -> Flag {
    Flag::new(Section::Trace, long, value).of(COMPARISONS | NOTEBOOK)
}

mapping! {
    /// Functions to trace, as patterns of their paths: `bart::encoder::*::forward`, `<Encoder as
    /// Module>::forward`.
    pub struct TraceEntry {
        /// Measure these functions, without changing any branch: `crate::**::forward`
        ///
        /// More patterns: `bart::encoder::*::forward`, `crate::kv_cache::**`,
        /// `<Encoder as Module>::forward`
        "functions" => functions: List<Scalar<Parsed<TracePattern>>> = trace("trace", "PATTERN"),
        /// Measure each line of these functions
        "lines" => lines: List<Scalar<Parsed<TracePattern>>> = trace("trace-lines", "PATTERN"),
        /// Log this many calls of each traced function one by one; sums include all calls [default:
        /// 100]
        "max-events" => max_events: Scalar<CallLimit> = trace("max-events", "N"),
        /// Log and measure by line only every N-th call of each traced function [default: 1]
        ///
        /// With patterns, functions have numbers of their own: `bert::**@5,bart::**@1`. A number
        /// without a pattern is that of the others.
        "every" => every: Scalar<TracePeriods> = trace("trace-every", "N|PATTERN@N"),
        /// A table of lines for each measured call, up to --max-events, in place of one for all calls
        "lines-per-call" => lines_per_call: Scalar<bool> = trace("lines-per-call", ""),
        /// Values to read at each traced call and line: heap,cpu,gpu,malloc,pool,time [default:
        /// heap,gpu, and those of --metrics]
        "columns" => columns: List<Scalar<MetricGroup>> = trace("columns", "NAME,NAME").split(),
    }
}

/// The values of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValues(pub Vec<String>);

/// The rules for a metric: one, or a list in which later entries win.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Vec<ThresholdEntry>);

/// A pattern of metric names, in which `*` stands for any part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricPattern(pub String);

/// The devices that a test is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNames(pub Vec<String>);

/// The name of a metric of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName(pub String);

/// Changes a JSON Schema: the mapping, or a text that is short for it.
fn or_text(schema: &mut schemars::Schema) {
    let mapping = schema.clone();
    *schema = schemars::json_schema!({"anyOf": [{"type": "string"}, mapping]});
}

/// Changes a JSON Schema: the mapping, or a text or a number that is short for it.
fn or_text_or_number(schema: &mut schemars::Schema) {
    let mapping = schema.clone();
    *schema = schemars::json_schema!({"anyOf": [{"type": ["string", "integer"]}, mapping]});
}

/// Reads the text of a matrix. `file` is its name in error messages.
pub fn parse(text: &str, file: &Utf8Path) -> Result<Matrix, UserError> {
    let says_something = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    };
    if !text.lines().any(says_something) {
        return Err(UserError::new("the matrix is empty")
            .help("write at least `refs: [main, .]`, or let `cargo memprof init --force` write one")
            .at(file, None));
    }
    crate::config::yaml::parse(text, file)
}

/// Returns line and column of a value in the text of a matrix, from 1, such as a ref that does not exist.
pub fn place_of(text: &str, value: &str) -> Option<(usize, usize)> {
    let is_bound =
        |next: Option<char>, of: &str| next.is_none_or(|next| next.is_whitespace() || of.contains(next));
    text.lines().enumerate().find_map(|(number, line)| {
        let code = line.split(" #").next().unwrap_or_default();
        let found = code.match_indices(value).find(|(start, _)| {
            is_bound(code[..*start].chars().next_back(), "[{,'\"")
                && is_bound(code[start + value.len()..].chars().next(), "]},'\"")
        });
        found.map(|(start, _)| (number + 1, code[..start].chars().count() + 1))
    })
}

/// Returns all keys by their mapping, for the documentation's test: `("overlay", ["from", …])`.
pub fn all_keys() -> [(&'static str, &'static [Key]); 11] {
    [
        ("", Matrix::KEYS),
        ("refs", RefEntry::KEYS),
        ("axes", AxesEntry::KEYS),
        ("tests", TestEntry::KEYS),
        ("overlay", OverlayEntry::KEYS),
        ("overlay.paths", PathEntry::KEYS),
        ("exclude", CellEntry::KEYS),
        ("thresholds", ThresholdEntry::KEYS),
        ("allow", AllowEntry::KEYS),
        ("lockfile", LockfileEntry::KEYS),
        ("trace", TraceEntry::KEYS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_line_and_column() {
        let text = "refs: # mian\n  - main\n  - {ref: 'mian', name: x}\nbaseline: mian/x\n";
        assert_eq!(place_of(text, "mian"), Some((3, 12)));
        assert_eq!(place_of("refs: [main, faeture]", "faeture"), Some((1, 14)));
        assert_eq!(place_of(text, "mia"), None);
    }
}
