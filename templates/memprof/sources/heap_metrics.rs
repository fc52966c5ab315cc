//! `heap.live`, `heap.peak`, `heap.allocated` and `heap.count`, from the tracking allocator's
//! counts; on request `heap.before`, the live bytes when the test's body began.

use crate::blocks::owner;
use crate::heap::{allocator, counts};
use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Metric, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::untracked::kept;
use crate::stacks::stack_recording;

const SOURCE: &str = "tracking allocator";
/// Read on request only.
const BEFORE: &str = "heap.before";

/// Why levels are missing from some checkpoint on.
const LOST: &str = "Rust freed more bytes than it had allocated: memory of C's malloc, for example by \
                    Vec::from_raw_parts; free it with C's free";

/// Why `heap.live` is missing at `done`.
const LEFT: &str = "the test left the process before its body ended, for example by std::process::exit, \
                    which frees memory from before the body";

/// No process has so many bytes. The live bytes have 48 bits, so less than nothing is more than this.
const MOST: u64 = 1 << 47;

/// Added to levels and peaks in runs with call stacks. The count begins with the body there, and falls below
/// zero if the body frees what was there before.
const RAISED: u64 = 1 << 62;

pub(crate) struct HeapMetrics {
    tracked: Option<Indices>,
    /// What is added to the counted levels and peaks.
    raised: u64,
    /// The live bytes when the test's body began, and their place if they are a metric of this run.
    before: Option<u64>,
    before_index: Option<Index>,
    /// Whether the live bytes were below zero. What is missing then is not known, so they stay unknown.
    is_unbalanced: bool,
    /// Whether the process ended in the test's body. It then freed blocks from before the body, and which
    /// ones is not known.
    has_left: bool,
}

#[derive(Clone, Copy)]
struct Indices {
    live: Index,
    peak: Index,
    allocated: Index,
    count: Index,
}

impl HeapMetrics {
    pub(crate) const fn new() -> Self {
        Self {
            tracked: None,
            raised: 0,
            before: None,
            before_index: None,
            is_unbalanced: false,
            has_left: false,
        }
    }
}

impl HeapMetrics {
    /// The process ends.
    pub(crate) fn end(&mut self) {
        self.has_left = owner::is_in_body();
    }

    fn open_before(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        match environment.body() {
            _ if stack_recording::are_recorded() => {
                catalogue.add_absent(BEFORE, "not read in a run that records call stacks");
            }
            Some(Ok(_)) => self.before_index = Some(catalogue.add(BEFORE, SOURCE, Kind::Level)),
            Some(Err(reason)) => catalogue.add_absent(BEFORE, reason),
            None => catalogue.add_absent(BEFORE, "only tests of libtest's harness have a body"),
        }
    }
}

impl Source for HeapMetrics {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        if allocator::is_global() {
            self.raised = if stack_recording::are_recorded() { RAISED } else { 0 };
            let base = self.raised;
            let mut add_level = |name, kind| {
                let source = SOURCE;
                catalogue.add_metric(Metric { name, source, kind, lost: LOST, is_zero_before: true, base })
            };
            let live = add_level("heap.live", Kind::Level);
            self.tracked = Some(Indices {
                live,
                peak: add_level("heap.peak", Kind::Peak { family: "heap", level: live }),
                allocated: catalogue.add("heap.allocated", SOURCE, Kind::Total),
                count: catalogue.add("heap.count", SOURCE, Kind::Total),
            });
            if environment.wants(BEFORE) {
                self.open_before(environment, catalogue);
            }
            return;
        }
        let reason = match &environment.heap_absent {
            Some(reason) => kept(format_args!("{reason}")),
            None => "memprof's tracking allocator is not this executable's global allocator",
        };
        for name in ["heap.live", "heap.peak", "heap.allocated", "heap.count"] {
            catalogue.add_absent(name, reason);
        }
    }

    fn begin_body(&mut self, values: &Values, catalogue: &mut Catalogue) {
        if let Some(indices) = self.tracked {
            let base = values.get(indices.live).unwrap_or(self.raised);
            catalogue.set_base(indices.live, base);
            catalogue.set_base(indices.peak, base);
            self.before = Some(base.wrapping_sub(self.raised));
        }
    }

    fn read(&mut self, values: &mut Values, _extent: Extent) {
        if let (Some(index), Some(before)) = (self.before_index, self.before) {
            values.set(index, Some(before));
        }
        if let Some(indices) = self.tracked {
            let read = counts::mark();
            // With call stacks, only known blocks count, and what was there before the body does not.
            self.is_unbalanced |=
                !stack_recording::are_recorded() && read.map_or(false, |(epoch, _)| epoch.live > MOST);
            let levels = read.filter(|_| !self.is_unbalanced);
            let raised = self.raised;
            let live = levels.filter(|_| !self.has_left);
            values.set(indices.live, live.map(|(epoch, _)| epoch.live.wrapping_add(raised)));
            values.set(indices.peak, levels.map(|(epoch, _)| epoch.peak.wrapping_add(raised)));
            values.set(indices.allocated, read.map(|(_, totals)| totals.bytes));
            values.set(indices.count, read.map(|(_, totals)| totals.blocks));
        }
    }

    fn why_lost(&self, index: Index) -> Option<&'static str> {
        let is_live = self.tracked.map_or(false, |indices| index == indices.live);
        if is_live && self.has_left && !self.is_unbalanced { Some(LEFT) } else { None }
    }
}
