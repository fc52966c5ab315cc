//! A growable array with memory past the global allocator. What the shim keeps must not appear in
//! the heap's figures.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::platform::own_memory;

/// Items are `Copy`, so none must be dropped.
pub(crate) struct Untracked<T: Copy> {
    start: NonNull<T>,
    length: usize,
    capacity: usize,
    owns: PhantomData<T>,
}

// SAFETY: it owns its items as a `Vec` does.
unsafe impl<T: Copy + Send> Send for Untracked<T> {}
// SAFETY: as for `Send`; a shared reference gives shared references to items alone.
unsafe impl<T: Copy + Sync> Sync for Untracked<T> {}

impl<T: Copy> Untracked<T> {
    pub(crate) const fn new() -> Self {
        Self { start: NonNull::dangling(), length: 0, capacity: 0, owns: PhantomData }
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.extend(&[item]);
    }

    #[inline]
    pub(crate) fn extend(&mut self, items: &[T]) {
        self.reserve(items.len());
        // SAFETY: `reserve` made room behind the last item, and `items` cannot overlap with what is
        // borrowed mutably.
        unsafe {
            self.start.as_ptr().add(self.length).copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
        self.length += items.len();
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.last().copied();
        self.length = self.length.saturating_sub(1);
        last
    }

    /// Makes room for more items; grows at least to the double.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        let needed = self.length + more;
        if needed > self.capacity && std::mem::size_of::<T>() != 0 {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let capacity = needed.max(self.capacity * 2).max(16);
        let layout = Layout::array::<T>(capacity).expect("memprof: an array of more than isize::MAX bytes");
        // SAFETY: the layout is not empty. An old block came from there with the old layout.
        let block = unsafe {
            match self.layout() {
                Some(old) => own_memory::realloc(self.start.as_ptr().cast(), old, layout.size()),
                None => own_memory::alloc(layout),
            }
        };
        match NonNull::new(block.cast()) {
            Some(start) => self.start = start,
            // This is what happens in any Rust program that runs out of memory.
            None => handle_alloc_error(layout),
        }
        self.capacity = capacity;
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Keeps the first items, at most so many.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    pub(crate) fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `length` items are initialised, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    fn layout(&self) -> Option<Layout> {
        if self.capacity == 0 { None } else { Layout::array::<T>(self.capacity).ok() }
    }
}

impl<T: Copy> Deref for Untracked<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` items are initialised. An empty array has a dangling but
        // aligned start.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Copy> Drop for Untracked<T> {
    fn drop(&mut self) {
        if let Some(layout) = self.layout() {
            // SAFETY: the block came from `own_memory` with this layout.
            unsafe { own_memory::dealloc(self.start.as_ptr().cast(), layout) }
        }
    }
}

impl fmt::Write for Untracked<u8> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend(text.as_bytes());
        Ok(())
    }
}

/// Text that is formatted past the global allocator. (A user's `Display` may allocate; that counts
/// as the user's.)
pub struct Text(Untracked<u8>);

impl Text {
    #[doc(hidden)]
    #[cold]
    pub fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut bytes = Untracked::new();
        // Only a user's `Display` can fail here. What it wrote before is kept.
        let _ = fmt::Write::write_fmt(&mut bytes, arguments);
        Self(bytes)
    }

    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: only `write_str` wrote the bytes.
        unsafe { std::str::from_utf8_unchecked(&self.0) }
    }
}

/// Returns text that stays for the life of the process, for example a metric's name.
pub(crate) fn kept(arguments: fmt::Arguments<'_>) -> &'static str {
    let text = std::mem::ManuallyDrop::new(Text::format(arguments));
    let text: *const str = text.as_str();
    // SAFETY: the block is never freed, because its owner is never dropped, and nothing else can
    // change it.
    unsafe { &*text }
}

/// Returns a value that stays for the life of the process.
pub(crate) fn kept_value<T>(value: T) -> &'static T {
    let layout = Layout::new::<T>();
    debug_assert!(layout.size() != 0);
    // SAFETY: the layout is not empty.
    let place = unsafe { own_memory::alloc(layout) }.cast::<T>();
    if place.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the block has room for a value. It is never freed, and nothing else can change it.
    unsafe {
        place.write(value);
        &*place
    }
}
