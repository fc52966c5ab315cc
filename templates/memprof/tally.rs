//! How many bytes and blocks were ever allocated: exact totals, kept per thread so that counting them costs no
//! atomic read-modify-write on the way.
//!
//! A thread claims a slot of its own at its first allocation and is then the slot's only writer: a plain load, add
//! and store. Slots are static and never given back, so nothing has to run when a thread ends, its figures stay, and
//! allocations in the last destructors of a thread or in `atexit` are counted like any other. Threads that come after
//! all slots are claimed share the last few by atomic additions: as exact, a little slower.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Totals since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// Blocks asked for.
    pub(crate) blocks: u64,
}

/// One cache line each, so that threads do not slow each other.
#[repr(align(64))]
struct Slot {
    bytes: AtomicU64,
    blocks: AtomicU64,
}

const OWNED: usize = 240;
const SHARED: usize = 16;

#[allow(clippy::declare_interior_mutable_const)]
const EMPTY: Slot = Slot { bytes: AtomicU64::new(0), blocks: AtomicU64::new(0) };
static SLOTS: [Slot; OWNED + SHARED] = [EMPTY; OWNED + SHARED];
/// Threads that have asked for a slot.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);

/// Counts one block if this thread has a slot of its own; otherwise [`add`] is to be called.
#[inline(always)]
#[must_use]
pub(crate) fn add_at_once(bytes: usize) -> bool {
    match own::slot() {
        Some(slot) => {
            slot.bytes
                .store(slot.bytes.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
            slot.blocks.store(slot.blocks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            true
        }
        None => false,
    }
}

/// Counts one block, claiming a slot first.
#[cold]
#[inline(never)]
pub(crate) fn add(bytes: usize) {
    let slot = own::claim();
    slot.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    slot.blocks.fetch_add(1, Ordering::Relaxed);
}

/// Takes back one block that was counted ahead and not had.
#[cold]
#[inline(never)]
pub(crate) fn take_back(bytes: usize) {
    let slot = own::claim();
    slot.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    slot.blocks.fetch_sub(1, Ordering::Relaxed);
}

/// The sums over all threads. What a thread counts while they are being read is in them or in the next ones.
pub(crate) fn totals() -> Totals {
    let claimed = CLAIMED.load(Ordering::Acquire);
    // Shared slots are in use as soon as the owned ones are gone, or where threads cannot own one.
    let (owned, shared) = if own::POSSIBLE { (claimed.min(OWNED), claimed > OWNED) } else { (0, true) };
    let mut totals = Totals { bytes: 0, blocks: 0 };
    let in_use = SLOTS[..owned].iter().chain(if shared { &SLOTS[OWNED..] } else { &[] });
    for slot in in_use {
        totals.bytes = totals.bytes.wrapping_add(slot.bytes.load(Ordering::Relaxed));
        totals.blocks = totals.blocks.wrapping_add(slot.blocks.load(Ordering::Relaxed));
    }
    totals
}

/// Where `thread_local!` is the platform's own thread-local storage, it neither allocates nor registers a destructor
/// for a constant of a type without one.
#[cfg(any(target_os = "linux", target_os = "macos", all(windows, target_env = "msvc")))]
mod own {
    use super::{Ordering, Slot, CLAIMED, OWNED, SHARED, SLOTS};
    use std::cell::Cell;

    pub(super) const POSSIBLE: bool = true;

    thread_local! {
        static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
        /// Which shared slot this thread uses, plus one.
        static SHARE: Cell<usize> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(super) fn slot() -> Option<&'static Slot> {
        OWN.with(Cell::get)
    }

    pub(super) fn claim() -> &'static Slot {
        if let Some(slot) = slot() {
            return slot;
        }
        let share = SHARE.with(Cell::get);
        if share != 0 {
            return &SLOTS[OWNED + (share - 1) % SHARED];
        }
        let index = CLAIMED.fetch_add(1, Ordering::AcqRel);
        if index < OWNED {
            OWN.with(|own| own.set(Some(&SLOTS[index])));
            &SLOTS[index]
        } else {
            SHARE.with(|share| share.set(index - OWNED + 1));
            &SLOTS[OWNED + (index - OWNED) % SHARED]
        }
    }
}

/// Elsewhere `thread_local!` may allocate, which an allocator must not cause: all threads share.
#[cfg(not(any(target_os = "linux", target_os = "macos", all(windows, target_env = "msvc"))))]
mod own {
    use super::{Slot, OWNED, SLOTS};

    pub(super) const POSSIBLE: bool = false;

    #[inline(always)]
    pub(super) fn slot() -> Option<&'static Slot> {
        None
    }

    pub(super) fn claim() -> &'static Slot {
        &SLOTS[OWNED]
    }
}
