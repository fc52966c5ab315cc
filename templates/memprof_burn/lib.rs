//! Names the tensors of burn 0.22 and later, where a tensor's device tells its backend.
//!
//! ```ignore
//! let _weights = memprof_burn::weights(&model);
//! let _gradients = memprof_burn::gradients(&model, &gradients);
//! memprof_burn::pool(&device);
//! let hidden = memprof_burn::layer("mlp.0", || layer.forward(input)); // in a forward pass
//! ```
//!
//! A parameter's name is the path of its modules. Nothing is copied, and parameters that are not
//! initialized yet stay so and get no name. Burn does not tell which tensors share a storage.
//! Quantized tensors are not named.
//!
//! `backend_in_type.rs` and `without_names.rs` are the same crate for older versions.

#[macro_use]
mod adapter;
mod described;
#[path = "../common/device_name.rs"]
mod device_name;
mod element;
mod path;
#[path = "../common/pool_name.rs"]
mod pool_name;
#[path = "../common/text.rs"]
mod text;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, DType, Int, Tensor};
use described::Described;
use device_name::DeviceName;
use element::element_of;
use memprof::{Kind, Names};
pub use memprof::{forward, layer};
use path::Path;
use pool_name::pool_name;

functions! { gradients: burn::tensor::Gradients }
visitors_by_path! { gradients: burn::tensor::Gradients, device: burn::tensor::Device, value: base }

/// Logs what the memory pool of a device reports: bytes in use, lost to padding, and reserved. From
/// here on, the metrics `pool.cubecl.…` have them. Returns false where the backend has no pool or
/// reports nothing.
// A test may ignore the answer, and its crate may deny warnings.
#[allow(clippy::must_use_candidate)]
pub fn pool(device: &burn::tensor::Device) -> bool {
    let name = DeviceName::from_debug(device);
    let in_metrics = pool_name("cubecl", name.device(""));
    let Some(usage) = device.memory_pool_usage() else {
        memprof::no_pool(in_metrics.as_str(), "burn reports no memory pool for this device");
        return false;
    };
    memprof::log_pool(&memprof::Pool {
        name: name.as_str(),
        device: name.device(""),
        in_use: usage.bytes_in_use,
        padding: usage.bytes_padding,
        reserved: usage.bytes_reserved,
    });
    let [asked, trimmed] = [device.clone(), device.clone()];
    // The pool keeps no peaks.
    let usage = move || {
        let usage = asked.memory_pool_usage()?;
        Some(memprof::PoolUsage::from((usage.bytes_in_use, usage.bytes_reserved)))
    };
    memprof::watch_pool_once(in_metrics.as_str(), name.as_str(), usage, move || trimmed.memory_cleanup());
    true
}
