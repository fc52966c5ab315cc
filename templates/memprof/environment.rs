//! What the runner tells the process, read once before `main` and then removed: a program that the test starts, or a
//! cargo inside the test, must not write to this run's log.
//!
//! Reading allocates through the global allocator, and frees again before the first figures are read.

use std::ffi::OsString;

use crate::untracked::kept;

/// Path of the log. Without it the shim does nothing.
const LOG: &str = "MEMPROF_LOG";
/// `0` silences the line on standard error.
const PRINT: &str = "MEMPROF_PRINT";
/// Why there are no heap metrics, if it turns out that there are none.
const HEAP_ABSENT: &str = "MEMPROF_HEAP_ABSENT";
/// Metrics that are read on request only, separated by commas.
const METRICS: &str = "MEMPROF_METRICS";

/// Path of CUPTI, for the injection library.
const CUPTI: &str = "MEMPROF_CUPTI";
/// Why there is no CUPTI, if the runner found none.
const CUPTI_ABSENT: &str = "MEMPROF_CUPTI_ABSENT";
/// `0`: checkpoints do not wait for the GPUs in use.
const SYNC: &str = "MEMPROF_SYNC";
/// `0`: resident memory is not read, and a checkpoint is free of system calls but for its line in the log.
const RESIDENT: &str = "MEMPROF_RESIDENT";
/// How many calls of each traced function are logged one by one.
const TRACE_EVENTS: &str = "MEMPROF_TRACE_EVENTS";
/// What is read when a traced function begins and ends: `heap`, `cpu`, `gpu`, separated by commas.
const TRACE_COLUMNS: &str = "MEMPROF_TRACE_COLUMNS";

/// All of them; a new one belongs here too, or children inherit it.
const ALL: [&str; 10] =
    [LOG, PRINT, HEAP_ABSENT, METRICS, CUPTI, CUPTI_ABSENT, SYNC, RESIDENT, TRACE_EVENTS, TRACE_COLUMNS];

#[derive(Default)]
pub(crate) struct Environment {
    pub(crate) log: OsString,
    pub(crate) print: bool,
    pub(crate) heap_absent: Option<String>,
    metrics: String,
    cupti: Option<String>,
    cupti_absent: Option<String>,
    leaves_gpus_alone: bool,
    leaves_resident_out: bool,
    pub(crate) trace_events: Option<u64>,
    pub(crate) trace_columns: Option<String>,
}

impl Environment {
    /// `None` outside a run: then nothing was changed either.
    pub(crate) fn take() -> Option<Self> {
        let log = std::env::var_os(LOG).filter(|path| !path.is_empty())?;
        let environment = Self {
            log,
            print: !is_off(PRINT),
            heap_absent: std::env::var(HEAP_ABSENT).ok().filter(|reason| !reason.is_empty()),
            metrics: std::env::var(METRICS).unwrap_or_default(),
            cupti: std::env::var(CUPTI).ok().filter(|path| !path.is_empty()),
            cupti_absent: std::env::var(CUPTI_ABSENT).ok().filter(|reason| !reason.is_empty()),
            leaves_gpus_alone: is_off(SYNC),
            leaves_resident_out: is_off(RESIDENT),
            trace_events: std::env::var(TRACE_EVENTS).ok().and_then(|value| value.parse().ok()),
            trace_columns: std::env::var(TRACE_COLUMNS).ok().filter(|columns| !columns.is_empty()),
        };
        for name in ALL {
            std::env::remove_var(name);
        }
        Some(environment)
    }

    /// Whether a runner asked for a log; the default is a process that only asks for figures itself.
    pub(crate) fn in_a_run(&self) -> bool {
        !self.log.is_empty()
    }

    /// CUPTI's path, with a zero byte at its end, or why there is none. Both stay for the life of the process.
    pub(crate) fn cupti(&self) -> Result<&'static [u8], &'static str> {
        match (&self.cupti, &self.cupti_absent) {
            // The path may be the user's own, which the runner has found to be none, or cannot use.
            (_, Some(reason)) => Err(kept(format_args!("{reason}"))),
            (Some(path), None) => Ok(kept(format_args!("{path}\0")).as_bytes()),
            (None, None) => Err("no CUPTI was handed over (MEMPROF_CUPTI)"),
        }
    }

    /// Whether a checkpoint waits for the GPUs in use.
    pub(crate) fn synchronises(&self) -> bool {
        !self.leaves_gpus_alone
    }

    /// Whether resident memory is read.
    pub(crate) fn reads_resident(&self) -> bool {
        !self.leaves_resident_out
    }

    /// Whether a metric that is read on request only was requested.
    pub(crate) fn wants(&self, metric: &str) -> bool {
        self.metrics.split(',').any(|wanted| wanted.trim() == metric)
    }
}

fn is_off(name: &str) -> bool {
    std::env::var_os(name).map_or(false, |value| value == "0")
}
