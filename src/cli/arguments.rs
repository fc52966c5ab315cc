//! What the user types, as clap has it: types, help texts and nothing else. What it means is [`reconcile`](crate::cli::reconcile)'s.

use camino::Utf8PathBuf;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::cli::command_arguments::{
    CleanArguments, CompareArguments, CompletionsArguments, DemoArguments, DoctorArguments, InitArguments,
    ReportArguments, SchemaArguments,
};
use crate::cli::flag::{self, Parameter, Variable};
use crate::cli::search_arguments::{self, BisectArguments, HistoryArguments};
use crate::config::values::{Parsed, RegularExpression};
use crate::plan::cell_pattern;
use crate::plan::expression::Expression;
use crate::plan::quantity;
use crate::plan::repeat::Repeat;
use crate::plan::request::{CellPattern, OverlayMode, RefRequest, TraceColumn};
use crate::plan::rule::{Allowance, Rule};
use crate::plan::trace_pattern::TracePattern;
use crate::report::options::{Format, View};

const EXAMPLES: &str = "\
Examples:
  cargo memprof --refs main,pr/3370 -k hf_fwd          a pull request against main
  cargo memprof --refs main,. --release                the working tree against main
  cargo memprof --refs v1.2,HEAD --overlay tests/memory.rs -k memory
                                                       a test that neither revision has
  cargo memprof --refs main,pr/7 --baseline merge-base --format markdown --output comment.md
  cargo memprof bisect --good v1.2 --bad main -k hf    which commit it was
  cargo memprof list --refs main                       what would run
  cargo memprof report --format csv                    the last run again, as CSV

Exit codes:
    0  no regression
    1  a regression beyond a threshold
    2  a mistake in the command line or in memprof.yaml
    3  a build or a test failed, so that some comparison is missing
    4  inconclusive: the noise is too large for the threshold
  101  a bug in cargo memprof
  130  interrupted; what was measured is kept, --resume goes on from there
  Where several apply, 1 wins over 4, and 4 over 3.";

const ABOUT: &str = "\
Compares memory between git revisions, checkpoint by checkpoint.

The refs are checked out one after the other, outside your repository; a small crate that logs memory is built into their \
tests, each test runs in a process of its own, and a table shows the difference at every checkpoint. Neither your \
checkout nor the manifests and lock files of the revisions change.";

/// `cargo memprof …`. Without a subcommand it is `run`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo-memprof",
    bin_name = "cargo memprof",
    version,
    about = "Compares memory between git revisions, checkpoint by checkpoint",
    long_about = ABOUT,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Commands (`run` if none is named)",
    max_term_width = 100
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `run`, which need not be named.
    #[command(flatten)]
    pub run: RunArguments,
    /// The flags of every command.
    #[command(flatten)]
    pub terminal: TerminalArguments,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build, run and compare (the default)
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArguments>),
    /// Build every revision, into the store or into an archive for another machine
    Build(Box<BuildCommandArguments>),
    /// Find the commit that changed a test's memory
    #[command(after_help = search_arguments::BISECT_HELP)]
    Bisect(Box<BisectArguments>),
    /// Measure commit after commit, as a table and a chart
    #[command(after_help = search_arguments::HISTORY_HELP)]
    History(Box<HistoryArguments>),
    /// Print what would run, per ref
    List(Box<ListArguments>),
    /// Print which functions a pattern means, per ref, without building
    Trace(Box<TraceCommandArguments>),
    /// Render a kept run again, in any format
    Report(ReportArguments),
    /// Compare two kept runs
    Compare(CompareArguments),
    /// Show what memory can be measured here: GPUs, sources, and how to get what is missing
    Doctor(DoctorArguments),
    /// Remove what the tool keeps, and say how many bytes it was
    Clean(CleanArguments),
    /// Write a commented memprof.yaml that works in this repository
    Init(InitArguments),
    /// Print a JSON Schema
    Schema(SchemaArguments),
    /// Make a small repository in a temporary folder and compare its refs
    Demo(DemoArguments),
    /// Print the completions of a shell
    Completions(CompletionsArguments),
    /// Print the manual page
    Man,
}

/// How the terminal is used; flags of every command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Terminal")]
pub struct TerminalArguments {
    /// When to colour (`auto` honours `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: Color,
    /// Show no progress, only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show more: each run, each crate that is compiled
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Even into a file.
    Always,
    /// Not at all.
    Never,
}

/// `run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArguments {
    /// What to compare.
    #[command(flatten)]
    pub request: RequestArguments,
    /// How to go about it.
    #[command(flatten)]
    pub execution: ExecutionArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
}

/// `list`.
#[derive(Clone, Debug, Default, Args)]
pub struct ListArguments {
    /// What to compare.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Fail instead of waiting for another run on this repository
    #[arg(long)]
    pub no_wait: bool,
}

/// `trace`.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceCommandArguments {
    /// Patterns, as --trace takes them
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<Parsed<TracePattern>>,
    /// Print the functions, with the reason of each that cannot be traced (this is all that the command does)
    #[arg(long)]
    pub list: bool,
    /// What to compare.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Fail instead of waiting for another run on this repository
    #[arg(long)]
    pub no_wait: bool,
}

/// `build`.
#[derive(Clone, Debug, Default, Args)]
pub struct BuildCommandArguments {
    /// What to compare.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Pack builds and plan into a file, for `cargo memprof run --archive FILE` on a machine with no toolchain, no
    /// repository and no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Archive")]
    pub archive: Option<Utf8PathBuf>,
    /// Pack files that tests read, taken from each revision: paths and globs from the repository's root, 'tests/data',
    /// 'models/**/*.bin' (repeatable)
    #[arg(long, value_name = "GLOB", requires = "archive", help_heading = "Archive")]
    pub data: Vec<String>,
    /// Fail instead of waiting for another run on this repository
    #[arg(long)]
    pub no_wait: bool,
}

/// Everything that makes a request.
#[derive(Clone, Debug, Default, Args)]
pub struct RequestArguments {
    /// Which revisions.
    #[command(flatten)]
    pub refs: RefArguments,
    /// Which tests.
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// How often, with what.
    #[command(flatten)]
    pub cells: CellArguments,
    /// What is a regression.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What is laid over the revisions.
    #[command(flatten)]
    pub checkout: CheckoutArguments,
    /// What is looked into.
    #[command(flatten)]
    pub trace: TraceArguments,
    /// Cargo's options.
    #[command(flatten)]
    pub build: BuildArguments,
}

/// Which revisions.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Refs")]
pub struct RefArguments {
    /// The revisions to compare: branches, tags, commits, HEAD~3, pr/N, mr/N, `.` for the working tree; NAME=REF gives a
    /// name for the report
    #[arg(long, value_name = "REF,REF", value_delimiter = ',', value_parser = flag::reference)]
    pub refs: Vec<RefRequest>,
    /// What the others are compared with [default: the first ref]
    #[arg(long, value_name = "REF|merge-base")]
    pub baseline: Option<String>,
    /// The remote that pr/N and mr/N are fetched from [default: upstream if there is one, else origin]
    #[arg(long, value_name = "NAME")]
    pub remote: Option<String>,
    /// Run the baseline against itself, and show by how much each metric varies
    #[arg(long)]
    pub aa: bool,
    /// The matrix to read [default: the nearest memprof.yaml, from this folder up to the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matrix: Option<Utf8PathBuf>,
}

/// Which tests.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Tests")]
pub struct SelectionArguments {
    /// Tests whose `package::binary::test` holds the words, in any case: 'hf and not (bwd or slow)'
    #[arg(short = 'k', long, value_name = "EXPRESSION")]
    pub filter: Option<Parsed<Expression>>,
    /// Tests whose `package::binary::test` matches
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<RegularExpression>,
    /// The test of exactly this name, its path or the whole `package::binary::test` (repeatable)
    #[arg(long, value_name = "NAME")]
    pub exact: Vec<String>,
    /// Leave out tests whose path holds this (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub skip: Vec<String>,
    /// Run only tests marked `#[ignore]`
    #[arg(long)]
    pub ignored: bool,
    /// Run tests marked `#[ignore]` too
    #[arg(long, conflicts_with = "ignored")]
    pub include_ignored: bool,
}

/// How often, with what, and which of the combinations.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cells")]
pub struct CellArguments {
    /// Run with each of these values in the environment variable NAME (repeatable: the product of all)
    #[arg(long = "param", value_name = "NAME=V1,V2", value_parser = flag::parameter)]
    pub params: Vec<Parameter>,
    /// Set an environment variable for builds and runs (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = flag::variable)]
    pub env: Vec<Variable>,
    /// Run each cell this often at each ref, or as often as the verdict needs [default: auto]
    #[arg(long, value_name = "N|auto")]
    pub repeat: Option<Repeat>,
    /// Kill a run after this time: 90s, 10m
    #[arg(long, value_name = "DURATION", value_parser = quantity::timeout)]
    pub timeout: Option<u64>,
    /// Leave cells out: ref=main,test=hf,batch=64 (repeatable)
    #[arg(long, value_name = "CELL", value_parser = cell_pattern::parse)]
    pub exclude: Vec<CellPattern>,
    /// Run only these cells (repeatable)
    #[arg(long, value_name = "CELL", value_parser = cell_pattern::parse)]
    pub include: Vec<CellPattern>,
}

/// What is a regression.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Verdicts")]
pub struct JudgingArguments {
    /// How much a metric may grow: heap.peak=5%, cpu.peak=5%,16MiB (more than both), time=off; for some tests and
    /// checkpoints: gpu.*.peak=5%,test=hf,checkpoint=done* (repeatable)
    #[arg(long = "threshold", value_name = "METRIC=LIMIT", value_parser = flag::threshold)]
    pub thresholds: Vec<Rule>,
    /// How large a metric may be: heap.peak=8GiB (repeatable; test and checkpoint as above)
    #[arg(long = "limit", value_name = "METRIC=SIZE", value_parser = flag::limit)]
    pub limits: Vec<Rule>,
    /// How much more a metric may be at `done` than at `start`: heap.live=64KiB (repeatable; test as above)
    #[arg(long = "leak", value_name = "METRIC=SIZE", value_parser = flag::leak)]
    pub leaks: Vec<Rule>,
    /// Expect a change: metric=heap.peak,test=hf,limit=20%,until=2026-12-31,reason=TEXT (repeatable; the reason last)
    #[arg(long = "allow", value_name = "CHANGE", value_parser = flag::allow)]
    pub allow: Vec<Allowance>,
    /// What is known of how figures vary; with --aa, where to keep it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub noise: Option<Utf8PathBuf>,
}

/// What is checked out, and what is laid over it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checkout")]
pub struct CheckoutArguments {
    /// Lay a file or folder over every revision, from disk or from a ref (repeatable); a path that exists on disk wins
    /// over REF:
    #[arg(long, value_name = "[REF:]SRC[=DST]")]
    pub overlay: Vec<String>,
    /// The package that the overlay goes into, wherever its folder is in each revision
    #[arg(long, value_name = "PACKAGE", requires = "overlay")]
    pub overlay_package: Option<String>,
    /// Put overlay tests into the package, or into a crate of their own outside the workspace
    #[arg(long, value_name = "package|external", value_parser = overlay_mode, requires = "overlay")]
    pub overlay_mode: Option<OverlayMode>,
    /// Use the lock file of this ref where none is committed
    #[arg(long, value_name = "REF")]
    pub lockfile_from: Option<String>,
    /// Resolve dependencies as of this day where no lock file is committed (a nightly feature of cargo's)
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = quantity::day, conflicts_with = "lockfile_from")]
    pub lockfile_date: Option<String>,
    /// Leave paths out of the checkouts, in the syntax of .gitignore (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub sparse_exclude: Vec<String>,
}

/// Which functions are looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Trace")]
pub struct TraceArguments {
    /// Show what these functions consume, with no change to any branch (repeatable)
    #[arg(
        long,
        value_name = "PATTERN",
        help = "Show what these functions consume, with no change to any branch: 'bart::encoder::*::forward', \
                'crate::kv_cache::**', '<Encoder as Module>::forward' (repeatable)"
    )]
    pub trace: Vec<Parsed<TracePattern>>,
    /// Show what each line of these functions does (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub trace_lines: Vec<Parsed<TracePattern>>,
    /// Log so many calls of each traced function one by one; all calls are in the sums [default: 100]
    #[arg(long, value_name = "N")]
    pub max_events: Option<u64>,
    /// What to read at each traced call: heap,cpu,gpu [default: heap,gpu]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = trace_column)]
    pub columns: Vec<TraceColumn>,
}

/// Cargo's options, passed through.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Build")]
#[expect(clippy::struct_excessive_bools, reason = "they are cargo's flags")]
pub struct BuildArguments {
    /// The package to build (repeatable)
    #[arg(short, long, value_name = "SPEC")]
    pub package: Vec<String>,
    /// Build the whole workspace
    #[arg(long, visible_alias = "all-packages", conflicts_with = "package")]
    pub workspace: bool,
    /// Features to build with, comma or space separated
    #[arg(short = 'F', long, value_name = "FEATURES")]
    pub features: Vec<String>,
    /// Build with all features
    #[arg(long)]
    pub all_features: bool,
    /// Build without the default features
    #[arg(long)]
    pub no_default_features: bool,
    /// Build with this profile
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Build with the release profile
    #[arg(short, long, conflicts_with = "profile")]
    pub release: bool,
    /// Build for this target
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
    /// Only the library's unit tests
    #[arg(long)]
    pub lib: bool,
    /// Only this binary's unit tests (repeatable)
    #[arg(long, value_name = "NAME")]
    pub bin: Vec<String>,
    /// Only this integration test (repeatable)
    #[arg(long, value_name = "NAME")]
    pub test: Vec<String>,
    /// Only this example (repeatable)
    #[arg(long, value_name = "NAME")]
    pub example: Vec<String>,
    /// Only this bench (repeatable)
    #[arg(long, value_name = "NAME")]
    pub bench: Vec<String>,
    /// Build with this many jobs
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Do not use the network
    #[arg(long)]
    pub offline: bool,
    /// Do not change a lock file
    #[arg(long)]
    pub locked: bool,
    /// A setting for cargo (repeatable)
    #[arg(long, value_name = "KEY=VALUE|PATH")]
    pub config: Vec<String>,
    /// The manifest of the package or workspace
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub manifest_path: Option<Utf8PathBuf>,
    /// The toolchain for every ref, as rustup names it
    #[arg(long, value_name = "NAME")]
    pub toolchain: Option<String>,
}

/// How to go about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Run")]
pub struct ExecutionArguments {
    /// Print the plan as JSON and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Go on with a run that was cut off: only what is missing runs
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "dry_run")]
    pub resume: Option<String>,
    /// Fail instead of waiting for another run on this repository, or on a GPU that the tests can see
    #[arg(long)]
    pub no_wait: bool,
    /// Let the tests see only these GPUs, by NVML's index or the beginning of a UUID; `none` hides all
    #[arg(
        long,
        value_name = "DEVICE,DEVICE",
        value_delimiter = ',',
        value_parser = flag::device,
        conflicts_with = "resume"
    )]
    pub device: Vec<String>,
    /// Run what `cargo memprof build --archive` packed; needs no toolchain, no repository and no network
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["RefArguments", "SelectionArguments", "CellArguments", "CheckoutArguments", "TraceArguments", "BuildArguments"]
    )]
    pub archive: Option<Utf8PathBuf>,
    /// Where an archive's run is kept [default: a folder of its own in memprof-runs]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "archive")]
    pub run_folder: Option<Utf8PathBuf>,
}

/// What to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Output")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PresentationArguments {
    /// The metrics to show: heap.peak,cpu.rss
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = flag::metric)]
    pub metrics: Vec<String>,
    /// Show all metrics
    #[arg(long, conflicts_with = "metrics")]
    pub all: bool,
    /// What the table is of; with `scopes`, `top` and `tensors` one ref is enough
    #[arg(long, value_name = "VIEW", value_enum, default_value_t)]
    pub view: View,
    /// Show one line a test and metric, or a scope
    #[arg(long)]
    pub compact: bool,
    /// Show only checkpoints that changed
    #[arg(long, conflicts_with = "all_rows")]
    pub only_changed: bool,
    /// Show every checkpoint, also where there are very many
    #[arg(long)]
    pub all_rows: bool,
    /// The format (repeatable: that of each --output, in order) [default: by the file's extension, else table]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Vec<Format>,
    /// Write to a file (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Vec<Utf8PathBuf>,
}

/// The same words as in the matrix, with the same suggestion.
fn trace_column(text: &str) -> Result<TraceColumn, String> {
    crate::config::yaml::FromText::from_text(text).map_err(|mistake| mistake.message)
}

/// The same words as in the matrix, with the same suggestion.
fn overlay_mode(text: &str) -> Result<OverlayMode, String> {
    crate::config::yaml::FromText::from_text(text).map_err(|mistake| mistake.message)
}
