//! Walks the calling thread's stack: with the executable's unwind table, or with the unwinder of
//! the platform, which knows shared libraries and signal frames as well.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::inline_always)]

use std::os::raw::{c_int, c_void};

use crate::stacks::stack_bounds;
use crate::stacks::unwind_table::UnwindTable;

/// Most frames of a walk. A longer one has lost its way.
const LONGEST: usize = 1 << 20;

/// The registers of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) program_counter: usize,
    pub(crate) stack_pointer: usize,
    frame_pointer: usize,
}

/// Where a walk with the table ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At the outermost function.
    Outermost,
    /// At this return address: it is not in the executable, or the table does not express its frame.
    Beyond(usize),
    /// At a frame that cannot be right.
    Lost,
    /// At the end of a stack that the program made: the next frame cannot be read.
    Unreadable,
}

/// The registers of the function that this is inlined into.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn here() -> Registers {
    let (program_counter, stack_pointer, frame_pointer): (usize, usize, usize);
    // SAFETY: this reads three registers and touches neither memory nor flags.
    unsafe {
        std::arch::asm!(
            "lea {0}, [rip]",
            "mov {1}, rsp",
            "mov {2}, rbp",
            out(reg) program_counter,
            out(reg) stack_pointer,
            out(reg) frame_pointer,
            options(nomem, nostack, preserves_flags)
        );
    }
    Registers { program_counter, stack_pointer, frame_pointer }
}

/// On other processors only the unwinder walks.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn here() -> Registers {
    Registers { program_counter: 0, stack_pointer: 0, frame_pointer: 0 }
}

/// Calls `each` with the return addresses, from the caller's on, up to the end of the executable's
/// frames.
///
/// # Safety
/// `start` are the registers of a function that is still running on this thread.
#[inline(always)]
pub(crate) unsafe fn with_table(table: &UnwindTable, start: Registers, mut each: impl FnMut(usize)) -> End {
    with_frames(table, start, |address, _| each(address))
}

/// The same. `each` also gets where the frame ends that returns to this address.
///
/// # Safety
/// As for [`with_table`].
#[inline(always)]
pub(crate) unsafe fn with_frames(
    table: &UnwindTable,
    start: Registers,
    mut each: impl FnMut(usize, usize),
) -> End {
    // A copy stays in registers, while a static is read again for each frame.
    let table = *table;
    let mut frame = start;
    let first = match table.place(frame.program_counter) {
        Some(place) => table.rule(place),
        None => return End::Beyond(frame.program_counter),
    };
    if first.is_special() {
        return if first.is_end() { End::Outermost } else { End::Lost };
    }
    let mut rule = first;
    let mut readable = stack_bounds::known(start.stack_pointer);
    for _ in 0..LONGEST {
        // A frame is always further up. A frame pointer that the code uses for something else leads
        // anywhere.
        let frame_address = if rule.is_by_stack_pointer() {
            frame.stack_pointer + rule.offset()
        } else {
            let address = frame.frame_pointer.wrapping_add(rule.offset());
            if address <= frame.stack_pointer || address & 7 != 0 {
                return off_the_stack(address, address.wrapping_sub(rule.frame_pointer_below()));
            }
            address
        };
        let below = rule.frame_pointer_below();
        let lowest = frame_address - below;
        if frame_address > readable.end {
            readable = match stack_bounds::extended(start.stack_pointer, lowest, frame_address) {
                Some(readable) => readable,
                None => return End::Unreadable,
            };
        }
        if lowest < start.stack_pointer {
            return off_the_stack(frame_address, lowest);
        }
        if below != 0 {
            frame.frame_pointer = *((frame_address - below) as *const usize);
        }
        frame.program_counter = *((frame_address - 8) as *const usize);
        frame.stack_pointer = frame_address;
        if frame.program_counter == 0 {
            return End::Outermost;
        }
        each(frame.program_counter, frame_address);
        rule = match table.rule_of_caller(frame.program_counter, frame_address) {
            Ok(rule) => rule,
            Err(rule) if rule.is_end() => return End::Outermost,
            Err(_) => return End::Beyond(frame.program_counter),
        };
    }
    End::Lost
}

/// The end of a walk at a frame that is not further up. The program may have switched its stack in a way
/// that the unwinder knows, if it can be read.
#[cold]
fn off_the_stack(frame_address: usize, lowest: usize) -> End {
    let is_frame = frame_address % 8 == 0 && frame_address > 8;
    let is_readable = || stack_bounds::is_readable(lowest) && stack_bounds::is_readable(frame_address - 8);
    if is_frame && is_readable() { End::Lost } else { End::Unreadable }
}

/// Calls `each` with the return addresses, from this function's on. `each` returns whether to go on.
#[inline(never)]
pub(crate) fn with_unwinder(each: &mut dyn FnMut(usize) -> bool) {
    struct Walk<'a> {
        each: &'a mut dyn FnMut(usize) -> bool,
        left: usize,
    }
    extern "C" {
        fn _Unwind_Backtrace(
            callback: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            data: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
    }
    const GO_ON: c_int = 0;
    const STOP: c_int = 5;
    unsafe extern "C" fn frame(context: *mut c_void, data: *mut c_void) -> c_int {
        let walk = &mut *data.cast::<Walk<'_>>();
        let mut is_before = 0;
        let address = _Unwind_GetIPInfo(context, &mut is_before);
        // In the frame below a signal's, this is the next instruction to run, not one behind a call.
        let address = if is_before == 0 { address } else { address + 1 };
        walk.left -= 1;
        if address > 1 && walk.left > 0 && (walk.each)(address) { GO_ON } else { STOP }
    }
    let mut walk = Walk { each, left: LONGEST };
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { _Unwind_Backtrace(frame, std::ptr::addr_of_mut!(walk).cast()) };
}
