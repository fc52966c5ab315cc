//! The GPUs of a `Usage`. In the shim they lie past the global allocator, so that a usage is in no heap
//! figure.

use std::fmt;
use std::ops::Deref;

use crate::platform::untracked::Untracked;
use crate::shared::memory::Memory;

/// One GPU in a [`Usage`](crate::Usage).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Gpu {
    /// The device as in the metrics: `0` in `gpu.0.peak`.
    pub device: &'static str,
    /// The memory.
    pub memory: Memory,
}

/// The GPUs in a [`Usage`](crate::Usage): a slice of [`Gpu`].
pub struct Gpus(Untracked<Gpu>);

impl Gpus {
    pub(crate) const fn new() -> Self {
        Self(Untracked::new())
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

impl Clone for Gpus {
    fn clone(&self) -> Self {
        let mut gpus = Untracked::new();
        gpus.extend(self);
        Self(gpus)
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
