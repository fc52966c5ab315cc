//! What the runner tells the process, read once before `main` and then removed: a program that the test starts, or a
//! cargo inside the test, must not write to this run's log.
//!
//! Reading allocates through the global allocator, and frees again before the first figures are read.

use std::ffi::OsString;

/// Path of the log. Without it the shim does nothing.
const LOG: &str = "MEMPROF_LOG";
/// `0` silences the line on standard error.
const PRINT: &str = "MEMPROF_PRINT";
/// Why there are no heap metrics, if it turns out that there are none.
const HEAP_ABSENT: &str = "MEMPROF_HEAP_ABSENT";
/// Metrics that are read on request only, separated by commas.
const METRICS: &str = "MEMPROF_METRICS";

/// All of them; a new one belongs here too, or children inherit it.
const ALL: [&str; 4] = [LOG, PRINT, HEAP_ABSENT, METRICS];

#[derive(Default)]
pub(crate) struct Environment {
    pub(crate) log: OsString,
    pub(crate) print: bool,
    pub(crate) heap_absent: Option<String>,
    metrics: String,
}

impl Environment {
    /// `None` outside a run: then nothing was changed either.
    pub(crate) fn take() -> Option<Self> {
        let log = std::env::var_os(LOG).filter(|path| !path.is_empty())?;
        let environment = Self {
            log,
            print: std::env::var_os(PRINT).map_or(true, |value| value != "0"),
            heap_absent: std::env::var(HEAP_ABSENT).ok().filter(|reason| !reason.is_empty()),
            metrics: std::env::var(METRICS).unwrap_or_default(),
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

    /// Whether a metric that is read on request only was requested.
    pub(crate) fn wants(&self, metric: &str) -> bool {
        self.metrics.split(',').any(|wanted| wanted.trim() == metric)
    }
}
