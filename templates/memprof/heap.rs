//! The tracking global allocator: counts what passes and hands it on.
//!
//! Inside an allocator nothing may allocate, lock, panic or print. What is here and in `live` and `tally` is atomic
//! steps on statics and one thread-local pointer, so it is as right before `main`, in thread destructors, in
//! `atexit` and in a forked child as in the middle of a test.
//!
//! Bytes are the requested ones ([`Layout::size`]), not the size class that the inner allocator rounds up to: they
//! are the same on every machine and for every allocator.

use std::alloc::{GlobalAlloc, Layout};

use crate::{live, tally};

/// A global allocator that counts and leaves the work to `A`.
///
/// ```ignore
/// #[global_allocator]
/// static HEAP: memprof::Heap<std::alloc::System> = memprof::Heap::new(std::alloc::System);
/// ```
#[derive(Debug, Default)]
pub struct Heap<A>(A);

impl<A> Heap<A> {
    /// Wraps an allocator.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }

    /// The allocator inside: `Heap::inner(&HEAP)`. No method, so that one of this name of the allocator's is within reach.
    pub const fn inner(heap: &Self) -> &A {
        &heap.0
    }
}

/// So that code which calls the allocator's own methods on the static compiles unchanged when it is wrapped.
impl<A> std::ops::Deref for Heap<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

// SAFETY: every call goes to the inner allocator with the caller's own arguments and its result is returned as is;
// counting touches neither. So the contract holds if the inner allocator's does.
//
// What is rare is in functions of its own, called last, so that the usual way needs no stack frame for it: of the dozen
// instructions that tracking costs, half would be pushes and pops.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= layout.size()
            && layout.align() <= USUAL_ALIGN
            && tally::add_at_once(layout.size())
        {
            count_in(self.0.alloc(layout), layout.size())
        } else {
            alloc_rarely(layout.size(), layout.align(), &self.0)
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        tally_add(layout.size());
        count_in(self.0.alloc_zeroed(layout), layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if live::subtract_at_once(layout.size()) {
            self.0.dealloc(block, layout);
        } else {
            dealloc_rarely(block, layout.size(), layout.align(), &self.0);
        }
    }

    /// Counts as one allocation of the new size, as dhat does and as if the block had moved; the bytes live change by
    /// the difference alone, so a `Vec` that grows does not count twice in the peak.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        tally_add(new_size);
        let moved = self.0.realloc(block, layout, new_size);
        if moved.is_null() {
            tally::take_back(new_size);
        } else if new_size >= layout.size() {
            live::add(new_size - layout.size());
        } else if !live::subtract_at_once(layout.size() - new_size) {
            live::subtract(layout.size() - new_size);
        }
        moved
    }
}

/// What `malloc` aligns to on 64-bit platforms. Above it, and for sizes below the alignment, `System` calls something
/// else, which is out of line here; for other allocators this is only a guess at what is rare.
const USUAL_ALIGN: usize = 16;

// The arguments come in the order in which `__rust_alloc` and `__rust_dealloc` have them: nothing needs to be moved.
#[cold]
#[inline(never)]
unsafe fn alloc_rarely<A: GlobalAlloc>(size: usize, align: usize, inner: &A) -> *mut u8 {
    tally_add(size);
    count_in(inner.alloc(Layout::from_size_align_unchecked(size, align)), size)
}

#[cold]
#[inline(never)]
unsafe fn dealloc_rarely<A: GlobalAlloc>(block: *mut u8, size: usize, align: usize, inner: &A) {
    live::subtract(size);
    inner.dealloc(block, Layout::from_size_align_unchecked(size, align));
}

#[inline(always)]
fn tally_add(bytes: usize) {
    if !tally::add_at_once(bytes) {
        tally::add(bytes);
    }
}

/// Bytes become live once the inner allocator has succeeded and before the caller has the block, so nobody can free
/// them earlier: a request that fails is never in the peak. (The tally is different: nothing is lost by taking back,
/// and counting ahead needs no register kept across the inner call.)
#[inline(always)]
fn count_in(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        tally::take_back(bytes);
    } else {
        live::add(bytes);
    }
    block
}

/// Whether a [`Heap`] is this executable's global allocator: something was counted, or a byte asked for now is.
pub(crate) fn is_global() -> bool {
    if tally::totals().blocks != 0 {
        return true;
    }
    let layout = Layout::new::<u8>();
    // SAFETY: the layout is not of size zero, and the block is freed with the layout that it was allocated with. The
    // pointer is read back volatile so that the pair is not optimised away as unused.
    unsafe {
        let block = std::alloc::alloc(layout);
        let block = std::ptr::read_volatile(&block);
        if !block.is_null() {
            std::alloc::dealloc(block, layout);
        }
    }
    tally::totals().blocks != 0
}
