//! What a tracking allocator counts with: statics of the crate that declares it.
//!
//! Statics of the same crate are reached by their address and by one offset from the thread's pointer, those of another
//! crate through a table first. For the allocator that the tool links into most executables this is three of the two dozen
//! instructions that tracking a block costs. So that one has counts of its own, [`Heap`](crate::Heap) in any other crate uses
//! the [`usual`] ones, and the first that counts anything is the one that is read.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::LocalKey;

use crate::live::{Epoch, Live};
use crate::tally::{CAN_BE_OWNED, Claimed, Slot, Tally, Totals};

/// What is live, and what was ever allocated.
#[derive(Debug)]
pub struct Counts {
    pub(crate) live: Live,
    tally: Tally,
}

/// Counts, and where each thread keeps the part of them that it has claimed.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    pub(crate) counts: &'static Counts,
    claimed: &'static LocalKey<Claimed>,
}

static COUNTS: Counts = Counts::new();

thread_local! {
    static CLAIMED: Claimed = const { Cell::new(None) };
}

/// What a [`Heap`](crate::Heap) counts with.
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

    /// The calling thread's slot. A thread comes here before it has counted anything.
    pub(crate) fn claim(self) -> &'static Slot {
        let counts = self.counts as *const Counts as *mut Counts;
        let _ = READ.compare_exchange(ptr::null_mut(), counts, Ordering::AcqRel, Ordering::Relaxed);
        if CAN_BE_OWNED {
            self.claimed.with(|claimed| self.counts.tally.claim(Some(claimed)))
        } else {
            self.counts.tally.claim(None)
        }
    }
}

/// Those that are read; null as long as nothing was counted.
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

/// Totals since the process began; none if nothing was counted.
pub(crate) fn totals() -> Option<Totals> {
    read().map(|counts| counts.tally.totals())
}

/// Ends the interval of the peak. Calls must not overlap.
pub(crate) fn end_epoch() -> Option<Epoch> {
    read().map(|counts| counts.live.end_epoch())
}
