//! What is live, its peak, and what was allocated: usable bytes of the blocks that come and go.
//!
//! A block comes after the next allocator returned it, and goes before the next allocator gets it
//! back. A reallocation is one step of the live bytes.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::blocks::live::Live;
use crate::by_site;
use crate::next::{self, Functions};
use crate::sources::malloc_link::{self, CurrentSite, Figures};
use crate::totals;

static LIVE: Live = Live::new();
static MODE: AtomicU8 = AtomicU8::new(SUMS);

/// No process has so many bytes. The live bytes have 48 bits, so less than nothing is more than this.
const MOST: u64 = 1 << 47;

/// Only sums are counted.
const SUMS: u8 = 0;
/// Sums are counted for each call stack.
const BY_SITE: u8 = 1;
/// In a forked child, nothing is counted.
const NOTHING: u8 = 2;

extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// The library's constructor.
pub(crate) extern "C" fn watch_forks() {
    extern "C" fn in_child() {
        // Another thread of the parent may hold the lock of `by_site`.
        MODE.store(NOTHING, Ordering::Relaxed);
    }
    // SAFETY: the function only changes a static, and this library is never unloaded.
    unsafe { pthread_atfork(None, None, Some(in_child)) };
}

/// The usable bytes of a block.
unsafe fn size_of(block: *mut c_void) -> usize {
    let usable_size = next::functions().and_then(|next| next.usable_size);
    usable_size.map_or(0, |usable_size| usable_size(block))
}

/// Counts a new block, unless it is null. Returns it.
#[inline]
pub(crate) unsafe fn came(block: *mut c_void) -> *mut c_void {
    if !block.is_null() {
        let size = size_of(block);
        match MODE.load(Ordering::Acquire) {
            SUMS => {
                totals::add(size);
                LIVE.add(size);
            }
            BY_SITE => by_site::came(block as usize, size),
            _ => {}
        }
    }
    block
}

/// Counts out a block that is about to be freed.
#[inline]
pub(crate) unsafe fn goes(block: *mut c_void) {
    match MODE.load(Ordering::Acquire) {
        SUMS => subtract(size_of(block)),
        BY_SITE => by_site::goes(block as usize, size_of(block)),
        _ => {}
    }
}

/// Reallocates a block.
pub(crate) unsafe fn moves(block: *mut c_void, size: usize, next: &Functions) -> *mut c_void {
    match MODE.load(Ordering::Acquire) {
        SUMS => {}
        BY_SITE => return by_site_moves(block, size, next),
        _ => return (next.realloc)(block, size),
    }
    let old_size = size_of(block);
    let moved = (next.realloc)(block, size);
    if !moved.is_null() {
        let new_size = size_of(moved);
        totals::add(new_size);
        if new_size >= old_size {
            LIVE.add(new_size - old_size);
        } else {
            subtract(old_size - new_size);
        }
    } else if size == 0 {
        // glibc frees the block then.
        subtract(old_size);
    }
    moved
}

unsafe fn by_site_moves(block: *mut c_void, size: usize, next: &Functions) -> *mut c_void {
    // Another thread may get the old address while this one still reallocates.
    let old = by_site::take(block as usize, size_of(block));
    let moved = (next.realloc)(block, size);
    if !moved.is_null() {
        by_site::moved(old, moved as usize, size_of(moved));
    } else if size == 0 {
        by_site::gone(old);
    } else {
        by_site::put_back(block as usize, old);
    }
    moved
}

#[inline]
fn subtract(size: usize) {
    if !LIVE.subtract_at_once(size) {
        LIVE.subtract(size);
    }
}

/// Whether the live bytes were below zero.
static IS_UNBALANCED: AtomicBool = AtomicBool::new(false);

pub(crate) extern "C" fn problem() -> u32 {
    if next::functions().map_or(true, |next| next.usable_size.is_none()) {
        malloc_link::NO_USABLE_SIZE
    } else if by_site::is_incomplete() {
        malloc_link::INCOMPLETE
    } else if IS_UNBALANCED.load(Ordering::Relaxed) {
        malloc_link::UNBALANCED
    } else {
        0
    }
}

pub(crate) extern "C" fn read(figures: *mut Figures) {
    let epoch = LIVE.end_epoch(false);
    let read = if MODE.load(Ordering::Acquire) == BY_SITE {
        // A thread may have begun to count here before call stacks were recorded.
        by_site::read(epoch.live)
    } else {
        let (allocated, count) = totals::read();
        Some(Figures { live: epoch.live, peak: epoch.peak, allocated, count })
    };
    if let Some(read) = read {
        if read.live > MOST {
            IS_UNBALANCED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the caller's figures are writable.
        unsafe { figures.write(read) };
    }
}

pub(crate) extern "C" fn record_stacks(current_site: CurrentSite) {
    by_site::begin(current_site);
    MODE.store(BY_SITE, Ordering::Release);
}
