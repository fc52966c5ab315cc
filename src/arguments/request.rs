//! The flags that make a request: which refs, which tests, how often, and what is added to the
//! checkouts.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::cargo::CargoArguments;
use crate::arguments::jobs::JobsArguments;
use crate::arguments::judging::JudgingArguments;
use crate::arguments::settings::{CellKeys, CheckoutKeys, RefKeys, Settings, TraceKeys};
use crate::arguments::sides::SideArguments;
use crate::arguments::values::{self, OverlayDependency, Parameter, Variable};
use memprof_plan::cell_pattern;
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::config::values::{Parsed, RegularExpression};
use memprof_plan::expression::Expression;
use memprof_plan::request::{CellPattern, LockfileRequest, OverlayMode, RefRequest};

/// Everything that makes a request.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct RequestArguments {
    /// Which revisions.
    #[command(flatten)]
    pub refs: RefArguments,
    /// Which tests.
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// How often, and with which parameters.
    #[command(flatten)]
    pub cells: CellArguments,
    /// What single sides are built with.
    #[command(flatten)]
    pub sides: SideArguments,
    /// The variables of builds and tests.
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    /// What a regression is.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What is added to the checkouts, and left out.
    #[command(flatten)]
    pub checkout: CheckoutArguments,
    /// Which functions to measure.
    #[command(flatten)]
    pub trace: Settings<TraceKeys>,
    /// Cargo's options.
    #[command(flatten)]
    pub build: CargoArguments,
    /// How much is done at once.
    #[command(flatten)]
    pub jobs: JobsArguments,
}

/// Which revisions.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Refs")]
pub struct RefArguments {
    /// Revisions to compare: branches, tags, commits, HEAD~3, pr/N, mr/N, or `.` for the working
    /// tree
    ///
    /// NAME=REF sets the name in the report: --refs before=v1.2,after=HEAD
    #[arg(long, value_name = "REF,REF", value_delimiter = ',', value_parser = values::reference)]
    pub refs: Vec<RefRequest>,
    /// Compare the other refs with this one, or with their merge base [default: the first ref]
    #[arg(long, value_name = "REF|merge-base")]
    pub baseline: Option<String>,
    /// Where pull requests come from.
    #[command(flatten)]
    pub settings: Settings<RefKeys>,
    /// Compare the baseline with itself, and show how much each metric varies
    #[arg(long)]
    pub aa: bool,
    /// Read this file instead of memprof.yaml
    ///
    /// [default: the nearest memprof.yaml, from this folder up to the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matrix: Option<Utf8PathBuf>,
}

/// Which tests.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Tests")]
pub struct SelectionArguments {
    /// Run tests whose `package::binary::test` contains these words: 'hf and not (bwd or slow)'
    ///
    /// Case does not matter.
    #[arg(short = 'k', long, value_name = "EXPRESSION")]
    pub filter: Option<Parsed<Expression>>,
    /// Run tests whose `package::binary::test` matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<RegularExpression>,
    /// Run the test with exactly this path, or this `package::binary::test` (repeatable)
    #[arg(long, value_name = "NAME")]
    pub exact: Vec<String>,
    /// Skip tests whose path contains this text (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub skip: Vec<String>,
    /// Run only tests marked `#[ignore]`
    #[arg(long)]
    pub ignored: bool,
    /// Also run tests marked `#[ignore]`
    #[arg(long, conflicts_with = "ignored")]
    pub include_ignored: bool,
}

/// How often each test runs, with which parameters, and which combinations.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Cells (a cell is a test with one set of parameters, at one ref)")]
pub struct CellArguments {
    /// Run with each of these values in the environment variable NAME (repeatable: all combinations
    /// run)
    #[arg(long = "param", value_name = "NAME=V1,V2", value_parser = values::parameter)]
    pub params: Vec<Parameter>,
    /// How each cell runs.
    #[command(flatten)]
    pub settings: Settings<CellKeys>,
    /// Leave out these cells: ref=main,test=hf,batch=64 (repeatable)
    #[arg(long, value_name = "CELL", value_parser = cell_pattern::parse)]
    pub exclude: Vec<CellPattern>,
    /// Run only these cells: test=hf,batch=8 (repeatable)
    #[arg(long, value_name = "CELL", value_parser = cell_pattern::parse)]
    pub include: Vec<CellPattern>,
}

/// The variables of builds and tests.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Environment")]
pub struct EnvironmentArguments {
    /// Set an environment variable for builds and runs (repeatable)
    ///
    /// For one side: new:NAME=VALUE
    #[arg(long, value_name = "[SIDE:]NAME=VALUE", value_parser = values::variable)]
    pub env: Vec<Variable>,
    /// Let builds and tests inherit only known variables, and no secrets
    ///
    /// Use this for code that you do not trust, such as pull requests from forks.
    #[arg(long)]
    pub clean_env: bool,
    /// Let them inherit this variable too, with `*` for any part of its name (repeatable)
    #[arg(long, value_name = "NAME")]
    pub keep_env: Vec<String>,
}

/// What is added to the checkouts, and left out.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Checkout")]
pub struct CheckoutArguments {
    /// Copy a file or folder into every revision, from disk or from a ref: tests/memory.rs
    /// (repeatable)
    ///
    /// From a ref, to another path: pr/7:tests/memory.rs=tests/new.rs. If a file with the whole
    /// name exists on disk, it takes precedence over the ref.
    #[arg(long, value_name = "[REF:]SRC[=DST]")]
    pub overlay: Vec<String>,
    /// Copy the overlay into this package, wherever its folder is in each revision
    #[arg(long, value_name = "PACKAGE", requires = "overlay")]
    pub overlay_package: Option<String>,
    /// Put overlay tests into the package, or into a separate crate outside the workspace
    #[arg(long, value_name = "package|external", value_parser = overlay_mode, requires = "overlay")]
    pub overlay_mode: Option<OverlayMode>,
    /// Give the external overlay's crate this dependency, as in a Cargo.toml (repeatable)
    ///
    /// For example 'rand = "0.9"', or 'helper = { path = "crates/helper" }' with a path from the
    /// repository's root.
    #[arg(long, value_name = "NAME = VALUE", requires = "overlay")]
    pub overlay_dependency: Vec<OverlayDependency>,
    /// Apply this patch to every revision's own files, as `git apply` does (repeatable)
    #[arg(long, value_name = "FILE")]
    pub overlay_patch: Vec<String>,
    /// Put a checkpoint before a line.
    #[arg(
        long,
        value_name = "[REF:]FILE:LINE=LABEL",
        help = "Put a checkpoint before a line: src/lib.rs:42=loaded (repeatable)",
        long_help = "Put a checkpoint before a line: src/lib.rs:42=loaded (repeatable)\n\nFor one ref: \
                     main:src/lib.rs:40=loaded. In a dependency: serde_json/src/de.rs:2100=parsed"
    )]
    pub checkpoint_at: Vec<CheckpointAt>,
    /// Do not put a test file that only one ref has into the others
    #[arg(long)]
    pub no_auto_overlay: bool,
    /// Use this ref's lock file for revisions that have none committed
    #[arg(long, value_name = "REF")]
    pub lockfile_from: Option<String>,
    /// Resolve dependencies as of this date for revisions that have no lock file committed
    ///
    /// `commit` is the time of the newest of these commits. `today` keeps today's versions. By
    /// default, today's versions are used, and those of `commit` if they do not build.
    #[arg(long, value_name = "commit|today|YYYY-MM-DD", value_parser = LockfileRequest::of_date, conflicts_with = "lockfile_from")]
    pub lockfile_date: Option<LockfileRequest>,
    /// What is left out.
    #[command(flatten)]
    pub settings: Settings<CheckoutKeys>,
}

/// The same words as in memprof.yaml, with the same suggestion.
fn overlay_mode(text: &str) -> Result<OverlayMode, String> {
    memprof_plan::config::yaml::FromText::from_text(text).map_err(|mistake| mistake.message)
}
