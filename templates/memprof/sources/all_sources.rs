//! Where figures come from. A new source joins this list.

use crate::gpu::devices::Gpu;
use crate::metrics::columns::Columns;
use crate::metrics::metric::{Catalogue, Values};
use crate::metrics::source::Source;
use crate::sources::drm::Drm;
use crate::sources::heap_metrics::HeapMetrics;
use crate::sources::malloc::Malloc;
use crate::sources::page_faults::PageFaults;
use crate::sources::pool_metrics::PoolMetrics;
use crate::sources::resident::Resident;

/// All sources. A checkpoint reads them in this order; the heap comes first because it changes
/// fastest.
pub(crate) struct Sources {
    pub(crate) heap: HeapMetrics,
    faults: PageFaults,
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
            faults: PageFaults::new(),
            resident: Resident::new(),
            malloc: Malloc::new(),
            gpu: Gpu::new(),
            drm: Drm::new(),
            pools: PoolMetrics::new(),
        }
    }

    pub(crate) fn each(&mut self) -> [&mut dyn Source; 7] {
        let Self { heap, faults, resident, malloc, gpu, drm, pools } = self;
        [heap, faults, resident, malloc, gpu, drm, pools]
    }

    /// Gives pools of the CUDA driver the figures that the GPUs have at this mark.
    pub(crate) fn follow_driver(&self, catalogue: &mut Catalogue, values: &mut Values) {
        PoolMetrics::follow_driver(|ordinal| self.gpu.pool_metrics(ordinal), catalogue, values);
    }

    /// The sources that traced functions read.
    pub(crate) fn each_of(&mut self, columns: Columns) -> [Option<&mut dyn Source>; 6] {
        [
            if columns.heap { Some(&mut self.heap) } else { None },
            if columns.cpu { Some(&mut self.faults) } else { None },
            if columns.cpu { Some(&mut self.resident) } else { None },
            if columns.malloc { Some(&mut self.malloc) } else { None },
            if columns.gpu { Some(&mut self.gpu) } else { None },
            if columns.pool { Some(&mut self.pools) } else { None },
        ]
    }
}
