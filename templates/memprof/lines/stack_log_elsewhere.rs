//! No call stacks are recorded here.

use std::io;
use std::time::Instant;

use crate::log::run_log::Log;
use crate::sources::all_sources::Sources;

pub(crate) enum StackLog {}

impl StackLog {
    pub(crate) fn new() -> Option<Self> {
        None
    }

    pub(crate) fn begin(&mut self, _: &mut Log, _: &Sources) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn begin_interval_at_next_mark(&self, _: &Sources) {
        match *self {}
    }

    pub(crate) fn end_interval_at_next_mark(&self, _: &Sources) {
        match *self {}
    }

    pub(crate) fn checkpoint(&mut self, _: &mut Log, _: &Sources, _: u64, _: (&str, u64)) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn end(&mut self, _: &mut Log, _: u64, _: Option<Instant>) -> io::Result<()> {
        match *self {}
    }
}
