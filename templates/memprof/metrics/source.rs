//! What a source of figures does.

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Values};

/// Which figures a mark reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them, for a checkpoint.
    Whole,
    /// Metrics that have a peak, and totals: what scopes and traced functions show. The others take
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

    /// Why a metric had no figure when it was read last. `None` if that is what [`Metric::lost`] says.
    ///
    /// [`Metric::lost`]: crate::metrics::metric::Metric::lost
    fn why_lost(&self, _index: Index) -> Option<&'static str> {
        None
    }

    /// Pays now what is otherwise paid at first use: contexts, lazily loaded modules.
    fn warm_up(&mut self) {}
}
