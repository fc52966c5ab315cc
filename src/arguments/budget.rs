//! The flags of `budget`.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand, ValueHint};

use crate::arguments::values;
use crate::arguments::workspace::WorkspaceArguments;
use memprof_judge::compare::budget::FILE_NAME;
use memprof_plan::quantity;

/// What follows `budget --help`.
pub const BUDGET_HELP: &str = "\
Examples:
  cargo memprof v1.2 && cargo memprof budget write
                                                   record the figures of v1.2
  cargo memprof . --budget memprof-budget.json     check the working tree";

/// `budget`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct BudgetArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: BudgetCommand,
}

/// What to do with a budget.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum BudgetCommand {
    /// Write a file with the figures of a run as limits
    Write(BudgetWriteArguments),
}

/// `budget write`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct BudgetWriteArguments {
    /// The file
    #[arg(value_name = "FILE", default_value = FILE_NAME, value_hint = ValueHint::FilePath)]
    pub file: Utf8PathBuf,
    /// The run: its id, its folder, or `latest`
    #[arg(long, value_name = "RUN", default_value = "latest")]
    pub run: String,
    /// The ref whose figures to record [default: the only candidate, or the only ref]
    #[arg(long = "ref", value_name = "NAME")]
    pub reference: Option<String>,
    /// Record only these metrics: heap.peak,gpu.*.peak [default: peaks and levels]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = values::shown_metric)]
    pub metrics: Vec<String>,
    /// Allow this much more than each figure [default: as much as a comparison ignores]
    #[arg(long, value_name = "PERCENT", value_parser = quantity::percent)]
    pub margin: Option<f64>,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}
