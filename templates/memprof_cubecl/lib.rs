//! Makes metrics of the memory pools of cubecl, and logs what they report, for programs that hold a
//! cubecl device.
//!
//! ```ignore
//! memprof_cubecl::pool(&device); // cubecl 0.11 and later
//! memprof_cubecl::pool::<CudaRuntime>(&device); // before
//! ```

#[path = "../common/device_name.rs"]
mod device_name;
#[path = "../common/pool_name.rs"]
mod pool_name;
#[path = "../common/text.rs"]
mod text;

use std::fmt::Debug;

use device_name::DeviceName;
use memprof::PoolUsage;
use pool_name::pool_name;

/// Logs the bytes in use, lost to padding and reserved in a device's pools, summed over all
/// streams. From here on, the metrics `pool.cubecl.…` have them. Always returns true.
#[cfg(reports)]
pub fn pool(device: &cubecl::Device) -> bool {
    let figures = |device: &cubecl::Device| {
        let usage = device.client().memory_report(cubecl::MemoryScope::Device).usage();
        [usage.bytes_in_use, usage.bytes_padding, usage.bytes_reserved]
    };
    log(device, "", figures(device));
    let [asked, trimmed] = [device.clone(), device.clone()];
    let release = move || {
        // A device that refuses keeps what it holds.
        let _ = trimmed.client().memory_cleanup();
    };
    watch(device, "", move || Some(figures(&asked)), release);
    true
}

/// Logs the bytes in use, lost to padding and reserved in a device's pools, for the current
/// thread's stream. From here on, the metrics `pool.cubecl.…` have them. Returns false where the
/// runtime does not report them.
#[cfg(not(reports))]
pub fn pool<R: cubecl::Runtime + 'static>(device: &R::Device) -> bool
where
    R::Device: Clone + Debug + Send + Sync + 'static,
{
    let backend = std::any::type_name::<R>();
    let Some(now) = figures::<R>(device) else {
        let name = DeviceName::from_debug(device);
        memprof::no_pool(pool_name("cubecl", name.device(backend)).as_str(), "cubecl does not report it");
        return false;
    };
    log(device, backend, now);
    let [asked, trimmed] = [device.clone(), device.clone()];
    let release = move || {
        // A device that refuses keeps what it holds.
        #[cfg(cleans_up)]
        let _ = R::client(&trimmed).memory_cleanup();
        #[cfg(not(cleans_up))]
        let _ = &trimmed;
    };
    watch(device, backend, move || figures::<R>(&asked), release);
    true
}

#[cfg(not(reports))]
fn figures<R: cubecl::Runtime>(device: &R::Device) -> Option<[u64; 3]> {
    let client = R::client(device);
    #[cfg(fallible)]
    let usage = client.memory_usage().ok()?;
    #[cfg(not(fallible))]
    let usage = client.memory_usage();
    Some([usage.bytes_in_use as u64, usage.bytes_padding as u64, usage.bytes_reserved as u64])
}

fn log(device: &dyn Debug, backend: &str, [in_use, padding, reserved]: [u64; 3]) {
    let name = DeviceName::from_debug(device);
    let device = name.device(backend);
    memprof::log_pool(&memprof::Pool { name: name.as_str(), device, in_use, padding, reserved });
}

fn watch(
    device: &dyn Debug,
    backend: &str,
    figures: impl Fn() -> Option<[u64; 3]> + Send + Sync + 'static,
    release: impl Fn() + Send + Sync + 'static,
) {
    let key = DeviceName::from_debug(device);
    let name = pool_name("cubecl", key.device(backend));
    // What a pool loses to padding is not handed out. It keeps no peaks.
    let usage = move || figures().map(|[in_use, _, reserved]| PoolUsage::from((in_use, reserved)));
    memprof::watch_pool_once(name.as_str(), key.as_str(), usage, release);
}
