//! A figure that may be absent, with the reason.

use std::cmp::Ordering;
use std::fmt;

/// A figure that may be absent. Compare it with a limit, or take it with [`get`](Figure::get).
///
/// * Measured: it compares like its value.
/// * Not measured, because this is an ordinary build or the program was started by hand: it is below
///   every limit and equal to nothing. So `assert!(figure < limit)` and `<=` pass.
/// * Unavailable in a run of `cargo memprof`: it is neither below nor above anything. So these
///   assertions fail, because nobody knows whether they hold.
#[derive(Clone, Copy)]
pub struct Figure<T>(pub(super) State<T>);

#[derive(Clone, Copy)]
pub(super) enum State<T> {
    Measured(T),
    NotMeasured,
    /// With the reason.
    Unavailable(&'static str),
}

impl<T> Figure<T> {
    pub(crate) const NOT_MEASURED: Self = Self(State::NotMeasured);

    pub(crate) const fn unavailable(reason: &'static str) -> Self {
        Self(State::Unavailable(reason))
    }

    pub(crate) fn measured(value: T) -> Self {
        Self(State::Measured(value))
    }
}

impl<T: Copy> Figure<T> {
    /// Returns the value, if there is one.
    pub fn get(self) -> Option<T> {
        match self.0 {
            State::Measured(value) => Some(value),
            State::NotMeasured | State::Unavailable(_) => None,
        }
    }

    /// Returns why a run of `cargo memprof` lacks this figure. `None` if it was measured, and
    /// outside a run.
    pub fn why_unavailable(self) -> Option<&'static str> {
        match self.0 {
            State::Unavailable(reason) => Some(reason),
            State::Measured(_) | State::NotMeasured => None,
        }
    }
}

// There is no `limit > figure`: an implementation for `u64` would make types ambiguous in code that
// this crate is linked to, such as `size == text.parse().unwrap()`.
impl<T: PartialEq> PartialEq<T> for Figure<T> {
    fn eq(&self, other: &T) -> bool {
        match &self.0 {
            State::Measured(value) => value == other,
            State::NotMeasured | State::Unavailable(_) => false,
        }
    }
}

impl<T: PartialOrd> PartialOrd<T> for Figure<T> {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        match &self.0 {
            State::Measured(value) => value.partial_cmp(other),
            State::NotMeasured => Some(Ordering::Less),
            State::Unavailable(_) => None,
        }
    }
}

pub(crate) const NOT_MEASURED: &str = "not measured; run under `cargo memprof`";

/// The value, or why there is none.
impl<T: fmt::Debug> fmt::Debug for Figure<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Measured(value) => value.fmt(formatter),
            State::NotMeasured => formatter.write_str(NOT_MEASURED),
            State::Unavailable(reason) => write!(formatter, "unavailable: {reason}"),
        }
    }
}

impl<T: fmt::Debug> fmt::Display for Figure<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
