//! Functions of the program that the shim keeps, to ask a memory pool or to trim it.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use crate::platform::own_memory;
use crate::shared::pool_usage::PoolUsage;

/// A function of the program, past the global allocator.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    code: *mut u8,
    call: unsafe fn(*const u8) -> Option<PoolUsage>,
    free: unsafe fn(*mut u8),
}

// SAFETY: `new` takes only functions that may be called from any thread, on several at once.
unsafe impl Send for Callback {}

impl Callback {
    pub(crate) fn new<F: Fn() -> Option<PoolUsage> + Send + Sync + 'static>(code: F) -> Self {
        /// # Safety
        /// `code` is an `F`.
        unsafe fn call<F: Fn() -> Option<PoolUsage>>(code: *const u8) -> Option<PoolUsage> {
            (*code.cast::<F>())()
        }
        /// # Safety
        /// `code` is an `F` in memory of `place_for::<F>`, and nobody uses it again.
        unsafe fn free<F>(code: *mut u8) {
            let owned = code.cast::<F>().read();
            if Layout::new::<F>().size() != 0 {
                own_memory::dealloc(code, Layout::new::<F>());
            }
            drop(owned);
        }
        let place = place_for::<F>();
        // SAFETY: the place has the size and the alignment of an `F`.
        unsafe { place.write(code) };
        Self { code: place.cast(), call: call::<F>, free: free::<F> }
    }

    /// # Safety
    /// It is not freed.
    pub(crate) unsafe fn call(self) -> Option<PoolUsage> {
        (self.call)(self.code)
    }

    /// # Safety
    /// It is neither called any more nor freed again.
    pub(crate) unsafe fn free(self) {
        (self.free)(self.code);
    }
}

fn place_for<F>() -> *mut F {
    let layout = Layout::new::<F>();
    if layout.size() == 0 {
        return NonNull::dangling().as_ptr();
    }
    // SAFETY: the layout is not empty.
    let place = unsafe { own_memory::alloc(layout) };
    if place.is_null() {
        handle_alloc_error(layout);
    }
    place.cast()
}
