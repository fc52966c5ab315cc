//! Ties the sources, the log and the measured intervals together under one lock.
//!
//! A *mark* reads all sources. Checkpoints, scopes and readings are made of marks. The lock gives
//! the log's lines, their sequence numbers and their times one order. No user code runs while it is
//! held: labels are formatted before. `scope_log`, `call_log`, `layer_log` and `tensor_log` log
//! scopes, traced calls, layers and tensors.
//!
//! A child made by `fork` without `exec` has a copy of all this, of the log's descriptor, and maybe
//! of a lock that another thread held. Its process id tells it apart, and it does nothing here: it
//! logs nothing, in particular no second `done` and `end`, and its readings are empty. Its
//! allocator keeps working.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use crate::body;
use crate::calls::Calls;
use crate::causes;
use crate::environment::Environment;
use crate::harness;
use crate::layer_log::Passes;
use crate::live_size_log::LiveSizes;
use crate::lock::{Held, Lock};
use crate::log::Log;
use crate::metric::{Catalogue, Index, Kind, MAXIMUM, Metric, PerMetric, Values};
use crate::occurrences::{Logged, Occurrences};
use crate::peak_history::PeakHistory;
use crate::pool_metrics::{self, PoolMetrics};
use crate::random;
use crate::reading::Reading;
use crate::sources::{self, Extent, Sources};
use crate::stack_log::StackLog;
use crate::stamp;
use crate::telling::Telling;
use crate::tensors::Registry;
use crate::terminal;
use crate::thread_number;
use crate::untracked::{Text, Untracked};

/// Whether there is a log. Outside a run, a checkpoint costs one look at this.
static RECORDING: AtomicBool = AtomicBool::new(false);
/// The process that opened the recorder; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether something was left out that standard error has no warning about yet.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);
static RECORDER: Lock<Recorder> = Lock::new(Recorder::new());

#[inline]
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

pub(crate) struct Recorder {
    opened: bool,
    pub(crate) log: Option<Log>,
    print: bool,
    pub(crate) sources: Sources,
    pub(crate) catalogue: Catalogue,
    /// The time of `start`.
    started: Option<Instant>,
    /// The mark of `start` where the process began, until the test's body begins.
    waiting: Option<Mark>,
    /// When the test's body ended.
    ended: Option<u64>,
    pub(crate) marks: u64,
    /// The mark and the totals of the last checkpoint, where the next one's interval begins.
    checkpoint_mark: u64,
    checkpoint_values: Values,
    pub(crate) histories: PerMetric<PeakHistory>,
    pub(crate) open_scopes: u64,
    pub(crate) occurrences: Occurrences,
    /// Metrics that the log already has as no longer readable.
    lost: PerMetric<bool>,
    /// How many metrics, and how many absent ones, the log has.
    announced: (usize, usize),
    pub(crate) calls: Calls,
    pub(crate) tensors: Registry,
    pub(crate) live_sizes: LiveSizes,
    pub(crate) passes: Passes,
    /// What the log has of call stacks; `None` if the run does not record them.
    stacks: Option<StackLog>,
    /// When the sums of traced calls, and the figures of lines, are logged.
    pub(crate) telling: Telling,
}

/// All figures of one moment.
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) values: Values,
}

/// The recorder; `None` in a forked child.
pub(crate) fn hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() { hold_here() } else { None }
}

/// For all but the beginning and end of the test's body.
fn hold_here() -> Option<Held<'static, Recorder>> {
    let mut held = hold_at_any_time();
    if let Some(recorder) = &mut held {
        recorder.begin_with_process("something was logged or read before the test's body");
    }
    held
}

/// Leaves out what a signal handler logs while the interrupted thread writes a line.
fn hold_at_any_time() -> Option<Held<'static, Recorder>> {
    harness::settle();
    let mut held = RECORDER.hold_as(thread_number::place());
    match &mut held {
        Some(recorder) => recorder.sources.pools.is_asked = false,
        None => LEFT_OUT.store(true, Ordering::Relaxed),
    }
    held
}

/// Like [`hold`], after work on devices has ended and pools have told their figures. Both come
/// before the lock, because they run the program's code.
pub(crate) fn settle_and_hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        sources::settle();
        let is_asked = pool_metrics::trim_and_ask();
        let mut recorder = hold_here()?;
        recorder.sources.pools.is_asked = is_asked;
        Some(recorder)
    } else {
        None
    }
}

/// Like [`settle_and_hold`], without the figures of pools.
pub(crate) fn settle_devices_and_hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        sources::settle();
        hold_here()
    } else {
        None
    }
}

/// Whether this is the process that the recorder belongs to, not a forked child.
pub(crate) fn is_own_process() -> bool {
    let process = std::process::id();
    match PROCESS.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(opener) => opener == process,
    }
}

/// Opens the log and writes its first lines, up to `start`. Returns whether there is a log then.
pub(crate) fn start(environment: Environment) -> bool {
    let mut recorder = match hold() {
        Some(recorder) => recorder,
        None => return false,
    };
    match Log::open(&environment.log, environment.key) {
        Ok(log) => recorder.log = Some(log),
        Err(error) => {
            let path = std::path::Path::new(&environment.log).display();
            terminal::warn(format_args!(
                "nothing is recorded, because the log {path} cannot be opened: {error}"
            ));
            return false;
        }
    }
    recorder.print = environment.print;
    recorder.open(&environment);
    recorder.set_up_calls(&environment);
    harness::expect(&environment.harness_test);
    environment.random_seed.into_iter().for_each(random::follow);
    if environment.trims() {
        pool_metrics::trim_always();
    }
    let body = environment.body().map(|found| found.and_then(body::plant));
    // It holds memory of the tracked heap.
    drop(environment);
    recorder.begin(body);
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
        recorder.sources.each().into_iter().for_each(super::sources::Source::warm_up);
    }
}

/// Registers an exit handler that reads the GPUs' last figures, for `done`. It runs before all
/// handlers registered earlier, such as the driver's. Called once a device is in use, and by the
/// injection library at the first allocation, because no checkpoint may follow.
pub(crate) extern "C" fn take_last_figures_at_exit() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::os::raw::c_int;
    }
    extern "C" fn take() {
        if let Some(mut recorder) = settle_devices_and_hold() {
            let recorder = &mut *recorder;
            recorder.sources.gpu.take_last(&mut recorder.catalogue);
        }
    }
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function is never unloaded, as for the constructor's.
    unsafe { atexit(take) };
}

/// Logs an allocation that the GPU's driver refused. It is logged at once, because the process may
/// end before a next checkpoint. The injection library calls this on the thread that made the
/// request.
pub(crate) extern "C" fn gpu_out_of_memory(ordinal: u32, requested: u64, live: u64) {
    if let Some(mut recorder) = hold() {
        let device = recorder.sources.gpu.device_name(ordinal);
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| {
            log.write("gpu_out_of_memory", nanoseconds, |json| {
                match device {
                    // NVML's index is a number. The name that stands for it otherwise is text.
                    Some(device) if device.parse::<u32>().is_ok() => {
                        json.number("device", format_args!("{device}"));
                    }
                    device => json.text_or_null("device", device),
                }
                json.figure("requested", requested);
                json.figure("live", live);
            })
        });
    }
}

/// The test's body begins now, on this thread: `start`.
pub(crate) fn begin_body() {
    if is_own_process() {
        if let Some(mut recorder) = hold_at_any_time() {
            recorder.begin_body();
        }
    }
}

/// The test's body has ended.
pub(crate) fn end_body() {
    if let Some(mut recorder) = hold() {
        recorder.ended = Some(recorder.nanoseconds());
    }
}

/// Logs `done` and the last line.
pub(crate) fn finish() {
    if !is_own_process() {
        return;
    }
    if let Some(mut recorder) = hold_at_any_time() {
        recorder.begin_with_process("the test's body did not begin");
        recorder.sources.gpu.end();
        let mut mark = recorder.mark_of_checkpoint();
        mark.nanoseconds = recorder.ended.unwrap_or(mark.nanoseconds);
        recorder.log_checkpoint("done", None, &mark);
        recorder.log_calls();
        recorder.log_lines();
        let nanoseconds = recorder.nanoseconds();
        let started = recorder.started;
        recorder.log(|_, log| causes::write(log, nanoseconds));
        recorder.log_stacks(|stacks, log, _| stacks.end(log, nanoseconds, started));
        recorder.log(|_, log| log.end(nanoseconds));
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
            waiting: None,
            ended: None,
            marks: 0,
            checkpoint_mark: 0,
            checkpoint_values: Values::new(),
            histories: PerMetric::new([NOTHING; MAXIMUM]),
            open_scopes: 0,
            occurrences: Occurrences::new(),
            lost: PerMetric::new([false; MAXIMUM]),
            announced: (0, 0),
            calls: Calls::new(),
            tensors: Registry::new(),
            live_sizes: LiveSizes::new(),
            passes: Passes::new(),
            stacks: None,
            telling: Telling::new(),
        }
    }

    fn open(&mut self, environment: &Environment) {
        for source in self.sources.each() {
            source.open(environment, &mut self.catalogue);
        }
        self.opened = true;
        self.started = Some(Instant::now());
    }

    /// Logs the first lines, and the first checkpoint unless the test's body is still to come.
    fn begin(&mut self, body: Option<Result<(), &'static str>>) {
        let key = stamp::key();
        self.log(|recorder, log| {
            log.write("begin", 0, |json| {
                json.text_or_null("build", key.as_ref().map(stamp::Key::as_str));
                json.text("shim", crate::VERSION);
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
    fn begin_with_process(&mut self, reason: &str) {
        if let Some(mark) = self.waiting.take() {
            body::abandon();
            self.log_beginning(Some(reason));
            self.log_checkpoint("start", None, &mark);
        }
    }

    fn begin_body(&mut self) {
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

    /// Nanoseconds since `start`.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.started.map_or(0, |started| u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads all sources. The peaks of the interval that ends here go into their histories.
    pub(crate) fn mark(&mut self, extent: Extent) -> Mark {
        let nanoseconds = self.nanoseconds();
        let mut values = Values::new();
        for source in self.sources.each() {
            source.appear(&mut self.catalogue);
            source.read(&mut values, extent);
        }
        self.sources.follow_driver(&mut self.catalogue, &mut values);
        self.marks += 1;
        for (index, metric) in self.catalogue.metrics() {
            if let (Kind::Peak { .. }, Some(peak)) = (metric.kind, values.get(index)) {
                self.histories.of_mut(index).add(self.marks, peak);
            }
        }
        Mark { number: self.marks, nanoseconds, values }
    }

    /// Begins the next checkpoint's interval at this mark.
    fn count_from(&mut self, mark: &Mark) {
        self.checkpoint_mark = mark.number;
        self.checkpoint_values = mark.values;
        PoolMetrics::forget_ended();
        if self.open_scopes == 0 {
            // No open scope needs earlier peaks.
            self.histories.all_mut().for_each(PeakHistory::clear);
        }
    }

    /// A metric's figure at a mark, as a checkpoint shows it.
    fn figure(&self, index: Index, metric: &Metric, mark: &Mark) -> Option<u64> {
        let value = mark.values.get(index)?;
        Some(match metric.kind {
            Kind::Level => value.wrapping_sub(metric.base),
            Kind::Peak { .. } => {
                let peak = self.histories.of(index).since(self.checkpoint_mark).unwrap_or(value);
                peak.wrapping_sub(metric.base)
            }
            Kind::Total => value.wrapping_sub(self.checkpoint_values.get(index).unwrap_or(0)),
        })
    }

    /// Returns the line to show, if any.
    fn checkpoint(&mut self, label: &str, at: Option<&str>) -> Option<Text> {
        // Another thread may have closed the log since the caller looked.
        self.log.as_ref()?;
        if LEFT_OUT.load(Ordering::Relaxed) && LEFT_OUT.swap(false, Ordering::Relaxed) {
            terminal::warn(format_args!(
                "left out what a signal handler logged, because it interrupted the writing of another line"
            ));
        }
        let mark = self.mark_of_checkpoint();
        self.log_checkpoint(label, at, &mark);
        if self.print && at.is_some() {
            let resident = self.catalogue.metrics().find(|(_, metric)| metric.name == "cpu.rss");
            let resident = resident.and_then(|(index, _)| mark.values.get(index));
            Some(terminal::checkpoint_line(label, self.sources.gpu.in_use(&mark.values), resident))
        } else {
            None
        }
    }

    /// Reads all sources for a checkpoint, which ends the interval of call stacks.
    fn mark_of_checkpoint(&mut self) -> Mark {
        if let Some(stacks) = &self.stacks {
            stacks.end_interval_at_next_mark(&self.sources);
        }
        self.mark(Extent::Whole)
    }

    fn log_checkpoint(&mut self, label: &str, at: Option<&str>, mark: &Mark) {
        self.log_what_appeared(mark);
        self.log_tensor_devices(mark);
        self.log_live_sizes(mark);
        let logged = if at.is_some() { Logged::Checkpoint } else { Logged::OwnCheckpoint };
        let occurrence = self.occurrences.next(logged, label);
        self.log(|recorder, log| {
            log.write("checkpoint", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", occurrence);
                json.text_or_null("at", at);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        if let Some(figure) = recorder.figure(index, metric, mark) {
                            json.figure(metric.name, figure);
                        }
                    }
                    json.figure("time", mark.nanoseconds);
                });
            })
        });
        if let Some(mut stacks) = self.stacks.take() {
            self.log(|recorder, log| {
                stacks.checkpoint(log, &recorder.sources, mark.nanoseconds, (label, occurrence))
            });
            self.stacks = Some(stacks);
        }
        self.log_what_was_lost(mark);
        self.count_from(mark);
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
                // A level may be below that at the beginning of the test's body.
                reading.add(metric.name, if figure > u64::MAX / 2 { 0 } else { figure });
            }
        }
        reading.add("time", mark.nanoseconds);
        reading
    }

    /// Logs the metrics, and the absent ones, that appeared after the first lines.
    pub(crate) fn log_what_appeared(&mut self, mark: &Mark) {
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

    /// Logs a metric that can no longer be read, for example after the program closed all
    /// descriptors.
    fn log_what_was_lost(&mut self, mark: &Mark) {
        for place in 0..self.catalogue.length() {
            let index = Index::of(place);
            let is_missing =
                mark.values.get(index).is_none() && !self.catalogue.metric(index).lost.is_empty();
            if is_missing && !std::mem::replace(self.lost.of_mut(index), true) {
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

    /// Writes lines about call stacks, if the run records them.
    fn log_stacks(&mut self, write: impl FnOnce(&mut StackLog, &mut Log, &Sources) -> io::Result<()>) {
        if let Some(mut stacks) = self.stacks.take() {
            self.log(|recorder, log| write(&mut stacks, log, &recorder.sources));
            self.stacks = Some(stacks);
        }
    }

    /// Writes lines, if there is a log. A line that cannot be written closes it. The runner then
    /// sees that `end` is missing.
    pub(crate) fn log(&mut self, write: impl FnOnce(&Self, &mut Log) -> io::Result<()>) {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => return,
        };
        match write(self, &mut log) {
            Ok(()) => self.log = Some(log),
            Err(error) => {
                RECORDING.store(false, Ordering::Relaxed);
                terminal::warn(format_args!(
                    "recording ends here, because the log cannot be written: {error}"
                ));
            }
        }
    }
}

/// The clock behind [`Instant`] on this platform.
#[cfg(not(any(windows, target_os = "macos", target_os = "ios")))]
const CLOCK: &str = "CLOCK_MONOTONIC";
#[cfg(any(target_os = "macos", target_os = "ios"))]
const CLOCK: &str = "CLOCK_UPTIME_RAW";
#[cfg(windows)]
const CLOCK: &str = "QueryPerformanceCounter";
