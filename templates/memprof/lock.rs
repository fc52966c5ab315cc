//! A lock that neither allocates nor poisons, on any platform: `std::sync::Mutex` boxes its inside on some.
//!
//! It is held for the microseconds of one log line and never while code of the user's runs, but for a signal handler: that
//! must not wait for the thread which it has interrupted.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Lock<T> {
    /// The thread that holds it, as it names itself; 0 if none does.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

/// Stands for a thread that says nothing of itself; no address of anything.
const SOME_THREAD: usize = 1;

// SAFETY: the value is reached through `Held` only, of which there is one at a time; so it is handed from thread to
// thread, which `T: Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

// The shim and the injection library have this file in common, and each uses one way to hold it.
#[allow(dead_code)]
impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    pub(crate) fn hold(&self) -> Held<'_, T> {
        // Never refused.
        self.is_refused(SOME_THREAD);
        Held { lock: self }
    }

    /// The same for a thread with a number of its own above 1. `None` where that thread holds it already.
    pub(crate) fn hold_as(&self, thread: usize) -> Option<Held<'_, T>> {
        if self.is_refused(thread) { None } else { Some(Held { lock: self }) }
    }

    /// Waits until the lock is held, or it turns out that it is by this very thread.
    fn is_refused(&self, thread: usize) -> bool {
        let mut attempts = 0_u32;
        while let Err(holder) =
            self.holder.compare_exchange_weak(0, thread, Ordering::Acquire, Ordering::Relaxed)
        {
            if holder == thread && thread != SOME_THREAD {
                return true;
            }
            attempts += 1;
            if attempts % 64 == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        false
    }
}

/// The value, until dropped.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the one holder, see `Lock::hold`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the one holder, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}
