//! The flags of commands that neither measure nor report: `doctor`, `clean`, `init`, `schema`,
//! `demo`, `completions`.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum, ValueHint};

use crate::arguments::workspace::WorkspaceArguments;

/// What follows `doctor --help`.
pub const DOCTOR_HELP: &str = "\
Examples:
  cargo memprof doctor
  cargo memprof doctor --format json > doctor.json  for a bug report

Exit codes:
    0  comparisons work on this machine
    3  something is missing that every comparison needs";

/// What follows `clean --help`.
pub const CLEAN_HELP: &str = "\
Examples:
  cargo memprof clean --dry-run                    what would be removed
  cargo memprof clean                              remove builds and runs, after asking
  cargo memprof clean --yes                        the same without asking, for scripts
  cargo memprof clean --archives                   remove unpacked archives
  cargo memprof clean --notebooks                  remove programs made from notebooks";

/// What follows `init --help`.
pub const INIT_HELP: &str = "\
Examples:
  cargo memprof init                               write memprof.yaml
  cargo memprof list                               see which tests it selects
  cargo memprof                                    compare its refs";

/// What follows `schema --help`.
pub const SCHEMA_HELP: &str = "\
Examples:
  cargo memprof schema matrix > memprof.schema.json
                                                   for completion in editors
  cargo memprof schema report                      fields of the JSON report";

/// What follows `demo --help`.
pub const DEMO_HELP: &str = "\
Examples:
  cargo memprof demo
  cargo memprof demo --html demo.html              as a page, too
  cargo memprof demo --keep                        keep the repository";

/// What follows `completions --help`.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  source <(cargo memprof completions bash)         for this session of bash
  cargo memprof completions fish > ~/.config/fish/completions/cargo-memprof.fish";

/// `clean`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct CleanArguments {
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before removing
    #[arg(long, short)]
    pub yes: bool,
    /// Remove only unpacked archives; needs no repository
    #[arg(long)]
    pub archives: bool,
    /// Remove only programs made from notebooks outside repositories; needs no repository
    #[arg(long, conflicts_with_all = ["archives", "baselines", "baseline"])]
    pub notebooks: bool,
    /// Remove the saved baselines too
    #[arg(long, conflicts_with = "archives")]
    pub baselines: bool,
    /// Remove only this saved baseline (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["archives", "baselines"])]
    pub baseline: Vec<String>,
    /// Fail instead of waiting for another run that uses this repository
    #[arg(long)]
    pub no_wait: bool,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}

/// `doctor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct DoctorArguments {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: DoctorFormat,
}

/// The format of `doctor`'s answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// `init`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct InitArguments {
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// File to write [default: memprof.yaml at the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matrix: Option<Utf8PathBuf>,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
}

/// `schema`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SchemaArguments {
    /// What the schema describes
    #[arg(value_name = "KIND", value_enum)]
    pub of: SchemaOf,
}

/// What has a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// memprof.yaml
    Matrix,
    /// The report of --format json
    Report,
}

/// `demo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct DemoArguments {
    /// Keep the repository, and print its path
    #[arg(long)]
    pub keep: bool,
    /// Write the report as a page for the browser, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<Utf8PathBuf>,
}

/// `completions`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
