//! The flags that say what a report shows, and where it goes.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::values;
use crate::arguments::why::WhyArguments;
use memprof_report::options::{Format, Rows, View};

/// What to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Output")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PresentationArguments {
    /// Show these metrics: heap.peak,cpu.rss
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = values::shown_metric)]
    pub metrics: Vec<String>,
    /// Show all metrics
    #[arg(long, conflicts_with = "metrics")]
    pub all: bool,
    /// What the table shows; `scopes`, `top` and `tensors` need only one ref
    #[arg(long, value_name = "VIEW", value_enum, default_value_t)]
    pub view: View,
    /// Show one line per test and metric, or per scope; with one ref, only the table of tests
    #[arg(long)]
    pub compact: bool,
    /// Which tests have a table of checkpoints: those that changed (the default), all, or none
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub rows: Rows,
    /// In these tables, show only checkpoints that changed
    #[arg(long, conflicts_with = "all_rows")]
    pub only_changed: bool,
    /// The same as `--rows all`
    #[arg(long, hide = true, conflicts_with = "rows")]
    pub all_rows: bool,
    /// Report format; repeat it for several --output files, in the same order [default: from the
    /// file extension, else table]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Vec<Format>,
    /// Whether the table is a list of tests with their results.
    #[arg(skip)]
    pub is_test: bool,
    /// Whether repository and runs are removed afterwards, so that no path or command leads to them.
    #[arg(skip)]
    pub is_temporary: bool,
    /// Write the report to a file (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Vec<Utf8PathBuf>,
    /// Write the changed source lines beside call sites into an HTML page
    #[arg(long)]
    pub with_source: bool,
    /// Call sites.
    #[command(flatten)]
    pub why: WhyArguments,
}
