//! Logs what the memory pools of cubecl report, for programs that hold a cubecl device.
//!
//! ```ignore
//! memprof_cubecl::pool(&device); // cubecl 0.11 and later
//! memprof_cubecl::pool::<CudaRuntime>(&device); // before
//! ```

#[path = "../common/device_name.rs"]
mod device_name;
#[path = "../common/text.rs"]
mod text;

use std::fmt::Debug;

use device_name::DeviceName;

/// Logs the bytes in use, lost to padding and reserved in a device's pools, summed over all
/// streams. Always returns true.
#[cfg(reports)]
pub fn pool(device: &cubecl::Device) -> bool {
    let usage = device.client().memory_report(cubecl::MemoryScope::Device).usage();
    log(device, "", [usage.bytes_in_use, usage.bytes_padding, usage.bytes_reserved]);
    true
}

/// Logs the bytes in use, lost to padding and reserved in a device's pools, for the current
/// thread's stream. Returns false where the runtime does not report them.
#[cfg(not(reports))]
pub fn pool<R: cubecl::Runtime>(device: &R::Device) -> bool
where
    R::Device: Debug,
{
    let client = R::client(device);
    #[cfg(fallible)]
    let Ok(usage) = client.memory_usage() else {
        return false;
    };
    #[cfg(not(fallible))]
    let usage = client.memory_usage();
    let figures = [usage.bytes_in_use as u64, usage.bytes_padding as u64, usage.bytes_reserved as u64];
    log(device, std::any::type_name::<R>(), figures);
    true
}

fn log(device: &dyn Debug, backend: &str, [in_use, padding, reserved]: [u64; 3]) {
    let name = DeviceName::of(device);
    let device = name.device(backend);
    memprof::pool(memprof::Pool { name: name.as_str(), device, in_use, padding, reserved });
}
