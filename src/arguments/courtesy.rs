//! The flags of `yield` and `restore`, and the value of `--courtesy`.

use std::str::FromStr;

use clap::Args;

use crate::arguments::values;

/// What `yield --help` ends with.
pub const YIELD_HELP: &str = "\
Examples:
  cargo memprof yield 4711             the GPU memory of process 4711 moves to host memory
  cargo memprof yield --device 0       that of your processes on GPU 0 with MEMPROF_COURTESY=1
  cargo memprof restore                all of it moves back

A process that is set aside waits at its next call into CUDA. docs/courtesy.md says what the
driver needs, and what it cannot set aside.

Exit codes:
    0  all of them are set aside
    2  refused, with the reason; nothing is set aside
  130  interrupted; nothing is set aside";

/// What `restore --help` ends with.
pub const RESTORE_HELP: &str = "\
Examples:
  cargo memprof restore                all of your processes that are set aside
  cargo memprof restore 4711           this one, also while a comparison uses its place

Exit codes:
    0  all of them run again
    2  a process could not be restored, with the reason";

/// The value of `--courtesy` for processes that agreed by their environment.
pub const OPTED_IN: &str = "opted-in";

/// `yield`.
#[derive(Clone, Debug, Default, Args)]
pub struct YieldArguments {
    /// Your processes whose GPU memory to set aside
    #[arg(value_name = "PID", required_unless_present = "device", conflicts_with = "device")]
    pub processes: Vec<u32>,
    /// All of your processes on these GPUs that have `MEMPROF_COURTESY=1` in their environment: an
    /// NVML index or the beginning of a UUID
    #[arg(long, value_name = "DEVICE,DEVICE", value_delimiter = ',', value_parser = values::device)]
    pub device: Vec<String>,
}

/// `restore`.
#[derive(Clone, Debug, Default, Args)]
pub struct RestoreArguments {
    /// Only these processes [default: all of yours that are set aside]
    #[arg(value_name = "PID")]
    pub processes: Vec<u32>,
}

/// `--courtesy PID,PID|opted-in`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CourtesyTarget {
    /// Processes with these ids.
    Processes(Vec<u32>),
    /// All of the user's processes on the tests' devices that opted in.
    OptedIn,
}

impl FromStr for CourtesyTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == OPTED_IN {
            return Ok(Self::OptedIn);
        }
        let ids: Result<Vec<u32>, _> = text.split(',').map(|id| id.trim().parse::<u32>()).collect();
        ids.map(Self::Processes)
            .map_err(|_| format!("expected process ids, such as 4711,4712, or `{OPTED_IN}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courtesy_is_for_processes_or_for_all_that_opted_in() {
        assert_eq!("4711, 12".parse(), Ok(CourtesyTarget::Processes(vec![4711, 12])));
        assert_eq!("opted-in".parse(), Ok(CourtesyTarget::OptedIn));
        for wrong in ["", "own", "-3", "4711,"] {
            assert!(wrong.parse::<CourtesyTarget>().unwrap_err().contains("such as 4711,4712"), "{wrong}");
        }
    }
}
