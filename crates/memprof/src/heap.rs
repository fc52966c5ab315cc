//! A global allocator's wrapper, which counts only under `cargo memprof`.

use std::alloc::{GlobalAlloc, Layout};

/// A global allocator that leaves the work to `A`, and counts under `cargo memprof`.
///
/// ```
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

    /// Returns the allocator inside: `Heap::inner(&HEAP)`. It is not a method, so that a method of
    /// this name on the inner allocator can still be called.
    pub const fn inner(heap: &Self) -> &A {
        &heap.0
    }
}

/// Code that calls the inner allocator's own methods on the static compiles unchanged when the
/// allocator is wrapped.
impl<A> std::ops::Deref for Heap<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

// SAFETY: every call goes to the inner allocator with the caller's arguments, and its result is
// returned unchanged. So the contract holds if the inner allocator keeps it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.alloc(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.0.alloc_zeroed(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.dealloc(block, layout);
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.0.realloc(block, layout, new_size)
    }
}
