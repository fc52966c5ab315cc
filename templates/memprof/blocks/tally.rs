//! Totals of allocated bytes and blocks: exact, and counted per thread without an atomic
//! read-modify-write.
//!
//! A thread claims a slot at its first allocation and is then its only writer, with a plain load,
//! add and store. Slots are static and never given back. So nothing must run when a thread ends,
//! its figures stay, and allocations in the last destructors of a thread or in `atexit` count like
//! any others. Threads that come after all slots are claimed share the last few by atomic
//! additions, which is as exact and a little slower.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Totals since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Requested bytes.
    pub(crate) bytes: u64,
    /// Requested blocks.
    pub(crate) blocks: u64,
}

/// A thread's part. Each has a cache line, so that threads do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
pub struct Slot {
    bytes: AtomicU64,
    blocks: AtomicU64,
}

/// Where a thread keeps the slot that it has claimed.
pub type Claimed = Cell<Option<&'static Slot>>;

const OWNED: usize = 240;
const SHARED: usize = 16;

#[derive(Debug)]
pub(crate) struct Tally {
    slots: [Slot; OWNED + SHARED],
    /// Where threads count while each block is looked at, and the harness's threads always.
    unclaimed: Slot,
    /// How many threads have claimed a slot.
    claimed: AtomicUsize,
}

/// Whether a thread can own a slot. On these platforms, `thread_local!` of a constant without a
/// destructor neither allocates nor registers anything. Elsewhere it may allocate, which an
/// allocator must not cause, so all threads share.
pub const CAN_BE_OWNED: bool =
    cfg!(any(target_os = "linux", target_os = "macos", all(windows, target_env = "msvc")));

thread_local! {
    /// The shared slot of this thread, plus one.
    static SHARE: Cell<usize> = const { Cell::new(0) };
}

impl Slot {
    /// Counts one block. Only the slot's owner may call this.
    #[inline(always)]
    pub(crate) fn add_as_owner(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
        self.blocks.store(self.blocks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one block, while other threads may do so too.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back one block that was counted before a request that failed.
    pub(crate) fn take_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const fn new() -> Self {
        const EMPTY: Slot = Slot { bytes: AtomicU64::new(0), blocks: AtomicU64::new(0) };
        Self { slots: [EMPTY; OWNED + SHARED], unclaimed: EMPTY, claimed: AtomicUsize::new(0) }
    }

    /// Returns this thread's slot, and claims one if it has none. `own` is where the thread keeps
    /// it.
    pub(crate) fn claim(&'static self, own: Option<&Claimed>) -> &'static Slot {
        let own = match own {
            Some(own) => own,
            None => return &self.slots[OWNED],
        };
        if let Some(slot) = own.get() {
            return slot;
        }
        let share = SHARE.with(Cell::get);
        if share != 0 {
            return &self.slots[OWNED + (share - 1) % SHARED];
        }
        let index = self.claimed.fetch_add(1, Ordering::AcqRel);
        if index < OWNED {
            own.set(Some(&self.slots[index]));
            &self.slots[index]
        } else {
            SHARE.with(|share| share.set(index - OWNED + 1));
            &self.slots[OWNED + (index - OWNED) % SHARED]
        }
    }

    /// Returns the slot for threads that may not claim one.
    pub(crate) fn unclaimed(&'static self) -> &'static Slot {
        &self.unclaimed
    }

    /// Returns how many threads have claimed a slot; `None` where they may not.
    pub(crate) fn threads(&self) -> Option<usize> {
        if CAN_BE_OWNED { Some(self.claimed.load(Ordering::Acquire)) } else { None }
    }

    /// Returns the sums over all threads. What a thread counts during the reading is in these sums
    /// or in the next ones.
    pub(crate) fn totals(&self) -> Totals {
        let claimed = self.claimed.load(Ordering::Acquire);
        // Shared slots are in use when all owned ones are claimed, or where threads cannot own one.
        let (owned, shared) = if CAN_BE_OWNED { (claimed.min(OWNED), claimed > OWNED) } else { (0, true) };
        let mut totals = Totals { bytes: 0, blocks: 0 };
        let in_use = self.slots[..owned].iter().chain(if shared { &self.slots[OWNED..] } else { &[] });
        for slot in in_use.chain(Some(&self.unclaimed)) {
            totals.bytes = totals.bytes.wrapping_add(slot.bytes.load(Ordering::Relaxed));
            totals.blocks = totals.blocks.wrapping_add(slot.blocks.load(Ordering::Relaxed));
        }
        totals
    }
}
