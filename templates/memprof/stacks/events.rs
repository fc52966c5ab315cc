//! Every allocation and deallocation of a run that records call stacks, in one order.
//!
//! Each takes the next number and is written to its place in a ring. Whoever holds the lock applies
//! the events in the order of their numbers. So all threads have one order, in which the peak is
//! exact, and they do not wait for each other.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::inline_always
)]
// Sites have sizes.
#![allow(clippy::similar_names)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::blocks::live::Epoch;
use crate::blocks::site_figures::{AtNextMark, Change, Changed, Interval, SiteFigures};
use crate::blocks::tally::Totals;
use crate::platform::lock::Lock;
use crate::platform::own_memory;
use crate::platform::thread_number;
use crate::platform::untracked::Untracked;
use crate::stacks::releases::{self, Release, Releases};
use crate::stacks::timeline::{self, Timeline};

/// Places of the ring; a power of two.
const PLACES: u64 = 1 << 12;
/// Consecutive events are so many places apart, so that threads do not write to the same cache line.
/// Odd, so that each place has its turn.
const STRIDE: u64 = 3;
/// How often a thread applies what is in the ring.
const APPLY_EVERY: u64 = PLACES / 4;
/// One event in so many, and each of a large block, reads the clock, which takes as long as all
/// else here. Another event has the time of the one before it.
const CLOCK_EVERY: u64 = 8;
const LARGE: u64 = 4096;
/// How long to wait for a thread that took a number and has not written its event.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// An event in the ring. Two fit a cache line.
#[repr(C, align(32))]
struct Place {
    /// The event's number plus one, in its lower 32 bits. Written last.
    written: AtomicU32,
    /// 0 if the clock was not read.
    time: UnsafeCell<u32>,
    /// The upper bit of the new site is set if there is no new block, but a site that frees, and that of the old one if the
    /// block only shrinks.
    sites: UnsafeCell<(u32, u32)>,
    sizes: UnsafeCell<(u64, u64)>,
}

const NO_BLOCK: u32 = 1 << 31;
const SHRINKS: u32 = 1 << 31;

static RING: AtomicPtr<Place> = AtomicPtr::new(std::ptr::null_mut());
/// A number with a pair of cache lines to itself. All threads change it, and what lay beside it would
/// be read as slowly.
#[repr(align(128))]
struct Alone(AtomicU64);

impl std::ops::Deref for Alone {
    type Target = AtomicU64;

    #[inline(always)]
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// The number of the next event.
static NEXT: Alone = Alone(AtomicU64::new(0));
/// All events below this number are applied.
static APPLIED: Alone = Alone(AtomicU64::new(0));
static APPLIED_EVENTS: Lock<Applied> = Lock::new(Applied::new());
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// After so many events the thread that recorded the last one stops, at its next call of the allocator.
/// Never, unless [`stop_after`] was called.
static STOP_AFTER: AtomicU64 = AtomicU64::new(u64::MAX);
/// The thread that must stop: its `thread_number::place`. 0 if none must.
static STOPS: AtomicUsize = AtomicUsize::new(0);

/// What the events add up to. It changes with each of them, so it is apart, too.
#[repr(align(128))]
struct Applied {
    figures: SiteFigures,
    releases: Releases,
    /// The peak since the last mark.
    mark_peak: u64,
    /// How many events there were in the moment of the interval's peak, and of the last one's.
    peak_event: u64,
    ended_peak_event: u64,
    timeline: Timeline,
}

/// Prepares the ring.
pub(crate) fn set_up() -> Result<(), &'static str> {
    let memory = own_memory::zeroed(PLACES as usize * std::mem::size_of::<Place>());
    let memory = memory.ok_or("there is no memory for the list of allocations")?;
    RING.store(memory.cast(), Ordering::Release);
    Ok(())
}

/// The ring's place for an event.
#[inline(always)]
fn place(number: u64) -> &'static Place {
    // SAFETY: `set_up` made the ring before the first event. Zeroed memory is a valid `Place`, and
    // the remainder is inside.
    unsafe { &*RING.load(Ordering::Relaxed).add((number.wrapping_mul(STRIDE) & (PLACES - 1)) as usize) }
}

/// Records an event. Numbers follow the order in which threads call this.
#[inline(always)]
pub(crate) fn record(change: Change) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if number.wrapping_sub(APPLIED.load(Ordering::Acquire)) >= PLACES {
        wait_for_room(number);
    }
    let place = place(number);
    let no_block = if change.allocates { 0 } else { NO_BLOCK };
    let shrinks = if change.shrinks { SHRINKS } else { 0 };
    let is_timed = number % CLOCK_EVERY == 0 || change.new_size.max(change.old_size) >= LARGE;
    let time = if is_timed { timeline::now().max(1) } else { 0 };
    // SAFETY: the place is applied, so nobody reads it before `written` has this number, and no
    // other thread has this number.
    unsafe {
        *place.time.get() = time;
        *place.sites.get() = (change.new_site | no_block, change.old_site | shrinks);
        *place.sizes.get() = (change.new_size, change.old_size);
    }
    place.written.store((number as u32).wrapping_add(1), Ordering::Release);
    if number.wrapping_add(1) == STOP_AFTER.load(Ordering::Relaxed) {
        STOPS.store(thread_number::place(), Ordering::Relaxed);
    }
    if number & (APPLY_EVERY - 1) == 0 {
        apply_now();
    }
}

/// Lets the thread that records the last one of so many events stop after it.
pub(crate) fn stop_after(events: u64) {
    STOP_AFTER.store(events, Ordering::Relaxed);
}

/// Whether a thread must stop, or must have stopped before the next checkpoint.
#[inline(always)]
pub(crate) fn is_any_stopped() -> bool {
    STOPS.load(Ordering::Relaxed) != 0
}

/// Whether this thread must stop now.
pub(crate) fn stops_here() -> bool {
    STOPS.load(Ordering::Relaxed) == thread_number::place()
}

/// No thread must stop any more.
pub(crate) fn go_on() {
    STOP_AFTER.store(u64::MAX, Ordering::Relaxed);
    STOPS.store(0, Ordering::Relaxed);
}

/// Live bytes after all events so far.
pub(crate) fn live() -> Option<u64> {
    let mut applied = APPLIED_EVENTS.hold_as(thread_number::place())?;
    applied.apply_all();
    Some(applied.figures.live())
}

/// How many events there were in the moment of the peak of the interval that ended at the last mark.
pub(crate) fn event_of_peak() -> Option<u64> {
    Some(APPLIED_EVENTS.hold_as(thread_number::place())?.ended_peak_event)
}

/// Applies what is in the ring, unless another thread is doing so.
#[cold]
#[inline(never)]
fn apply_now() {
    if let Some(mut applied) = APPLIED_EVENTS.try_hold(thread_number::place()) {
        applied.apply_up_to(NEXT.load(Ordering::Relaxed));
    }
}

#[cold]
#[inline(never)]
fn wait_for_room(number: u64) {
    let begin = Instant::now();
    while !is_incomplete() && number.wrapping_sub(APPLIED.load(Ordering::Acquire)) >= PLACES {
        apply_now();
        if begin.elapsed() > LONGEST_WAIT {
            // A thread was stopped between two instructions, or a signal handler allocates on it.
            IS_INCOMPLETE.store(true, Ordering::Relaxed);
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether events were lost, so that the figures mean nothing. Nobody waits from then on.
pub(crate) fn is_incomplete() -> bool {
    IS_INCOMPLETE.load(Ordering::Relaxed)
}

/// Makes the figures of sites estimates: one sample in so many bytes.
pub(crate) fn set_sample(sample: u64) {
    if let Some(mut applied) = APPLIED_EVENTS.hold_as(thread_number::place()) {
        applied.figures.sample = sample;
    }
}

/// Tells the next mark what it means for the interval.
pub(crate) fn at_next_mark(what: AtNextMark) {
    if let Some(mut applied) = APPLIED_EVENTS.hold_as(thread_number::place()) {
        applied.figures.at_next_mark = what;
    }
}

/// Ends the peak's interval of a mark: live bytes, their peak since the last mark, and totals.
pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    let mut applied = APPLIED_EVENTS.hold_as(thread_number::place())?;
    applied.apply_all();
    let live = applied.figures.live();
    let epoch = Epoch { live, peak: std::mem::replace(&mut applied.mark_peak, live) };
    if applied.figures.at_next_mark == AtNextMark::End {
        let peak = applied.figures.epoch();
        applied.releases.end_interval(peak);
    }
    if applied.figures.at_next_mark == AtNextMark::End {
        applied.ended_peak_event = applied.peak_event;
    }
    if applied.figures.at_next_mark != AtNextMark::GoOn {
        applied.peak_event = APPLIED.load(Ordering::Relaxed);
    }
    applied.figures.mark();
    Some((epoch, applied.totals()))
}

/// Hands over the figures of the interval that ended at the last mark: its own, and those of the
/// sites that changed.
pub(crate) fn take_interval(into: &mut Untracked<Changed>) -> Option<Interval> {
    let mut applied = APPLIED_EVENTS.hold_as(thread_number::place())?;
    Some(applied.figures.take_interval(into))
}

/// Hands over where blocks ended in that interval. Returns whether pairs of sites are missing.
pub(crate) fn take_releases(into: &mut Untracked<Release>) -> bool {
    let applied = APPLIED_EVENTS.hold_as(thread_number::place());
    applied.map_or(false, |mut applied| applied.releases.take_interval(into))
}

/// Hands over the timeline.
pub(crate) fn with_timeline(use_it: impl FnOnce(&Timeline)) {
    if let Some(mut applied) = APPLIED_EVENTS.hold_as(thread_number::place()) {
        applied.apply_all();
        use_it(&applied.timeline);
    }
}

impl Applied {
    const fn new() -> Self {
        Self {
            figures: SiteFigures::new(),
            releases: Releases::new(),
            mark_peak: 0,
            peak_event: 0,
            ended_peak_event: 0,
            timeline: Timeline::new(),
        }
    }

    fn totals(&self) -> Totals {
        let (bytes, blocks) = self.figures.totals();
        Totals { bytes, blocks }
    }

    /// Applies all events that have a number by now.
    fn apply_all(&mut self) {
        let until = NEXT.load(Ordering::Acquire);
        let begin = Instant::now();
        while !is_incomplete() && self.apply_up_to(until) < until {
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
            let change = Change {
                new_site: sites.0 & !NO_BLOCK,
                old_site: sites.1 & !SHRINKS,
                new_size: sizes.0,
                old_size: sizes.1,
                allocates: sites.0 & NO_BLOCK == 0,
                shrinks: sites.1 & SHRINKS != 0,
            };
            if let Some((pair, bytes)) = releases::released(&change) {
                let (bytes, _) = self.figures.share(pair.0, bytes);
                self.releases.add(pair, bytes, self.figures.epoch());
            }
            let epoch = self.figures.epoch();
            self.figures.apply(change);
            if self.figures.epoch() != epoch {
                self.peak_event = number + 1;
            }
            if (self.figures.live() as i64) > self.mark_peak as i64 {
                self.mark_peak = self.figures.live();
            }
            // The timeline has no levels below zero.
            self.timeline.add(time, (self.figures.live() as i64).max(0) as u64);
            number += 1;
            if number % 64 == 0 {
                APPLIED.store(number, Ordering::Release);
            }
        }
        APPLIED.store(number, Ordering::Release);
        number
    }
}
