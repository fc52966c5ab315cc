//! Names the tensors of candle: the weights of a `VarMap`, their gradients, and any other tensor.
//!
//! ```ignore
//! let _weights = memprof_candle::weights(&var_map);
//! let _gradients = memprof_candle::gradients(&var_map, &gradients);
//! let _moments = memprof_candle::adamw(&var_map, &optimizer);
//! let _hidden = memprof_candle::tensor("hidden", memprof::Kind::Activation, &hidden);
//! memprof_candle::pool(&device); // metrics of the CUDA driver's memory pool
//! let _movable = memprof_candle::courtesy(&var_map); // for `memprof::courtesy()`
//! let mlp = memprof_candle::layer("mlp.0", linear); // a `Module` like the linear layer
//! let _activations = memprof_candle::activations(&loss);
//! let (gradients, _rest) = memprof_candle::backward(&loss)?;
//! ```
//!
//! Naming copies and allocates nothing. Shape and byte range are those of the tensor's view; the
//! allocated bytes are those of its storage.

// Device ordinals fit into 32 bits.
#![allow(clippy::cast_possible_truncation)]

#[cfg(candle_nn)]
#[path = "../common/by_name.rs"]
mod by_name;
#[cfg(layers)]
mod graph;
#[cfg(layers)]
mod layer;
#[cfg(all(candle_nn, layers))]
mod moving;
#[cfg(candle_nn)]
mod optimizer;
#[path = "../common/pool_name.rs"]
mod pool_name;
#[cfg(layers)]
mod quantized;
#[path = "../common/text.rs"]
mod text;
#[cfg(layers)]
mod weak;

#[cfg(layers)]
pub use graph::{activations, backward};
#[cfg(layers)]
pub use layer::{Layer, LayerT, layer, layer_t};
#[cfg(layers)]
pub use memprof::forward;
#[cfg(all(candle_nn, layers))]
pub use moving::courtesy;
#[cfg(candle_nn)]
pub use optimizer::adamw;
#[cfg(layers)]
pub use quantized::{add_quantized, quantized};

#[cfg(candle_nn)]
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, DeviceLocation, Layout, Storage, Tensor};
#[cfg(candle_nn)]
use candle_nn::VarMap;
use memprof::{Device, Kind, Names};
use pool_name::pool_name;
use text::Text;

/// Names each variable of a map by its path, in the order of the paths. The names last until the
/// guard is dropped.
#[cfg(candle_nn)]
pub fn weights(variables: &VarMap) -> Names {
    let mut names = Names::new();
    let variables = variables.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    by_name::each(&variables, |name, variable| add(&mut names, name, Kind::Weight, variable.as_tensor()));
    names
}

/// Names the gradient of each variable that has one, by the variable's path.
#[cfg(candle_nn)]
pub fn gradients(variables: &VarMap, gradients: &GradStore) -> Names {
    let mut names = Names::new();
    let variables = variables.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    by_name::each(&variables, |name, variable| {
        if let Some(gradient) = gradients.get(variable.as_tensor()) {
            add(&mut names, name, Kind::Gradient, gradient);
        }
    });
    names
}

/// Names one tensor.
pub fn tensor(name: &str, kind: Kind, tensor: &Tensor) -> Names {
    let mut names = Names::new();
    add(&mut names, name, kind, tensor);
    names
}

/// Adds one more tensor to a group, for example a weight that is in no `VarMap`, or the state of an
/// optimizer.
pub fn add(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor) {
    let (storage, layout) = tensor.storage_and_layout();
    let allocated = allocated(&storage);
    let size = tensor.dtype().size_in_bytes() as u64;
    // Element types below one byte have size 0. Candle keeps these tensors as whole bytes, and
    // views do not split them.
    let bytes = if size == 0 { allocated.unwrap_or(0) } else { tensor.elem_count() as u64 * size };
    with_device(tensor, |device| {
        names.add(memprof::Tensor {
            name,
            kind,
            shape: tensor.dims(),
            dtype: tensor.dtype().as_str(),
            device,
            storage: std::ptr::addr_of!(*storage) as u64,
            bytes,
            allocated,
            range: range(layout, size),
        });
    });
}

/// From here on, the metrics `pool.candle.…` have the figures of the CUDA driver's default memory pool
/// on this device, where candle's tensors are. Returns false on other devices, which have no pool.
// A test may ignore the answer, and its crate may deny warnings.
#[allow(clippy::must_use_candidate)]
pub fn pool(device: &candle_core::Device) -> bool {
    let location = device.location();
    if let DeviceLocation::Cuda { gpu_id } = location {
        let name = pool_name("candle", Device::Cuda(gpu_id as u32));
        memprof::watch_driver_pool(name.as_str(), gpu_id as u32);
        return true;
    }
    let reason = match location {
        DeviceLocation::Cpu => "candle has no pool on the CPU; its tensors are in heap.live",
        _ => "candle tells nothing of a memory pool on this device",
    };
    memprof::no_pool("candle", reason);
    false
}

/// The bytes of the storage from the tensor's first element to the end of its last one.
fn range(layout: &Layout, size: u64) -> Option<(u64, u64)> {
    let start = layout.start_offset() as u64 * size;
    if layout.dims().contains(&0) {
        return Some((start, start));
    }
    let steps = layout.dims().iter().zip(layout.stride()).map(|(extent, stride)| (extent - 1) * stride);
    let last = steps.sum::<usize>() as u64;
    (size > 0).then_some((start, start + (last + 1) * size))
}

fn with_device(tensor: &Tensor, describe: impl FnOnce(Device<'_>)) {
    with_location(&tensor.device().location(), describe);
}

fn with_location(location: &DeviceLocation, describe: impl FnOnce(Device<'_>)) {
    match location {
        DeviceLocation::Cpu => describe(Device::Cpu),
        DeviceLocation::Cuda { gpu_id } => describe(Device::Cuda(*gpu_id as u32)),
        DeviceLocation::Metal { gpu_id } => {
            let name = Text::<16>::format(format_args!("metal:{gpu_id}"));
            describe(Device::Other(name.as_str()));
        }
    }
}

/// Bytes that the allocator holds for a storage, where candle shows them.
fn allocated(storage: &Storage) -> Option<u64> {
    match storage {
        Storage::Cpu(storage) => held(storage),
        #[cfg(cuda)]
        Storage::Cuda(storage) => on_cuda(&storage.slice),
        _ => None,
    }
}

fn held(storage: &CpuStorage) -> Option<u64> {
    fn of<T>(elements: &Vec<T>) -> u64 {
        (elements.capacity() * std::mem::size_of::<T>()) as u64
    }
    Some(match storage {
        CpuStorage::U8(elements) => of(elements),
        CpuStorage::U32(elements) => of(elements),
        CpuStorage::I64(elements) => of(elements),
        CpuStorage::BF16(elements) => of(elements),
        CpuStorage::F16(elements) => of(elements),
        CpuStorage::F32(elements) => of(elements),
        CpuStorage::F64(elements) => of(elements),
        #[cfg(small_types)]
        CpuStorage::I16(elements) => of(elements),
        #[cfg(small_types)]
        CpuStorage::I32(elements) => of(elements),
        #[cfg(small_types)]
        CpuStorage::F8E4M3(elements) => of(elements),
        #[cfg(small_types)]
        CpuStorage::F6E2M3(elements) | CpuStorage::F6E3M2(elements) => of(elements),
        #[cfg(small_types)]
        CpuStorage::F4(elements) | CpuStorage::F8E8M0(elements) => of(elements),
        // Which variants there are depends on the version of candle.
        #[allow(unreachable_patterns)]
        _ => return None,
    })
}

/// The bytes requested from the driver. How the driver rounds them is not known.
#[cfg(cuda)]
fn on_cuda(slice: &candle_core::cuda_backend::CudaStorageSlice) -> Option<u64> {
    use candle_core::cuda_backend::CudaStorageSlice as Slice;
    let (elements, size) = match slice {
        Slice::U8(slice) => (slice.len(), 1),
        Slice::U32(slice) => (slice.len(), 4),
        Slice::I64(slice) => (slice.len(), 8),
        Slice::BF16(slice) => (slice.len(), 2),
        Slice::F16(slice) => (slice.len(), 2),
        Slice::F32(slice) => (slice.len(), 4),
        Slice::F64(slice) => (slice.len(), 8),
        #[cfg(small_types)]
        Slice::I16(slice) => (slice.len(), 2),
        #[cfg(small_types)]
        Slice::I32(slice) => (slice.len(), 4),
        #[cfg(small_types)]
        Slice::F8E4M3(slice) => (slice.len(), 1),
        #[cfg(small_types)]
        Slice::F6E2M3(slice) | Slice::F6E3M2(slice) | Slice::F4(slice) | Slice::F8E8M0(slice) => {
            (slice.len(), 1)
        }
        // Which variants there are depends on the version of candle.
        #[allow(unreachable_patterns)]
        _ => return None,
    };
    Some((elements * size) as u64)
}
