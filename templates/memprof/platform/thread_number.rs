//! Small numbers for threads, in the order in which they first log. The main thread, which runs the
//! constructor, is 1. (`ThreadId` has no stable number, and not every platform allows asking for it
//! before `main`.)

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static LAST: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

pub(crate) fn current() -> u32 {
    // On some platforms a thread's storage is gone in its last destructors. The number is then 0.
    NUMBER
        .try_with(|number| {
            if number.get() == 0 {
                number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
            }
            number.get()
        })
        .unwrap_or(0)
}

/// A number that only this thread has while it lives. It does not count the thread as one that
/// logs. 1 if the thread's storage is gone.
pub(crate) fn place() -> usize {
    NUMBER.try_with(|number| number as *const Cell<u32> as usize).unwrap_or(1)
}
