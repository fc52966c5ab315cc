//! A lock that neither allocates nor poisons, on any platform. `std::sync::Mutex` allocates on
//! some.
//!
//! It is held for the microseconds of one log line. No user code runs meanwhile, except a signal
//! handler, which must not wait for the thread that it has interrupted.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Lock<T> {
    /// The number of the thread that holds it; 0 if none does.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

/// Stands for a thread without a number of its own. No address is 1.
const SOME_THREAD: usize = 1;

// SAFETY: only `Held` reaches the value, and there is one at a time. So the value passes from
// thread to thread, which `T: Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

// The shim and the injection library both contain this file, and each uses one way to hold the
// lock.
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

    /// Holds the lock for a thread with a number above 1. Returns `None` if that thread holds it
    /// already.
    pub(crate) fn hold_as(&self, thread: usize) -> Option<Held<'_, T>> {
        if self.is_refused(thread) { None } else { Some(Held { lock: self }) }
    }

    /// Holds the lock if no thread does.
    pub(crate) fn try_hold(&self, thread: usize) -> Option<Held<'_, T>> {
        let free = self.holder.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() { Some(Held { lock: self }) } else { None }
    }

    /// Waits until the lock is held. Returns true if this very thread holds it already.
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

/// The value, until this is dropped.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the only holder, see `Lock::hold`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only holder, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}
