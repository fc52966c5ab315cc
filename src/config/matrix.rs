//! `memprof.yaml` as written: every key, what it means, and what may stand there. What it means together with the flags
//! is [`reconcile`](crate::cli::reconcile)'s.

use camino::{Utf8Path, Utf8PathBuf};

use crate::config::mapping::{Mapping, OneOrMany, OpenMapping, mapping};
use crate::config::values::{
    Absolute, Amount, CallLimit, Day, Dependency, Parsed, Percentage, Refspec, RegularExpression,
    RepeatCount, Seconds, Value,
};
use crate::config::yaml::{List, Scalar};
use crate::plan::expression::Expression;
use crate::plan::request::{Ignored, OverlayMode, TargetKind, TraceColumn};
use crate::plan::title::Template;
use crate::plan::trace_pattern::TracePattern;
use crate::support::user_error::Complaint;

/// The name that is looked for.
pub const FILE_NAME: &str = "memprof.yaml";

mapping! {
    /// What `cargo memprof` compares, and how. Flags win over it.
    #[schemars(extend("patternProperties" = {"^x-": true}))]
    pub struct Matrix {
        /// The revisions to compare, in order: branches, tags, commits, `pr/7`, `mr/7`, or `.` for the working tree.
        "refs" => refs: List<RefEntry>,
        /// What the others are compared with: a ref, or `merge-base`. The first ref by default.
        "baseline" => baseline: Scalar<String>,
        /// The remote that pull requests are fetched from; `upstream` if there is one, else `origin`.
        "remote" => remote: Scalar<String>,
        /// Further kinds of ref by pattern, `cl/{}: refs/changes/{}/head`.
        "refspecs" => refspecs: OpenMapping<Scalar<Refspec>>,
        /// The tests to run: `-k` expressions, or mappings that say more. All tests by default.
        "tests" => tests: List<TestEntry>,
        /// Files from another ref or from disk that are laid over every revision.
        "overlay" => overlay: OneOrMany<OverlayEntry>,
        /// Cells to leave out.
        "exclude" => exclude: List<CellEntry>,
        /// If given, only the cells that match one of these run.
        "include" => include: List<CellEntry>,
        /// How often each cell runs.
        "repeat" => repeat: Scalar<RepeatCount>,
        /// Time limit of one run.
        "timeout" => timeout: Scalar<Seconds>,
        /// Cargo's build profile; `release`, say.
        "profile" => profile: Scalar<String>,
        /// Cargo features for every ref.
        "features" => features: List<Scalar<String>>,
        /// Whether all features are built.
        "all-features" => all_features: Scalar<bool>,
        /// Whether the default features are left out.
        "no-default-features" => no_default_features: Scalar<bool>,
        /// The packages that are built; those of the manifest by default.
        "packages" => packages: List<Scalar<String>>,
        /// Whether the whole workspace is built.
        "workspace" => workspace: Scalar<bool>,
        /// The target triple to build for.
        "target" => target: Scalar<String>,
        /// Environment of every build and run.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// The toolchain of every ref, as rustup names it.
        "toolchain" => toolchain: Scalar<String>,
        /// How much metrics may grow, how large they may be, what tests may leave behind. `*` stands for any part of a name.
        "thresholds" => thresholds: OpenMapping<Rules>,
        /// Changes that are expected.
        "allow" => allow: List<AllowEntry>,
        /// Where the lock file comes from.
        "lockfile" => lockfile: LockfileEntry,
        /// Paths that are left out of the checkouts, in the syntax of `.gitignore`.
        "sparse-exclude" => sparse_exclude: List<Scalar<String>>,
        /// Whether cargo may not use the network.
        "offline" => offline: Scalar<bool>,
        /// Whether cargo may not change the lock file.
        "locked" => locked: Scalar<bool>,
        /// Settings for cargo, as its `--config` takes them.
        "config" => config: List<Scalar<String>>,
        /// Functions that are looked into, in every revision.
        "trace" => trace: TraceEntry,
        /// The metrics that are shown.
        "metrics" => metrics: List<Scalar<MetricName>>,
    }
}

mapping! {
    /// A ref, where more is to be said than its name.
    #[schemars(transform = or_text)]
    pub struct RefEntry {
        /// The ref.
        "ref" => spec: Scalar<String>,
        /// Its name in the report.
        "name" => name: Scalar<String>,
        /// Cargo features for this ref, beside the common ones.
        "features" => features: List<Scalar<String>>,
        /// Environment for this ref, over the common one.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// The toolchain for this ref.
        "toolchain" => toolchain: Scalar<String>,
    }
}

mapping! {
    /// Some tests, and how they run.
    #[schemars(transform = or_text)]
    pub struct TestEntry {
        /// The name of the cells, with places for parameters: `bert/{batch}`. Also `{test}`, `{package}`, `{binary}`.
        "name" => name: Scalar<Parsed<Template>>,
        /// A `-k` expression over `package::binary::test`.
        "filter" => filter: Scalar<Parsed<Expression>>,
        /// A regular expression over the same.
        "regex" => regex: Scalar<RegularExpression>,
        /// Exact names: the test's path, or the whole `package::binary::test`.
        "exact" => exact: List<Scalar<String>>,
        /// Tests whose path holds one of these are left out.
        "skip" => skip: List<Scalar<String>>,
        /// What becomes of tests marked `#[ignore]`.
        "ignored" => ignored: Scalar<Ignored>,
        /// Only tests of this package.
        "package" => package: Scalar<String>,
        /// Only tests of this kind of target.
        "kind" => kind: Scalar<TargetKind>,
        /// Cargo features that these tests need, beside the common ones.
        "features" => features: List<Scalar<String>>,
        /// Environment of the runs.
        "env" => env: OpenMapping<Scalar<Value>>,
        /// Parameters: each becomes an environment variable, and the cells are the product of their values.
        "params" => params: OpenMapping<ParameterValues>,
        /// The devices that these see: NVML's index, a UUID, a list of them, or `none`.
        "device" => device: DeviceNames,
        /// Time limit of one run of these.
        "timeout" => timeout: Scalar<Seconds>,
        /// How often each of these runs.
        "repeat" => repeat: Scalar<RepeatCount>,
    }
}

mapping! {
    /// Files that are laid over every revision.
    pub struct OverlayEntry {
        /// The ref that the files come from, or `.` for the disk.
        "from" => from: Scalar<String>,
        /// Which files or folders, `SRC` or `SRC=DST`.
        "paths" => paths: List<PathEntry>,
        /// The package that the files go into, wherever its folder is in each revision.
        "package" => package: Scalar<String>,
        /// Whether tests go into the package or, with `external`, into a crate of their own.
        "mode" => mode: Scalar<OverlayMode>,
        /// Dev-dependencies of that crate in `external` mode.
        "dependencies" => dependencies: OpenMapping<Scalar<Dependency>>,
    }
}

mapping! {
    /// A file or folder of an overlay.
    #[schemars(transform = or_text)]
    pub struct PathEntry {
        /// Its path where it comes from.
        "source" => source: Scalar<String>,
        /// Its path in the revision; the same by default.
        "destination" => destination: Scalar<String>,
    }
}

mapping! {
    /// A cell, by what is said of it; what is not said matches anything.
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
    /// How much a metric may grow: `5%`, `16MiB`, or both, which must then both be exceeded; `off` for as much as it likes.
    #[schemars(transform = or_text_or_number)]
    pub struct ThresholdEntry {
        /// Growth in percent of the baseline.
        "percent" => percent: Scalar<Percentage>,
        /// Growth in the metric's own unit.
        "bytes" => bytes: Scalar<Absolute>,
        /// How large it may be, whatever the baseline.
        "limit" => limit: Scalar<Absolute>,
        /// How much more it may be at `done` than at `start`.
        "leak" => leak: Scalar<Absolute>,
        /// A `-k` expression: only in these tests.
        "test" => test: Scalar<Parsed<Expression>>,
        /// A label, with `*` for any part: only at these checkpoints.
        "checkpoint" => checkpoint: Scalar<String>,
        /// Whether growth is not judged.
        "off" => off: Scalar<bool>,
    }
}

mapping! {
    /// A change that is expected.
    pub struct AllowEntry {
        /// Why. It is shown in the report.
        "reason" => reason: Scalar<String>,
        /// The metric, with `*` for any part of its name.
        "metric" => metric: Scalar<MetricPattern>,
        /// A `-k` expression over the test.
        "test" => test: Scalar<Parsed<Expression>>,
        /// The checkpoint's label, with `*` for any part.
        "checkpoint" => checkpoint: Scalar<String>,
        /// Up to which growth, `20%` or `64MiB`; any by default.
        "limit" => limit: Scalar<Amount>,
        /// Through which day; without an end by default.
        "until" => until: Scalar<Day>,
    }
}

mapping! {
    /// Where the lock file comes from.
    pub struct LockfileEntry {
        /// The ref whose lock file is used for every revision.
        "from" => from: Scalar<String>,
        /// The day as of which dependencies are resolved (a nightly feature of cargo's).
        "date" => date: Scalar<Day>,
    }
}

mapping! {
    /// Functions that are looked into: patterns over their paths, `bart::encoder::*::forward`, `<Encoder as Module>::forward`.
    pub struct TraceEntry {
        /// Functions whose calls are scopes.
        "functions" => functions: List<Scalar<Parsed<TracePattern>>>,
        /// Functions whose lines are told apart.
        "lines" => lines: List<Scalar<Parsed<TracePattern>>>,
        /// How many calls of each function are logged one by one; all are in the sums. 100 by default.
        "max-events" => max_events: Scalar<CallLimit>,
        /// What is read at each call: `heap`, `cpu`, `gpu`. Heap and GPUs by default: resident memory takes longest to read.
        "columns" => columns: List<Scalar<TraceColumn>>,
    }
}

/// The values of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValues(pub Vec<String>);

/// What is said of a metric: once, or in a list of which the later entries win.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Vec<ThresholdEntry>);

/// A name of metrics in which `*` stands for any part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricPattern(pub String);

/// The devices that a test is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNames(pub Vec<String>);

/// The name of a metric of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName(pub String);

/// In a JSON Schema: the mapping, or a text that is short for it.
fn or_text(schema: &mut schemars::Schema) {
    let mapping = schema.clone();
    *schema = schemars::json_schema!({"anyOf": [{"type": "string"}, mapping]});
}

/// The same where a number is short for it too.
fn or_text_or_number(schema: &mut schemars::Schema) {
    let mapping = schema.clone();
    *schema = schemars::json_schema!({"anyOf": [{"type": ["string", "integer"]}, mapping]});
}

/// Reads the text of a matrix. `file` is its name in complaints.
pub fn parse(text: &str, file: &Utf8Path) -> Result<Matrix, Complaint> {
    let says_something = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    };
    if !text.lines().any(says_something) {
        return Err(Complaint::new("the matrix is empty")
            .help("write at least `refs: [main, .]`, or let `cargo memprof init --force` write one")
            .at(file, None));
    }
    crate::config::yaml::parse(text, file)
}

/// The nearest `memprof.yaml`, from `start` upwards to `root` and no further.
pub fn find(start: &Utf8Path, root: &Utf8Path) -> Option<Utf8PathBuf> {
    start
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .map(|folder| folder.join(FILE_NAME))
        .find(|file| file.is_file())
}

/// Reads a matrix from disk.
pub fn read(file: &Utf8Path) -> Result<Matrix, Complaint> {
    let text = fs_err::read_to_string(file).map_err(|error| {
        Complaint::new(error.to_string())
            .help("--matrix FILE names another one, `cargo memprof init` writes one")
    })?;
    parse(&text, file)
}

/// All keys by the mapping that they stand in, for the documentation's test: `("overlay", ["from", …])`.
pub fn all_keys() -> [(&'static str, &'static [&'static str]); 10] {
    [
        ("", Matrix::KEYS),
        ("refs", RefEntry::KEYS),
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
