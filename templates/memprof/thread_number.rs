//! Small numbers for threads, in the order in which they first log. The one that runs the constructor, the main
//! thread, is 1. (`ThreadId` has no stable number, and asking for it before `main` is not allowed everywhere.)

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static LAST: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

pub(crate) fn current() -> u32 {
    // In the last destructors of a thread its storage may be gone on some platforms; 0 is then all that is known.
    NUMBER
        .try_with(|number| {
            if number.get() == 0 {
                number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
            }
            number.get()
        })
        .unwrap_or(0)
}

/// A number that is this thread's alone as long as it lives, without counting it among those that log; 1 where its storage is
/// gone.
pub(crate) fn place() -> usize {
    NUMBER.try_with(|number| number as *const Cell<u32> as usize).unwrap_or(1)
}
