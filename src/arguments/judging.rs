//! The flags that say what a regression is.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::settings::Settings;
use crate::arguments::values;
use memprof_plan::config::flag::{JUDGES, Section};
use memprof_plan::config::keep::kept;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::rule::{Allowance, Rule};

/// Thresholds, limits, leaks and expected changes.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Verdicts.heading())]
pub struct JudgingArguments {
    /// How much a metric may grow: heap.peak=5%, cpu.peak=5%,16MiB, time=off (repeatable)
    ///
    /// If you give two limits, a regression exceeds both. `off` ignores growth. For some tests and
    /// checkpoints: gpu.*.peak=5%,test=hf,checkpoint=done*. --limit takes both, too, and --leak test=…
    #[arg(long = "threshold", value_name = "METRIC=LIMIT", value_parser = values::threshold)]
    pub thresholds: Vec<Rule>,
    /// How large a metric may be: heap.peak=8GiB (repeatable)
    #[arg(long = "limit", value_name = "METRIC=SIZE", value_parser = values::limit)]
    pub limits: Vec<Rule>,
    /// How much larger a metric may be at `done` than at `start`: heap.live=64KiB (repeatable)
    #[arg(long = "leak", value_name = "METRIC=SIZE", value_parser = values::leak)]
    pub leaks: Vec<Rule>,
    /// Expect a change: metric=heap.peak,test=hf,limit=20%,until=2026-12-31,reason=TEXT
    /// (repeatable)
    ///
    /// The reason is required and comes last.
    #[arg(long = "allow", value_name = "CHANGE", value_parser = values::allow)]
    pub allow: Vec<Allowance>,
    /// The flag of `budget`.
    #[command(flatten)]
    pub settings: Settings<Matrix, JUDGES>,
    /// Read from this file how much each metric varies; with --aa, write it there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub noise: Option<Utf8PathBuf>,
}

impl JudgingArguments {
    /// Returns the file of `--budget`.
    pub fn budget(&self) -> Option<Utf8PathBuf> {
        kept::<_, Option<String>>(self.settings.budget.as_ref()).map(Utf8PathBuf::from)
    }
}
