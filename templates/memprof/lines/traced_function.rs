//! A traced function of the source, as the tool describes it in the inserted text; or a span of a program.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::platform::untracked::{kept, kept_value};

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

    /// Makes a site while the program runs, for a span. It stays for the life of the process.
    #[must_use]
    pub fn kept(label: fmt::Arguments<'_>, at: fmt::Arguments<'_>) -> &'static Self {
        kept_value(Self::new(kept(label), kept(at)))
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
