//! Layers of forward passes: reads the figures where they begin and end, and logs a pass at its end.

use crate::lines::occurrences::Logged;
use crate::lines::passes::{Levels, Origin, Output};
use crate::metrics::source::Extent;
use crate::recorder::holding::{hold, settle_and_hold};
use crate::recorder::marks::{Mark, Recorder};

/// Begins a layer, or a pass. Returns how many are open with it; 0 if nothing is recorded.
/// `before` is what the memory was before the adapter prepared the call.
#[cold]
pub(crate) fn begin(name: &str, is_pass: bool, before: Option<Levels>) -> usize {
    settle_and_hold().map_or(0, |mut recorder| recorder.begin_layer(name, is_pass, before))
}

#[cold]
pub(crate) fn end(depth: usize) {
    if let Some(mut recorder) = settle_and_hold() {
        recorder.end_layers(depth);
    }
}

pub(crate) fn levels() -> Option<Levels> {
    let mut recorder = settle_and_hold()?;
    if recorder.passes.is_elsewhere() {
        return None;
    }
    let mark = recorder.mark(Extent::Scopes);
    Some(recorder.levels(&mark))
}

pub(crate) fn keep_output(depth: usize, output: &Output<'_>) {
    let is_kept = hold().map_or(false, |mut recorder| recorder.keep_output(depth, output));
    if !is_kept {
        (output.is_alive)(output.weak, true);
    }
}

pub(crate) fn made(depth: usize, after: u64, output: u64) {
    if let Some(mut recorder) = hold() {
        recorder.passes.made(depth, after, output);
    }
}

pub(crate) fn origin(number: u64) -> Option<Origin> {
    hold()?.passes.origin(number)
}

impl Recorder {
    fn levels(&mut self, mark: &Mark) -> Levels {
        self.passes.levels(&self.catalogue, &mark.values)
    }

    fn keep_output(&mut self, depth: usize, output: &Output<'_>) -> bool {
        let gpu = &self.sources.gpu;
        self.passes.keep_output(depth, output, |ordinal| gpu.known_device(ordinal))
    }

    fn begin_layer(&mut self, name: &str, is_pass: bool, before: Option<Levels>) -> usize {
        if self.log.is_none() || self.passes.leaves_out() {
            return 0;
        }
        let is_outermost = self.passes.is_empty();
        if is_outermost {
            let occurrence = self.occurrences.next(Logged::Forward, name);
            self.passes.begin_pass(name, occurrence);
        }
        let row = self.passes.call(name, is_pass && is_outermost);
        let mark = self.mark(Extent::Scopes);
        let start = self.levels(&mark);
        self.open_scopes += 1;
        self.passes.begin_layer(row, mark.number, start, before);
        self.passes.depth()
    }

    /// Ends the layer at this depth, and layers inside it that are still open.
    fn end_layers(&mut self, depth: usize) {
        if depth == 0 || self.passes.is_elsewhere() {
            return;
        }
        while self.passes.depth() >= depth {
            let mark = self.mark(Extent::Scopes);
            self.log_what_appeared(&mark);
            let end = self.levels(&mark);
            self.passes.end_layer(&end, &self.histories);
            self.open_scopes = self.open_scopes.saturating_sub(1);
            if self.passes.is_empty() {
                self.passes.give_back_outputs();
                self.log(|recorder, log| recorder.passes.log_rows(log, mark.nanoseconds));
                self.passes.forget_rows();
            }
        }
    }
}
