//! The outcomes of runs. They are data for the report, never an `Err`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::file_seal::FileSeal;
use memprof_plan::resolved::CellId;

/// `outcome.json` in a run's folder: which run it was, and its outcome. The run is finished if the
/// file exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Index in the plan's revisions.
    pub revision: usize,
    pub cell: CellId,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The key of the build in the store. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Remarks on the figures, for the report: `process 7 (python, 300 MiB) was on GPU 2 too`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// Metrics that may include memory of other processes in this run, with the reason. They count
    /// as absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub withdrawn: BTreeMap<String, String>,
    /// The devices that the user chose for the run, by UUID. Absent if the user chose none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
    /// The run's other files by name, as they were when the run ended. Absent before version 2.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileSeal>,
}

impl RunRecord {
    /// The record of a cell that has no run at a revision, with the reason.
    pub fn absent(revision: usize, cell: &CellId, (status, message): (Status, Option<String>)) -> Self {
        Self {
            version: VERSION,
            revision,
            cell: cell.clone(),
            repeat: 0,
            outcome: Outcome { status, message, wall_nanoseconds: None },
            build: None,
            marks: Vec::new(),
            withdrawn: BTreeMap::new(),
            devices: None,
            files: BTreeMap::new(),
        }
    }
}

/// The version of `outcome.json`'s format. Version 2 added `files` and the checksum.
pub const VERSION: u32 = 2;

/// The newest version without hashes.
pub const WITHOUT_SEALS: u32 = 1;

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What happened.
    #[serde(flatten)]
    pub status: Status,
    /// The panic message, the compiler's first error, or why the figures cannot be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Wall time of the process in nanoseconds, as this program measured it. Absent if no process
    /// ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_nanoseconds: Option<u64>,
}

/// What happened, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Status {
    /// The test passed.
    Ok,
    /// The test ran and failed, with a panic or an exit code.
    Failed {
        /// The process's exit code.
        exit_code: i32,
    },
    /// The test failed because a memory assertion of its own does not hold.
    OverLimit,
    /// The process group was killed at the time limit.
    Timeout {
        /// The limit in seconds.
        limit_seconds: u64,
    },
    /// A signal ended the process.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// The user interrupted the command while the test ran. It runs again when the command continues.
    Interrupted,
    /// The kernel or the allocator had no memory left.
    OutOfMemory,
    /// The revision did not build.
    BuildFailed,
    /// The test's executable cannot be measured in this revision.
    NotMeasured,
    /// This revision has no test of this name.
    NotInThisRef,
    /// The test is marked `#[ignore]`, and the user did not ask for ignored tests.
    Ignored,
    /// The run proves nothing: the executable is not the planned one, or the test changed the files
    /// that the run is judged by.
    Refused,
}

impl Status {
    /// Whether the figures of this run may be compared.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Whether a process ran to its end. The other outcomes may change when an interrupted comparison
    /// continues.
    pub fn is_of_a_run(&self) -> bool {
        !matches!(
            self,
            Self::Interrupted | Self::Ignored | Self::NotInThisRef | Self::BuildFailed | Self::NotMeasured
        )
    }

    /// Returns the word for files: `ok`, `failed`, `over_limit`, `timeout`, `killed`, `out_of_memory`,
    /// `build_failed`, …
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed { .. } => "failed",
            Self::OverLimit => "over_limit",
            Self::Timeout { .. } => "timeout",
            Self::Killed { .. } => "killed",
            Self::Interrupted => "interrupted",
            Self::OutOfMemory => "out_of_memory",
            Self::BuildFailed => "build_failed",
            Self::NotMeasured => "not_measured",
            Self::NotInThisRef => "not_in_this_ref",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }

    /// Whether the test itself failed. The other failures are of the build, of this program, or of the
    /// user.
    pub fn is_of_the_test(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. }
                | Self::OverLimit
                | Self::Timeout { .. }
                | Self::Killed { .. }
                | Self::OutOfMemory
        )
    }

    /// Whether it makes a comparison impossible. A test that is ignored, or that a revision lacks,
    /// does not count.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Ok | Self::NotInThisRef | Self::Ignored)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok => formatter.pad("ok"),
            Self::Failed { exit_code } => write!(formatter, "failed (exit code {exit_code})"),
            Self::OverLimit => formatter.pad("over its limit"),
            Self::Timeout { limit_seconds } => write!(formatter, "timed out after {limit_seconds} s"),
            Self::Killed { signal } => match name_of_signal(*signal) {
                Some(name) => write!(formatter, "killed by signal {signal} ({name})"),
                None => write!(formatter, "killed by signal {signal}"),
            },
            Self::Interrupted => formatter.pad("interrupted"),
            Self::OutOfMemory => formatter.pad("out of memory"),
            Self::BuildFailed => formatter.pad("build failed"),
            Self::NotMeasured => formatter.pad("not measured"),
            Self::NotInThisRef => formatter.pad("not in this ref"),
            Self::Ignored => formatter.pad("ignored"),
            Self::Refused => formatter.pad("refused"),
        }
    }
}

/// Returns the name of a common signal that ends a process. The numbers differ between systems.
fn name_of_signal(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    })
}
