//! Platforms other than Linux, which have no DRM figures.

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Values};
use crate::metrics::source::{Extent, Source};

pub(crate) struct Drm;

impl Drm {
    pub(crate) const fn new() -> Self {
        Self
    }
}

impl Source for Drm {
    fn open(&mut self, _environment: &Environment, _catalogue: &mut Catalogue) {}

    fn read(&mut self, _values: &mut Values, _extent: Extent) {}
}
