//! Which part of the calling thread's stack can be read. A program may switch to a stack of its own, of
//! which the compiler's tables know nothing. A walk that follows them leaves that stack at its end, and
//! must not read what is there.

use std::cell::Cell;
use std::ops::Range;

const PAGE: usize = 4096;
/// Most pages that are looked at for one frame: 64 MiB.
const MOST: usize = 1 << 14;
/// A thread that is so many pages further down is still on the same stack.
const NEAR: usize = 1 << 8;

thread_local! {
    /// The addresses that were found to be readable on this thread's stack: whole pages.
    static READABLE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The part of the stack from `stack_pointer` on of which it is known that it can be read.
#[inline(always)]
pub(crate) fn known(stack_pointer: usize) -> Range<usize> {
    let (low, high) = READABLE.with(Cell::get);
    // What is above the stack pointer is in use.
    stack_pointer..if low <= stack_pointer && stack_pointer < high { high } else { stack_pointer }
}

/// Looks at the pages from `stack_pointer` up to a frame. Returns the part that is known then. A frame on
/// another stack is known alone. `None`: the words from `lowest` on, or those below `end`, cannot be read.
#[cold]
#[inline(never)]
pub(crate) fn extended(stack_pointer: usize, lowest: usize, end: usize) -> Option<Range<usize>> {
    let first = stack_pointer / PAGE * PAGE;
    let (low, high) = READABLE.with(Cell::get);
    let is_below = first < low && low - first <= NEAR * PAGE && readable_from(first, low) == low;
    let (low, high) =
        if is_below || (low..high).contains(&first) { (low.min(first), high) } else { (first, first) };
    let last = end.checked_add(PAGE - 1)? / PAGE * PAGE;
    let is_far = last.saturating_sub(high) > MOST * PAGE;
    let high = if is_far { high } else { readable_from(high, last).max(high) };
    READABLE.with(|readable| readable.set((low, high)));
    if end <= high {
        Some(stack_pointer..high)
    } else if is_readable(lowest) && is_readable(end - 8) {
        Some(stack_pointer..last)
    } else {
        None
    }
}

/// Returns the first page that cannot be read, or the end.
fn readable_from(mut page: usize, end: usize) -> usize {
    while page < end && is_readable(page) {
        page += PAGE;
    }
    page
}

/// Whether eight bytes can be read here. The kernel reads a set of signals from the address before it
/// refuses to do anything with it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_readable(address: usize) -> bool {
    const RT_SIGPROCMASK: isize = 14;
    const EFAULT: isize = 14;
    let result: isize;
    // SAFETY: `-1` is no way to change the mask, so the call changes nothing. It writes nothing, and unlike
    // the C library's function it leaves `errno` alone.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") RT_SIGPROCMASK => result,
            in("rdi") -1_isize,
            in("rsi") address,
            in("rdx") 0,
            in("r10") 8,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result != -EFAULT
}

/// On other processors only the platform's unwinder walks.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_readable(_address: usize) -> bool {
    true
}
