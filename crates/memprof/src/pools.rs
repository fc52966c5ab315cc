//! Memory pools, as programs tell about them. Without `cargo memprof`, nobody asks them.

use std::fmt;

use crate::shared::pool_usage::PoolUsage;

/// Makes metrics of a memory pool, until the returned guard is dropped: `pool.NAME.in_use`,
/// `pool.NAME.reserved`, and their peaks since the last checkpoint.
///
/// `usage` answers for the pool. Under `cargo memprof`, it is called at once, at each checkpoint,
/// where scopes begin and end, and when the guard is dropped. It may be called on several threads at
/// once. What it allocates counts as the program's own. Otherwise it is never called.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// static IN_USE: AtomicU64 = AtomicU64::new(0);
/// let _pool = memprof::watch_pool("arena", || (IN_USE.load(Relaxed), 1 << 20));
/// ```
///
/// If the name is taken by a pool that is still watched, this one is `NAME.2`. Characters that a
/// metric's name cannot have become `-`.
#[inline]
pub fn watch_pool<U: Into<PoolUsage>>(
    _name: &str,
    _usage: impl Fn() -> U + Send + Sync + 'static,
) -> WatchedPool {
    WatchedPool(())
}

/// Asks all known pools to release memory that nobody uses: those that are watched and have a
/// function for that ([`WatchedPool::on_trim`]), then the CUDA driver's default pools. Without
/// `cargo memprof`, it does nothing.
#[inline]
pub fn trim() {}

/// A pool with metrics, until this is dropped. Made by [`watch_pool`].
#[must_use = "the pool has no metrics once this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct WatchedPool(());

impl WatchedPool {
    /// Sets what [`trim`] calls, so that the pool releases memory that nobody uses.
    #[inline]
    pub fn on_trim(self, _release: impl Fn() + Send + Sync + 'static) -> Self {
        self
    }

    /// Watches the pool until the process ends. `done` has no figures of it, because the pool may be
    /// gone by then.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

/// As under `cargo memprof`, so that the same code compiles in both.
impl Drop for WatchedPool {
    #[inline]
    fn drop(&mut self) {}
}

impl fmt::Debug for WatchedPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WatchedPool").field("is_watched", &false).finish()
    }
}
