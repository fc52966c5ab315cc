//! The flags that say what a report shows, and where it goes.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::settings::Settings;
use crate::arguments::why::WhyArguments;
use memprof_plan::config::flag::{REPORTS, Section};
use memprof_plan::config::keep::kept;
use memprof_plan::config::matrix::{Matrix, MetricName};
use memprof_plan::config::yaml::{List, Scalar};
use memprof_report::options::{Format, Rows, View};

/// What to show.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Output.heading())]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PresentationArguments {
    /// The flag of `metrics`.
    #[command(flatten)]
    pub settings: Settings<Matrix, REPORTS>,
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
    #[arg(long)]
    pub only_changed: bool,
    /// Report format: table, markdown, csv, html, json, junit, sarif, gitlab, bencher, pprof, dhat, perfetto, folded
    /// [default: from the file extension, else table]
    ///
    /// For several --output files, repeat it in the same order. docs/reports.md explains the formats, also
    /// csv=wide, csv=scopes, csv=calls, csv=lines, csv=tensors, csv=layers, csv=causes, csv=sites, csv=owners
    /// and csv=threads.
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
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

impl PresentationArguments {
    /// Shows this metric alone.
    pub fn of_metric(name: &str) -> Self {
        let mut arguments = Self::default();
        arguments.settings.metrics = Some(List(vec![Scalar(MetricName(name.to_owned()))]));
        arguments
    }

    /// Returns the metrics of `--metrics`.
    pub fn metrics(&self) -> Vec<String> {
        kept(self.settings.metrics.as_ref())
    }
}
