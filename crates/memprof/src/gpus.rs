//! The GPUs of a `Usage`. Without `cargo memprof` there are some only in a live notebook.

use std::fmt;
use std::ops::Deref;

use crate::usage::Gpu;

/// The GPUs in a [`Usage`](crate::Usage): a slice of [`Gpu`].
#[derive(Clone)]
pub struct Gpus(Vec<Gpu>);

impl Gpus {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, gpu: Gpu) {
        self.0.push(gpu);
    }
}

impl Deref for Gpus {
    type Target = [Gpu];

    fn deref(&self) -> &[Gpu] {
        &self.0
    }
}

impl fmt::Debug for Gpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Gpus {
    type Item = &'a Gpu;
    type IntoIter = std::slice::Iter<'a, Gpu>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
