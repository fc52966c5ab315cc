//! Traced functions: the tool inserts calls of this module at the start of the functions that the
//! user selected. A [`Site`] is one function of the source, and a [`Traced`] guard is one call of
//! it. When lines are traced too, the guard learns at each statement where the function is.
//!
//! A guard has a few bytes, because a deep recursion must not run out of stack when it is traced.
//! The recorder keeps the figures at the beginning of the call.
//!
//! Spans of a program have no guard: they are entered and exited by number, in any order.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use crate::heap::counts;
use crate::lines::traced_function::{NONE, Site};
use crate::platform::process;
use crate::platform::untracked::Untracked;
use crate::views::call_log;
use crate::views::scope;

impl Site {
    /// Begins a call, which ends when the guard is dropped.
    #[inline]
    pub fn enter(&'static self) -> Traced {
        let (frame, line) = if process::is_recording() { begin(self) } else { (NONE, UNMEASURED) };
        Traced { frame, line: Cell::new(line) }
    }
}

/// Stands for the line of a call whose lines are not measured.
const UNMEASURED: u32 = u32::MAX;

thread_local! {
    /// The innermost traced call that is open on this thread.
    static CURRENT: Cell<u32> = const { Cell::new(NONE) };
}

#[cold]
fn begin(site: &'static Site) -> (u32, u32) {
    let caller = CURRENT.try_with(Cell::get).unwrap_or(NONE);
    let (frame, has_lines) = call_log::enter_call(site, caller);
    if frame != NONE {
        scope::deeper();
        let _ = CURRENT.try_with(|current| current.set(frame));
    }
    (frame, if has_lines { 0 } else { UNMEASURED })
}

/// One call of a traced function, until this is dropped.
#[derive(Debug)]
#[must_use = "a call ends when this is dropped"]
pub struct Traced {
    frame: u32,
    /// The line that the function is at; [`UNMEASURED`] if its lines are not measured.
    line: Cell<u32>,
}

impl Traced {
    /// Tells that the statement on this line begins.
    #[inline]
    pub fn at(&self, line: u32) {
        if self.line.get() != UNMEASURED {
            self.line.set(line);
            call_log::at_line(self.frame, line, true);
        }
    }

    /// Begins a block. When the guard is dropped, the function is back at its current line.
    #[inline]
    pub fn block(&self) -> Block<'_> {
        Block { call: self, line: self.line.get() }
    }
}

impl Drop for Traced {
    #[inline]
    fn drop(&mut self) {
        if self.frame != NONE {
            end(self.frame);
        }
    }
}

#[cold]
fn end(frame: u32) {
    let depth = scope::less_deep();
    let innermost = CURRENT.try_with(Cell::get).unwrap_or(NONE);
    let caller = call_log::leave_call(frame, innermost, depth);
    let _ = CURRENT.try_with(|current| current.set(caller));
}

/// A block of a function whose lines are traced.
#[derive(Debug)]
#[must_use = "a block ends when this is dropped"]
pub struct Block<'a> {
    call: &'a Traced,
    line: u32,
}

impl Drop for Block<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.line != UNMEASURED && self.line != 0 {
            self.call.line.set(self.line);
            call_log::at_line(self.call.frame, self.line, false);
        }
    }
}

thread_local! {
    /// The numbers of the spans that are open on this thread, with the frames of their calls. Nothing is dropped:
    /// registering a destructor would allocate.
    static SPANS: RefCell<ManuallyDrop<Untracked<(u64, u32)>>> =
        const { RefCell::new(ManuallyDrop::new(Untracked::new())) };
}

/// A span is entered on this thread. This is a call of its site, until [`exit_span`] of the same number.
pub fn enter_span(site: &'static Site, number: u64) {
    if process::is_recording() {
        counts::open_span();
        let frame = begin(site).0;
        let _ = SPANS.try_with(|spans| spans.borrow_mut().push((number, frame)));
    }
}

/// A span is exited on this thread. It does nothing for a span that is not open here.
pub fn exit_span(number: u64) {
    let frame = SPANS.try_with(|spans| {
        let open = &mut *spans.borrow_mut();
        let place = open.iter().rposition(|span| span.0 == number)?;
        let frame = open[place].1;
        open.as_mut().copy_within(place + 1.., place);
        open.pop();
        Some(frame)
    });
    if let Ok(Some(frame)) = frame {
        if frame != NONE {
            end(frame);
        }
        counts::close_span();
    }
}
