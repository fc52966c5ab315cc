//! Traced calls, as the recorder keeps them: its settings for them, and when it logs their sums.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::lines::call_lines;
use crate::log::environment::Environment;
use crate::metrics::columns::Columns;
use crate::platform::lock::Held;
use crate::recorder::holding;
use crate::recorder::marks::Recorder;

/// Whether GPU figures are read when traced functions begin and end.
static CALLS_READ_GPUS: AtomicBool = AtomicBool::new(true);
/// Whether pools are asked then.
static CALLS_READ_POOLS: AtomicBool = AtomicBool::new(false);

/// The recorder, after GPUs have finished their work and pools have told their figures, as far as
/// traced functions read them. Pools are not trimmed: that would take time at each call and line.
pub(crate) fn hold_for_calls() -> Option<Held<'static, Recorder>> {
    if CALLS_READ_POOLS.load(Ordering::Relaxed) {
        holding::settle_untrimmed_and_hold()
    } else if CALLS_READ_GPUS.load(Ordering::Relaxed) {
        holding::settle_devices_and_hold()
    } else {
        holding::hold()
    }
}

impl Recorder {
    /// Applies the runner's settings for traced calls.
    pub(crate) fn set_up_calls(&mut self, environment: &Environment) {
        self.calls.maximum_events = environment.trace_events.unwrap_or(0);
        self.calls.every = environment.trace_every.unwrap_or(1).max(1);
        self.calls.lines_per_call = environment.lines_per_call;
        if let Some(columns) = &environment.trace_columns {
            self.calls.columns = Columns::from_names(columns);
            CALLS_READ_GPUS.store(self.calls.columns.gpu, Ordering::Relaxed);
        }
        CALLS_READ_POOLS.store(self.calls.columns.pool, Ordering::Relaxed);
    }

    /// Logs the sums of traced calls that changed since the last time.
    pub(crate) fn log_calls(&mut self) {
        let changed = self.calls.tree.take_changed();
        let nanoseconds = if changed.is_empty() { 0 } else { self.nanoseconds() };
        self.log(|recorder, log| call_lines::write_sums_of(log, &recorder.calls, &changed, nanoseconds));
    }

    /// Logs the figures of each line that ran since the last time, for the functions that are traced
    /// by line.
    pub(crate) fn log_lines(&mut self) {
        for number in 0..self.calls.sites().len() {
            self.log_lines_of(number);
        }
        self.calls.lines_are_logged();
    }

    /// Logs the lines of one function.
    pub(crate) fn log_lines_of(&mut self, number: usize) {
        let nanoseconds = self.nanoseconds();
        self.log(|recorder, log| {
            call_lines::write_lines_of(log, &recorder.calls, &recorder.catalogue, number, nanoseconds)
        });
    }
}
