//! Where figures come from: the list that a new source, such as a GPU's, joins.

use crate::calls::Columns;
use crate::drm::Drm;
use crate::environment::Environment;
use crate::gpu::{self, Gpu};
use crate::heap_metrics::HeapMetrics;
use crate::malloc::Malloc;
use crate::metric::{Catalogue, Values};
use crate::resident::Resident;

/// Which figures a mark is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them, as a checkpoint shows.
    Whole,
    /// Those that have a peak, and totals: what scopes and traced functions show. What is asked of NVML or summed up by
    /// the kernel takes ten times as long as the rest.
    Scopes,
}

/// Something that has figures. It must not allocate through the global allocator once opened, for what it held would
/// be in the heap figures.
pub(crate) trait Source {
    /// Finds out what there is, opens what stays open, and says which metrics there are and which are absent, and why.
    /// Called once, before any figure is read.
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue);

    /// Looks for what there is only now, such as a device that the program has begun to use. Called before each `read`.
    fn appear(&mut self, _catalogue: &mut Catalogue) {}

    /// Reads the figures of the moment, at least those of this extent, and begins a new interval for the peaks: a mark.
    fn read(&mut self, values: &mut Values, extent: Extent);

    /// Pays now for what is otherwise paid at first use: contexts, lazily loaded modules.
    fn warm_up(&mut self) {}
}

/// All of them. A checkpoint reads them in this order; the heap comes first because it changes fastest.
pub(crate) struct Sources {
    heap: HeapMetrics,
    resident: Resident,
    malloc: Malloc,
    pub(crate) gpu: Gpu,
    drm: Drm,
}

impl Sources {
    pub(crate) const fn new() -> Self {
        Self {
            heap: HeapMetrics::new(),
            resident: Resident::new(),
            malloc: Malloc::new(),
            gpu: Gpu::new(),
            drm: Drm::new(),
        }
    }

    pub(crate) fn each(&mut self) -> [&mut dyn Source; 5] {
        [&mut self.heap, &mut self.resident, &mut self.malloc, &mut self.gpu, &mut self.drm]
    }

    /// Those that traced functions read.
    pub(crate) fn each_of(&mut self, columns: Columns) -> [Option<&mut dyn Source>; 3] {
        [
            if columns.heap { Some(&mut self.heap) } else { None },
            if columns.cpu { Some(&mut self.resident) } else { None },
            if columns.gpu { Some(&mut self.gpu) } else { None },
        ]
    }
}

/// Waits for work that is still under way elsewhere, so that a mark shows a moment that the program knows. Not to be
/// called with a lock held that code of the user's may want: functions that it gave to a device may run meanwhile.
pub(crate) fn settle() {
    gpu::settle();
}
