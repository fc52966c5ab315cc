//! What the log is told of traced functions: calls of them, which add up until it is time to tell, and their lines.
//!
//! A call reads only the figures that traced functions show, and most calls write nothing: what they add up to is told about once
//! a second. Single calls of a function are logged up to a number that the runner gives.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::calls::{Columns, ROOT};
use crate::environment::Environment;
use crate::lock::Held;
use crate::metric::Values;
use crate::occurrences::Logged;
use crate::recorder::{self, Recorder};
use crate::sources::Extent;
use crate::trace::{NONE, Site};
use crate::untracked::Text;

/// So often the clock is looked at when traced calls end, and so long nothing is told of them: a process that is killed loses
/// what came since.
const CALLS_BETWEEN_LOOKS: u32 = 256;
const NANOSECONDS_BETWEEN_TELLING: u64 = 1_000_000_000;

/// Whether GPUs' figures are read when traced functions begin and end.
static CALLS_READ_GPUS: AtomicBool = AtomicBool::new(true);

/// A call of a traced function begins. Returns its frame.
pub(crate) fn enter_call(site: &'static Site, caller: u32) -> u32 {
    match hold_for_calls() {
        Some(mut recorder) => recorder.enter_call(site, caller),
        None => NONE,
    }
}

/// It ends. Returns the frame of its caller.
pub(crate) fn leave_call(frame: u32, depth: u64) -> u32 {
    match hold_for_calls() {
        Some(mut recorder) => recorder.leave_call(frame, depth),
        // A forked child: what is open there is nobody's.
        None => NONE,
    }
}

/// A traced function whose lines are told apart is on another one.
pub(crate) fn at_line(frame: u32, line: u32, begins: bool) {
    if let Some(mut recorder) = hold_for_calls() {
        recorder.at_line(frame, line, begins);
    }
}

/// The recorder, once work under way on GPUs has ended if their figures are wanted of traced functions.
fn hold_for_calls() -> Option<Held<'static, Recorder>> {
    if CALLS_READ_GPUS.load(Ordering::Relaxed) { recorder::settle_and_hold() } else { recorder::hold() }
}

impl Recorder {
    /// What the runner wants of traced calls.
    pub(crate) fn set_up_calls(&mut self, environment: &Environment) {
        self.calls.maximum_events = environment.trace_events.unwrap_or(0);
        if let Some(columns) = &environment.trace_columns {
            self.calls.columns = Columns::of(columns);
            CALLS_READ_GPUS.store(self.calls.columns.gpu, Ordering::Relaxed);
        }
    }

    fn enter_call(&mut self, site: &'static Site, caller: u32) -> u32 {
        if self.log.is_none() {
            return NONE;
        }
        if !self.calls.needs_figures(site, caller) {
            return self.calls.enter(site, caller, 0, 0, &Values::new());
        }
        self.open_scopes += 1;
        let nanoseconds = if self.calls.maximum_events == 0 { 0 } else { self.nanoseconds() };
        let (mark, values) = self.mark_for_calls();
        let frame = self.calls.enter(site, caller, mark, nanoseconds, &values);
        if self.calls.frame(frame).is_logged {
            self.calls.frame_mut(frame).occurrence = self.occurrences.next(Logged::Call, site.label);
        }
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
        let histories = &self.histories;
        let caller = self.calls.leave(frame, mark, &values, |index, since| histories.of(index).since(since));
        self.ended_calls += 1;
        if self.ended_calls >= CALLS_BETWEEN_LOOKS {
            self.ended_calls = 0;
            let now = self.nanoseconds();
            if now - self.told_of_calls >= NANOSECONDS_BETWEEN_TELLING {
                self.told_of_calls = now;
                self.log_calls();
            }
        }
        caller
    }

    fn at_line(&mut self, frame: u32, line: u32, begins: bool) {
        if self.log.is_none() || !self.calls.has_lines(frame) {
            return;
        }
        let (mark, values) = self.mark_for_calls();
        let histories = &self.histories;
        self.calls
            .at_line(frame, line, begins, mark, &values, |index, since| histories.of(index).since(since));
    }

    /// As [`Self::mark`], of what traced functions read alone. The intervals of other metrics' peaks go on.
    fn mark_for_calls(&mut self) -> (u64, Values) {
        let mut values = Values::new();
        let columns = self.calls.columns;
        for source in self.sources.each_of(columns).into_iter().flatten() {
            source.appear(&mut self.catalogue);
            source.read(&mut values, Extent::Scopes);
        }
        self.calls.follow(&self.catalogue);
        self.marks += 1;
        for slot in self.calls.slots() {
            if let (Some(_), Some(peak)) = (slot.family, values.get(slot.index)) {
                self.histories.of_mut(slot.index).add(self.marks, peak);
            }
        }
        (self.marks, values)
    }

    /// One call as a scope of its own, marked as one that the code itself does not have.
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
                    for (place, slot) in recorder.calls.slots().iter().enumerate() {
                        let (before, after) = match (call.start.get(place), values.get(slot.level)) {
                            (Some(before), Some(after)) => (before, after),
                            _ => continue,
                        };
                        let family = if let Some(family) = slot.family {
                            family
                        } else {
                            json.figure(slot.name, after.wrapping_sub(before));
                            continue;
                        };
                        let name = |part: &str| Text::of(format_args!("{family}.{part}"));
                        let consumed = i128::from(after) - i128::from(before);
                        json.number(name("consumed").as_str(), format_args!("{consumed}"));
                        if let Some(peak) = recorder.histories.of(slot.index).since(call.mark) {
                            let peaked = peak.saturating_sub(before.max(after));
                            json.number(name("peaked").as_str(), format_args!("{peaked}"));
                        }
                        json.number(name("used").as_str(), format_args!("{after}"));
                    }
                    json.figure("time", end - call.nanoseconds);
                });
            })
        });
    }

    /// What traced calls added up to since the log was last told.
    pub(crate) fn log_calls(&mut self) {
        let changed = self.calls.take_changed();
        let nanoseconds = if changed.is_empty() { 0 } else { self.nanoseconds() };
        for &number in changed.iter() {
            self.log(|recorder, log| {
                let calls = &recorder.calls;
                let node = calls.nodes()[number as usize];
                let site = calls.site(node.site);
                let place = number as usize;
                log.write("calls", nanoseconds, |json| {
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
                    let mut figures = |key: &str, most: bool| {
                        json.object(key, |json| {
                            for (slot_place, slot) in calls.slots().iter().enumerate() {
                                let of = calls.aggregate(place, slot_place);
                                if of.calls == 0 {
                                    continue;
                                }
                                let grown = if most { of.most } else { of.sum };
                                let peaked = if most { of.peaked_most } else { of.peaked_sum };
                                match slot.family {
                                    Some(family) => {
                                        let name = |part: &str| Text::of(format_args!("{family}.{part}"));
                                        json.number(name("consumed").as_str(), format_args!("{grown}"));
                                        json.number(name("peaked").as_str(), format_args!("{peaked}"));
                                    }
                                    None => json.number(slot.name, format_args!("{grown}")),
                                }
                            }
                        });
                    };
                    figures("metrics", false);
                    figures("most", true);
                })
            });
        }
    }

    /// What ran on each line of the functions whose lines are told apart.
    pub(crate) fn log_lines(&mut self) {
        let nanoseconds = self.nanoseconds();
        for number in 0..self.calls.sites().len() {
            self.log(|recorder, log| {
                let calls = &recorder.calls;
                let site = calls.sites()[number].site;
                for (line, times, place) in calls.lines(number) {
                    log.write("line", nanoseconds, |json| {
                        json.text("label", site.label);
                        json.text("at", site.at);
                        json.number("line", format_args!("{line}"));
                        json.number("times", format_args!("{times}"));
                        json.object("metrics", |json| {
                            for (slot_place, slot) in calls.slots().iter().enumerate() {
                                let figure = calls.line_figure(place, slot_place);
                                if figure.times == 0 {
                                    continue;
                                }
                                if let Some(family) = slot.family {
                                    json.number(slot.name, format_args!("{}", figure.peak));
                                    let grown = Text::of(format_args!("{family}.grown"));
                                    json.number(grown.as_str(), format_args!("{}", figure.grown));
                                } else {
                                    json.number(slot.name, format_args!("{}", figure.grown));
                                }
                            }
                        });
                    })?;
                }
                Ok(())
            });
        }
    }
}
