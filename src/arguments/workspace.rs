//! Which workspace is meant, for commands that build nothing.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

/// The workspace that a command is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct WorkspaceArguments {
    /// Path to the Cargo.toml of the package or workspace
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub manifest_path: Option<Utf8PathBuf>,
}
