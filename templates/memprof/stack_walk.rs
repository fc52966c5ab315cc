//! Walks the calling thread's stack: with the executable's unwind table, or with the unwinder of
//! the platform, which knows shared libraries and signal frames as well.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::inline_always)]

use std::os::raw::{c_int, c_void};

use crate::unwind_table::UnwindTable;

/// Most frames of a walk. A longer one has lost its way.
const LONGEST: usize = 1 << 20;

/// The registers of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Registers {
    program_counter: usize,
    stack_pointer: usize,
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
    let Registers { mut program_counter, mut stack_pointer, mut frame_pointer } = start;
    // A return address is the instruction behind the call, maybe in the next function.
    let mut back = 0;
    for _ in 0..LONGEST {
        let place = match table.place(program_counter) {
            Some(place) => place,
            None => return End::Beyond(program_counter),
        };
        let rule = table.rule(place - back);
        if rule.is_special() {
            return match (rule.is_end(), back) {
                (true, _) => End::Outermost,
                (false, 0) => End::Lost,
                (false, _) => End::Beyond(program_counter),
            };
        }
        let frame_address = rule.frame_address(stack_pointer, frame_pointer);
        // A frame pointer that the code uses for something else leads anywhere.
        if frame_address <= stack_pointer || frame_address & 7 != 0 {
            return End::Lost;
        }
        let below = rule.frame_pointer_below();
        if below != 0 {
            frame_pointer = *((frame_address - below) as *const usize);
        }
        program_counter = *((frame_address - 8) as *const usize);
        stack_pointer = frame_address;
        back = 1;
        if program_counter == 0 {
            return End::Outermost;
        }
        each(program_counter);
    }
    End::Lost
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
