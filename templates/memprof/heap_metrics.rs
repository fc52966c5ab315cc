//! `heap.live`, `heap.peak`, `heap.allocated` and `heap.count`, from the tracking allocator's
//! counts.

use crate::environment::Environment;
use crate::metric::{Catalogue, Index, Kind, Values};
use crate::sources::{Extent, Source};
use crate::untracked::kept;
use crate::{counts, heap};

const SOURCE: &str = "tracking allocator";

pub(crate) struct HeapMetrics {
    tracked: Option<Indices>,
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
        Self { tracked: None }
    }
}

impl Source for HeapMetrics {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        if heap::is_global() {
            let live = catalogue.add("heap.live", SOURCE, Kind::Level);
            self.tracked = Some(Indices {
                live,
                peak: catalogue.add("heap.peak", SOURCE, Kind::Peak { family: "heap", level: live }),
                allocated: catalogue.add("heap.allocated", SOURCE, Kind::Total),
                count: catalogue.add("heap.count", SOURCE, Kind::Total),
            });
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

    fn read(&mut self, values: &mut Values, _extent: Extent) {
        if let Some(indices) = self.tracked {
            let read = counts::mark();
            values.set(indices.live, read.map(|(epoch, _)| epoch.live));
            values.set(indices.peak, read.map(|(epoch, _)| epoch.peak));
            values.set(indices.allocated, read.map(|(_, totals)| totals.bytes));
            values.set(indices.count, read.map(|(_, totals)| totals.blocks));
        }
    }
}
