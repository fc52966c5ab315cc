//! The statics that a tracking allocator counts with, in the crate that declares it.
//!
//! Code reaches statics of its own crate by address, and those of another crate through a table.
//! For the allocator that the tool links into most executables, this saves three of the two dozen
//! instructions that tracking a block costs. So that allocator has its own counts, and
//! [`Heap`](crate::Heap) in any other crate uses the [`usual`] ones. The first counts that count
//! anything are the ones that are read.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::LocalKey;

use crate::harness;
use crate::live::{Epoch, Live};
use crate::stacks;
use crate::tally::{CAN_BE_OWNED, Claimed, Slot, Tally, Totals};

/// What is live, and what was allocated since the process began.
#[derive(Debug)]
pub struct Counts {
    pub(crate) live: Live,
    tally: Tally,
}

/// Counts, and where each thread keeps its claimed part of them.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    pub(crate) counts: &'static Counts,
    claimed: &'static LocalKey<Claimed>,
}

static COUNTS: Counts = Counts::new();

thread_local! {
    static CLAIMED: Claimed = const { Cell::new(None) };
}

/// The counts of a [`Heap`](crate::Heap).
#[inline(always)]
pub(crate) fn usual() -> Account {
    Account::new(&COUNTS, &CLAIMED)
}

impl Account {
    #[doc(hidden)]
    #[inline(always)]
    pub const fn new(counts: &'static Counts, claimed: &'static LocalKey<Claimed>) -> Self {
        Self { counts, claimed }
    }

    /// The calling thread's slot, if it has claimed one.
    #[inline(always)]
    pub(crate) fn claimed(self) -> Option<&'static Slot> {
        if CAN_BE_OWNED { self.claimed.with(Cell::get) } else { None }
    }

    /// Claims a slot for the calling thread. Each thread comes here before it counts anything.
    pub(crate) fn claim(self) -> &'static Slot {
        harness::settle();
        let counts = self.counts as *const Counts as *mut Counts;
        let _ = READ.compare_exchange(ptr::null_mut(), counts, Ordering::AcqRel, Ordering::Relaxed);
        if CAN_BE_OWNED {
            self.claimed.with(|claimed| self.counts.tally.claim(Some(claimed)))
        } else {
            self.counts.tally.claim(None)
        }
    }
}

/// The counts that are read; null before anything was counted.
static READ: AtomicPtr<Counts> = AtomicPtr::new(ptr::null_mut());

impl Counts {
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self { live: Live::new(), tally: Tally::new() }
    }
}

fn read() -> Option<&'static Counts> {
    // SAFETY: null, or from the reference to a static in `Account::claim`.
    unsafe { READ.load(Ordering::Acquire).as_ref() }
}

/// Totals since the process began; `None` if nothing was counted.
pub(crate) fn totals() -> Option<Totals> {
    if stacks::are_recorded() {
        return stacks::totals();
    }
    read().map(|counts| counts.tally.totals())
}

/// Ends the peak's interval. Returns its figures, and the totals since the process began. Calls must
/// not overlap.
pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    if stacks::are_recorded() {
        return stacks::mark();
    }
    read().map(|counts| (counts.live.end_epoch(), counts.tally.totals()))
}
