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
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread::LocalKey;

use crate::blocks::harness;
use crate::blocks::live::{Epoch, Live};
use crate::blocks::own_thread;
use crate::blocks::owner;
use crate::blocks::tally::{CAN_BE_OWNED, Claimed, Slot, Tally, Totals};
use crate::stacks::stack_recording;

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
        if let Some(slot) = own_thread::slot_of_followed() {
            return slot;
        }
        if !owner::may_claim() {
            if owner::looks_at_each_block() {
                self.counts.live.count_out_rarely();
            }
            return self.counts.tally.unclaimed();
        }
        CLAIMED_IN
            .store(self.claimed as *const LocalKey<Claimed> as *mut LocalKey<Claimed>, Ordering::Release);
        if CAN_BE_OWNED {
            let slot = self.claimed.with(|claimed| self.counts.tally.claim(Some(claimed)));
            if own_thread::is_followed() {
                put_aside();
            }
            slot
        } else {
            self.counts.tally.claim(None)
        }
    }
}

/// The counts that are read; null before anything was counted.
static READ: AtomicPtr<Counts> = AtomicPtr::new(ptr::null_mut());

/// Where threads keep what they have claimed; null before any did.
static CLAIMED_IN: AtomicPtr<LocalKey<Claimed>> = AtomicPtr::new(ptr::null_mut());

/// Makes this thread take the rare path for each block from now on, until it claims again.
pub(crate) fn forget_claim() {
    // SAFETY: null, or from the reference to a static in `Account::claim`.
    if let Some(claimed) = unsafe { CLAIMED_IN.load(Ordering::Acquire).as_ref() } {
        let _ = claimed.try_with(|claimed| claimed.set(None));
    }
}

/// Puts the slot of this thread aside, so that each of its blocks takes the rare path. That one goes on
/// with the slot.
fn put_aside() {
    // SAFETY: as above.
    if let Some(claimed) = unsafe { CLAIMED_IN.load(Ordering::Acquire).as_ref() } {
        let _ = claimed.try_with(|claimed| {
            if let Some(slot) = claimed.take() {
                own_thread::slot().with(|kept| kept.set(Some(slot)));
            }
        });
    }
}

/// Follows what this thread allocates and frees, while a span is open on it. In runs that record call
/// stacks, each block takes another path, and nothing is followed.
pub(crate) fn open_span() {
    if !stack_recording::are_recorded() && own_thread::open() {
        put_aside();
    }
}

/// A span ends on this thread.
pub(crate) fn close_span() {
    if stack_recording::are_recorded() || !own_thread::close() {
        return;
    }
    let slot = own_thread::slot().with(Cell::take);
    // SAFETY: as above.
    let claimed = unsafe { CLAIMED_IN.load(Ordering::Acquire).as_ref() };
    if let (Some(claimed), true) = (claimed, owner::may_claim()) {
        let _ = claimed.try_with(|claimed| claimed.set(slot));
    }
}

/// Makes all threads look at each block that they free from now on, and this one at each that it
/// allocates.
pub(crate) fn look_at_each_block() {
    forget_claim();
    if let Some(counts) = read() {
        counts.live.count_out_rarely();
    }
}

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

/// Whether a run that records call stacks has come here.
static ARE_FOR_STACKS: AtomicBool = AtomicBool::new(false);

/// Notes that a tracking allocator is in use, in a run whose blocks are counted by `events`.
pub(crate) fn use_for_stacks() {
    if !ARE_FOR_STACKS.load(Ordering::Relaxed) {
        ARE_FOR_STACKS.store(true, Ordering::Relaxed);
    }
}

/// Whether a tracking allocator is this executable's global one, and has been called.
pub(crate) fn are_used() -> bool {
    read().is_some() || ARE_FOR_STACKS.load(Ordering::Relaxed)
}

/// Ends the peak's interval. Returns its figures, and the totals since the process began. Calls must
/// not overlap.
pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    if stack_recording::are_recorded() {
        return stack_recording::mark();
    }
    let rarely = owner::looks_at_each_block() || own_thread::are_followed();
    read().map(|counts| {
        let epoch = counts.live.end_epoch(rarely);
        // The body may have ended meanwhile, on another thread.
        if !rarely && owner::looks_at_each_block() {
            counts.live.count_out_rarely();
        }
        (epoch, counts.tally.totals())
    })
}

/// How many threads have allocated: during the test's body, if it is marked.
pub(crate) fn allocating_threads() -> Option<u64> {
    read()?.tally.threads().map(|threads| threads as u64)
}
