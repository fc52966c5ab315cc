//! No library can be put in front of the C library's allocator here.

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::log::environment::Environment;
use crate::sources::malloc_link::Figures;

#[derive(Clone, Copy)]
pub(crate) enum MallocLibrary {}

pub(crate) fn find(_: &Environment) -> Result<MallocLibrary, &'static str> {
    Err("available on Linux with 64 bits only (LD_PRELOAD)")
}

impl MallocLibrary {
    pub(crate) fn problem(self) -> Result<(), &'static str> {
        match self {}
    }

    pub(crate) fn read(self) -> Option<Figures> {
        match self {}
    }

    pub(crate) fn at_next_mark(self, _: AtNextMark) {
        match self {}
    }

    pub(crate) fn with_interval(self, _: &mut dyn FnMut(Interval, &[Changed])) {
        match self {}
    }
}
