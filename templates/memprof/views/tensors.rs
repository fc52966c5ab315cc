//! Names for pieces of memory: which weight, gradient or activation they are, how many bytes they
//! take, and how long they live.
//!
//! Naming a tensor writes one line to the log, and the end of its group writes one more. Nothing is
//! kept here: the log's lines before a checkpoint tell what had a name at that checkpoint.

use std::fmt;

use crate::platform::process;
use crate::shared::tensor::{Pool, Tensor};
use crate::sources::pool_metrics;
use crate::views::tensor_log;

/// Names a piece of memory as alive until the returned guard is dropped.
///
/// Outside a run of `cargo memprof` it costs a branch. Drop the guard together with the memory:
/// memory that is freed while its guard lives still counts.
#[inline]
pub fn tensor(tensor: Tensor<'_>) -> Names {
    let mut names = Names::new();
    names.add(tensor);
    names
}

/// Logs what a framework's pool holds now. It belongs to the next checkpoint of the tensor report.
///
/// The metrics `pool.NAME.in_use` and `pool.NAME.reserved` keep these figures until the next call
/// with this name. [`watch_pool`](crate::watch_pool) asks the pool at each checkpoint instead.
#[inline]
pub fn pool(pool: Pool<'_>) {
    if process::is_recording() {
        tensor_log::log_pool(&pool);
        pool_metrics::report(pool.name, pool.in_use, pool.reserved);
    }
}

/// A group of tensors that end together, when this is dropped.
#[must_use = "the tensors count as freed when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Names {
    /// The number in the log; 0 while the group is empty.
    group: u64,
}

impl Names {
    /// Makes an empty group.
    #[inline]
    pub const fn new() -> Self {
        Self { group: 0 }
    }

    /// Adds one more tensor to the group.
    #[inline]
    pub fn add(&mut self, tensor: Tensor<'_>) {
        if process::is_recording() {
            self.log(&tensor);
        }
    }

    /// Keeps the group's tensors alive until the process ends.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    #[cold]
    fn log(&mut self, tensor: &Tensor<'_>) {
        self.group = tensor_log::log_tensor(self.group, tensor);
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Names {
    #[inline]
    fn drop(&mut self) {
        if self.group != 0 {
            tensor_log::end_tensors(self.group);
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").field("names_any", &(self.group != 0)).finish()
    }
}
