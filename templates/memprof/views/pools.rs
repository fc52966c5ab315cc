//! Memory pools, as programs and adapters tell about them. `pool_metrics` asks them.

use std::fmt;

use crate::platform::process;
use crate::shared::pool_usage::PoolUsage;
use crate::shared::tensor::Pool;
use crate::sources::callback::Callback;
use crate::sources::pool_metrics;
use crate::views::tensor_log;

/// Makes metrics of a memory pool, until the returned guard is dropped: `pool.NAME.in_use`,
/// `pool.NAME.reserved`, and their peaks since the last checkpoint.
///
/// `usage` answers for the pool. It is called now, at each checkpoint, where scopes begin and end,
/// and when the guard is dropped. It may be called on several threads at once. What it allocates
/// counts as the program's own. Outside a run of `cargo memprof`, it is never called.
///
/// ```ignore
/// let _pool = memprof::watch_pool("arena", || (ARENA.in_use(), ARENA.reserved()));
/// ```
///
/// If the name is taken by a pool that is still watched, this one is `NAME.2`. Characters that a
/// metric's name cannot have become `-`.
pub fn watch_pool<U: Into<PoolUsage>>(
    name: &str,
    usage: impl Fn() -> U + Send + Sync + 'static,
) -> WatchedPool {
    if !process::is_recording() {
        return WatchedPool { place: None };
    }
    let usage = Callback::new(move || Some(usage().into()));
    WatchedPool { place: pool_metrics::watch(name, "", usage) }
}

/// Asks all known pools to release memory that nobody uses: those that are watched and have a
/// function for that ([`WatchedPool::on_trim`]), then the CUDA driver's default pools.
///
/// What they released shows at the next checkpoint, in `pool.NAME.reserved`. This makes no CUDA
/// context. Outside a run of `cargo memprof`, it does nothing.
pub fn trim() {
    if process::is_recording() {
        pool_metrics::trim();
    }
}

/// A pool with metrics, until this is dropped. Made by [`watch_pool`].
#[must_use = "the pool has no metrics once this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct WatchedPool {
    /// The place in the registry; `None` outside a run.
    place: Option<usize>,
}

impl WatchedPool {
    /// Sets what [`trim`] calls, so that the pool releases memory that nobody uses.
    pub fn on_trim(self, release: impl Fn() + Send + Sync + 'static) -> Self {
        if let Some(place) = self.place {
            pool_metrics::set_trim(place, releasing(release));
        }
        self
    }

    /// Watches the pool until the process ends. `done` has no figures of it, because the pool may be
    /// gone by then.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for WatchedPool {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            pool_metrics::end(place);
        }
    }
}

impl fmt::Debug for WatchedPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WatchedPool").field("is_watched", &self.place.is_some()).finish()
    }
}

fn releasing(release: impl Fn() + Send + Sync + 'static) -> Callback {
    Callback::new(move || {
        release();
        None
    })
}

/// For adapters: logs what a pool holds for the tensor report, and makes no metrics.
#[doc(hidden)]
#[inline]
pub fn log_pool(pool: &Pool<'_>) {
    if process::is_recording() {
        tensor_log::log_pool(pool);
    }
}

/// For adapters: watches a pool to the end of the process. Does nothing if one of this name and key
/// is watched already. An answer may be missing.
#[doc(hidden)]
pub fn watch_pool_once(
    name: &str,
    key: &str,
    usage: impl Fn() -> Option<PoolUsage> + Send + Sync + 'static,
    release: impl Fn() + Send + Sync + 'static,
) {
    if process::is_recording() && !pool_metrics::is_watched(key) {
        if let Some(place) = pool_metrics::watch(name, key, Callback::new(usage)) {
            pool_metrics::set_trim(place, releasing(release));
        }
    }
}

/// For adapters: makes metrics of the CUDA driver's default pool on the device with this ordinal.
#[doc(hidden)]
pub fn watch_driver_pool(name: &str, ordinal: u32) {
    if process::is_recording() {
        pool_metrics::watch_driver_pool(name, ordinal);
    }
}

/// For adapters: logs why a pool has no metrics.
#[doc(hidden)]
pub fn no_pool(name: &str, reason: &'static str) {
    if process::is_recording() {
        pool_metrics::add_absent(name, reason);
    }
}
