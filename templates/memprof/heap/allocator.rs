//! The tracking global allocator: it counts each request and passes it on.
//!
//! Code inside an allocator must not allocate, lock, panic or print. The code here and in `counts`
//! uses only atomic steps on statics and one thread-local pointer. So it also works before `main`,
//! in thread destructors, in `atexit` and in a forked child.
//!
//! Bytes are the requested ones ([`Layout::size`]), not the size class that the inner allocator
//! rounds up to. So they are the same on every machine and for every allocator.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::alloc::{GlobalAlloc, Layout};

use crate::blocks::live_sizes;
use crate::blocks::own_thread;
use crate::blocks::owner::{self, Owner};
use crate::heap::counts::{self, Account};
use crate::shared::heap::Heap;
use crate::stacks::stack_recording;

// SAFETY: every call goes to the inner allocator with the caller's arguments, and its result is
// returned unchanged. Counting touches neither, so the contract holds if the inner allocator keeps
// it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counts::usual().alloc(&self.0, layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counts::usual().alloc_zeroed(&self.0, layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        counts::usual().dealloc(&self.0, block, layout);
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        counts::usual().realloc(&self.0, block, layout, new_size)
    }
}

/// The allocator's calls, with counting.
///
/// Rare cases are separate functions that are called last, so that the common path needs no stack
/// frame. Otherwise half of the dozen instructions that tracking costs would be pushes and pops.
#[allow(clippy::missing_safety_doc)] // That of `GlobalAlloc`'s methods.
impl Account {
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn alloc<A: GlobalAlloc>(self, inner: &A, layout: Layout) -> *mut u8 {
        if layout.align() <= layout.size() && layout.align() <= USUAL_ALIGN && !is_large(layout.size()) {
            if let Some(slot) = self.claimed() {
                slot.add_as_owner(layout.size());
                return self.count_in(inner.alloc(layout), layout.size());
            }
        }
        alloc_rarely(layout.size(), layout.align(), inner, self)
    }

    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn alloc_zeroed<A: GlobalAlloc>(self, inner: &A, layout: Layout) -> *mut u8 {
        match self.claimed() {
            Some(slot) if !is_large(layout.size()) => {
                slot.add_as_owner(layout.size());
                self.count_in(inner.alloc_zeroed(layout), layout.size())
            }
            _ => alloc_zeroed_rarely(layout.size(), layout.align(), inner, self),
        }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn dealloc<A: GlobalAlloc>(self, inner: &A, block: *mut u8, layout: Layout) {
        if !is_large(layout.size()) && self.counts.live.subtract_at_once(layout.size()) {
            inner.dealloc(block, layout);
        } else {
            dealloc_rarely(block, layout.size(), layout.align(), inner, self);
        }
    }

    /// Counts as one allocation of the new size, like in dhat and as if the block had moved. The
    /// live bytes change by the difference only, so a growing `Vec` does not count twice in the
    /// peak.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn realloc<A: GlobalAlloc>(
        self,
        inner: &A,
        block: *mut u8,
        layout: Layout,
        new_size: usize,
    ) -> *mut u8 {
        match self.claimed() {
            Some(slot) if !is_large(layout.size().max(new_size)) => {
                slot.add_as_owner(new_size);
                let moved = inner.realloc(block, layout, new_size);
                self.count_moved(moved, layout.size(), new_size);
                moved
            }
            _ => realloc_rarely(block, layout, new_size, inner, self),
        }
    }

    #[inline(always)]
    fn count_moved(self, moved: *mut u8, old_size: usize, new_size: usize) {
        if moved.is_null() {
            self.take_back(new_size);
        } else if new_size >= old_size {
            self.counts.live.add(new_size - old_size);
        } else if !self.counts.live.subtract_at_once(old_size - new_size) {
            self.counts.live.subtract(old_size - new_size);
        }
    }

    /// Counts one block.
    #[inline(always)]
    fn tally(self, bytes: usize) {
        match self.claimed() {
            Some(slot) => slot.add_as_owner(bytes),
            None => self.claim().add(bytes),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(self, bytes: usize) {
        self.claim().take_back(bytes);
    }

    /// Bytes count as live after the inner allocator succeeded, and before the caller has the block
    /// and could free it. So a failed request is never in the peak. (The tally counts ahead and
    /// takes back, which needs no register across the inner call.)
    #[inline(always)]
    fn count_in(self, block: *mut u8, bytes: usize) -> *mut u8 {
        if block.is_null() {
            self.take_back(bytes);
        } else {
            self.counts.live.add(bytes);
        }
        block
    }
}

impl Account {
    /// Whether this run records call stacks. No thread claims a slot then, and nothing is counted
    /// out at once, so that every call comes here.
    fn records_stacks(self) -> bool {
        let records = stack_recording::are_in_use();
        if records {
            counts::use_for_stacks();
            self.counts.live.never_count_out_at_once();
        }
        records
    }
}

/// What `malloc` aligns to on 64-bit platforms. For larger alignments, and for sizes below the
/// alignment, `System` calls another function, so those are the rare cases here. For other
/// allocators this is a guess.
const USUAL_ALIGN: usize = 16;

/// Whether blocks of this size are counted by their size.
#[inline(always)]
fn is_large(size: usize) -> bool {
    size >= live_sizes::LEAST
}

/// The site of blocks in a run that does not record call stacks.
const NO_SITE: u32 = 0;

impl Account {
    /// Counts a block that `request` allocates: by its size if it is large, and apart from the
    /// test's if it is the harness's.
    #[inline(always)]
    fn count_rarely(self, size: usize, request: impl FnOnce() -> *mut u8) -> *mut u8 {
        let owner = owner::owner_of_new();
        let block = if owner == Owner::Harness {
            request()
        } else {
            self.tally(size);
            self.count_in(request(), size)
        };
        if block.is_null() {
            return block;
        }
        if owner != Owner::Harness {
            own_thread::count_in(size);
        }
        match owner {
            Owner::Test if is_large(size) => live_sizes::add(size, NO_SITE),
            Owner::Test => {}
            Owner::Earlier | Owner::Harness => set_apart(block),
        }
        block
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
fn set_apart(block: *mut u8) {
    crate::blocks::block_table::insert(block as usize, NO_SITE, 0);
}

/// Whether a block that is about to go is the harness's, or was there before the body.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
fn is_set_apart(block: *mut u8) -> bool {
    owner::looks_at_each_block() && crate::blocks::block_table::remove(block as usize).is_some()
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn set_apart(_block: *mut u8) {}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn is_set_apart(_block: *mut u8) -> bool {
    false
}

// The arguments have the order of `__rust_alloc` and `__rust_dealloc`, so none must be moved.
#[cold]
#[inline(never)]
unsafe fn alloc_rarely<A: GlobalAlloc>(size: usize, align: usize, inner: &A, account: Account) -> *mut u8 {
    if account.records_stacks() {
        return stack_recording::alloc(inner, size, align, false);
    }
    let layout = Layout::from_size_align_unchecked(size, align);
    account.count_rarely(size, || inner.alloc(layout))
}

#[cold]
#[inline(never)]
unsafe fn alloc_zeroed_rarely<A: GlobalAlloc>(
    size: usize,
    align: usize,
    inner: &A,
    account: Account,
) -> *mut u8 {
    if account.records_stacks() {
        return stack_recording::alloc(inner, size, align, true);
    }
    let layout = Layout::from_size_align_unchecked(size, align);
    account.count_rarely(size, || inner.alloc_zeroed(layout))
}

#[cold]
#[inline(never)]
unsafe fn realloc_rarely<A: GlobalAlloc>(
    block: *mut u8,
    layout: Layout,
    new_size: usize,
    inner: &A,
    account: Account,
) -> *mut u8 {
    if account.records_stacks() {
        return stack_recording::realloc(inner, block, layout, new_size);
    }
    let is_apart = is_set_apart(block);
    if is_apart && owner::has_ended() {
        let moved = inner.realloc(block, layout, new_size);
        set_apart(if moved.is_null() { block } else { moved });
        return moved;
    }
    account.tally(new_size);
    let moved = inner.realloc(block, layout, new_size);
    if is_apart {
        set_apart(if moved.is_null() { block } else { moved });
    }
    account.count_moved(moved, layout.size(), new_size);
    if !moved.is_null() {
        own_thread::count_moved(layout.size(), new_size);
    }
    if !moved.is_null() && !is_apart {
        live_sizes::change((layout.size(), NO_SITE), (new_size, NO_SITE));
    }
    moved
}

#[cold]
#[inline(never)]
unsafe fn dealloc_rarely<A: GlobalAlloc>(
    block: *mut u8,
    size: usize,
    align: usize,
    inner: &A,
    account: Account,
) {
    if account.records_stacks() {
        return stack_recording::dealloc(inner, block, size, align);
    }
    let is_apart = is_set_apart(block);
    if !(is_apart && owner::has_ended()) {
        account.counts.live.subtract(size);
        own_thread::count_out(size);
    }
    if is_large(size) && !is_apart {
        live_sizes::subtract(size, NO_SITE);
    }
    inner.dealloc(block, Layout::from_size_align_unchecked(size, align));
}

/// Returns whether a [`Heap`] is this executable's global allocator: something was counted, or a
/// byte requested now is.
pub(crate) fn is_global() -> bool {
    if counts::are_used() {
        return true;
    }
    let layout = Layout::new::<u8>();
    // SAFETY: the layout is not of size zero, and the block is freed with its own layout. The
    // volatile read keeps the compiler from removing the pair as unused.
    unsafe {
        let block = std::alloc::alloc(layout);
        let block = std::ptr::read_volatile(&block);
        if !block.is_null() {
            std::alloc::dealloc(block, layout);
        }
    }
    counts::are_used()
}
