//! Traced functions in the log: the sums of their calls, from time to time, and the figures of
//! their lines.
//!
//! A call reads only the figures that traced functions show, and most calls write nothing. Their
//! sums are logged about once a second. Single calls of a function are logged up to a number that
//! the runner sets.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::call_tree::{Aggregate, Node, ROOT};
use crate::calls::{Calls, Columns, Frame, Reached, Slot};
use crate::environment::Environment;
use crate::json::Json;
use crate::lock::Held;
use crate::metric::{Index, Values};
use crate::occurrences::Logged;
use crate::recorder::{self, Recorder};
use crate::scope_log;
use crate::sources::Extent;
use crate::trace::{NONE, Site};
use crate::untracked::Text;

/// Whether GPU figures are read when traced functions begin and end.
static CALLS_READ_GPUS: AtomicBool = AtomicBool::new(true);
/// Whether pools are asked then.
static CALLS_READ_POOLS: AtomicBool = AtomicBool::new(false);

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

/// Ends a call. Returns its caller's frame.
pub(crate) fn leave_call(frame: u32, depth: u64) -> u32 {
    match hold_for_calls() {
        Some(mut recorder) => recorder.leave_call(frame, depth),
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

/// The recorder, after GPUs have finished their work and pools have told their figures, as far as
/// traced functions read them.
fn hold_for_calls() -> Option<Held<'static, Recorder>> {
    if CALLS_READ_POOLS.load(Ordering::Relaxed) {
        recorder::settle_and_hold()
    } else if CALLS_READ_GPUS.load(Ordering::Relaxed) {
        recorder::settle_devices_and_hold()
    } else {
        recorder::hold()
    }
}

impl Recorder {
    /// Applies the runner's settings for traced calls.
    pub(crate) fn set_up_calls(&mut self, environment: &Environment) {
        self.calls.maximum_events = environment.trace_events.unwrap_or(0);
        self.calls.every = environment.trace_every.unwrap_or(1).max(1);
        self.calls.lines_per_call = environment.lines_per_call;
        if let Some(columns) = &environment.trace_columns {
            self.calls.columns = Columns::of(columns);
            CALLS_READ_GPUS.store(self.calls.columns.gpu, Ordering::Relaxed);
        }
        CALLS_READ_POOLS.store(self.calls.columns.pool, Ordering::Relaxed);
    }

    fn enter_call(&mut self, site: &'static Site, caller: u32) -> u32 {
        if self.log.is_none() {
            return NONE;
        }
        if !self.calls.needs_figures(site, caller) {
            return self.calls.enter(site, caller, 0, 0, &Values::new());
        }
        self.open_scopes += 1;
        let needs_time = self.calls.maximum_events != 0 || self.calls.columns.time;
        let nanoseconds = if needs_time { self.nanoseconds() } else { 0 };
        let (mark, values) = self.mark_for_calls();
        let frame = self.calls.enter(site, caller, mark, nanoseconds, &values);
        if self.calls.frame(frame).is_logged {
            self.calls.frame_mut(frame).occurrence = self.occurrences.next(Logged::Call, site.label);
        }
        // A call that never ends is known by this.
        self.tell();
        frame
    }

    fn leave_call(&mut self, frame: u32, depth: u64) -> u32 {
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
            self.log_call(frame, depth, &values);
        }
        let nanoseconds = self.nanoseconds_for_calls();
        let histories = &self.histories;
        let peaks = |index: Index, since| histories.of(index).since(since);
        let has_table = self.calls.lines_per_call && self.calls.has_lines(frame);
        let caller = self.calls.leave(frame, mark, nanoseconds, &values, peaks);
        if has_table {
            self.log_lines_of(began.site as usize);
            self.calls.clear_lines(began.site);
        }
        self.tell();
        caller
    }

    /// The time, if traced functions read it.
    fn nanoseconds_for_calls(&self) -> u64 {
        if self.calls.columns.time { self.nanoseconds() } else { 0 }
    }

    /// Logs calls and lines from time to time.
    fn tell(&mut self) {
        if self.telling.is_time_to_look() {
            let now = self.nanoseconds();
            let (calls, lines) = self.telling.look(now);
            if calls {
                self.log_calls();
            }
            if lines {
                self.log_lines();
            }
        }
    }

    fn at_line(&mut self, frame: u32, line: u32, begins: bool) {
        if self.log.is_none() || !self.calls.has_lines(frame) {
            return;
        }
        let nanoseconds = self.nanoseconds_for_calls();
        let (mark, values) = self.mark_for_calls();
        let histories = &self.histories;
        let peaks = |index: Index, since| histories.of(index).since(since);
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
        self.calls.follow(&self.catalogue);
        self.marks += 1;
        for index in self.calls.peaks() {
            if let Some(peak) = values.get(*index) {
                self.histories.of_mut(*index).add(self.marks, peak);
            }
        }
        (self.marks, values)
    }

    /// Logs one call as a scope, marked as traced: the code itself has no such scope.
    fn log_call(&mut self, frame: u32, depth: u64, values: &Values) {
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
                    recorder.call_figures(json, &call, values);
                    json.figure("time", end - call.nanoseconds);
                });
            })
        });
    }

    fn call_figures(&self, json: &mut Json<'_>, call: &Frame, values: &Values) {
        for (place, slot) in self.calls.slots().iter().enumerate() {
            let (before, after) = match (call.start.get(place), values.get(slot.level)) {
                (Some(before), Some(after)) => (before, after),
                _ => continue,
            };
            match slot.family {
                Some(family) => {
                    let peak = self.histories.of(slot.index).since(call.mark);
                    let base = self.catalogue.metric(slot.level).base;
                    scope_log::write_figures(json, (family, base), before, after, peak);
                }
                None => json.figure(slot.name, after.wrapping_sub(before)),
            }
        }
    }

    /// Logs the sums of traced calls that changed since the last time.
    pub(crate) fn log_calls(&mut self) {
        let changed = self.calls.tree.take_changed();
        let nanoseconds = if changed.is_empty() { 0 } else { self.nanoseconds() };
        for &number in changed.iter() {
            self.log(|recorder, log| {
                log.write("calls", nanoseconds, |json| {
                    write_node(json, &recorder.calls, number);
                    json.object("metrics", |json| write_sums(json, &recorder.calls, number));
                    json.object("most", |json| write_maxima(json, &recorder.calls, number));
                })
            });
        }
    }

    /// Logs the figures of each line that ran since the last time, for the functions that are traced
    /// by line.
    pub(crate) fn log_lines(&mut self) {
        for number in 0..self.calls.sites().len() {
            self.log_lines_of(number);
        }
        self.calls.lines_are_logged();
    }

    fn log_lines_of(&mut self, number: usize) {
        let nanoseconds = self.nanoseconds();
        self.log(|recorder, log| {
            let calls = &recorder.calls;
            let state = &calls.sites()[number];
            let (site, every) = (state.site, calls.every(state.site));
            for (line, figures, place) in calls.changed_lines(number) {
                log.write("line", nanoseconds, |json| {
                    json.number("site", format_args!("{number}"));
                    json.text("label", site.label);
                    json.text("at", site.at);
                    json.number("line", format_args!("{line}"));
                    json.number("times", format_args!("{}", figures.times));
                    if every > 1 {
                        json.number("every", format_args!("{every}"));
                    }
                    if calls.lines_per_call {
                        json.figure("call", state.last_with_lines);
                    }
                    json.object("metrics", |json| {
                        write_line(json, recorder, place);
                        write_time(json, calls, figures.nanoseconds);
                    });
                })?;
            }
            Ok(())
        });
    }
}

fn write_node(json: &mut Json<'_>, calls: &Calls, number: u32) {
    let node = calls.tree.node(number);
    let site = calls.site(node.site);
    json.number("node", format_args!("{number}"));
    if node.parent == ROOT || node.is_elsewhere() {
        json.text_or_null("parent", None);
    } else {
        json.number("parent", format_args!("{}", node.parent));
    }
    if node.is_elsewhere() {
        json.number("elsewhere", format_args!("true"));
    }
    json.text("label", site.label);
    json.text("at", site.at);
    json.figure("calls", node.calls);
    json.figure("recursive", node.recursive);
    json.number("open", format_args!("{}", node.open()));
    json.figure("overlapped", node.overlapped);
}

fn write_sums(json: &mut Json<'_>, calls: &Calls, node: u32) {
    for (slot, aggregate) in aggregates(calls, node) {
        write_aggregate(json, slot, aggregate.sum, aggregate.peaked_sum);
    }
    write_time_of_node(json, calls, node, |node| node.nanoseconds);
}

fn write_maxima(json: &mut Json<'_>, calls: &Calls, node: u32) {
    for (slot, aggregate) in aggregates(calls, node) {
        write_aggregate(json, slot, aggregate.most, aggregate.peaked_most);
    }
    write_time_of_node(json, calls, node, |node| node.longest);
}

/// A node none of whose calls has ended has no time.
fn write_time_of_node(json: &mut Json<'_>, calls: &Calls, node: u32, time: fn(&Node) -> u64) {
    let node = calls.tree.node(node);
    if node.open() < node.calls {
        write_time(json, calls, time(node));
    }
}

fn write_time(json: &mut Json<'_>, calls: &Calls, nanoseconds: u64) {
    if calls.columns.time {
        json.figure("time", nanoseconds);
    }
}

/// The metrics for which a node has figures.
fn aggregates(calls: &Calls, node: u32) -> impl Iterator<Item = (&Slot, &Aggregate)> {
    let all = calls.slots().iter().enumerate();
    all.map(move |(place, slot)| (slot, calls.tree.aggregate(node, place)))
        .filter(|(_, aggregate)| aggregate.calls != 0)
}

fn write_aggregate(json: &mut Json<'_>, slot: &Slot, grown: i64, peaked: u64) {
    match slot.family {
        Some(family) => {
            let name = |part: &str| Text::of(format_args!("{family}.{part}"));
            json.number(name("consumed").as_str(), format_args!("{grown}"));
            json.number(name("peaked").as_str(), format_args!("{peaked}"));
        }
        None => json.number(slot.name, format_args!("{grown}")),
    }
}

fn write_line(json: &mut Json<'_>, recorder: &Recorder, place: usize) {
    let calls = &recorder.calls;
    for (slot_place, slot) in calls.slots().iter().enumerate() {
        let figure = calls.line_figure(place, slot_place);
        if figure.times == 0 {
            continue;
        }
        if let Some(family) = slot.family {
            let base = recorder.catalogue.metric(slot.level).base;
            json.figure(slot.name, figure.peak.wrapping_sub(base));
            if let Some(level) = slot.level_name {
                json.figure(level, figure.level.wrapping_sub(base));
            }
            let grown = Text::of(format_args!("{family}.grown"));
            json.number(grown.as_str(), format_args!("{}", figure.grown));
        } else {
            json.number(slot.name, format_args!("{}", figure.grown));
        }
    }
}
