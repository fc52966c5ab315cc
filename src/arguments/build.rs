//! The flags of `build`, `list` and `trace`, which build revisions or read their sources, and run
//! no test.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::request::RequestArguments;
use crate::arguments::values;
use memprof_judge::why::grouping::GroupBy;
use memprof_plan::config::flag::Section;
use memprof_plan::config::values::Parsed;
use memprof_plan::request::RefRequest;
use memprof_plan::trace_pattern::TracePattern;

/// What follows `build --help`.
pub const BUILD_HELP: &str = "\
Examples:
  cargo memprof build --refs main,pr/7             build both, for later runs
  cargo memprof build --refs main,pr/7 --archive both.tar.zst
                                                   pack both into an archive
  cargo memprof build --refs main,pr/7 --archive both.tar.zst --why-by type
                                                   its runs can show types and owners
  cargo memprof run --archive both.tar.zst         on the other machine";

/// What follows `list --help`.
pub const LIST_HELP: &str = "\
Examples:
  cargo memprof list                               tests of the working tree
  cargo memprof list --refs main,pr/7 -k decode    what -k decode selects";

/// What follows `trace --help`.
pub const TRACE_HELP: &str = "\
Examples:
  cargo memprof trace 'crate::**::forward'         in the working tree
  cargo memprof trace '<Encoder as Module>::forward' --refs main,pr/7
  cargo memprof --trace 'crate::**::forward' --refs main,pr/7
                                                   measure these functions";

/// `build`.
#[derive(Clone, Debug, Default, Args)]
pub struct BuildCommandArguments {
    /// Revisions to build, as in `cargo memprof main feature`
    #[arg(value_name = "REF", value_delimiter = ',', value_parser = values::plain_reference, conflicts_with = "refs")]
    pub revisions: Vec<RefRequest>,
    /// What to build.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Pack the builds and the plan into this file, for `cargo memprof run --archive FILE` on
    /// another machine
    ///
    /// That machine needs no toolchain, no repository and no network.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = Section::Archive.heading())]
    pub archive: Option<Utf8PathBuf>,
    /// Also pack files that the tests read: 'tests/data', 'models/**/*.bin' (repeatable)
    ///
    /// Paths and globs start at the repository's root. The files come from each revision.
    #[arg(long, value_name = "GLOB", requires = "archive", help_heading = Section::Archive.heading())]
    pub data: Vec<String>,
    /// Build for `--why-by` of a later run: type and owner need names with types; site, line, function, module,
    /// crate, hunk and thread need nothing (docs/why.md)
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true, help_heading = Section::CallSites.heading())]
    pub why_by: Option<GroupBy>,
    /// Fail instead of waiting for another run that uses this repository
    #[arg(long)]
    pub no_wait: bool,
}

/// `list`.
#[derive(Clone, Debug, Default, Args)]
pub struct ListArguments {
    /// Revisions whose tests to list, as in `cargo memprof main feature`
    #[arg(value_name = "REF", value_delimiter = ',', value_parser = values::plain_reference, conflicts_with = "refs")]
    pub revisions: Vec<RefRequest>,
    /// What to list.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Fail instead of waiting for another run that uses this repository
    #[arg(long)]
    pub no_wait: bool,
}

/// `trace`.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceCommandArguments {
    /// Function patterns.
    #[arg(value_name = "PATTERN", help = "Function patterns, as --trace takes them: 'crate::**::forward'")]
    pub patterns: Vec<Parsed<TracePattern>>,
    /// List the functions, with the reason for each that cannot be traced (always on: the command
    /// does nothing else)
    #[arg(long)]
    pub list: bool,
    /// Where to look.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Fail instead of waiting for another run that uses this repository
    #[arg(long)]
    pub no_wait: bool,
}
