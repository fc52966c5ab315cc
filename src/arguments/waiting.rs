//! The flags that say how long to wait for other runs.

use std::time::Duration;

use clap::Args;

use memprof_plan::config::flag::Section;
use memprof_plan::quantity;
use memprof_support::file_lock::WhenHeld;

/// Whether and how long to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = Section::Run.heading())]
pub struct WaitingArguments {
    /// Fail instead of waiting for another run that uses this repository, or a GPU that the tests
    /// can see
    #[arg(long)]
    pub no_wait: bool,
    /// Wait at most this long for each of them, then fail: 30m, 2h [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = quantity::timeout, conflicts_with = "no_wait")]
    pub wait: Option<u64>,
}

impl WaitingArguments {
    /// Returns what to do while another run has a lock.
    pub fn when_held(self) -> WhenHeld {
        match self {
            Self { no_wait: true, .. } => WhenHeld::Fail,
            Self { wait: Some(seconds), .. } => WhenHeld::WaitAtMost(Duration::from_secs(seconds)),
            Self { .. } => WhenHeld::Wait,
        }
    }
}
