//! The wrapper of a global allocator. What it does with each block, each crate has for itself.

/// A global allocator that leaves the work to `A`, and counts under `cargo memprof`.
///
/// ```
/// #[global_allocator]
/// static HEAP: memprof::Heap<std::alloc::System> = memprof::Heap::new(std::alloc::System);
/// ```
#[derive(Debug, Default)]
pub struct Heap<A>(pub(crate) A);

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
