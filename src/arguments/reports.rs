//! The flags of `report` and `compare`, which read earlier runs.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::judging::JudgingArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::arguments::workspace::WorkspaceArguments;

/// What follows `report --help`.
pub const REPORT_HELP: &str = "\
Examples:
  cargo memprof report                             the latest run, as a table
  cargo memprof report --open                      as a page in the browser
  cargo memprof report --output comment.md         as markdown
  cargo memprof report latest --view scopes --rows all";

/// What follows `compare --help`.
pub const COMPARE_HELP: &str = "\
Examples:
  cargo memprof compare runs/monday latest         the latest against monday
  cargo memprof compare runs/monday latest --threshold heap.peak=5%";

/// What follows `merge --help`.
pub const MERGE_HELP: &str = "\
Examples:
  cargo memprof run --archive both.tar.zst --shard 1/2 --run-folder one
  cargo memprof run --archive both.tar.zst --shard 2/2 --run-folder two
  cargo memprof merge one two                      one report of both
  cargo memprof merge shards/* --output comment.md";

/// `report`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct ReportArguments {
    /// The run: its id, its folder, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    pub run: String,
    /// Write an HTML page into the run's folder, and open it in the browser
    #[arg(long)]
    pub open: bool,
    /// What a regression is, in addition to the run's own rules.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}

/// `merge`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct MergeArguments {
    /// The runs of all shards, in any order: ids or folders
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Folder for the merged run [default: a new folder beside the repository's runs, or in
    /// memprof-runs]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run_folder: Option<Utf8PathBuf>,
    /// What a regression is, in addition to the runs' own rules.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}

/// `compare`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct CompareArguments {
    /// The baseline: a run's id, its folder, or `latest`
    #[arg(value_name = "RUN_A")]
    pub baseline: String,
    /// The candidate: the run to compare with the baseline
    #[arg(value_name = "RUN_B")]
    pub candidate: String,
    /// What a regression is, in addition to the rules of the candidate's run.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}
