//! Traced functions: the tool inserts calls of this module at the start of the functions that the
//! user selected. A [`Site`] is one function of the source, and a [`Traced`] guard is one call of
//! it. When lines are traced too, the guard learns at each statement where the function is.
//!
//! A guard has a few bytes, because a deep recursion must not run out of stack when it is traced.
//! The recorder keeps the figures at the beginning of the call.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::call_log;
use crate::recorder;
use crate::scope;

/// A traced function.
#[derive(Debug)]
pub struct Site {
    pub(crate) label: &'static str,
    pub(crate) at: &'static str,
    /// The function's first line and its number of lines; `None` if lines are not traced.
    pub(crate) lines: Option<(u32, u32)>,
    /// Each so many-th call is measured, if not as the runner says for all; 0 if so.
    pub(crate) every: u64,
    /// The recorder's number for it, plus one; 0 before it has one.
    number: AtomicU32,
}

impl Site {
    /// Makes a site from a function's path and its location, `FILE:LINE`.
    pub const fn new(label: &'static str, at: &'static str) -> Self {
        Self { label, at, lines: None, every: 0, number: AtomicU32::new(0) }
    }

    /// Makes a site whose lines are traced too.
    pub const fn with_lines(label: &'static str, at: &'static str, first: u32, count: u32) -> Self {
        Self { label, at, lines: Some((first, count)), every: 0, number: AtomicU32::new(0) }
    }

    /// Measures each so many-th call, whatever the runner says for all functions.
    #[must_use]
    pub const fn every(self, every: u64) -> Self {
        Self { label: self.label, at: self.at, lines: self.lines, every, number: self.number }
    }

    /// Begins a call, which ends when the guard is dropped.
    #[inline]
    pub fn enter(&'static self) -> Traced {
        let (frame, line) = if recorder::is_recording() { begin(self) } else { (NONE, UNMEASURED) };
        Traced { frame, line: Cell::new(line) }
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The caller holds the recorder.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number + 1, Ordering::Relaxed);
    }
}

/// Stands for no frame.
pub(crate) const NONE: u32 = u32::MAX;

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
    let caller = call_log::leave_call(frame, depth);
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
