//! Where figures come from. A new source joins this list.

use crate::calls::Columns;
use crate::drm::Drm;
use crate::environment::Environment;
use crate::gpu::{self, Gpu};
use crate::heap_metrics::HeapMetrics;
use crate::malloc::Malloc;
use crate::metric::{Catalogue, Values};
use crate::pool_metrics::PoolMetrics;
use crate::resident::Resident;

/// Which figures a mark reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them, for a checkpoint.
    Whole,
    /// Those that have a peak, and totals: what scopes and traced functions show. The others take
    /// ten times as long, because NVML or the kernel must collect them.
    Scopes,
}

/// Something that has figures. Once opened, it must not allocate through the global allocator, or
/// its own memory would be in the heap's figures.
pub(crate) trait Source {
    /// Opens what stays open, and adds the metrics that exist, and those that are absent with the
    /// reason. Called once, before any figure is read.
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue);

    /// Looks for metrics that exist only now, for example those of a device that the program has
    /// begun to use. Called before each `read`.
    fn appear(&mut self, _catalogue: &mut Catalogue) {}

    /// The test's body begins at a mark with these values.
    fn begin_body(&mut self, _values: &Values, _catalogue: &mut Catalogue) {}

    /// Reads the current figures, at least those of this extent, and begins a new interval for the
    /// peaks.
    fn read(&mut self, values: &mut Values, extent: Extent);

    /// Pays now what is otherwise paid at first use: contexts, lazily loaded modules.
    fn warm_up(&mut self) {}
}

/// All sources. A checkpoint reads them in this order; the heap comes first because it changes
/// fastest.
pub(crate) struct Sources {
    heap: HeapMetrics,
    resident: Resident,
    pub(crate) malloc: Malloc,
    pub(crate) gpu: Gpu,
    drm: Drm,
    pub(crate) pools: PoolMetrics,
}

impl Sources {
    pub(crate) const fn new() -> Self {
        Self {
            heap: HeapMetrics::new(),
            resident: Resident::new(),
            malloc: Malloc::new(),
            gpu: Gpu::new(),
            drm: Drm::new(),
            pools: PoolMetrics::new(),
        }
    }

    pub(crate) fn each(&mut self) -> [&mut dyn Source; 6] {
        let Self { heap, resident, malloc, gpu, drm, pools } = self;
        [heap, resident, malloc, gpu, drm, pools]
    }

    /// Gives pools of the CUDA driver the figures that the GPUs have at this mark.
    pub(crate) fn follow_driver(&self, catalogue: &mut Catalogue, values: &mut Values) {
        PoolMetrics::follow_driver(|ordinal| self.gpu.pool_metrics(ordinal), catalogue, values);
    }

    /// The sources that traced functions read.
    pub(crate) fn each_of(&mut self, columns: Columns) -> [Option<&mut dyn Source>; 5] {
        [
            if columns.heap { Some(&mut self.heap) } else { None },
            if columns.cpu { Some(&mut self.resident) } else { None },
            if columns.malloc { Some(&mut self.malloc) } else { None },
            if columns.gpu { Some(&mut self.gpu) } else { None },
            if columns.pool { Some(&mut self.pools) } else { None },
        ]
    }
}

/// Waits for work that is under way on devices, so that a mark shows a moment that the program
/// knows. The caller must not hold a lock that the user's code may want: functions that the program
/// gave to a device may run meanwhile.
pub(crate) fn settle() {
    gpu::settle();
}
