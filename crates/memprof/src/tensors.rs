//! Names for pieces of memory: which weight, gradient or activation they are, how many bytes they
//! take, and how long they live.
//!
//! Without `cargo memprof`, naming does nothing.

use std::fmt;

use crate::shared::tensor::{Pool, Tensor};

/// Names a piece of memory as alive until the returned guard is dropped.
///
/// Outside a run of `cargo memprof` it does nothing. Drop the guard together with the memory:
/// memory that is freed while its guard lives still counts.
#[inline]
pub fn tensor(_tensor: Tensor<'_>) -> Names {
    Names::new()
}

/// Logs what a framework's pool holds now. It belongs to the next checkpoint of the tensor report.
///
/// The metrics `pool.NAME.in_use` and `pool.NAME.reserved` keep these figures until the next call
/// with this name. [`watch_pool`](crate::watch_pool) asks the pool at each checkpoint instead.
#[inline]
pub fn pool(_pool: Pool<'_>) {}

/// A group of tensors that end together, when this is dropped.
#[must_use = "the tensors count as freed when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Names(());

impl Names {
    /// Makes an empty group.
    #[inline]
    pub const fn new() -> Self {
        Self(())
    }

    /// Adds one more tensor to the group.
    #[inline]
    pub fn add(&mut self, _tensor: Tensor<'_>) {}

    /// Keeps the group's tensors alive until the process ends.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

/// As under `cargo memprof`, so that the same code compiles in both.
impl Drop for Names {
    #[inline]
    fn drop(&mut self) {}
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").field("names_any", &false).finish()
    }
}
