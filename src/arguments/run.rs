//! The flags of `run`.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::courtesy::CourtesyTarget;
use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::RequestArguments;
use crate::arguments::settings::Settings;
use crate::arguments::values;
use crate::arguments::waiting::WaitingArguments;
use memprof_plan::config::flag::{RUNS, Section};
use memprof_plan::config::keep::kept;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::request::RefRequest;
use memprof_plan::resolved::Plan;
use memprof_plan::shard::Shard;
use memprof_plan::sharding;
use memprof_run::follow::Follow;
use memprof_run::saved_baselines;

/// `run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArguments {
    /// What to compare: `main feature`, `main..feature`, `main...feature` (from the merge base), or
    /// `pr/7` (against its merge base with the default branch)
    ///
    /// One ref alone, such as `.` or v1.2, is shown by itself. Without a ref, the current work is
    /// compared with its merge base with the default branch.
    #[arg(value_name = "REF", value_delimiter = ',', value_parser = values::plain_reference, conflicts_with = "refs")]
    pub revisions: Vec<RefRequest>,
    /// What to compare.
    #[command(flatten)]
    pub request: RequestArguments,
    /// How to run it.
    #[command(flatten)]
    pub execution: ExecutionArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
}

/// How to run a comparison.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Run.heading())]
pub struct ExecutionArguments {
    /// Print the plan as JSON, then stop
    #[arg(long)]
    pub dry_run: bool,
    /// Continue an interrupted run, by default the latest; finished tests do not run again
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "dry_run")]
    pub resume: Option<String>,
    /// Print each checkpoint when it is logged, with GPU, resident and heap memory
    #[arg(long)]
    pub live: bool,
    /// Print the output of the tests while they run; `-- --nocapture` means the same
    #[arg(short = 's', long, visible_alias = "no-capture")]
    pub nocapture: bool,
    /// How long to wait for other runs.
    #[command(flatten)]
    pub waiting: WaitingArguments,
    /// Let the tests see only these GPUs: an NVML index, the beginning of a UUID, or `none`
    #[arg(
        long,
        value_name = "DEVICE,DEVICE",
        value_delimiter = ',',
        value_parser = values::device,
        conflicts_with = "resume"
    )]
    pub device: Vec<String>,
    /// The flag of `devices`.
    #[command(flatten)]
    pub settings: Settings<Matrix, RUNS>,
    /// Set the GPU memory of these processes of yours aside while the tests run: PIDs, or `opted-in`
    /// (docs/courtesy.md)
    #[arg(long, value_name = "PID,PID|opted-in")]
    pub courtesy: Option<CourtesyTarget>,
    /// Run an archive that `cargo memprof build --archive FILE` wrote, without a toolchain or network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub archive: Option<Utf8PathBuf>,
    /// Run only this part of the tests, the second of eight; `cargo memprof merge` makes one report
    /// of all parts (docs/archive.md)
    #[arg(long, value_name = "2/8", value_parser = values::shard, conflicts_with = "resume")]
    pub shard: Option<Shard>,
    /// Keep the results as a baseline of this name, for later --baseline-run NAME (docs/baselines.md)
    #[arg(long, value_name = "NAME", value_parser = saved_baselines::check_name, conflicts_with_all = ["archive", "shard", "aa", "dry_run", "baseline_run"])]
    pub save_baseline: Option<String>,
    /// Compare with a saved baseline instead of building and running it again
    #[arg(long, value_name = "NAME", conflicts_with_all = ["archive", "shard", "aa", "resume", "pair"])]
    pub baseline_run: Option<String>,
    /// Folder for the results of an archive's run [default: a new folder in memprof-runs]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "archive")]
    pub run_folder: Option<Utf8PathBuf>,
}

impl ExecutionArguments {
    /// Returns the GPUs of `--devices`.
    pub fn devices(&self) -> Option<Vec<String>> {
        kept(self.settings.devices.as_ref())
    }

    /// Puts the devices and the shard into a plan.
    pub fn apply(&self, plan: &mut Plan) {
        if !self.device.is_empty() {
            plan.request.give_devices(&self.device);
        }
        plan.request.spread_over(self.devices());
        if let Some(shard) = self.shard {
            sharding::take(plan, shard);
        }
    }

    /// Returns what to show of a test while it runs.
    pub fn follow(&self) -> Follow {
        // The tests' own output has no line for a checkpoint.
        Follow { checkpoints: self.live || self.nocapture, output: self.nocapture }
    }
}
