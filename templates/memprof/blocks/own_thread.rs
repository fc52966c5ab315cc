//! What a thread itself allocates and frees while a span is open on it. So the figures of a poll do not
//! have what other threads do meanwhile.
//!
//! A thread that is followed has no slot of the tally at hand, and while one is followed, no thread counts
//! out at once. So each of its blocks takes the allocator's rare path, and only that one looks here.

// Sums of all allocations fit.
#![allow(clippy::cast_possible_wrap)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blocks::tally::{CAN_BE_OWNED, Claimed, Slot};

/// A thread's figures since it was followed first.
#[derive(Clone, Copy)]
pub(crate) struct OwnFigures {
    /// Requested bytes and blocks.
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// The bytes that it allocated, less those that it freed, whoever had allocated them.
    pub(crate) level: i64,
    /// The highest level since the last reading.
    pub(crate) peak: i64,
}

const NOTHING: OwnFigures = OwnFigures { bytes: 0, blocks: 0, level: 0, peak: 0 };

thread_local! {
    /// How many spans are open on this thread.
    static SPANS: Cell<usize> = const { Cell::new(0) };
    static FIGURES: Cell<OwnFigures> = const { Cell::new(NOTHING) };
    /// The slot that the thread has claimed, while it is followed.
    static SLOT: Claimed = const { Cell::new(None) };
}

/// How many threads are followed.
static FOLLOWED: AtomicUsize = AtomicUsize::new(0);

/// Whether any thread is followed.
pub(crate) fn are_followed() -> bool {
    FOLLOWED.load(Ordering::Relaxed) != 0
}

/// Whether this thread is followed.
#[inline]
pub(crate) fn is_followed() -> bool {
    are_followed() && SPANS.with(Cell::get) != 0
}

/// A span begins on this thread. Returns whether it is the first. No thread is followed on platforms
/// where one owns no slot.
pub(crate) fn open() -> bool {
    if !CAN_BE_OWNED {
        return false;
    }
    let open = SPANS.with(|spans| spans.replace(spans.get() + 1));
    if open == 0 {
        FOLLOWED.fetch_add(1, Ordering::Relaxed);
    }
    open == 0
}

/// A span ends on this thread. Returns whether none is open any more.
pub(crate) fn close() -> bool {
    if !is_followed() {
        return false;
    }
    let left = SPANS.with(|spans| spans.replace(spans.get() - 1)) - 1;
    if left == 0 {
        FOLLOWED.fetch_sub(1, Ordering::Relaxed);
    }
    left == 0
}

/// The slot of a thread that is followed.
pub(crate) fn slot() -> &'static std::thread::LocalKey<Claimed> {
    &SLOT
}

/// The slot of this thread, if it is followed and has one.
#[inline]
pub(crate) fn slot_of_followed() -> Option<&'static Slot> {
    if is_followed() { SLOT.with(Cell::get) } else { None }
}

/// This thread's figures, if it is followed. The peak begins anew.
pub(crate) fn read() -> Option<OwnFigures> {
    if !is_followed() {
        return None;
    }
    let figures = FIGURES.with(Cell::get);
    FIGURES.with(|cell| cell.set(OwnFigures { peak: figures.level, ..figures }));
    Some(figures)
}

fn change(change: impl FnOnce(&mut OwnFigures)) {
    if is_followed() {
        let mut figures = FIGURES.with(Cell::get);
        change(&mut figures);
        figures.peak = figures.peak.max(figures.level);
        FIGURES.with(|cell| cell.set(figures));
    }
}

/// The thread allocated a block.
pub(crate) fn count_in(size: usize) {
    change(|figures| {
        figures.bytes = figures.bytes.wrapping_add(size as u64);
        figures.blocks += 1;
        figures.level += size as i64;
    });
}

/// The thread freed a block.
pub(crate) fn count_out(size: usize) {
    change(|figures| figures.level -= size as i64);
}

/// The thread changed a block's size, which counts as one allocation.
pub(crate) fn count_moved(old_size: usize, new_size: usize) {
    change(|figures| {
        figures.bytes = figures.bytes.wrapping_add(new_size as u64);
        figures.blocks += 1;
        figures.level += new_size as i64 - old_size as i64;
    });
}
