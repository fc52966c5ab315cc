//! The figures of one kind of memory over a piece of code.

use std::fmt;

use crate::shared::bytes::Bytes;
use crate::shared::figure::{Figure, NOT_MEASURED, State};

/// One kind of memory over a piece of code, in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Memory {
    /// The highest point above the beginning: all that the code needed, its result included.
    pub rise: Figure<u64>,
    /// The part of the rise that was needed only in between: the highest point above the larger of
    /// the two ends. A result that the code returns is not in it.
    pub transient: Figure<u64>,
    /// Memory at the end minus memory at the beginning. Negative if memory was given back.
    pub kept: Figure<i64>,
    /// Memory in use at the end.
    pub at_end: Figure<u64>,
}

impl Memory {
    pub(crate) const NOT_MEASURED: Self = Self {
        rise: Figure::NOT_MEASURED,
        transient: Figure::NOT_MEASURED,
        kept: Figure::NOT_MEASURED,
        at_end: Figure::NOT_MEASURED,
    };

    pub(crate) const fn unavailable(reason: &'static str) -> Self {
        Self {
            rise: Figure::unavailable(reason),
            transient: Figure::unavailable(reason),
            kept: Figure::unavailable(reason),
            at_end: Figure::unavailable(reason),
        }
    }

    /// Without the transient part, its reason: the highest point in between is unknown, too.
    pub(crate) fn measured(kept: i64, transient: Result<u64, &'static str>, at_end: u64) -> Self {
        let (rise, transient) = match transient {
            Ok(bytes) => {
                let rise = bytes.saturating_add(u64::try_from(kept).unwrap_or(0));
                (Figure::measured(rise), Figure::measured(bytes))
            }
            Err(reason) => (Figure::unavailable(reason), Figure::unavailable(reason)),
        };
        Self { rise, transient, kept: Figure::measured(kept), at_end: Figure::measured(at_end) }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, at_end) = match (self.kept.0, self.at_end.0) {
            (State::Measured(kept), State::Measured(at_end)) => (Bytes(kept.into()), Bytes(at_end.into())),
            (State::Unavailable(reason), _) | (_, State::Unavailable(reason)) => {
                return write!(formatter, "unavailable ({reason})");
            }
            _ => return formatter.write_str(NOT_MEASURED),
        };
        match (self.rise.0, self.transient.0) {
            (State::Measured(rise), State::Measured(transient)) => {
                let (rise, transient) = (Bytes(rise.into()), Bytes(transient.into()));
                write!(formatter, "rise {rise}, transient {transient}, kept {kept}, {at_end} at the end")
            }
            (State::Unavailable(reason), _) | (_, State::Unavailable(reason)) => {
                write!(formatter, "kept {kept}, {at_end} at the end, peak unavailable ({reason})")
            }
            _ => formatter.write_str(NOT_MEASURED),
        }
    }
}
