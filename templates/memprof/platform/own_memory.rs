//! Memory for what the tool keeps inside a test's process, past the global allocator.
//!
//! Usually it comes from the system's allocator, `malloc`. In a run that counts `malloc`, it comes
//! from pages of its own. Otherwise the tool's memory would be in the figures. It would also change
//! where the program's blocks lie, and with that their usable sizes, in runs that record call
//! stacks.

use std::alloc::{GlobalAlloc, Layout, System};

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
// Each crate that contains this file uses a part.
#[allow(unused_imports)]
pub(crate) use pages::{are_used, use_pages, zeroed};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
#[allow(dead_code)]
pub(crate) fn are_used() -> bool {
    false
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
#[allow(dead_code)]
pub(crate) fn use_pages() {}

/// # Safety
/// As for [`GlobalAlloc::alloc`].
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    if are_used() {
        return pages::alloc(layout);
    }
    System.alloc(layout)
}

/// # Safety
/// As for [`GlobalAlloc::dealloc`].
pub(crate) unsafe fn dealloc(block: *mut u8, layout: Layout) {
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    if are_used() {
        return pages::dealloc(block, layout);
    }
    System.dealloc(block, layout);
}

/// # Safety
/// As for [`GlobalAlloc::realloc`].
pub(crate) unsafe fn realloc(block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    if are_used() {
        return pages::realloc(block, layout, new_size);
    }
    System.realloc(block, layout, new_size)
}

/// Blocks are powers of two, cut from larger maps, and are used again. Large ones have maps of
/// their own.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod pages {
    use std::alloc::Layout;
    use std::os::raw::{c_char, c_int, c_long, c_void};
    use std::ptr;
    use std::sync::atomic::{AtomicU8, Ordering};

    use crate::platform::lock::Lock;

    extern "C" {
        fn getenv(name: *const c_char) -> *mut c_char;
        fn mmap(
            at: *mut c_void,
            length: usize,
            access: c_int,
            flags: c_int,
            file: c_int,
            offset: c_long,
        ) -> *mut c_void;
        fn munmap(at: *mut c_void, length: usize) -> c_int;
        fn pthread_self() -> usize;
    }

    const READ_AND_WRITE: c_int = 1 | 2;
    const PRIVATE_ANONYMOUS: c_int = 2 | 0x20;

    const PAGE: usize = 4096;
    const SMALLEST_BITS: u32 = 6;
    /// Blocks of 64 bytes to 64 KiB.
    const CLASSES: usize = 11;
    /// What is mapped at once, to be cut.
    const MAP: usize = 256 << 10;

    static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);

    const UNDECIDED: u8 = 0;
    const SYSTEM: u8 = 1;
    const PAGES: u8 = 2;

    static CUT: Lock<Cut> =
        Lock::new(Cut { free: [ptr::null_mut(); CLASSES], next: ptr::null_mut(), left: 0 });

    struct Cut {
        /// Blocks that were freed, by class. Each begins with the address of the next one.
        free: [*mut u8; CLASSES],
        next: *mut u8,
        left: usize,
    }

    // SAFETY: the pointers lead to memory that only the holder of the lock uses.
    unsafe impl Send for Cut {}

    /// Whether memory comes from pages. The first question decides, so it must come before the first
    /// block: the constructor asks, while the runner's variables are still there.
    #[inline]
    pub(crate) fn are_used() -> bool {
        match STATE.load(Ordering::Relaxed) {
            UNDECIDED => decide(),
            state => state == PAGES,
        }
    }

    #[cold]
    fn decide() -> bool {
        // SAFETY: the name ends with a zero byte, and only the first byte of the value is read.
        let is_counted = unsafe {
            let value = getenv(b"MEMPROF_MALLOC\0".as_ptr().cast());
            !value.is_null() && *value != 0
        };
        set(if is_counted { PAGES } else { SYSTEM });
        are_used()
    }

    /// Decides, unless that happened before.
    fn set(state: u8) {
        let _ = STATE.compare_exchange(UNDECIDED, state, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes memory from pages, whatever the variables say. Called before the first block.
    #[allow(dead_code)]
    pub(crate) fn use_pages() {
        set(PAGES);
    }

    /// The class of a block; `None` if it has a map of its own.
    fn class_of(layout: Layout) -> Option<usize> {
        let size = layout.size().max(layout.align()).max(1 << SMALLEST_BITS);
        let class = (size.next_power_of_two().trailing_zeros() - SMALLEST_BITS) as usize;
        if class < CLASSES { Some(class) } else { None }
    }

    fn whole_pages(size: usize) -> Option<usize> {
        Some(size.checked_add(PAGE - 1)? & !(PAGE - 1))
    }

    /// Zeroed memory that stays. The system provides a page when it is first touched.
    #[allow(dead_code)]
    pub(crate) fn zeroed(size: usize) -> Option<*mut u8> {
        Some(map(size)).filter(|memory| !memory.is_null())
    }

    fn map(size: usize) -> *mut u8 {
        let length = match whole_pages(size) {
            Some(length) => length,
            None => return ptr::null_mut(),
        };
        // SAFETY: this maps new pages and touches no others.
        let mapped = unsafe { mmap(ptr::null_mut(), length, READ_AND_WRITE, PRIVATE_ANONYMOUS, -1, 0) };
        if mapped as isize == -1 { ptr::null_mut() } else { mapped.cast() }
    }

    pub(super) unsafe fn alloc(layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        let class = match class_of(layout) {
            Some(class) => class,
            None => return map(layout.size()),
        };
        match CUT.hold_as(pthread_self()) {
            Some(mut cut) => cut.take(class),
            // A signal handler interrupted this very thread in here.
            None => map(1 << (class as u32 + SMALLEST_BITS)),
        }
    }

    pub(super) unsafe fn dealloc(block: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => {
                // As above. The block is lost then.
                if let Some(mut cut) = CUT.hold_as(pthread_self()) {
                    block.cast::<*mut u8>().write(cut.free[class]);
                    cut.free[class] = block;
                }
            }
            None => {
                munmap(block.cast(), whole_pages(layout.size()).unwrap_or(0));
            }
        }
    }

    pub(super) unsafe fn realloc(block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
        let class = class_of(layout);
        if class.is_some() && class == class_of(new_layout) {
            return block;
        }
        let moved = alloc(new_layout);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
            dealloc(block, layout);
        }
        moved
    }

    impl Cut {
        unsafe fn take(&mut self, class: usize) -> *mut u8 {
            let freed = self.free[class];
            if !freed.is_null() {
                self.free[class] = freed.cast::<*mut u8>().read();
                return freed;
            }
            let size = 1_usize << (class as u32 + SMALLEST_BITS);
            // A block is aligned to its size, up to a page.
            let skipped = self.next.align_offset(size.min(PAGE));
            if self.next.is_null() || self.left < skipped + size {
                let mapped = map(MAP);
                if mapped.is_null() {
                    return mapped;
                }
                self.next = mapped;
                self.left = MAP;
                return self.take(class);
            }
            let block = self.next.add(skipped);
            self.next = block.add(size);
            self.left -= skipped + size;
            block
        }
    }
}
