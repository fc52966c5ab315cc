//! The log's first lines, and where the figures begin: with the test's body, or with the process.

use std::time::Instant;

use crate::heap::body;
use crate::lines::stack_log::StackLog;
use crate::log::stamp;
use crate::metrics::source::Extent;
use crate::recorder::marks::Recorder;

/// The shim's version.
const VERSION: &str = "0.1.0";

impl Recorder {
    /// Logs the first lines, and the first checkpoint unless the test's body is still to come.
    pub(crate) fn begin(&mut self, body: Option<Result<(), &'static str>>) {
        let key = stamp::key();
        self.log(|recorder, log| {
            log.write("begin", 0, |json| {
                json.text_or_null("build", key.as_ref().map(stamp::Key::as_str));
                json.text("shim", VERSION);
                json.clock();
                json.object("sources", |json| {
                    for (_, metric) in recorder.catalogue.metrics() {
                        json.text(metric.name, metric.source);
                    }
                    json.text("time", CLOCK);
                });
            })?;
            recorder.catalogue.absent().iter().try_for_each(|absent| {
                log.write("absent", 0, |json| {
                    json.text("metric", absent.name);
                    json.text("reason", absent.reason);
                })
            })
        });
        self.announced = (self.catalogue.length(), self.catalogue.absent().len());
        self.stacks = StackLog::new();
        self.log_stacks(StackLog::begin);
        // The cost of opening all this does not belong to the test.
        let before = self.mark(Extent::Whole);
        self.count_from(&before);
        self.started = Some(Instant::now());
        match body {
            Some(Ok(())) => self.waiting = Some(self.mark_of_checkpoint()),
            Some(Err(reason)) => self.log_beginning(Some(reason)),
            None => {}
        }
        if self.waiting.is_none() {
            self.checkpoint("start", None);
        }
    }

    /// Logs where the figures begin: with the test's body, or with the process for this reason.
    fn log_beginning(&mut self, reason: Option<&str>) {
        let nanoseconds = self.nanoseconds();
        self.log(|_, log| {
            log.write("body", nanoseconds, |json| {
                json.text("begins", if reason.is_none() { "body" } else { "process" });
                json.text_or_null("reason", reason);
                json.clock();
            })
        });
    }

    /// The figures begin where the process began, if the test's body is still to come.
    pub(crate) fn begin_with_process(&mut self, reason: &str) {
        if let Some(mark) = self.waiting.take() {
            body::abandon();
            self.log_beginning(Some(reason));
            self.log_checkpoint("start", None, &mark);
        }
    }

    pub(crate) fn begin_body(&mut self) {
        if self.waiting.take().is_none() {
            return;
        }
        if let Some(stacks) = &self.stacks {
            stacks.begin_interval_at_next_mark(&self.sources);
        }
        let before = self.mark(Extent::Whole);
        self.count_from(&before);
        for source in self.sources.each() {
            source.begin_body(&before.values, &mut self.catalogue);
        }
        self.started = Some(Instant::now());
        self.log_beginning(None);
        self.checkpoint("start", None);
    }
}

/// The clock behind [`Instant`] on this platform.
#[cfg(not(any(windows, target_os = "macos", target_os = "ios")))]
const CLOCK: &str = "CLOCK_MONOTONIC";
#[cfg(any(target_os = "macos", target_os = "ios"))]
const CLOCK: &str = "CLOCK_UPTIME_RAW";
#[cfg(windows)]
const CLOCK: &str = "QueryPerformanceCounter";
