//! What the user types for the commands that measure nothing, as clap has it.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum, ValueHint};

use crate::cli::arguments::{JudgingArguments, PresentationArguments};

/// Where the repository is, for commands that build nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct PlaceArguments {
    /// The manifest of the package or workspace
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub manifest_path: Option<Utf8PathBuf>,
}

/// `report`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct ReportArguments {
    /// The run: its id, its folder, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    pub run: String,
    /// What is a regression, beside what the run was made with.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which repository.
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// `compare`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct CompareArguments {
    /// The baseline: a run's id or folder, or `latest`
    #[arg(value_name = "RUN_A")]
    pub baseline: String,
    /// The run that is compared with it
    #[arg(value_name = "RUN_B")]
    pub candidate: String,
    /// What is a regression, beside what the baseline's run was made with.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which repository.
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// `clean`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct CleanArguments {
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Remove what archives were unpacked to, and nothing else; needs no repository
    #[arg(long)]
    pub archives: bool,
    /// Fail instead of waiting for another run on this repository
    #[arg(long)]
    pub no_wait: bool,
    /// Which repository.
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// `doctor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct DoctorArguments {
    /// The format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: DoctorFormat,
}

/// How `doctor` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// `init`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct InitArguments {
    /// Overwrite a file that is there
    #[arg(long)]
    pub force: bool,
    /// Where to write [default: memprof.yaml at the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matrix: Option<Utf8PathBuf>,
    /// Which repository.
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// `schema`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SchemaArguments {
    /// Of what
    #[arg(value_enum)]
    pub of: SchemaOf,
}

/// What has a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// memprof.yaml
    Matrix,
    /// What --format json prints
    Report,
}

/// `demo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct DemoArguments {
    /// Keep the repository, and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// `completions`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
