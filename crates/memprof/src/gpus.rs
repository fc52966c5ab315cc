//! The GPUs of a `Usage`. Without `cargo memprof` there are none.

use std::fmt;
use std::ops::Deref;

use crate::usage::Gpu;

/// The GPUs in a [`Usage`](crate::Usage): a slice of [`Gpu`].
#[derive(Clone)]
pub struct Gpus(());

impl Gpus {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl Deref for Gpus {
    type Target = [Gpu];

    fn deref(&self) -> &[Gpu] {
        &[]
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
