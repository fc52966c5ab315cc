//! How many bytes and blocks were ever allocated: exact totals, kept per thread so that counting them costs no
//! atomic read-modify-write on the way.
//!
//! A thread claims a slot of its own at its first allocation and is then the slot's only writer: a plain load, add
//! and store. Slots are static and never given back, so nothing has to run when a thread ends, its figures stay, and
//! allocations in the last destructors of a thread or in `atexit` are counted like any other. Threads that come after
//! all slots are claimed share the last few by atomic additions: as exact, a little slower.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Totals since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// Blocks asked for.
    pub(crate) blocks: u64,
}

/// A thread's part. One cache line each, so that threads do not slow each other.
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
    /// Threads that have asked for a slot.
    claimed: AtomicUsize,
}

/// Whether a thread can own a slot: where `thread_local!` is the platform's own thread-local storage, it neither allocates nor
/// registers a destructor for a constant of a type without one. Elsewhere it may allocate, which an allocator must not
/// cause, and all threads share.
pub const CAN_BE_OWNED: bool =
    cfg!(any(target_os = "linux", target_os = "macos", all(windows, target_env = "msvc")));

thread_local! {
    /// Which shared slot this thread uses, plus one.
    static SHARE: Cell<usize> = const { Cell::new(0) };
}

impl Slot {
    /// Counts one block. To be called by the slot's owner alone.
    #[inline(always)]
    pub(crate) fn add_as_owner(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
        self.blocks.store(self.blocks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one block, whoever else does.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back one block that was counted ahead and not had.
    pub(crate) fn take_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const fn new() -> Self {
        const EMPTY: Slot = Slot { bytes: AtomicU64::new(0), blocks: AtomicU64::new(0) };
        Self { slots: [EMPTY; OWNED + SHARED], claimed: AtomicUsize::new(0) }
    }

    /// A slot for this thread, which has claimed none or keeps it there.
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

    /// The sums over all threads. What a thread counts while they are being read is in them or in the next ones.
    pub(crate) fn totals(&self) -> Totals {
        let claimed = self.claimed.load(Ordering::Acquire);
        // Shared slots are in use as soon as the owned ones are gone, or where threads cannot own one.
        let (owned, shared) = if CAN_BE_OWNED { (claimed.min(OWNED), claimed > OWNED) } else { (0, true) };
        let mut totals = Totals { bytes: 0, blocks: 0 };
        let in_use = self.slots[..owned].iter().chain(if shared { &self.slots[OWNED..] } else { &[] });
        for slot in in_use {
            totals.bytes = totals.bytes.wrapping_add(slot.bytes.load(Ordering::Relaxed));
            totals.blocks = totals.blocks.wrapping_add(slot.blocks.load(Ordering::Relaxed));
        }
        totals
    }
}
