//! What the user asked for, from the flags and `memprof.yaml` together. Nothing has been looked up
//! yet.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::axis_labels::AxisLabels;
use crate::checkpoint_at::CheckpointAt;
use crate::clean_env::CleanEnv;
use crate::dependency_change::DependencyChange;
use crate::metric_family::MetricGroup;
use crate::program::ProgramRequest;
use crate::quantity;
use crate::repeat::Repeat;
use crate::rule::Judging;
use crate::settings::{BuildSettings, RunSettings};
use crate::shard::Shard;
use crate::side_lockfile::SideLockfile;
pub use crate::target_kind::TargetKind;

/// The name of the revision that `--baseline merge-base` adds.
pub const MERGE_BASE: &str = "merge-base";

/// A whole request. Its paths are relative to the repository's root, or absolute if they are
/// outside of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Request {
    /// The refs to compare, in order.
    pub refs: Vec<RefRequest>,
    /// The revision that the others are compared with.
    pub baseline: BaselineRequest,
    /// Whether the baseline is compared with itself, for its noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aa: bool,
    /// The file that the noise is written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_file: Option<String>,
    /// The axes whose combinations are among the refs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisLabels>,
    /// Settings that are kept as they are.
    #[serde(flatten)]
    pub settings: RunSettings,
    /// The tests to run. If the user gave none, one entry selects all tests.
    pub tests: Vec<TestRequest>,
    /// Whether a revision that the plan lacks may have tests of these names, such as a saved baseline.
    #[serde(skip)]
    pub has_other_revisions: bool,
    /// Files that are added to every revision.
    pub overlay: Vec<OverlayRequest>,
    /// Patches that are applied to every revision, after the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlay_patches: Vec<String>,
    /// Checkpoints to put before lines of source files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints_at: Vec<CheckpointAt>,
    /// Whether a test file that only one revision has stays out of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_auto_overlay: bool,
    /// Cargo options for every revision.
    pub build: BuildOptions,
    /// Dependencies that every revision is built with in place of its lock file's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<DependencyChange>,
    /// Environment of every build and run.
    pub env: BTreeMap<String, String>,
    /// Which variables of this process reach builds and tests. `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_env: Option<CleanEnv>,
    /// Cells to leave out.
    pub exclude: Vec<CellPattern>,
    /// Cells to keep; all cells if this is empty.
    pub include: Vec<CellPattern>,
    /// Metrics to read in addition to the default ones:
    /// [`Property::OnRequest`](crate::metric::Property::OnRequest).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_request: Vec<String>,
    /// Metrics to compute from others: [`derived`](crate::metric::derived).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<String>,
    /// The rules for verdicts. Plans of earlier versions lack them.
    #[serde(default)]
    pub judging: Judging,
    /// Where revisions without a lock file get one from.
    pub lockfile: Option<LockfileRequest>,
    /// Functions to trace.
    #[serde(default, skip_serializing_if = "TraceRequest::is_empty")]
    pub trace: TraceRequest,
    /// Which part of the tests to run. `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The shown metric that depends on tests beside it, if there is one. Then each test runs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_for: Option<String>,
    /// Whether builds have names with types, for `--why-by type`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed_names: bool,
    /// Whether builds have all test executables, also those that contain no selected test. Not stored.
    #[serde(skip)]
    pub builds_all: bool,
}

impl Request {
    /// Whether only some tests of the built packages may run: `-k`, `-p`, `--lib`, or entries of the file that all select
    /// tests.
    pub fn selects_tests(&self) -> bool {
        let is_of_all = |test: &TestRequest| test.program.is_none() && test.selection.is_of_all();
        let has_cells_left_out = !self.include.is_empty() || !self.exclude.is_empty();
        let has_all = self.tests.is_empty() || self.tests.iter().any(is_of_all);
        !has_all
            || has_cells_left_out
            || self.build.selects_targets()
            || !self.build.settings.packages.is_empty()
    }

    /// Gives every test these devices, in place of its own.
    pub fn give_devices(&mut self, names: &[String]) {
        for test in &mut self.tests {
            test.devices = Some(names.to_vec());
        }
        self.settings.device_pool = None;
    }

    /// Returns the programs: each kind, name and package once, in the order written.
    pub fn programs(&self) -> Vec<NamedProgram<'_>> {
        let mut found: Vec<NamedProgram<'_>> = Vec::new();
        for entry in &self.tests {
            let Some(program) = &entry.program else { continue };
            let package = entry.selection.package.as_deref();
            let is_same = |known: &NamedProgram<'_>| {
                (known.0.kind, &known.0.name, known.1) == (program.kind, &program.name, package)
            };
            if !found.iter().any(is_same) {
                found.push((program, package));
            }
        }
        found
    }

    /// Spreads the tests over these devices, if there are any.
    pub fn spread_over(&mut self, names: Option<Vec<String>>) {
        if names.is_some() {
            self.settings.device_pool = names;
        }
    }
}

/// A program of a request, and the package that an entry names for it.
pub(crate) type NamedProgram<'a> = (&'a ProgramRequest, Option<&'a str>);

/// Which functions to trace, and what to read for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Patterns of functions whose calls are scopes.
    pub functions: Vec<String>,
    /// Patterns of functions whose lines are measured one by one.
    pub lines: Vec<String>,
    /// How many calls of each function are logged individually.
    pub max_events: u64,
    /// Each so many-th call of a function is logged and has its lines measured. 0 is like 1.
    #[serde(default)]
    pub every: u64,
    /// The same for functions of patterns: `bert::**@5`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub every_of: Vec<String>,
    /// Whether the lines of each measured call are logged apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lines_per_call: bool,
    /// What is read at each call. Empty means heap and GPUs.
    pub columns: Vec<MetricGroup>,
}

impl TraceRequest {
    /// Whether nothing is traced.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.lines.is_empty()
    }
}

/// The most refs of a request. Each is built, and compared with the baseline.
pub const MOST_REFS: usize = 1_000;

/// One ref of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefRequest {
    /// What the user wrote: `main`, `pr/3370`, `HEAD~3`, `.`
    pub spec: String,
    /// The name in the report. Without one, that is the spec.
    pub name: Option<String>,
    /// Cargo features for this ref, in addition to the common ones.
    pub features: Vec<String>,
    /// Environment for this ref. It wins over the common one.
    pub env: BTreeMap<String, String>,
    /// The toolchain (`+TOOLCHAIN` of rustup) for this ref.
    pub toolchain: Option<String>,
    /// Dependencies of this ref in place of its lock file's, in addition to the common ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<DependencyChange>,
    /// The lock file that takes the place of this ref's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<SideLockfile>,
    /// Whether this ref is built without the default features.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_default_features: bool,
    /// Cargo's profile for this ref, in place of the common one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Settings for cargo for this ref, after the common ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// The names of other refs that are the same commit, and are not measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
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
    /// The ref of this name or spec. It is added to the refs if necessary.
    Ref(String),
}

/// An entry of `tests`, or what `-k` and related flags select.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestRequest {
    /// A template for the cell's name, with `{PARAM}` placeholders. Without one, that is the test's
    /// own name.
    pub name: Option<String>,
    /// Which tests to run.
    pub selection: Selection,
    /// The program to run in place of tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRequest>,
    /// Environment of the runs.
    pub env: BTreeMap<String, String>,
    /// Cargo features for these tests, in addition to the common ones.
    pub features: Vec<String>,
    /// Parameters. Each becomes an environment variable, and each combination of values is a cell.
    pub params: IndexMap<String, Vec<String>>,
    /// Time limit of one run in seconds. It wins over the common one.
    pub timeout_seconds: Option<u64>,
    /// How often each cell runs. It wins over the common setting.
    pub repeat: Option<Repeat>,
    /// The devices that the runs see, as written. `None` leaves the choice to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
    /// Whether to skip tests that an earlier entry selects. The command line adds such an entry to
    /// those of the matrix.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

/// Which tests of the built executables run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// pytest's `-k` expression over `package::binary::test` and the cell's name.
    pub expression: Option<String>,
    /// A regular expression over `package::binary::test`.
    pub regex: Option<String>,
    /// Exact test names (`tests::parses` or the full `package::binary::tests::parses`).
    pub exact: Vec<String>,
    /// Tests whose path contains one of these are left out.
    pub skip: Vec<String>,
    /// Whether tests marked `#[ignore]` run.
    pub ignored: Ignored,
    /// Only tests of this package.
    pub package: Option<String>,
    /// Only tests of this kind of target.
    pub kind: Option<TargetKind>,
    /// Only tests that this selects, too. The command line narrows an entry of the matrix in this
    /// way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Box<Selection>>,
}

impl Selection {
    /// Whether all tests run, but perhaps ignored ones.
    fn is_of_all(&self) -> bool {
        let (ignored, within) = (self.ignored, self.within.clone());
        ignored != Ignored::Only
            && within.as_ref().is_none_or(|within| within.is_of_all())
            && *self == Self { ignored, within, ..Self::default() }
    }
}

/// Which tests run, as libtest's flags choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ignored {
    /// Tests that are not ignored.
    #[default]
    Skip,
    /// All tests (`--include-ignored`).
    Include,
    /// Ignored tests only (`--ignored`).
    Only,
}

/// Files that are added to every revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayRequest {
    /// The ref that the files come from. `None` means the disk (`.`).
    pub from: Option<String>,
    /// The files, and where each goes.
    pub paths: Vec<OverlayPath>,
    /// The package whose folder the destinations are relative to. `None` means the repository's
    /// root.
    pub package: Option<String>,
    /// Whether the files go into the package or into a crate of their own.
    pub mode: OverlayMode,
    /// Dev-dependencies of the crate in `external` mode. The values are TOML, as after the `=` in a
    /// manifest: `"0.9"` with its quotes, or `{ version = "0.9", features = ["std"] }`.
    pub dependencies: BTreeMap<String, String>,
}

/// One file or folder of an overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayPath {
    /// Path at the source.
    pub source: String,
    /// Path in the worktree. Without one, that is the source's path.
    pub destination: Option<String>,
}

/// How overlay tests become part of the build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayMode {
    /// In the package's own folder. With `autotests = false`, they get `[[test]]` entries.
    #[default]
    Package,
    /// In a crate outside of the repository's workspace, which depends on the package by path.
    External,
}

/// Options that are passed to cargo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildOptions {
    /// `--manifest-path`, relative to the repository's root once resolved.
    pub manifest_path: Option<String>,
    /// Options that are kept as they are.
    #[serde(flatten)]
    pub settings: BuildSettings,
    /// `--features`.
    pub features: Vec<String>,
    /// `--no-default-features`.
    pub no_default_features: bool,
    /// `--profile`; `--release` is `release`.
    pub profile: Option<String>,
    /// `--all-tests`: every target with tests, also those without a selected test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_tests: bool,
    /// `--lib`.
    pub lib: bool,
    /// `--bin-tests`.
    pub bins: Vec<String>,
    /// `--test`.
    pub tests: Vec<String>,
    /// `--bench`.
    pub benches: Vec<String>,
    /// `-j`.
    pub jobs: Option<u32>,
    /// `--config`.
    pub config: Vec<String>,
    /// `+TOOLCHAIN` of rustup, for every ref.
    pub toolchain: Option<String>,
}

impl BuildOptions {
    /// Whether test targets are chosen by kind or name. Otherwise all are built.
    pub fn selects_targets(&self) -> bool {
        self.lib || [&self.bins, &self.tests, &self.benches].iter().any(|names| !names.is_empty())
    }
}

/// A pattern of cells. What it does not mention matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPattern {
    /// The ref's name or spec.
    pub r#ref: Option<String>,
    /// A `-k` expression over the test.
    pub test: Option<String>,
    /// Values of parameters.
    pub params: BTreeMap<String, String>,
}

/// Where revisions without a lock file get one from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockfileRequest {
    /// `from: REF`: the lock file that this ref has committed.
    From(String),
    /// `date: 2023-05-01`: the versions that were published before this day.
    Date(String),
    /// `date: commit`: the versions at the time of the newest commit without a lock file.
    Commit,
    /// `date: today`: today's versions, also if they do not build.
    Today,
}

impl LockfileRequest {
    /// Reads a date: `commit`, `today`, or a day.
    pub fn of_date(text: &str) -> Result<Self, String> {
        match text.trim() {
            "commit" => Ok(Self::Commit),
            "today" => Ok(Self::Today),
            day => {
                quantity::day(day).map(Self::Date).map_err(|error| format!("{error}, `commit` or `today`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::random_numbers::RandomNumbers;

    #[test]
    fn a_plan_has_the_settings_among_its_other_fields_and_earlier_plans_lack_some() {
        let mut request = serde_json::to_value(Request::default()).unwrap();
        assert_eq!((&request["repeat"], &request["build"]["offline"]), (&json!("auto"), &json!(false)));
        for absent in ["trim", "random", "jobs", "delay_milliseconds"] {
            request.as_object_mut().unwrap().remove(absent);
        }
        request["timeout_seconds"] = json!(90);
        request["build"]["packages"] = json!(["bart"]);
        let Request { settings, build, .. } = serde_json::from_value(request).unwrap();
        let random = RandomNumbers::of_earlier_plans();
        assert_eq!(settings, RunSettings { timeout_seconds: Some(90), random, ..RunSettings::default() });
        assert_eq!(build.settings.packages, ["bart"]);
    }
}
