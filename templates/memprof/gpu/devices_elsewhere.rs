//! GPUs on platforms where the shim has no figures for them.

use crate::blocks::size_count::SizeCount;
use crate::gpu::handlers::Handlers;
use crate::metrics::metric::{Catalogue, Index, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::untracked::Untracked;

pub(crate) struct Gpu;

pub(crate) fn settle() {}

pub(crate) fn trim_pools() {}

pub(crate) fn make_context(_ordinal: u32) -> Result<(), &'static str> {
    Err("memprof knows CUDA on 64-bit Linux only")
}

impl Gpu {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn set_handlers(&mut self, _handlers: Handlers) {}

    pub(crate) fn end(&mut self) {}

    pub(crate) fn take_last(&mut self, _catalogue: &mut Catalogue) {}

    pub(crate) fn known_device(&self, _ordinal: u32) -> Option<&'static str> {
        None
    }

    pub(crate) fn pool_metrics(&self, _ordinal: u32) -> Option<Result<[Index; 4], &'static str>> {
        None
    }

    pub(crate) fn device_name(&mut self, _ordinal: u32) -> Option<&'static str> {
        None
    }

    pub(crate) fn live_sizes(&self, _place: usize, _into: &mut Untracked<SizeCount>) -> Option<&'static str> {
        None
    }

    pub(crate) fn in_use<'a>(&'a self, _values: &'a Values) -> impl Iterator<Item = (&'a str, u64)> + Clone {
        std::iter::empty()
    }
}

impl Source for Gpu {
    fn open(&mut self, _environment: &crate::log::environment::Environment, _catalogue: &mut Catalogue) {}

    fn read(&mut self, _values: &mut Values, _extent: Extent) {}
}
