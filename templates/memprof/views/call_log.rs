//! Traced functions in the log: the sums of their calls, from time to time, and the figures of
//! their lines.
//!
//! A call reads only the figures that traced functions show, and most calls write nothing. Their
//! sums are logged from time to time. Single calls of a function are logged up to a number that
//! the runner sets.

use crate::blocks::own_thread::{self, OwnFigures};
use crate::lines::calls::{Frame, Reached};
use crate::lines::occurrences::Logged;
use crate::lines::traced_function::{NONE, Site};
use crate::log::json::Json;
use crate::log::run_log::Log;
use crate::metrics::metric::{Index, Values};
use crate::metrics::source::Extent;
use crate::recorder::marks::Recorder;
use crate::recorder::traced_calls::hold_for_calls;
use crate::views::scope_log;

/// Begins a call of a traced function. Returns its frame, and whether its lines are measured.
pub(crate) fn enter_call(site: &'static Site, caller: u32) -> (u32, bool) {
    match hold_for_calls() {
        Some(mut recorder) => {
            let frame = recorder.enter_call(site, caller);
            (frame, frame != NONE && recorder.calls.has_lines(frame))
        }
        None => (NONE, false),
    }
}

/// Ends a call. `innermost` is the thread's innermost open call. Returns the one after that.
pub(crate) fn leave_call(frame: u32, innermost: u32, depth: u64) -> u32 {
    match hold_for_calls() {
        Some(mut recorder) => recorder.leave_call(frame, innermost, depth),
        // In a forked child, open calls belong to nobody.
        None => NONE,
    }
}

/// Notes that a function whose lines are traced is at another line.
pub(crate) fn at_line(frame: u32, line: u32, begins: bool) {
    if let Some(mut recorder) = hold_for_calls() {
        recorder.at_line(frame, line, begins);
    }
}

impl Recorder {
    fn enter_call(&mut self, site: &'static Site, caller: u32) -> u32 {
        if self.log.is_none() {
            return NONE;
        }
        let own = own_thread::read();
        self.calls.note_peak(caller, own);
        if !self.calls.needs_figures(site, caller) {
            return self.calls.enter(site, caller, (0, 0), &Values::new(), own);
        }
        self.open_scopes += 1;
        let needs_time = self.calls.maximum_events != 0 || self.calls.columns.time;
        let nanoseconds = if needs_time { self.nanoseconds() } else { 0 };
        let (mark, values) = self.mark_for_calls();
        let frame = self.calls.enter(site, caller, (mark, nanoseconds), &values, own);
        if self.calls.frame(frame).is_logged {
            self.calls.frame_mut(frame).occurrence = self.occurrences.next(Logged::Call, site.label);
        }
        // A call that never ends is known by this.
        self.tell();
        frame
    }

    fn leave_call(&mut self, frame: u32, innermost: u32, depth: u64) -> u32 {
        let own = own_thread::read();
        let inside = self.calls.note_peaks(frame, innermost, own);
        let (mark, values) = if self.calls.needs_figures_at_end(frame) {
            self.mark_for_calls()
        } else {
            (self.marks, Values::new())
        };
        let began = *self.calls.frame(frame);
        if began.mark != 0 {
            self.open_scopes = self.open_scopes.saturating_sub(1);
        }
        if began.is_logged {
            self.log_call(frame, depth, &values, own);
        }
        let nanoseconds = self.nanoseconds_for_calls();
        let histories = &self.histories;
        let peaks = |index: Index, since| histories.get(index).since(since);
        let has_table = self.calls.lines_per_call && self.calls.has_lines(frame);
        let caller = self.calls.leave(frame, (mark, nanoseconds), &values, own, inside, peaks);
        if has_table {
            self.log_lines_of(began.site as usize);
            self.calls.clear_lines(began.site);
        }
        self.tell();
        if inside.is_some() { innermost } else { caller }
    }

    /// The time, if traced functions read it.
    fn nanoseconds_for_calls(&self) -> u64 {
        if self.calls.columns.time { self.nanoseconds() } else { 0 }
    }

    /// Logs calls and lines from time to time.
    fn tell(&mut self) {
        if self.telling.is_due(self.nanoseconds()) {
            let before = self.log.as_ref().map_or(0, Log::length);
            self.log_calls();
            self.log_lines();
            let after = self.log.as_ref().map_or(0, Log::length);
            self.telling.told(self.nanoseconds(), after.saturating_sub(before));
        }
    }

    fn at_line(&mut self, frame: u32, line: u32, begins: bool) {
        if self.log.is_none() || !self.calls.has_lines(frame) {
            return;
        }
        let nanoseconds = self.nanoseconds_for_calls();
        let (mark, values) = self.mark_for_calls();
        let histories = &self.histories;
        let peaks = |index: Index, since| histories.get(index).since(since);
        self.calls.at_line(frame, Reached { line, begins }, mark, nanoseconds, &values, peaks);
        self.tell();
    }

    /// Like [`Self::mark`], but reads only what traced functions show. The intervals of other
    /// metrics' peaks go on.
    fn mark_for_calls(&mut self) -> (u64, Values) {
        let mut values = Values::new();
        let columns = self.calls.columns;
        for source in self.sources.each_of(columns).into_iter().flatten() {
            source.appear(&mut self.catalogue);
            source.read(&mut values, Extent::Scopes);
        }
        self.sources.follow_driver(&mut self.catalogue, &mut values);
        self.calls.follow(&self.catalogue);
        self.marks += 1;
        for index in self.calls.peaks() {
            if let Some(peak) = values.get(*index) {
                self.histories.get_mut(*index).add(self.marks, peak);
            }
        }
        (self.marks, values)
    }

    /// Logs one call as a scope, marked as traced: the code itself has no such scope.
    fn log_call(&mut self, frame: u32, depth: u64, values: &Values, own: Option<OwnFigures>) {
        let call = *self.calls.frame(frame);
        let site = self.calls.site(call.site);
        let end = self.nanoseconds();
        self.log(|recorder, log| {
            log.write("scope", end, |json| {
                json.number("traced", format_args!("true"));
                json.text("label", site.label);
                json.figure("occurrence", call.occurrence);
                json.text("at", site.at);
                json.figure("depth", depth);
                json.object("metrics", |json| {
                    recorder.call_figures(json, &call, values, own);
                    json.figure("time", end - call.nanoseconds);
                });
            })
        });
    }

    fn call_figures(&self, json: &mut Json<'_>, call: &Frame, values: &Values, own: Option<OwnFigures>) {
        for (place, slot) in self.calls.slots().iter().enumerate() {
            if call.is_by_thread(slot) {
                if let Some((grown, peaked)) = call.of_thread(slot, own) {
                    match slot.family {
                        Some(family) => scope_log::write_own_figures(json, family, grown, peaked),
                        None => json.number(slot.name, format_args!("{grown}")),
                    }
                }
                continue;
            }
            let (before, after) = match (call.start.get(place, slot), values.get(slot.level)) {
                (Some(before), Some(after)) => (before, after),
                _ => continue,
            };
            match slot.family {
                Some(family) => {
                    let peak = self.histories.get(slot.index).since(call.mark);
                    let base = self.catalogue.metric(slot.level).base;
                    scope_log::write_figures(json, (family, base), before, after, peak);
                }
                None => json.figure(slot.name, after.wrapping_sub(before)),
            }
        }
    }
}
