//! Other platforms: absent, with the reason.

use super::{Figures, Found, Parts};

const REASON: &str = "memprof cannot read this on this platform";

/// Never made on these platforms.
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
