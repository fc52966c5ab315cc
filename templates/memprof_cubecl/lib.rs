//! Logs what the memory pools of cubecl say of themselves, for programs that have a runtime of cubecl's at hand.
//!
//! ```ignore
//! memprof_cubecl::pool::<CudaRuntime>(&device);
//! ```

#[allow(dead_code)]
#[path = "../memprof_burn/described.rs"]
mod described;

use cubecl::prelude::*;
use cubecl::Runtime;
use described::DeviceName;

/// Logs the pools of a device. Of versions before 0.11 it is what the current thread's stream holds. False where the runtime
/// does not say.
pub fn pool<R: Runtime>(device: &R::Device) -> bool {
    let client = R::client(device);
    #[cfg(reports)]
    let usage = client.memory_report(cubecl::MemoryScope::Device).usage();
    #[cfg(fallible)]
    let Ok(usage) = client.memory_usage() else { return false };
    #[cfg(not(any(reports, fallible)))]
    let usage = client.memory_usage();
    let name = DeviceName::of(device);
    memprof::pool(memprof::Pool {
        name: name.as_str(),
        device: name.device(std::any::type_name::<R>()),
        in_use: usage.bytes_in_use as u64,
        padding: usage.bytes_padding as u64,
        reserved: usage.bytes_reserved as u64,
    });
    true
}
