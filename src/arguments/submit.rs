//! The flags of `submit`.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::judging::JudgingArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::arguments::workspace::WorkspaceArguments;
use memprof_plan::shard;

/// What follows `submit --help`.
pub const SUBMIT_HELP: &str = "\
Examples:
  cargo memprof submit --slurm --archive both.tar.zst --shards 8 -- --gres=gpu:1 --partition=x
  cargo memprof submit --slurm --archive both.tar.zst --shards 8 --detach
  cargo memprof submit --resume 4711               follow it, and run missing shards again
  scancel 4711                                     cancel it; finished shards are kept

Ctrl-C stops following. The job keeps running.";

/// `submit`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct SubmitArguments {
    /// Submit to Slurm, as one job array
    #[arg(long, required_unless_present = "resume")]
    pub slurm: bool,
    /// The archive, at a path that the nodes see: `cargo memprof build --archive FILE` writes it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "resume")]
    pub archive: Option<Utf8PathBuf>,
    /// The number of shards, each a task of the array
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(shard::MOST)),
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    pub shards: Option<u32>,
    /// Submit, print how to continue, and exit
    #[arg(long)]
    pub detach: bool,
    /// Follow a job, and submit its missing shards again: a job's id, or the run's folder
    #[arg(long, value_name = "JOB")]
    pub resume: Option<String>,
    /// Folder for the run, which the nodes see [default: a new folder beside the repository's runs, or
    /// in memprof-runs]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "resume")]
    pub run_folder: Option<Utf8PathBuf>,
    /// Ask Slurm at least this often
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub every: Duration,
    /// What a regression is, in addition to the archive's rules.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
    /// Which workspace.
    #[command(flatten)]
    pub workspace: WorkspaceArguments,
    /// Flags for sbatch, as they are
    #[arg(last = true, value_name = "SBATCH_FLAG", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
}

/// Flags whose values decide how often a shard repeats its tests. They go to the shards as they were
/// typed.
const JUDGING: [&str; 4] = ["--threshold", "--limit", "--leak", "--allow"];

/// Returns the flags for verdicts from this command line, up to `--`.
pub fn judging_flags(argv: impl Iterator<Item = String>) -> Vec<String> {
    let mut argv = argv.take_while(|argument| argument != "--");
    let mut flags = Vec::new();
    while let Some(argument) = argv.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        if JUDGING.contains(&name)
            && let Some(value) = value.or_else(|| argv.next())
        {
            flags.extend([name.to_owned(), value]);
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_for_verdicts_are_taken_as_they_were_typed() {
        let argv = "cargo-memprof submit --slurm --threshold heap.peak=5%,test=a --output x.md --limit=heap.peak=8GiB \
                    --metrics a -- --threshold no";
        let flags = judging_flags(argv.split_whitespace().map(str::to_owned));
        assert_eq!(flags, ["--threshold", "heap.peak=5%,test=a", "--limit", "heap.peak=8GiB"]);
    }
}
