//! What a program asks for outside of scopes: checkpoints, readings, and the log so far.

use crate::log::environment::Environment;
use crate::log::terminal;
use crate::metrics::source::{Extent, Source};
use crate::platform::untracked::Untracked;
use crate::recorder::holding::{hold, settle_and_hold};
use crate::recorder::marks::Recorder;
use crate::recorder::reading::Reading;

/// Logs a checkpoint, and shows it unless it is one of the shim's own.
pub(crate) fn checkpoint(label: &str, at: Option<&str>) {
    let line = match settle_and_hold() {
        Some(mut recorder) => recorder.checkpoint(label, at),
        None => None,
    };
    if let Some(line) = line {
        terminal::write(line.as_str());
    }
}

pub(crate) fn read() -> Reading {
    match settle_and_hold() {
        Some(mut recorder) => recorder.read(),
        None => Reading::new(),
    }
}

/// The log so far; `None` outside a run, and if the log cannot be read.
pub(crate) fn logged() -> Option<Untracked<u8>> {
    hold().and_then(|recorder| recorder.log.as_ref()?.so_far().ok())
}

pub(crate) fn warm_up() {
    if let Some(mut recorder) = hold() {
        recorder.sources.each().into_iter().for_each(Source::warm_up);
    }
}

impl Recorder {
    /// A checkpoint that leaves no trace: the interval goes on.
    fn read(&mut self) -> Reading {
        if !self.opened {
            self.open(&Environment::default());
        }
        let mark = self.mark(Extent::Whole);
        let mut reading = Reading::new();
        for (index, metric) in self.catalogue.metrics() {
            if let Some(figure) = self.figure(index, metric, &mark) {
                // A level may be below that at the beginning of the test's body. Zero would be a wrong figure.
                if figure <= u64::MAX / 2 {
                    reading.add(metric.name, figure);
                }
            }
        }
        reading.add("time", mark.nanoseconds);
        reading
    }
}
