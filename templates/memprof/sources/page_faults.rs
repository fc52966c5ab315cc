//! `cpu.faults`, on request: how many pages the process touched for the first time.

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::resource_usage;

const FAULTS: &str = "cpu.faults";

pub(crate) struct PageFaults {
    index: Option<Index>,
}

impl PageFaults {
    pub(crate) const fn new() -> Self {
        Self { index: None }
    }
}

impl Source for PageFaults {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        if !environment.wants(FAULTS) {
            return;
        }
        match resource_usage::minor_faults() {
            Some(_) => self.index = Some(catalogue.add(FAULTS, "getrusage (ru_minflt)", Kind::Total)),
            None => catalogue.add_absent(FAULTS, "available on Linux with 64 bits only (getrusage)"),
        }
    }

    fn read(&mut self, values: &mut Values, _extent: Extent) {
        if let Some(index) = self.index {
            values.set(index, resource_usage::minor_faults());
        }
    }
}
