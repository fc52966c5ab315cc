//! `pool.NAME.…`: the memory pools of frameworks and programs.
//!
//! Asking a pool runs the program's code, so it comes before the recorder's lock is taken. Answers
//! are kept here until the next mark reads them. A pool that keeps no peak of its own has the
//! highest of its answers.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gpu::devices;
use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, MAXIMUM, Metric, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::lock::{Held, Lock};
use crate::platform::process;
use crate::platform::thread_number;
use crate::platform::untracked::{Text, Untracked, kept};
use crate::shared::pool_usage::PoolUsage;
use crate::sources::callback::Callback;

const METRICS: [&str; 4] = ["in_use", "in_use_peak", "reserved", "reserved_peak"];
/// Metrics that there must be room for beside these: those of page-locked host memory.
const OTHERS: usize = 2;

const OF_POOL: &str = "the pool itself";
const KEPT_BY_POOL: &str = "the pool itself, which keeps its peak (exact)";
const SAMPLED: &str = "the highest at checkpoints, scopes and memprof::trim (sampled)";
const REPORTED: &str = "as last reported through memprof::pool";
const SAMPLED_BY_PROGRAM: &str = "the highest that was reported through memprof::pool (sampled)";
const OF_DRIVER: &str = "CUDA driver, default memory pool (exact)";
const NO_ANSWER: &str = "the pool did not report its figures at a checkpoint";
const NO_ROOM: &str = "this process has more pools than the log has room for";

static POOLS: Lock<Registry> = Lock::new(Registry { pools: Untracked::new() });
/// Whether there is a pool. A checkpoint without any costs a look at this.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is asking pools. What a pool's own answer logs does not ask again.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

struct Registry {
    pools: Untracked<Known>,
}

/// A pool that has, or had, metrics. In pairs, bytes in use come first, then reserved bytes.
#[derive(Clone, Copy)]
struct Known {
    name: &'static str,
    /// Tells an adapter's pools apart.
    key: &'static str,
    from: Origin,
    trim: Option<Callback>,
    keeps_peak: [bool; 2],
    /// The last answer.
    levels: [Option<u64>; 2],
    /// The highest since the last mark, and whether that is unknown.
    peaks: [Option<u64>; 2],
    is_peak_lost: [bool; 2],
    /// How many threads are in one of its functions.
    callers: u32,
    metrics: Option<[Index; 4]>,
    /// Whether the log has that it has no metrics, or that an answer is missing.
    is_absent: bool,
    lacks_answer: bool,
}

/// Where a pool's figures come from.
#[derive(Clone, Copy)]
enum Origin {
    /// A function that is asked.
    Program(Callback),
    /// The program's calls of `memprof::pool`.
    Reports,
    /// The CUDA driver's default pool on the device with this ordinal.
    Driver(u32),
    /// Nowhere, for this reason.
    Nowhere(&'static str),
    /// Is no longer watched.
    Ended,
}

/// The pools; `None` in a forked child, where a thread that does not exist may hold the lock.
fn hold() -> Option<Held<'static, Registry>> {
    if process::is_own_process() { POOLS.hold_as(thread_number::place()) } else { None }
}

/// The time in which a thread asks pools.
struct Asking(());

impl Asking {
    fn begin() -> Option<Self> {
        if is_asking() {
            return None;
        }
        ASKING.try_with(|asking| asking.set(true)).ok().map(|()| Self(()))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = ASKING.try_with(|asking| asking.set(false));
    }
}

fn is_asking() -> bool {
    ASKING.try_with(Cell::get).unwrap_or(true)
}

/// A thread in a function of a pool, which is not freed meanwhile.
struct Caller {
    place: usize,
    callback: Callback,
}

impl Caller {
    /// Enters a function of the next pool that has one, from this place on.
    fn enter_next(from: usize, function: impl Fn(&Known) -> Option<Callback>) -> Option<Self> {
        let mut registry = hold()?;
        let mut pools = registry.pools.as_mut().iter_mut().enumerate().skip(from);
        pools.find_map(|(place, pool)| {
            let callback = function(pool)?;
            pool.callers += 1;
            Some(Self { place, callback })
        })
    }

    fn call(&self) -> Option<PoolUsage> {
        // SAFETY: `end` waits for callers before it frees.
        unsafe { self.callback.call() }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(mut registry) = hold() {
            registry.pools.as_mut()[self.place].callers -= 1;
        }
    }
}

/// Asks all watched pools. Returns false if their figures are not known now, inside an answer.
pub(crate) fn ask() -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return true;
    }
    let _asking = match Asking::begin() {
        Some(asking) => asking,
        None => return false,
    };
    let mut next = 0;
    while let Some(caller) = Caller::enter_next(next, Known::asked) {
        caller.take_answer();
        next = caller.place + 1;
    }
    true
}

impl Caller {
    fn take_answer(&self) {
        let answer = self.call();
        if let Some(mut registry) = hold() {
            registry.pools.as_mut()[self.place].take(answer);
        }
    }
}

/// Adds a pool, and asks it. Returns its place.
pub(crate) fn watch(name: &str, key: &str, usage: Callback) -> Option<usize> {
    if !process::is_own_process() {
        return None;
    }
    let first = {
        let _asking = Asking::begin();
        // SAFETY: nobody else has it yet.
        unsafe { usage.call() }
    };
    let mut registry = hold()?;
    let place = registry.place_for(name, key);
    let pool = &mut registry.pools.as_mut()[place];
    pool.from = Origin::Program(usage);
    // The log has the source of its peaks already if a pool of this name was watched before.
    if pool.metrics.is_none() {
        pool.keeps_peak = match first {
            Some(usage) => [usage.in_use_peak.is_some(), usage.reserved_peak.is_some()],
            None => [false; 2],
        };
    }
    // A pool's peak from before it was watched does not count.
    pool.take(first.map(|usage| PoolUsage::from((usage.in_use, usage.reserved))));
    pool.is_peak_lost = [false; 2];
    ANY.store(true, Ordering::Relaxed);
    Some(place)
}

pub(crate) fn is_watched(key: &str) -> bool {
    hold().map_or(false, |registry| {
        registry.pools.iter().any(|pool| pool.key == key && matches!(pool.from, Origin::Program(_)))
    })
}

pub(crate) fn set_trim(place: usize, release: Callback) {
    if let Some(mut registry) = hold() {
        // A function that was set before may be running, so it is not freed.
        registry.pools.as_mut()[place].trim = Some(release);
    }
}

/// Asks a pool for the last time. Its peaks count up to here.
pub(crate) fn end(place: usize) {
    if process::is_recording() && !std::thread::panicking() {
        let _asking = Asking::begin();
        let is_it = |pool: &Known| pool.asked();
        if let Some(caller) = Caller::enter_next(place, is_it).filter(|caller| caller.place == place) {
            caller.take_answer();
        }
    }
    let functions = match hold() {
        Some(mut registry) => registry.pools.as_mut()[place].end(),
        None => return,
    };
    if is_asking() {
        // The guard is dropped by an answer, which still runs.
        return;
    }
    while hold().map_or(false, |registry| registry.pools[place].callers != 0) {
        std::thread::yield_now();
    }
    for function in functions.iter().flatten() {
        // SAFETY: the registry no longer has it, and nobody is in it.
        unsafe { function.free() };
    }
}

/// Takes what the program reports about a pool of its own.
pub(crate) fn report(name: &str, in_use: u64, reserved: u64) {
    if let Some(mut registry) = hold() {
        let key = Text::format(format_args!("reported {name}"));
        let known = registry.pools.iter().position(|pool| pool.key == key.as_str() && pool.from.is_reports());
        let place = known.unwrap_or_else(|| registry.place_for(name, key.as_str()));
        let pool = &mut registry.pools.as_mut()[place];
        pool.from = Origin::Reports;
        pool.take(Some(PoolUsage::from((in_use, reserved))));
        ANY.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn watch_driver_pool(name: &str, ordinal: u32) {
    if let Some(mut registry) = hold() {
        let is_it = |pool: &Known| matches!(pool.from, Origin::Driver(known) if known == ordinal);
        if !registry.pools.iter().any(is_it) {
            let place = registry.place_for(name, "");
            registry.pools.as_mut()[place].from = Origin::Driver(ordinal);
            ANY.store(true, Ordering::Relaxed);
        }
    }
}

pub(crate) fn add_absent(name: &str, reason: &'static str) {
    if let Some(mut registry) = hold() {
        let name = Text::format(format_args!("{}", NameOfPool(name)));
        if registry.pools.iter().all(|pool| pool.name != name.as_str()) {
            let place = registry.place_for(name.as_str(), "");
            registry.pools.as_mut()[place].from = Origin::Nowhere(reason);
            ANY.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether pools release memory before each reading.
static TRIMS: AtomicBool = AtomicBool::new(false);

/// Releases memory before each reading from now on.
pub(crate) fn trim_always() {
    TRIMS.store(true, Ordering::Relaxed);
}

/// Before a reading: [`trim`], if the runner asks for it, then [`ask`].
pub(crate) fn trim_and_ask() -> bool {
    if TRIMS.load(Ordering::Relaxed) {
        trim();
    }
    ask()
}

/// Asks pools to release memory, frameworks' pools before the driver's, which they give it to.
pub(crate) fn trim() {
    if !process::is_own_process() {
        return;
    }
    devices::settle();
    // What they hold until now is in their peaks.
    ask();
    let asking = match Asking::begin() {
        Some(asking) => asking,
        None => return,
    };
    let mut next = 0;
    while let Some(caller) = Caller::enter_next(next, |pool| pool.trim) {
        caller.call();
        next = caller.place + 1;
    }
    drop(asking);
    devices::trim_pools();
}

impl Origin {
    fn is_reports(self) -> bool {
        matches!(self, Self::Reports)
    }
}

impl Registry {
    /// The place of a new pool: that of one with this name that has ended, or a new one.
    fn place_for(&mut self, name: &str, key: &str) -> usize {
        let wanted = Text::format(format_args!("{}", NameOfPool(name)));
        let mut number = 1_u32;
        loop {
            let numbered = match number {
                1 => Text::format(format_args!("{}", wanted.as_str())),
                number => Text::format(format_args!("{}.{number}", wanted.as_str())),
            };
            match self.pools.iter().position(|pool| pool.name == numbered.as_str()) {
                None => {
                    let name = kept(format_args!("{}", numbered.as_str()));
                    self.pools.push(Known::new(name, kept(format_args!("{key}"))));
                    return self.pools.len() - 1;
                }
                Some(place) if self.pools[place].is_free() => {
                    self.pools.as_mut()[place].key = kept(format_args!("{key}"));
                    return place;
                }
                Some(_) => number += 1,
            }
        }
    }
}

impl Known {
    fn new(name: &'static str, key: &'static str) -> Self {
        Self {
            name,
            key,
            from: Origin::Ended,
            trim: None,
            keeps_peak: [false; 2],
            levels: [None; 2],
            peaks: [None; 2],
            is_peak_lost: [false; 2],
            callers: 0,
            metrics: None,
            is_absent: false,
            lacks_answer: false,
        }
    }

    /// The function to ask.
    fn asked(&self) -> Option<Callback> {
        match self.from {
            Origin::Program(usage) => Some(usage),
            _ => None,
        }
    }

    fn is_free(&self) -> bool {
        matches!(self.from, Origin::Ended) && self.callers == 0
    }

    /// Takes an answer.
    fn take(&mut self, answer: Option<PoolUsage>) {
        if matches!(self.from, Origin::Ended) {
            return;
        }
        let usage = if let Some(usage) = answer {
            usage
        } else {
            self.levels = [None; 2];
            self.is_peak_lost = [true; 2];
            self.lacks_answer = true;
            return;
        };
        let both = [(usage.in_use, usage.in_use_peak), (usage.reserved, usage.reserved_peak)];
        for (side, (level, own_peak)) in both.iter().copied().enumerate() {
            self.is_peak_lost[side] |= self.keeps_peak[side] && own_peak.is_none();
            let own_peak = own_peak.filter(|_| self.keeps_peak[side]);
            let highest = own_peak.map_or(level, |peak| peak.max(level));
            self.peaks[side] = self.peaks[side].max(Some(highest));
            self.levels[side] = Some(level);
        }
    }

    /// Returns its functions, which the registry gives up.
    fn end(&mut self) -> [Option<Callback>; 2] {
        let usage = self.asked();
        self.from = Origin::Ended;
        self.levels = [None; 2];
        [usage, self.trim.take()]
    }

    /// Reads the figures of the interval that ends here, and begins the next one.
    fn read(&mut self, values: &mut Values, is_asked: bool) {
        let metrics = match (self.metrics, self.from) {
            (Some(metrics), Origin::Reports | Origin::Ended) => metrics,
            (Some(metrics), Origin::Program(_)) if is_asked => metrics,
            _ => return,
        };
        for side in 0..2 {
            let peak = self.peaks[side].filter(|_| !self.is_peak_lost[side]);
            values.set(metrics[2 * side], self.levels[side]);
            values.set(metrics[2 * side + 1], peak);
            if !matches!(self.from, Origin::Ended) {
                self.peaks[side] = self.levels[side];
                self.is_peak_lost[side] = false;
            }
        }
    }

    fn appear(&mut self, catalogue: &mut Catalogue) {
        if self.lacks_answer {
            self.lacks_answer = false;
            if !self.is_absent {
                self.add_absent(catalogue, NO_ANSWER);
            }
        }
        if self.metrics.is_some() || self.is_absent && self.asked().is_none() {
            return;
        }
        match self.from {
            Origin::Program(_) => {
                let of_peak = self.keeps_peak.map(|keeps| if keeps { KEPT_BY_POOL } else { SAMPLED });
                self.add_metrics(catalogue, OF_POOL, of_peak);
            }
            Origin::Reports => self.add_metrics(catalogue, REPORTED, [SAMPLED_BY_PROGRAM; 2]),
            Origin::Nowhere(reason) => self.add_absent(catalogue, reason),
            Origin::Driver(_) | Origin::Ended => {}
        }
    }

    fn add_metrics(&mut self, catalogue: &mut Catalogue, of_level: &'static str, of_peak: [&'static str; 2]) {
        if catalogue.length() + METRICS.len() + OTHERS > MAXIMUM {
            if !self.is_absent {
                self.add_absent(catalogue, NO_ROOM);
            }
            return;
        }
        let names = METRICS.map(|metric| kept(format_args!("pool.{}.{}", self.name, metric)));
        let families = [kept(format_args!("pool.{}", self.name)), names[2]];
        let mut indices = [Index::at(0); 4];
        for side in 0..2 {
            let metric = |name, source, kind| {
                // What it was before nobody knows. A missing figure is the program's own doing.
                Metric { name, source, kind, lost: "", is_zero_before: false, base: 0 }
            };
            let level = catalogue.add_metric(metric(names[2 * side], of_level, Kind::Level));
            let kind = Kind::Peak { family: families[side], level };
            indices[2 * side] = level;
            indices[2 * side + 1] = catalogue.add_metric(metric(names[2 * side + 1], of_peak[side], kind));
        }
        self.metrics = Some(indices);
    }

    fn add_absent(&mut self, catalogue: &mut Catalogue, reason: &'static str) {
        self.is_absent = true;
        for metric in METRICS {
            catalogue.add_absent(kept(format_args!("pool.{}.{}", self.name, metric)), reason);
        }
    }
}

pub(crate) struct PoolMetrics {
    /// Whether the pools were asked for the mark that comes next.
    pub(crate) is_asked: bool,
}

impl PoolMetrics {
    pub(crate) const fn new() -> Self {
        Self { is_asked: false }
    }

    /// Gives pools of the driver the figures that `figures_of` has for their device: the metrics of
    /// its pool, or why there are none. `None` before the device is used.
    pub(crate) fn follow_driver(
        figures_of: impl Fn(u32) -> Option<Result<[Index; 4], &'static str>>,
        catalogue: &mut Catalogue,
        values: &mut Values,
    ) {
        if !ANY.load(Ordering::Relaxed) {
            return;
        }
        let mut registry = match hold() {
            Some(registry) => registry,
            None => return,
        };
        for pool in registry.pools.as_mut() {
            let figures = match pool.from {
                Origin::Driver(ordinal) => figures_of(ordinal),
                _ => None,
            };
            match figures {
                Some(Ok(_)) if pool.metrics.is_none() && !pool.is_absent => {
                    pool.add_metrics(catalogue, OF_DRIVER, [OF_DRIVER; 2]);
                }
                Some(Err(reason)) if !pool.is_absent => pool.add_absent(catalogue, reason),
                _ => {}
            }
            if let (Some(Ok(figures)), Some(metrics)) = (figures, pool.metrics) {
                for (metric, figure) in metrics.iter().zip(figures) {
                    values.set(*metric, values.get(figure));
                }
            }
        }
    }

    /// A checkpoint has had the peaks of pools that ended before it.
    pub(crate) fn forget_ended() {
        if !ANY.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mut registry) = hold() {
            let ended = registry.pools.as_mut().iter_mut().filter(|pool| matches!(pool.from, Origin::Ended));
            ended.for_each(|pool| pool.peaks = [None; 2]);
        }
    }
}

impl Source for PoolMetrics {
    fn open(&mut self, _environment: &Environment, _catalogue: &mut Catalogue) {}

    fn appear(&mut self, catalogue: &mut Catalogue) {
        if ANY.load(Ordering::Relaxed) {
            if let Some(mut registry) = hold() {
                registry.pools.as_mut().iter_mut().for_each(|pool| pool.appear(catalogue));
            }
        }
    }

    fn read(&mut self, values: &mut Values, _extent: Extent) {
        if ANY.load(Ordering::Relaxed) {
            if let Some(mut registry) = hold() {
                registry.pools.as_mut().iter_mut().for_each(|pool| pool.read(values, self.is_asked));
            }
        }
    }
}

/// A name as a part of a metric's name. Flags and files give other characters a meaning.
struct NameOfPool<'a>(&'a str);

impl fmt::Display for NameOfPool<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |character: char| character.is_alphanumeric() || "-_.:/#".contains(character);
        let mut parts = self.0.split(|character| !is_plain(character)).filter(|part| !part.is_empty());
        formatter.write_str(parts.next().unwrap_or("unnamed"))?;
        parts.try_for_each(|part| {
            formatter.write_char('-')?;
            formatter.write_str(part)
        })
    }
}
