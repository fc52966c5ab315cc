//! `memprof.yaml` as written: every key, its meaning and its values.
//! `reconcile` combines it with the flags.

use camino::{Utf8Path, Utf8PathBuf};

use crate::checkpoint_at::CheckpointAt;
use crate::config::axes::AxesEntry;
use crate::config::device_pool::PoolNames;
use crate::config::flag::Flag;
use crate::config::limits;
use crate::config::mapping::{Mapping, OneOrMany, OpenMapping, mapping};
use crate::config::values::{
    Absolute, Amount, CallLimit, Day, Delay, Dependency, ExpectedCode, JobsCount, LockfileDate, Parsed,
    Percentage, Refspec, RegularExpression, RepeatCount, Seconds, Value,
};
use crate::config::yaml::{List, Scalar};
use crate::dependency_change::DependencyChange;
use crate::expression::Expression;
use crate::metric_family::MetricGroup;
use crate::pair_pattern::PairPattern;
use crate::random_numbers::RandomNumbers;
use crate::request::{Ignored, OverlayMode, TargetKind};
use crate::title::Template;
use crate::trace_pattern::TracePattern;
use crate::trace_periods::TracePeriods;
use memprof_support::user_error::UserError;

/// The name of the file.
pub const FILE_NAME: &str = "memprof.yaml";

mapping! {
    /// What `cargo memprof` compares, and how. Flags win over it.
    #[schemars(extend("patternProperties" = {"^x-": true}))]
    pub struct Matrix {
        /// The revisions to compare, in order: branches, tags, commits, `pr/7`, `mr/7`, or `.` for
        /// the working tree.
        "refs" => refs: List<RefEntry>,
        /// The revision that the others are compared with: a ref, or `merge-base`. The first ref by
        /// default.
        "baseline" => baseline: Scalar<String>,
        /// Settings with several values. Each ref becomes a side for each combination of them.
        "axes" => axes: AxesEntry,
        /// Fetch pr/N and mr/N from this remote [default: upstream if it exists, else origin]
        "remote" => remote: Scalar<String> = Flag::new("remote", "NAME"),
        /// Patterns for further kinds of ref: `cl/{}: refs/changes/{}/head`.
        "refspecs" => refspecs: OpenMapping<Scalar<Refspec>>,
        /// The tests to run: `-k` expressions, or mappings with further keys. All tests by default.
        "tests" => tests: List<TestEntry>,
        /// Files from another ref or from disk that are added to every revision.
        "overlay" => overlay: OneOrMany<OverlayEntry>,
        /// Checkpoints to put before lines of source files: `src/lib.rs:42=loaded`.
        "checkpoints-at" => checkpoints_at: List<Scalar<Parsed<CheckpointAt>>>,
        /// Whether a test file that only one ref has is put into the others. Yes by default.
        "auto-overlay" => auto_overlay: Scalar<bool>,
        /// Cells to leave out.
        "exclude" => exclude: List<CellEntry>,
        /// Cells to keep. If absent, all cells are kept.
        "include" => include: List<CellEntry>,
        /// Compare two implementations within one ref, test by test: `hf_*=fs_*`
        ///
        /// The tests of the left pattern are the baselines. The star stands for the same text in both
        /// names.
        "pairs" => pairs: List<Scalar<Parsed<PairPattern>>> = Flag::new("pair", "PATTERN=PATTERN"),
        /// Run each cell N times, or `auto`: as often as the verdict needs [default: auto]
        "repeat" => repeat: Scalar<RepeatCount> = Flag::new("repeat", "N|auto"),
        /// Kill a run after this time: 90s, 10m
        "timeout" => timeout: Scalar<Seconds> = Flag::new("timeout", "DURATION"),
        /// Wait this long between two test processes: 2s, 500ms
        "delay" => delay: Scalar<Delay> = Flag::new("delay", "DURATION"),
        /// Random numbers of the tests: the same for all refs, or each process its own [default: same]
        "random" => random: Scalar<RandomNumbers> = Flag::new("random", "same|own"),
        /// Before each reading, release memory that pools and C's malloc hold and nobody uses
        ///
        /// Resident memory then has less that was freed. It costs time at each checkpoint and scope.
        "trim" => trim: Scalar<bool> = Flag::switch("trim"),
        /// How many tests run at once; one by default.
        "jobs" => jobs: Scalar<JobsCount>,
        /// The GPUs that tests are spread over, one test per GPU at a time.
        "devices" => devices: PoolNames,
        /// Cargo's build profile, such as `release`.
        "profile" => profile: Scalar<String>,
        /// Cargo features for every ref.
        "features" => features: List<Scalar<String>>,
        /// Enable all features
        "all-features" => all_features: Scalar<bool> = Flag::switch("all-features"),
        /// Whether to build without the default features.
        "no-default-features" => no_default_features: Scalar<bool>,
        /// The packages to build. Those of the manifest by default.
        "packages" => packages: List<Scalar<String>>,
        /// Whether to build the whole workspace.
        "workspace" => workspace: Scalar<bool>,
        /// Build for this target
        "target" => target: Scalar<String> = Flag::new("target", "TRIPLE"),
        /// Environment of every build and run.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// Whether builds and tests inherit only known variables without secrets.
        "clean-env" => clean_env: Scalar<bool>,
        /// More variables to inherit with `clean-env`. `*` stands for any part of a name.
        "keep-env" => keep_env: List<Scalar<String>>,
        /// The toolchain for every ref, as rustup names it.
        "toolchain" => toolchain: Scalar<String>,
        /// How much metrics may grow, how large they may be, and how much memory tests may leave
        /// behind. `*` stands for any part of a name.
        "thresholds" => thresholds: OpenMapping<Rules>,
        /// The file that says how large each metric may be at each checkpoint. `cargo memprof budget
        /// write` writes it.
        "budget" => budget: Scalar<String>,
        /// Changes that are expected.
        "allow" => allow: List<AllowEntry>,
        /// Where revisions without a lock file get one from.
        "lockfile" => lockfile: LockfileEntry,
        /// Dependencies for every ref in place of its lock file's: `serde@1.0.200`.
        "with" => with: List<Scalar<Parsed<DependencyChange>>>,
        /// Leave these paths out of the checkouts, in .gitignore syntax
        "sparse-exclude" => sparse_exclude: List<Scalar<String>> = Flag::new("sparse-exclude", "PATTERN"),
        /// Do not use the network
        "offline" => offline: Scalar<bool> = Flag::switch("offline"),
        /// Do not change any lock file
        "locked" => locked: Scalar<bool> = Flag::switch("locked"),
        /// Settings for cargo, as for its `--config`.
        "config" => config: List<Scalar<String>>,
        /// Functions to trace in every revision.
        "trace" => trace: TraceEntry,
        /// The metrics to show.
        "metrics" => metrics: List<Scalar<MetricName>>,
    }
}

mapping! {
    /// A ref with settings of its own.
    #[schemars(transform = or_text)]
    pub struct RefEntry {
        /// The ref.
        "ref" => spec: Scalar<String>,
        /// Its name in the report.
        "name" => name: Scalar<String>,
        /// Cargo features for this ref, in addition to the common ones.
        "features" => features: List<Scalar<String>>,
        /// Environment for this ref. It wins over the common one.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// The toolchain for this ref.
        "toolchain" => toolchain: Scalar<String>,
        /// Cargo's build profile for this ref, in place of the common one.
        "profile" => profile: Scalar<String>,
        /// Whether to build this ref without the default features.
        "no-default-features" => no_default_features: Scalar<bool>,
        /// Settings for cargo for this ref, after the common ones.
        "config" => config: List<Scalar<String>>,
        /// The lock file for this ref in place of its own: a file, or a ref that has committed one.
        "lockfile" => lockfile: Scalar<String>,
        /// Dependencies for this ref in place of its lock file's: `serde@1.0.200`, `serde=../serde`, or
        /// `serde=URL@REV`.
        "with" => with: List<Scalar<Parsed<DependencyChange>>>,
    }
}

mapping! {
    /// A selection of tests, or a program, and how they run.
    #[schemars(transform = or_text)]
    pub struct TestEntry {
        /// The name of the cells, with placeholders for parameters: `bert/{batch}`. Also `{test}`,
        /// `{package}`, `{binary}`.
        "name" => name: Scalar<Parsed<Template>>,
        /// A `-k` expression over `package::binary::test`.
        "filter" => filter: Scalar<Parsed<Expression>>,
        /// A regular expression over `package::binary::test`.
        "regex" => regex: Scalar<RegularExpression>,
        /// Exact names: the test's path, or its whole `package::binary::test`.
        "exact" => exact: List<Scalar<String>>,
        /// Tests whose path contains one of these are left out.
        "skip" => skip: List<Scalar<String>>,
        /// What to do with tests marked `#[ignore]`.
        "ignored" => ignored: Scalar<Ignored>,
        /// Only tests of this package.
        "package" => package: Scalar<String>,
        /// Only tests of this kind of target.
        "kind" => kind: Scalar<TargetKind>,
        /// The binary to run as a program, with its `main`, in place of tests.
        "bin" => bin: Scalar<String>,
        /// The example to run as a program, in place of tests.
        "example" => example: Scalar<String>,
        /// The program's arguments. With `params`, `{NAME}` stands for a parameter's value.
        "args" => args: List<Scalar<Value>>,
        /// The file that the program reads from its standard input. By default, that is empty.
        "stdin" => stdin: Scalar<String>,
        /// The text that the program reads from its standard input.
        "stdin-text" => stdin_text: Scalar<String>,
        /// The exit code that the program succeeds with. 0 by default.
        "exit-code" => exit_code: Scalar<ExpectedCode>,
        /// Cargo features that these tests need, in addition to the common ones.
        "features" => features: List<Scalar<String>>,
        /// Environment of the runs.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// Parameters. Each becomes an environment variable, and each combination of values is a
        /// cell.
        "params" => params: OpenMapping<ParameterValues>,
        /// The devices that these tests see: NVML's index, a UUID, a list of them, or `none`.
        "device" => device: DeviceNames,
        /// Time limit of one run of these tests.
        "timeout" => timeout: Scalar<Seconds>,
        /// How often each of these runs.
        "repeat" => repeat: Scalar<RepeatCount>,
    }
}

mapping! {
    /// Files that are added to every revision.
    pub struct OverlayEntry {
        /// The ref that the files come from, or `.` for the disk.
        "from" => from: Scalar<String>,
        /// A patch to apply to every revision's own files, in place of the other keys.
        "patch" => patch: Scalar<String>,
        /// Which files or folders, `SRC` or `SRC=DST`.
        "paths" => paths: List<PathEntry>,
        /// The package that the files go into, wherever a revision has its folder.
        "package" => package: Scalar<String>,
        /// Whether tests go into the package (`package`) or into a crate of their own (`external`).
        "mode" => mode: Scalar<OverlayMode>,
        /// Dev-dependencies of that crate in `external` mode.
        "dependencies" => dependencies: OpenMapping<Scalar<Dependency>>,
    }
}

mapping! {
    /// A file or folder of an overlay.
    #[schemars(transform = or_text)]
    pub struct PathEntry {
        /// Its path at the source.
        "source" => source: Scalar<String>,
        /// Its path in the revision. The source's path by default.
        "destination" => destination: Scalar<String>,
    }
}

mapping! {
    /// A pattern of cells. Keys that are absent match anything.
    #[schemars(transform = or_text)]
    pub struct CellEntry {
        /// The ref's name.
        "ref" => r#ref: Scalar<String>,
        /// A `-k` expression over the test.
        "test" => test: Scalar<Parsed<Expression>>,
        /// Values of parameters.
        "params" => params: OpenMapping<Scalar<Value>>,
    }
}

mapping! {
    /// How much a metric may grow: `5%`, `16MiB`, or both, and then both must be exceeded. `off`
    /// allows any growth.
    #[schemars(transform = or_text_or_number)]
    pub struct ThresholdEntry {
        /// Growth in percent of the baseline.
        "percent" => percent: Scalar<Percentage>,
        /// Growth in the metric's own unit.
        "bytes" => bytes: Scalar<Absolute>,
        /// How large the metric may be, regardless of the baseline.
        "limit" => limit: Scalar<Absolute>,
        /// How much larger the metric may be at `done` than at `start`.
        "leak" => leak: Scalar<Absolute>,
        /// A `-k` expression: only in these tests.
        "test" => test: Scalar<Parsed<Expression>>,
        /// A label, with `*` for any part of it: only at these checkpoints.
        "checkpoint" => checkpoint: Scalar<String>,
        /// Whether to allow any growth.
        "off" => off: Scalar<bool>,
    }
}

mapping! {
    /// A change that is expected.
    pub struct AllowEntry {
        /// Why the change is expected. The report shows it.
        "reason" => reason: Scalar<String>,
        /// The metric, with `*` for any part of its name.
        "metric" => metric: Scalar<MetricPattern>,
        /// A `-k` expression over the test.
        "test" => test: Scalar<Parsed<Expression>>,
        /// The checkpoint's label, with `*` for any part.
        "checkpoint" => checkpoint: Scalar<String>,
        /// The most growth that is expected, `20%` or `64MiB`. Any growth by default.
        "limit" => limit: Scalar<Amount>,
        /// The last day on which the entry holds. No end by default.
        "until" => until: Scalar<Day>,
    }
}

mapping! {
    /// Where revisions without a lock file get one from.
    pub struct LockfileEntry {
        /// The ref whose lock file they get.
        "from" => from: Scalar<String>,
        /// The date whose versions of dependencies they get: a day, `commit` for the time of the
        /// newest commit without a lock file, or `today`.
        "date" => date: Scalar<LockfileDate>,
    }
}

mapping! {
    /// Functions to trace, as patterns of their paths: `bart::encoder::*::forward`, `<Encoder as
    /// Module>::forward`.
    pub struct TraceEntry {
        /// Measure these functions, without changing any branch: `crate::**::forward`
        ///
        /// More patterns: `bart::encoder::*::forward`, `crate::kv_cache::**`,
        /// `<Encoder as Module>::forward`
        "functions" => functions: List<Scalar<Parsed<TracePattern>>> = Flag::new("trace", "PATTERN"),
        /// Measure each line of these functions
        "lines" => lines: List<Scalar<Parsed<TracePattern>>> = Flag::new("trace-lines", "PATTERN"),
        /// Log this many calls of each traced function one by one; sums include all calls [default:
        /// 100]
        "max-events" => max_events: Scalar<CallLimit> = Flag::new("max-events", "N"),
        /// Log and measure by line only every N-th call of each traced function [default: 1]
        ///
        /// With patterns, functions have numbers of their own: `bert::**@5,bart::**@1`. A number
        /// without a pattern is that of the others.
        "every" => every: Scalar<TracePeriods> = Flag::new("trace-every", "N|PATTERN@N"),
        /// A table of lines for each measured call, up to --max-events, in place of one for all calls
        "lines-per-call" => lines_per_call: Scalar<bool> = Flag::switch("lines-per-call"),
        /// Values to read at each traced call and line: heap,cpu,gpu,malloc,pool,time [default:
        /// heap,gpu, and those of --metrics]
        "columns" => columns: List<Scalar<MetricGroup>> = Flag::split("columns", "NAME,NAME"),
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

/// Returns the nearest `memprof.yaml` in `start` or a folder above it, up to `root`.
pub fn find(start: &Utf8Path, root: &Utf8Path) -> Option<Utf8PathBuf> {
    start
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .map(|folder| folder.join(FILE_NAME))
        .find(|file| file.is_file())
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

/// Reads a matrix from disk. The files that its programs read must exist.
pub fn read(file: &Utf8Path) -> Result<Matrix, UserError> {
    let text = limits::read(file)?;
    let matrix = parse(&text, file)?;
    let entries = matrix.tests.iter().flat_map(|List(entries)| entries).enumerate();
    for (index, path) in entries.filter_map(|(index, entry)| Some((index, &entry.stdin.as_ref()?.0))) {
        let input = file.with_file_name(path);
        if !input.is_file() {
            let what = if input.exists() { "is not a file" } else { "does not exist" };
            return Err(UserError::new(format!("tests[{index}].stdin: {path} {what}"))
                .help(format!("it is looked for at {input}; `stdin-text` takes the text itself"))
                .at(file, place_of(&text, path)));
        }
    }
    Ok(matrix)
}

/// Returns all keys by their mapping, for the documentation's test: `("overlay", ["from", …])`.
pub fn all_keys() -> [(&'static str, &'static [&'static str]); 11] {
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
