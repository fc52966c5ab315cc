//! The flags that make a request: which refs, which tests, how often, and what is added to the
//! checkouts.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::cargo::CargoArguments;
use crate::arguments::judging::JudgingArguments;
use crate::arguments::settings::Settings;
use crate::arguments::sides::SideArguments;
use crate::arguments::values::{self, OverlayDependency, Parameter, Variable};
use memprof_plan::config::flag::{COMPARISONS, MEASURES, Section};
use memprof_plan::config::matrix::{LockfileEntry, Matrix, TestEntry, TraceEntry};
use memprof_plan::request::{OverlayMode, RefRequest};

/// Everything that makes a request.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct RequestArguments {
    /// Which revisions.
    #[command(flatten)]
    pub refs: RefArguments,
    /// Which tests.
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// Run with each of these values in the environment variable NAME (repeatable: all combinations
    /// run)
    #[arg(long = "param", value_name = "NAME=V1,V2", value_parser = values::parameter, help_heading = Section::Cells.heading())]
    pub params: Vec<Parameter>,
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
    pub trace: Settings<TraceEntry, COMPARISONS>,
    /// Cargo's options.
    #[command(flatten)]
    pub build: CargoArguments,
    /// The flags of keys.
    #[command(flatten)]
    pub settings: Settings<Matrix, COMPARISONS>,
}

/// Which revisions.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Refs.heading())]
pub struct RefArguments {
    /// Revisions to compare: branches, tags, commits, HEAD~3, pr/N, mr/N, or `.` for the working
    /// tree
    ///
    /// NAME=REF sets the name in the report: --refs before=v1.2,after=HEAD
    #[arg(long, value_name = "REF,REF", value_delimiter = ',', value_parser = values::reference)]
    pub refs: Vec<RefRequest>,
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
#[command(next_help_heading = Section::Tests.heading())]
pub struct SelectionArguments {
    /// What the tests' names match.
    #[command(flatten)]
    pub names: Settings<TestEntry, MEASURES>,
    /// Run only tests marked `#[ignore]`
    #[arg(long)]
    pub ignored: bool,
    /// Also run tests marked `#[ignore]`
    #[arg(long, conflicts_with = "ignored")]
    pub include_ignored: bool,
}

/// The variables of builds and tests.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Environment.heading())]
pub struct EnvironmentArguments {
    /// Set an environment variable for builds and runs (repeatable)
    ///
    /// For one side: new:NAME=VALUE
    #[arg(long, value_name = "[SIDE:]NAME=VALUE", value_parser = values::variable)]
    pub env: Vec<Variable>,
}

/// What is added to the checkouts, and left out.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Checkout.heading())]
pub struct CheckoutArguments {
    /// Copy a file or folder into every revision, from disk or from a ref: tests/memory.rs
    /// (repeatable)
    ///
    /// From a ref, to another path: pr/7:tests/memory.rs=tests/new.rs
    #[arg(long, value_name = "[REF:]SRC[=DST]")]
    pub overlay: Vec<String>,
    /// Copy the overlay into this package, wherever its folder is in each revision
    #[arg(long, value_name = "PACKAGE", requires = "overlay")]
    pub overlay_package: Option<String>,
    /// Put overlay tests into the package, or into a separate crate outside the workspace
    #[arg(long, value_name = "package|external", value_parser = overlay_mode, requires = "overlay")]
    pub overlay_mode: Option<OverlayMode>,
    /// Give the external overlay's crate this dependency, as in a Cargo.toml: 'rand = "0.9"'
    /// (repeatable)
    #[arg(long, value_name = "NAME = VALUE", requires = "overlay")]
    pub overlay_dependency: Vec<OverlayDependency>,
    /// Apply this patch to every revision's own files, as `git apply` does (repeatable)
    #[arg(long, value_name = "FILE")]
    pub overlay_patch: Vec<String>,
    /// Do not put a test file that only one ref has into the others
    #[arg(long)]
    pub no_auto_overlay: bool,
    /// Where revisions without a lock file get one from.
    #[command(flatten)]
    pub lockfile: Settings<LockfileEntry, MEASURES>,
}

/// The same words as in memprof.yaml, with the same suggestion.
fn overlay_mode(text: &str) -> Result<OverlayMode, String> {
    memprof_plan::config::yaml::FromText::from_text(text).map_err(|mistake| mistake.message)
}
