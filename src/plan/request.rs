//! What the user asked for, once the flags and `memprof.yaml` are put together. Nothing here has been looked up yet.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::repeat::Repeat;
use crate::plan::rule::Judging;

/// A whole request. Paths in it are relative to the repository's root, or absolute where they lie outside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The refs to compare, in order.
    pub refs: Vec<RefRequest>,
    /// What the others are compared with.
    pub baseline: BaselineRequest,
    /// The remote that PRs are fetched from; `None` means `upstream` if there is one, else `origin`.
    pub remote: Option<String>,
    /// Further ref patterns, `"cl/{}" -> "refs/changes/{}/head"`; they come before the built-in ones.
    pub refspecs: IndexMap<String, String>,
    /// The tests to run; one entry that selects everything if the user gave none.
    pub tests: Vec<TestRequest>,
    /// Files laid over every revision.
    pub overlay: Vec<OverlayRequest>,
    /// Cargo options for every revision.
    pub build: BuildOptions,
    /// Environment of every build and run.
    pub env: BTreeMap<String, String>,
    /// Cells to leave out.
    pub exclude: Vec<CellPattern>,
    /// If not empty, only the cells that match one of these.
    pub include: Vec<CellPattern>,
    /// How often each cell is run.
    pub repeat: Repeat,
    /// Time limit of one run, in seconds.
    pub timeout_seconds: Option<u64>,
    /// The metrics to read beside the usual ones: [`ON_REQUEST`](crate::plan::metric::ON_REQUEST).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_request: Vec<String>,
    /// How verdicts are given. Plans of earlier versions have nothing of it.
    #[serde(default)]
    pub judging: Judging,
    /// Where a lock file comes from for revisions that have none.
    pub lockfile: Option<LockfileRequest>,
    /// Path patterns that are left out of checkouts (git's sparse-checkout syntax, without the leading `!`).
    pub sparse_exclude: Vec<String>,
    /// Functions that are looked into.
    #[serde(default, skip_serializing_if = "TraceRequest::is_empty")]
    pub trace: TraceRequest,
}

impl Request {
    /// Gives every test these devices, whatever it was given before.
    pub fn give_devices(&mut self, names: &[String]) {
        for test in &mut self.tests {
            test.devices = Some(names.to_vec());
        }
    }
}

/// Functions that are looked into, by patterns, and what is read of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Functions whose calls are scopes.
    pub functions: Vec<String>,
    /// Functions whose lines are told apart.
    pub lines: Vec<String>,
    /// How many calls of each function are logged one by one.
    pub max_events: u64,
    /// What is read at each call; heap and GPUs if empty.
    pub columns: Vec<TraceColumn>,
}

impl TraceRequest {
    /// Whether nothing is traced.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.lines.is_empty()
    }
}

/// A group of metrics that traced functions are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceColumn {
    /// The heap.
    Heap,
    /// Resident memory.
    Cpu,
    /// GPU memory.
    Gpu,
}

impl TraceColumn {
    /// `heap`, `cpu`, `gpu`
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

/// One ref of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefRequest {
    /// What the user wrote: `main`, `pr/3370`, `HEAD~3`, `.`
    pub spec: String,
    /// The name in the report; the spec if none is given.
    pub name: Option<String>,
    /// Cargo features for this ref, beside the common ones.
    pub features: Vec<String>,
    /// Environment for this ref, over the common one.
    pub env: BTreeMap<String, String>,
    /// The toolchain (`+TOOLCHAIN` of rustup) for this ref.
    pub toolchain: Option<String>,
}

/// Which revision is the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaselineRequest {
    /// The first ref.
    #[default]
    First,
    /// The best common ancestor of the first ref and the others.
    MergeBase,
    /// The ref of this name or spec; it is added to the refs if it is not among them.
    Ref(String),
}

/// One entry under `tests:`, or what `-k` and its companions say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestRequest {
    /// A template for the cell's name, with `{PARAM}` places; the test's own name if absent.
    pub name: Option<String>,
    /// Which tests.
    pub selection: Selection,
    /// Environment of the runs.
    pub env: BTreeMap<String, String>,
    /// Cargo features wanted by these tests, beside the common ones.
    pub features: Vec<String>,
    /// Parameters: each becomes an environment variable of its name; the cells are their product.
    pub params: IndexMap<String, Vec<String>>,
    /// Time limit of one run in seconds, over the common one.
    pub timeout_seconds: Option<u64>,
    /// Repeats, over the common ones.
    pub repeat: Option<Repeat>,
    /// The devices that the runs see, as written; `None` leaves that to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
    /// Only tests that no entry before it selects: what the command line selects beside the matrix's entries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

/// Which tests of the built executables are run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// pytest's `-k` expression over `package::binary::test`.
    pub expression: Option<String>,
    /// A regular expression over the same.
    pub regex: Option<String>,
    /// Exact test names (`tests::parses` or the full `package::binary::tests::parses`).
    pub exact: Vec<String>,
    /// Tests whose path holds one of these are left out.
    pub skip: Vec<String>,
    /// Which of the tests marked `#[ignore]` are run.
    pub ignored: Ignored,
    /// Only tests of this package.
    pub package: Option<String>,
    /// Only tests of this kind of target.
    pub kind: Option<TargetKind>,
    /// Only tests that this selects too: what the command line says of an entry of the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Box<Selection>>,
}

/// As libtest has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ignored {
    /// Ignored tests are not run.
    #[default]
    Skip,
    /// `--include-ignored`.
    Include,
    /// `--ignored`.
    Only,
}

/// Cargo's kinds of target that can hold tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Unit tests of a library (proc-macro ones too).
    Lib,
    /// Unit tests of a binary.
    Bin,
    /// Integration tests.
    Test,
    /// Examples.
    Example,
    /// Benches.
    Bench,
}

/// Files from somewhere, laid over every revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayRequest {
    /// The ref that the files come from; `None` means the disk (`.`).
    pub from: Option<String>,
    /// What goes where.
    pub paths: Vec<OverlayPath>,
    /// The package whose folder the destinations are relative to; `None` means the repository's root.
    pub package: Option<String>,
    /// Whether the files go into the package or into a crate of their own.
    pub mode: OverlayMode,
    /// Dev-dependencies of the crate in `external` mode. The values are TOML, what stands right of the `=` in a manifest:
    /// `"0.9"` with its quotes, or `{ version = "0.9", features = ["std"] }`.
    pub dependencies: BTreeMap<String, String>,
}

/// One file or folder of an overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayPath {
    /// Path at the source.
    pub source: String,
    /// Path in the worktree; the source's if absent.
    pub destination: Option<String>,
}

/// How overlay tests become part of the build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayMode {
    /// Into the package's own folder; `autotests = false` gets a `[[test]]` entry.
    #[default]
    Package,
    /// Into a crate outside the repository's workspace, with a path dependency on the package.
    External,
}

/// Cargo's options, passed through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of cargo's")]
pub struct BuildOptions {
    /// `--manifest-path`, relative to the repository's root once resolved.
    pub manifest_path: Option<String>,
    /// `-p`.
    pub packages: Vec<String>,
    /// `--workspace`.
    pub workspace: bool,
    /// `--features`.
    pub features: Vec<String>,
    /// `--all-features`.
    pub all_features: bool,
    /// `--no-default-features`.
    pub no_default_features: bool,
    /// `--profile`; `--release` is `release`.
    pub profile: Option<String>,
    /// `--target`.
    pub target: Option<String>,
    /// `--lib`.
    pub lib: bool,
    /// `--bin`.
    pub bins: Vec<String>,
    /// `--test`.
    pub tests: Vec<String>,
    /// `--example`.
    pub examples: Vec<String>,
    /// `--bench`.
    pub benches: Vec<String>,
    /// `-j`.
    pub jobs: Option<u32>,
    /// `--offline`.
    pub offline: bool,
    /// `--locked`.
    pub locked: bool,
    /// `--config`.
    pub config: Vec<String>,
    /// `+TOOLCHAIN` of rustup, for every ref.
    pub toolchain: Option<String>,
}

/// A cell, by what is said of it; what is not said matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPattern {
    /// The ref's name or spec.
    pub r#ref: Option<String>,
    /// A `-k` expression over the test.
    pub test: Option<String>,
    /// Values of parameters.
    pub params: BTreeMap<String, String>,
}

/// Where the lock file comes from for revisions that have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockfileRequest {
    /// `from: REF`: the lock file that this ref has committed, used for every revision.
    From(String),
    /// `date: 2023-05-01`: resolved as of this day (cargo's `--publish-time`, a nightly feature).
    Date(String),
}
