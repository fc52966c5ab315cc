//! A lock that neither allocates nor poisons, on any platform: `std::sync::Mutex` boxes its inside on some.
//!
//! It is held for the microseconds of one log line and never while code of the user's runs.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `Held` only, of which there is one at a time; so it is handed from thread to
// thread, which `T: Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn hold(&self) -> Held<'_, T> {
        let mut attempts = 0_u32;
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            attempts += 1;
            if attempts % 64 == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Held { lock: self }
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
        self.lock.held.store(false, Ordering::Release);
    }
}
