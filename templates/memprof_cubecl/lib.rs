//! Logs what the memory pools of cubecl say of themselves, for programs that have a device of cubecl's at hand.
//!
//! ```ignore
//! memprof_cubecl::pool(&device); // cubecl 0.11 and later
//! memprof_cubecl::pool::<CudaRuntime>(&device); // before
//! ```

#[allow(dead_code)]
#[path = "../memprof_burn/described.rs"]
mod described;

use std::fmt::Debug;

use described::DeviceName;

/// Logs the pools of a device, of all streams.
#[cfg(reports)]
pub fn pool(device: &cubecl::Device) -> bool {
    let usage = device.client().memory_report(cubecl::MemoryScope::Device).usage();
    log(device, "", [usage.bytes_in_use, usage.bytes_padding, usage.bytes_reserved]);
    true
}

/// Logs what the pools of a device hold for the current thread's stream. False where the runtime does not say.
#[cfg(not(reports))]
pub fn pool<R: cubecl::Runtime>(device: &R::Device) -> bool
where
    R::Device: Debug,
{
    let client = R::client(device);
    #[cfg(fallible)]
    let Ok(usage) = client.memory_usage() else { return false };
    #[cfg(not(fallible))]
    let usage = client.memory_usage();
    let figures = [usage.bytes_in_use as u64, usage.bytes_padding as u64, usage.bytes_reserved as u64];
    log(device, std::any::type_name::<R>(), figures);
    true
}

fn log(device: &dyn Debug, backend: &str, [in_use, padding, reserved]: [u64; 3]) {
    let name = DeviceName::of(device);
    memprof::pool(memprof::Pool {
        name: name.as_str(),
        device: name.device(backend),
        in_use,
        padding,
        reserved,
    });
}
