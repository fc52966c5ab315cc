//! What ties it together, under one lock: a *mark* reads all sources, and checkpoints, scopes and readings are made of
//! marks. The lock gives the log's lines, their sequence numbers and their times one order; no code of the user's
//! runs while it is held (labels are formatted before).
//!
//! A child made by `fork` without `exec` has a copy of all this, of the log's descriptor, and maybe of a lock that a
//! thread held which the child has not. It is recognised by its process id and gets to nothing here: it logs
//! nothing, in particular no second `done` and `end`, and its readings are empty. Its allocator goes on working.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use crate::calls::{Calls, Columns, ROOT};
use crate::environment::Environment;
use crate::json::Json;
use crate::lock::{Held, Lock};
use crate::log::Log;
use crate::metric::{Catalogue, Index, Kind, Metric, PerMetric, Values, MAXIMUM};
use crate::occurrences::{Logged, Occurrences};
use crate::peak_history::PeakHistory;
use crate::reading::Reading;
use crate::sources::{self, Extent, Sources};
use crate::stamp;
use crate::terminal;
use crate::trace::{Site, NONE};
use crate::untracked::{Text, Untracked};

/// Whether there is a log: all that a checkpoint costs outside a run is to look at this.
static RECORDING: AtomicBool = AtomicBool::new(false);
/// The process that opened the recorder; 0 as long as none did.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether GPUs' figures are read when traced functions begin and end.
static CALLS_READ_GPUS: AtomicBool = AtomicBool::new(true);
static RECORDER: Lock<Recorder> = Lock::new(Recorder::new());

#[inline]
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

struct Recorder {
    opened: bool,
    log: Option<Log>,
    print: bool,
    sources: Sources,
    catalogue: Catalogue,
    /// When `start` was.
    started: Option<Instant>,
    marks: u64,
    /// The mark and the totals of the last checkpoint, from which the next one counts.
    checkpoint_mark: u64,
    checkpoint_values: Values,
    histories: PerMetric<PeakHistory>,
    open_scopes: u64,
    occurrences: Occurrences,
    /// Metrics of which it was logged that they can no longer be read.
    lost: PerMetric<bool>,
    /// How many metrics, and how many absent ones, the log has been told of.
    announced: (usize, usize),
    calls: Calls,
    /// Traced calls that have ended since the clock was last looked at, and when the log was last told of them.
    ended_calls: u32,
    told_of_calls: u64,
}

/// All figures of one moment.
struct Mark {
    number: u64,
    nanoseconds: u64,
    values: Values,
}

/// The mark at which a scope began: what it compares with when it ends. Of the values as many as there were metrics.
pub(crate) struct ScopeStart {
    number: u64,
    nanoseconds: u64,
    values: Untracked<Option<u64>>,
}

/// The recorder, for this process only.
fn hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        Some(RECORDER.hold())
    } else {
        None
    }
}

/// The recorder once work that is under way elsewhere has ended. The wait comes before the lock is taken.
fn settle_and_hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        sources::settle();
        Some(RECORDER.hold())
    } else {
        None
    }
}

fn is_own_process() -> bool {
    let process = std::process::id();
    match PROCESS.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(opener) => opener == process,
    }
}

/// Opens the log and writes its first lines, to `start`. Whether there is a log then.
pub(crate) fn start(environment: Environment) -> bool {
    let mut recorder = match hold() {
        Some(recorder) => recorder,
        None => return false,
    };
    match Log::open(&environment.log) {
        Ok(log) => recorder.log = Some(log),
        Err(error) => {
            let path = std::path::Path::new(&environment.log).display();
            terminal::warn(format_args!(
                "nothing is recorded, for the log {} cannot be opened: {}",
                path, error
            ));
            return false;
        }
    }
    recorder.print = environment.print;
    recorder.open(&environment);
    recorder.calls.maximum_events = environment.trace_events.unwrap_or(0);
    if let Some(columns) = &environment.trace_columns {
        recorder.calls.columns = Columns::of(columns);
        CALLS_READ_GPUS.store(recorder.calls.columns.gpu, Ordering::Relaxed);
    }
    // It holds memory of the tracked heap.
    drop(environment);
    recorder.begin();
    RECORDING.store(recorder.log.is_some(), Ordering::Release);
    recorder.log.is_some()
}

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

pub(crate) fn start_scope() -> Option<ScopeStart> {
    settle_and_hold().and_then(|mut recorder| recorder.start_scope())
}

pub(crate) fn end_scope(label: &str, at: &str, depth: u64, start: &ScopeStart) {
    if let Some(mut recorder) = settle_and_hold() {
        recorder.end_scope(label, at, depth, start);
    }
}

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
    if CALLS_READ_GPUS.load(Ordering::Relaxed) {
        settle_and_hold()
    } else {
        hold()
    }
}

pub(crate) fn read() -> Reading {
    match settle_and_hold() {
        Some(mut recorder) => recorder.read(),
        None => Reading::new(),
    }
}

pub(crate) fn warm_up() {
    if let Some(mut recorder) = hold() {
        recorder.sources.each().into_iter().for_each(|source| source.warm_up());
    }
}

/// Lets the GPUs' figures for `done` be read by an exit handler that runs before all that are registered by now. Called
/// once a device is in use, and by the injection library at the first allocation: no checkpoint may come before the end.
pub(crate) extern "C" fn take_last_figures_at_exit() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    extern "C" fn take() {
        if let Some(mut recorder) = settle_and_hold() {
            let recorder = &mut *recorder;
            recorder.sources.gpu.take_last(&mut recorder.catalogue);
        }
    }
    extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::os::raw::c_int;
    }
    // SAFETY: the function is never unloaded, as for the constructor's.
    unsafe { atexit(take) };
}

/// An allocation that the GPU's driver refused. It is logged at once: the process may not live to a next checkpoint.
/// Called by the injection library, on the thread that asked.
pub(crate) extern "C" fn gpu_out_of_memory(ordinal: u32, requested: u64, live: u64) {
    if let Some(mut recorder) = hold() {
        let device = recorder.sources.gpu.device_name(ordinal);
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| {
            log.write("gpu_out_of_memory", nanoseconds, |json| {
                match device {
                    // NVML's index is a number; what stands for it where there is none is text.
                    Some(device) if device.parse::<u32>().is_ok() => {
                        json.number("device", format_args!("{}", device));
                    }
                    device => json.text_or_null("device", device),
                }
                json.figure("requested", requested);
                json.figure("live", live);
            })
        });
    }
}

/// Logs `done` and the last line.
pub(crate) fn finish() {
    if let Some(mut recorder) = hold() {
        recorder.sources.gpu.end();
        recorder.checkpoint("done", None);
        recorder.log_calls();
        recorder.log_lines();
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| log.write("end", nanoseconds, |_| {}));
        recorder.log = None;
        RECORDING.store(false, Ordering::Relaxed);
    }
}

impl Recorder {
    const fn new() -> Self {
        const NOTHING: PeakHistory = PeakHistory::new();
        Self {
            opened: false,
            log: None,
            print: false,
            sources: Sources::new(),
            catalogue: Catalogue::new(),
            started: None,
            marks: 0,
            checkpoint_mark: 0,
            checkpoint_values: Values::new(),
            histories: PerMetric::new([NOTHING; MAXIMUM]),
            open_scopes: 0,
            occurrences: Occurrences::new(),
            lost: PerMetric::new([false; MAXIMUM]),
            announced: (0, 0),
            calls: Calls::new(),
            ended_calls: 0,
            told_of_calls: 0,
        }
    }

    fn open(&mut self, environment: &Environment) {
        for source in self.sources.each() {
            source.open(environment, &mut self.catalogue);
        }
        self.opened = true;
        self.started = Some(Instant::now());
    }

    /// The lines before the first checkpoint, and that one.
    fn begin(&mut self) {
        let key = stamp::key();
        self.log(|recorder, log| {
            log.write("begin", 0, |json| {
                json.text_or_null("build", key.as_ref().map(stamp::Key::as_str));
                json.text("shim", crate::VERSION);
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
        // What opening all this has cost is not the test's.
        let before = self.mark(Extent::Whole);
        self.count_from(&before);
        self.started = Some(Instant::now());
        self.checkpoint("start", None);
    }

    /// Nanoseconds since `start`.
    fn nanoseconds(&self) -> u64 {
        self.started.map_or(0, |started| started.elapsed().as_nanos() as u64)
    }

    /// Reads all sources. Peaks of the interval that ends here go into their histories.
    fn mark(&mut self, extent: Extent) -> Mark {
        let nanoseconds = self.nanoseconds();
        let mut values = Values::new();
        for source in self.sources.each() {
            source.appear(&mut self.catalogue);
            source.read(&mut values, extent);
        }
        self.marks += 1;
        for (index, metric) in self.catalogue.metrics() {
            if let (Kind::Peak { .. }, Some(peak)) = (metric.kind, values.get(index)) {
                self.histories.of_mut(index).add(self.marks, peak);
            }
        }
        Mark { number: self.marks, nanoseconds, values }
    }

    /// Lets the next checkpoint's peaks and totals begin at this mark.
    fn count_from(&mut self, mark: &Mark) {
        self.checkpoint_mark = mark.number;
        self.checkpoint_values = mark.values;
        if self.open_scopes == 0 {
            // Nobody will ask for what was before.
            self.histories.all_mut().for_each(PeakHistory::clear);
        }
    }

    /// A metric's figure at a mark, as a checkpoint shows it.
    fn figure(&self, index: Index, metric: &Metric, mark: &Mark) -> Option<u64> {
        let value = mark.values.get(index)?;
        Some(match metric.kind {
            Kind::Level => value,
            Kind::Peak { .. } => self.histories.of(index).since(self.checkpoint_mark).unwrap_or(value),
            Kind::Total => value.wrapping_sub(self.checkpoint_values.get(index).unwrap_or(0)),
        })
    }

    /// The line to show, if one is to be shown.
    fn checkpoint(&mut self, label: &str, at: Option<&str>) -> Option<Text> {
        // Another thread may have ended the log since the caller looked.
        self.log.as_ref()?;
        let mark = self.mark(Extent::Whole);
        self.log_what_appeared(&mark);
        let logged = if at.is_some() { Logged::Checkpoint } else { Logged::OwnCheckpoint };
        let occurrence = self.occurrences.next(logged, label);
        self.log(|recorder, log| {
            log.write("checkpoint", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", occurrence);
                json.text_or_null("at", at);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        if let Some(figure) = recorder.figure(index, metric, &mark) {
                            json.figure(metric.name, figure);
                        }
                    }
                    json.figure("time", mark.nanoseconds);
                });
            })
        });
        self.log_what_was_lost(&mark);
        self.count_from(&mark);
        if self.print && at.is_some() {
            let resident = self.catalogue.metrics().find(|(_, metric)| metric.name == "cpu.rss");
            let resident = resident.and_then(|(index, _)| mark.values.get(index));
            Some(terminal::checkpoint_line(label, self.sources.gpu.in_use(&mark.values), resident))
        } else {
            None
        }
    }

    fn start_scope(&mut self) -> Option<ScopeStart> {
        self.log.as_ref()?;
        let mark = self.mark(Extent::Scopes);
        let mut values = Untracked::new();
        for (index, _) in self.catalogue.metrics() {
            values.push(mark.values.get(index));
        }
        self.open_scopes += 1;
        Some(ScopeStart { number: mark.number, nanoseconds: mark.nanoseconds, values })
    }

    fn end_scope(&mut self, label: &str, at: &str, depth: u64, start: &ScopeStart) {
        self.open_scopes = self.open_scopes.saturating_sub(1);
        if self.log.is_none() {
            return;
        }
        let mark = self.mark(Extent::Scopes);
        self.log_what_appeared(&mark);
        let occurrence = self.occurrences.next(Logged::Scope, label);
        self.log(|recorder, log| {
            log.write("scope", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", occurrence);
                json.text("at", at);
                json.figure("depth", depth);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        recorder.scope_figures(json, index, metric, start, &mark);
                    }
                    json.figure("time", mark.nanoseconds - start.nanoseconds);
                });
            })
        });
    }

    /// Of a peak and its level: consumed, peaked and used; of a total: by how much it grew.
    fn scope_figures(
        &self,
        json: &mut Json<'_>,
        index: Index,
        metric: &Metric,
        start: &ScopeStart,
        end: &Mark,
    ) {
        let both = |index: Index| Some((start.value(index)?, end.values.get(index)?));
        match metric.kind {
            Kind::Peak { family, level } => {
                let (before, after) = match both(level) {
                    Some(both) => both,
                    None => return,
                };
                let name = |part: &str| Text::of(format_args!("{}.{}", family, part));
                let consumed = i128::from(after) - i128::from(before);
                json.number(name("consumed").as_str(), format_args!("{}", consumed));
                if let Some(peak) = self.histories.of(index).since(start.number) {
                    let peaked = peak.saturating_sub(before.max(after));
                    json.number(name("peaked").as_str(), format_args!("{}", peaked));
                }
                json.number(name("used").as_str(), format_args!("{}", after));
            }
            Kind::Total => {
                if let Some((before, after)) = both(index) {
                    json.figure(metric.name, after.wrapping_sub(before));
                }
            }
            Kind::Level => {}
        }
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
        self.calls.enter(site, caller, mark, nanoseconds, &values)
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

    /// One call as a scope of its own, marked as one that the code itself does not have.
    fn log_call(&mut self, frame: u32, depth: u64, values: &Values) {
        let call = *self.calls.frame(frame);
        let site = self.calls.site(call.site);
        let occurrence = self.occurrences.next(Logged::Call, site.label);
        let end = self.nanoseconds();
        self.log(|recorder, log| {
            log.write("scope", end, |json| {
                json.number("traced", format_args!("true"));
                json.text("label", site.label);
                json.figure("occurrence", occurrence);
                json.text("at", site.at);
                json.figure("depth", depth);
                json.object("metrics", |json| {
                    for (place, slot) in recorder.calls.slots().iter().enumerate() {
                        let (before, after) = match (call.start.get(place), values.get(slot.level)) {
                            (Some(before), Some(after)) => (before, after),
                            _ => continue,
                        };
                        let family = match slot.family {
                            Some(family) => family,
                            None => {
                                json.figure(slot.name, after.wrapping_sub(before));
                                continue;
                            }
                        };
                        let name = |part: &str| Text::of(format_args!("{}.{}", family, part));
                        let consumed = i128::from(after) - i128::from(before);
                        json.number(name("consumed").as_str(), format_args!("{}", consumed));
                        if let Some(peak) = recorder.histories.of(slot.index).since(call.mark) {
                            let peaked = peak.saturating_sub(before.max(after));
                            json.number(name("peaked").as_str(), format_args!("{}", peaked));
                        }
                        json.number(name("used").as_str(), format_args!("{}", after));
                    }
                    json.figure("time", end - call.nanoseconds);
                });
            })
        });
    }

    /// What traced calls added up to since the log was last told.
    fn log_calls(&mut self) {
        let changed = self.calls.take_changed();
        let nanoseconds = if changed.is_empty() { 0 } else { self.nanoseconds() };
        for &number in changed.iter() {
            self.log(|recorder, log| {
                let calls = &recorder.calls;
                let node = calls.nodes()[number as usize];
                let site = calls.site(node.site);
                let place = number as usize;
                log.write("calls", nanoseconds, |json| {
                    json.number("node", format_args!("{}", number));
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
                                        let name = |part: &str| Text::of(format_args!("{}.{}", family, part));
                                        json.number(name("consumed").as_str(), format_args!("{}", grown));
                                        json.number(name("peaked").as_str(), format_args!("{}", peaked));
                                    }
                                    None => json.number(slot.name, format_args!("{}", grown)),
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
    fn log_lines(&mut self) {
        let nanoseconds = self.nanoseconds();
        for number in 0..self.calls.sites().len() {
            self.log(|recorder, log| {
                let calls = &recorder.calls;
                let site = calls.sites()[number].site;
                for (line, times, place) in calls.lines(number) {
                    log.write("line", nanoseconds, |json| {
                        json.text("label", site.label);
                        json.text("at", site.at);
                        json.number("line", format_args!("{}", line));
                        json.number("times", format_args!("{}", times));
                        json.object("metrics", |json| {
                            for (slot_place, slot) in calls.slots().iter().enumerate() {
                                let figure = calls.line_figure(place, slot_place);
                                if figure.times == 0 {
                                    continue;
                                }
                                if let Some(family) = slot.family {
                                    json.number(slot.name, format_args!("{}", figure.peak));
                                    let grown = Text::of(format_args!("{}.grown", family));
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

    /// A checkpoint that leaves no trace: the interval goes on.
    fn read(&mut self) -> Reading {
        if !self.opened {
            self.open(&Environment::default());
        }
        let mark = self.mark(Extent::Whole);
        let mut reading = Reading::new();
        for (index, metric) in self.catalogue.metrics() {
            if let Some(figure) = self.figure(index, metric, &mark) {
                reading.add(metric.name, figure);
            }
        }
        reading.add("time", mark.nanoseconds);
        reading
    }

    /// Metrics that came after the first lines were written, and what is absent of theirs.
    fn log_what_appeared(&mut self, mark: &Mark) {
        let (metrics, absent) =
            std::mem::replace(&mut self.announced, (self.catalogue.length(), self.catalogue.absent().len()));
        if metrics < self.announced.0 {
            self.log(|recorder, log| {
                log.write("sources", mark.nanoseconds, |json| {
                    json.object("sources", |json| {
                        for (_, metric) in recorder.catalogue.metrics().skip(metrics) {
                            json.text(metric.name, metric.source);
                        }
                    });
                })
            });
        }
        self.log(|recorder, log| {
            recorder.catalogue.absent()[absent..].iter().try_for_each(|absent| {
                log.write("absent", mark.nanoseconds, |json| {
                    json.text("metric", absent.name);
                    json.text("reason", absent.reason);
                })
            })
        });
    }

    /// A metric that was there and is no more, such as after the program closed all descriptors.
    fn log_what_was_lost(&mut self, mark: &Mark) {
        for place in 0..self.catalogue.length() {
            let index = Index::of(place);
            if mark.values.get(index).is_none() && !std::mem::replace(self.lost.of_mut(index), true) {
                self.log(|recorder, log| {
                    log.write("absent", mark.nanoseconds, |json| {
                        let metric = recorder.catalogue.metric(index);
                        json.text("metric", metric.name);
                        json.text("reason", metric.lost);
                    })
                });
            }
        }
    }

    /// Writes lines, if there is a log. One that cannot be written ends it: without an `end` line the runner knows.
    fn log(&mut self, write: impl FnOnce(&Self, &mut Log) -> io::Result<()>) {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => return,
        };
        match write(self, &mut log) {
            Ok(()) => self.log = Some(log),
            Err(error) => {
                RECORDING.store(false, Ordering::Relaxed);
                terminal::warn(format_args!("recording ends here, for the log cannot be written: {}", error));
            }
        }
    }
}

impl ScopeStart {
    fn value(&self, index: Index) -> Option<u64> {
        // A metric that came after the scope began stood at zero then.
        self.values.get(index.place()).copied().unwrap_or(Some(0))
    }
}

/// So often the clock is looked at when traced calls end, and so long nothing is told of them: a process that is killed loses
/// what came since.
const CALLS_BETWEEN_LOOKS: u32 = 256;
const NANOSECONDS_BETWEEN_TELLING: u64 = 1_000_000_000;

/// What [`Instant`] is on this platform.
#[cfg(not(any(windows, target_os = "macos", target_os = "ios")))]
const CLOCK: &str = "CLOCK_MONOTONIC";
#[cfg(any(target_os = "macos", target_os = "ios"))]
const CLOCK: &str = "CLOCK_UPTIME_RAW";
#[cfg(windows)]
const CLOCK: &str = "QueryPerformanceCounter";
