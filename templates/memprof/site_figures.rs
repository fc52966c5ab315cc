//! The figures of each site: live bytes now and in the moment of the peak, and what was allocated.
//!
//! Every allocation and deallocation takes the next number and is written to its place in a ring.
//! Whoever holds the lock applies the events in the order of these numbers. So all threads have one
//! order, in which the peak is exact, and threads do not wait for each other.
//!
//! What a site had in the moment of the peak is not copied at the peak, which would take time for
//! each site. A new peak begins a new `epoch`. A site copies its live bytes at its first change
//! after that.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::inline_always)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::live::Epoch;
use crate::lock::Lock;
use crate::tally::Totals;
use crate::thread_number;
use crate::timeline::{self, Timeline};
use crate::untracked::Untracked;
use crate::unwind_table;

/// Places of the ring; a power of two.
const PLACES: u64 = 1 << 12;
/// How often a thread applies what is in the ring.
const APPLY_EVERY: u64 = PLACES / 4;
/// How long to wait for a thread that took a number and has not written its event.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A block that comes, goes, or does both: a reallocation.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) new_site: u32,
    pub(crate) old_site: u32,
    pub(crate) new_size: u64,
    pub(crate) old_size: u64,
    /// Whether there is a new block.
    pub(crate) allocates: bool,
}

/// An event in the ring. Two fit a cache line.
#[repr(C, align(32))]
struct Place {
    /// The event's number plus one, in its lower 32 bits. Written last.
    written: AtomicU32,
    time: UnsafeCell<u32>,
    /// The upper bit of the new site is set if there is no new block.
    sites: UnsafeCell<(u32, u32)>,
    sizes: UnsafeCell<(u64, u64)>,
}

const NO_BLOCK: u32 = 1 << 31;

static RING: AtomicPtr<Place> = AtomicPtr::new(std::ptr::null_mut());
/// The number of the next event.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// All events below this number are applied.
static APPLIED: AtomicU64 = AtomicU64::new(0);
static FIGURES: Lock<Figures> = Lock::new(Figures::new());
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// What one site has.
#[derive(Clone, Copy)]
struct Site {
    live: u64,
    /// The live bytes in the moment of the peak, if the site changed since.
    at_peak: u64,
    allocated: u64,
    count: u64,
    epoch: u32,
    /// The interval in which it last changed.
    interval: u32,
}

const NEW_SITE: Site = Site { live: 0, at_peak: 0, allocated: 0, count: 0, epoch: 0, interval: 0 };

/// A site's figures at the end of an interval.
#[derive(Clone, Copy)]
pub(crate) struct Changed {
    pub(crate) site: u32,
    pub(crate) at_peak: u64,
    pub(crate) live: u64,
    pub(crate) allocated: u64,
    pub(crate) count: u64,
}

/// The figures of all sites at the end of an interval.
#[derive(Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) live: u64,
    pub(crate) peak: u64,
    pub(crate) allocated: u64,
    pub(crate) count: u64,
}

struct Figures {
    sites: Untracked<Site>,
    live: u64,
    totals: Totals,
    /// The peak since the last mark.
    mark_peak: u64,
    /// The peak since the interval began, and the number of times that it rose.
    peak: u64,
    epoch: u32,
    interval: u32,
    totals_before: Totals,
    /// The sites that changed in this interval.
    changed: Untracked<u32>,
    timeline: Timeline,
    /// What the next mark does, for the log.
    at_next_mark: AtNextMark,
    ended: Interval,
    log: Untracked<Changed>,
}

/// What a mark means for the interval.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtNextMark {
    /// The interval goes on.
    GoOn,
    /// A new interval begins, and the old one is forgotten.
    Begin,
    /// A new interval begins, and the old one's figures are kept for the log.
    End,
}

/// Prepares the ring.
pub(crate) fn set_up() -> Result<(), &'static str> {
    let memory = unwind_table::anonymous(PLACES as usize * std::mem::size_of::<Place>());
    let memory = memory.ok_or("there is no memory for the list of allocations")?;
    RING.store(memory.cast(), Ordering::Release);
    Ok(())
}

/// The ring's place for an event.
#[inline(always)]
fn place(number: u64) -> &'static Place {
    // SAFETY: `set_up` made the ring before the first event. Zeroed memory is a valid `Place`, and
    // the remainder is inside.
    unsafe { &*RING.load(Ordering::Relaxed).add((number & (PLACES - 1)) as usize) }
}

/// Records an event. Numbers follow the order in which threads call this.
#[inline(always)]
pub(crate) fn record(event: Event) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if number.wrapping_sub(APPLIED.load(Ordering::Acquire)) >= PLACES {
        wait_for_room(number);
    }
    let place = place(number);
    let no_block = if event.allocates { 0 } else { NO_BLOCK };
    // SAFETY: the place is applied, so nobody reads it before `written` has this number, and no
    // other thread has this number.
    unsafe {
        *place.time.get() = timeline::now();
        *place.sites.get() = (event.new_site | no_block, event.old_site);
        *place.sizes.get() = (event.new_size, event.old_size);
    }
    place.written.store((number as u32).wrapping_add(1), Ordering::Release);
    if number & (APPLY_EVERY - 1) == 0 {
        apply_now();
    }
}

/// Applies what is in the ring, unless another thread is doing so.
#[cold]
#[inline(never)]
fn apply_now() {
    if let Some(mut figures) = FIGURES.try_hold(thread_number::place()) {
        figures.apply_up_to(NEXT.load(Ordering::Relaxed));
    }
}

#[cold]
#[inline(never)]
fn wait_for_room(number: u64) {
    let begin = Instant::now();
    while number.wrapping_sub(APPLIED.load(Ordering::Acquire)) >= PLACES {
        apply_now();
        if begin.elapsed() > LONGEST_WAIT {
            // A thread was stopped between two instructions, or a signal handler allocates on it.
            IS_INCOMPLETE.store(true, Ordering::Relaxed);
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether events were lost, so that the figures mean nothing.
pub(crate) fn is_incomplete() -> bool {
    IS_INCOMPLETE.load(Ordering::Relaxed)
}

/// Tells the next mark what it means for the interval.
pub(crate) fn at_next_mark(what: AtNextMark) {
    if let Some(mut figures) = FIGURES.hold_as(thread_number::place()) {
        figures.at_next_mark = what;
    }
}

/// Ends the peak's interval of a mark: live bytes, their peak since the last mark, and totals.
pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    let mut figures = FIGURES.hold_as(thread_number::place())?;
    figures.apply_all();
    let live = figures.live;
    let epoch = Epoch { live, peak: std::mem::replace(&mut figures.mark_peak, live) };
    match std::mem::replace(&mut figures.at_next_mark, AtNextMark::GoOn) {
        AtNextMark::GoOn => {}
        AtNextMark::Begin => figures.begin_interval(),
        AtNextMark::End => figures.end_interval(),
    }
    Some((epoch, figures.totals))
}

/// Totals since the process began.
pub(crate) fn totals() -> Option<Totals> {
    let mut figures = FIGURES.hold_as(thread_number::place())?;
    figures.apply_all();
    Some(figures.totals)
}

/// Hands over the figures of the interval that ended at the last mark: its own, and those of the
/// sites that changed.
pub(crate) fn take_interval(into: &mut Untracked<Changed>) -> Option<Interval> {
    let mut figures = FIGURES.hold_as(thread_number::place())?;
    std::mem::swap(into, &mut figures.log);
    figures.log.clear();
    Some(figures.ended)
}

/// Hands over the timeline.
pub(crate) fn with_timeline(use_it: impl FnOnce(&Timeline)) {
    if let Some(mut figures) = FIGURES.hold_as(thread_number::place()) {
        figures.apply_all();
        use_it(&figures.timeline);
    }
}

impl Figures {
    const fn new() -> Self {
        Self {
            sites: Untracked::new(),
            live: 0,
            totals: Totals { bytes: 0, blocks: 0 },
            mark_peak: 0,
            peak: 0,
            epoch: 1,
            interval: 1,
            totals_before: Totals { bytes: 0, blocks: 0 },
            changed: Untracked::new(),
            timeline: Timeline::new(),
            at_next_mark: AtNextMark::GoOn,
            ended: Interval { live: 0, peak: 0, allocated: 0, count: 0 },
            log: Untracked::new(),
        }
    }

    /// Applies all events that have a number by now.
    fn apply_all(&mut self) {
        let until = NEXT.load(Ordering::Acquire);
        let begin = Instant::now();
        while self.apply_up_to(until) < until {
            if begin.elapsed() > LONGEST_WAIT {
                IS_INCOMPLETE.store(true, Ordering::Relaxed);
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Applies events in order, up to the first one that is not written yet. Returns its number.
    fn apply_up_to(&mut self, until: u64) -> u64 {
        let mut number = APPLIED.load(Ordering::Relaxed);
        while number < until {
            let place = place(number);
            if place.written.load(Ordering::Acquire) != (number as u32).wrapping_add(1) {
                break;
            }
            // SAFETY: the event is written, and its place is not used again before it is applied.
            let (time, sites, sizes) = unsafe { (*place.time.get(), *place.sites.get(), *place.sizes.get()) };
            self.apply(sites, sizes);
            self.timeline.add(time, self.live);
            number += 1;
            if number & 63 == 0 {
                APPLIED.store(number, Ordering::Release);
            }
        }
        APPLIED.store(number, Ordering::Release);
        number
    }

    #[inline(always)]
    fn apply(&mut self, (new_site, old_site): (u32, u32), (new_size, old_size): (u64, u64)) {
        if old_size != 0 {
            let site = self.touch(old_site);
            site.live = site.live.wrapping_sub(old_size);
        }
        if new_site & NO_BLOCK == 0 {
            let site = self.touch(new_site);
            site.live = site.live.wrapping_add(new_size);
            site.allocated = site.allocated.wrapping_add(new_size);
            site.count += 1;
            self.totals.bytes = self.totals.bytes.wrapping_add(new_size);
            self.totals.blocks += 1;
        }
        self.live = self.live.wrapping_add(new_size).wrapping_sub(old_size);
        self.mark_peak = self.mark_peak.max(self.live);
        if self.live > self.peak {
            self.peak = self.live;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// A site that is about to change.
    #[inline(always)]
    fn touch(&mut self, number: u32) -> &mut Site {
        let index = number as usize;
        if index >= self.sites.len() {
            self.grow(index + 1);
        }
        let (epoch, interval) = (self.epoch, self.interval);
        if self.sites[index].interval != interval {
            self.changed.push(number);
        }
        let site = &mut self.sites.as_mut()[index];
        site.interval = interval;
        if site.epoch != epoch {
            site.at_peak = site.live;
            site.epoch = epoch;
        }
        site
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        self.sites.reserve(length - self.sites.len());
        while self.sites.len() < length {
            self.sites.push(NEW_SITE);
        }
    }

    /// Forgets what was allocated so far. Sites that changed are still in the next interval's list.
    fn begin_interval(&mut self) {
        for place in 0..self.changed.len() {
            let site = &mut self.sites.as_mut()[self.changed[place] as usize];
            site.allocated = 0;
            site.count = 0;
        }
        self.peak = self.live;
        self.epoch = self.epoch.wrapping_add(1);
        self.totals_before = self.totals;
    }

    fn end_interval(&mut self) {
        self.log.clear();
        for place in 0..self.changed.len() {
            let number = self.changed[place];
            let site = &mut self.sites.as_mut()[number as usize];
            let at_peak = if site.epoch == self.epoch { site.at_peak } else { site.live };
            let Site { live, allocated, count, .. } = *site;
            self.log.push(Changed { site: number, at_peak, live, allocated, count });
        }
        self.ended = Interval {
            live: self.live,
            peak: self.peak,
            allocated: self.totals.bytes.wrapping_sub(self.totals_before.bytes),
            count: self.totals.blocks.wrapping_sub(self.totals_before.blocks),
        };
        self.begin_interval();
        self.changed.clear();
        self.interval = self.interval.wrapping_add(1);
    }
}
