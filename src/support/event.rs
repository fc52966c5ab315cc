//! What the stages say while they work: the interface between the effects, which print nothing, and the console.

use std::time::Duration;

/// One thing that happened. The console draws them, tests collect them.
///
/// `name` is a revision's name in the report and `commit` its short hash; `index` counts from 1 to `total`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say; the lines above say the rest")]
pub enum Event {
    /// A ref was resolved; `note` says how where that is not plain (fetched from, found as).
    Resolved { name: String, commit: String, note: Option<String> },
    /// Another run holds the lock on a cache folder or a device.
    WaitingForLock { subject: String, holder: String },
    /// A run's memory is still on a device.
    WaitingForMemory { device: String },
    /// A revision is about to be built.
    BuildStarted { name: String, commit: String },
    /// Cargo compiled one more crate of the build under way.
    BuildProgress { name: String, crate_name: String, compiled: usize },
    /// A revision was built.
    BuildFinished { name: String, commit: String, took: Duration },
    /// The store already had this build.
    BuildReused { name: String, commit: String },
    /// A revision did not build; the log is kept at the path.
    BuildFailed { name: String, commit: String, first_errors: String, log: String, hints: Vec<String> },
    /// A run is about to start; `index` counts from 1 to `total`, over all runs.
    RunStarted { test: String, name: String, index: usize, total: usize },
    /// A run ended.
    RunFinished {
        test: String,
        name: String,
        index: usize,
        total: usize,
        outcome: String,
        ok: bool,
        took: Duration,
    },
    /// A search over commits begins: from how many, in about how many steps.
    SearchBegan { text: String },
    /// A commit of it was measured, or skipped; with what is left.
    SearchStep { text: String, measured: bool },
    /// A test program is linked with libraries that this machine lacks: its tests can be listed here, and cannot run here.
    AbsentLibraries { target: String, names: Vec<String> },
    /// Something the user should know, with what to do about it.
    Warning { message: String, help: Option<String> },
}

/// Where events go.
pub trait Sink {
    /// Takes one event.
    fn emit(&self, event: Event);
}

impl<F: Fn(Event)> Sink for F {
    fn emit(&self, event: Event) {
        self(event);
    }
}
