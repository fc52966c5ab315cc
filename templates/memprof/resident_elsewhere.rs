//! Platforms that nobody has taught this crate: absent, with that reason.

use super::{Figures, Found, Parts};

const REASON: &str = "memprof does not know how to read it on this platform";

/// There is none to be had.
pub(super) enum Process {}

pub(super) fn open(_reset: bool) -> Result<Found, &'static str> {
    Err(REASON)
}

impl Process {
    pub(super) fn read(&mut self) -> Option<Figures> {
        match *self {}
    }

    pub(super) fn open_parts(&mut self) -> Result<&'static str, &'static str> {
        match *self {}
    }

    pub(super) fn read_parts(&mut self) -> Option<Parts> {
        match *self {}
    }
}
