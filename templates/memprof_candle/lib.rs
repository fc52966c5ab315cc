//! Names the tensors of candle: the weights of a `VarMap`, their gradients, and any other tensor.
//!
//! ```ignore
//! let _weights = memprof_candle::weights(&var_map);
//! let _gradients = memprof_candle::gradients(&var_map, &gradients);
//! let _moments = memprof_candle::adamw(&var_map, &optimizer);
//! let _hidden = memprof_candle::tensor("hidden", memprof::Kind::Activation, &hidden);
//! ```
//!
//! Nothing is copied, and nothing is allocated. A tensor is described by its view, and its storage by what candle holds for it.

#[cfg(candle_nn)]
mod by_name;
#[cfg(candle_nn)]
mod optimizer;

#[cfg(candle_nn)]
pub use optimizer::adamw;

#[cfg(candle_nn)]
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, DeviceLocation, Layout, Storage, Tensor};
#[cfg(candle_nn)]
use candle_nn::VarMap;
use memprof::{Device, Kind, Names};

/// Names each variable of a map, by its path and in the order of these.
#[cfg(candle_nn)]
pub fn weights(variables: &VarMap) -> Names {
    let mut names = Names::new();
    let variables = variables.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    by_name::each(&variables, |name, variable| add(&mut names, name, Kind::Weight, variable.as_tensor()));
    names
}

/// Names the gradient of each variable of a map that has one, by the variable's path.
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

/// Names one more tensor in a group, such as a weight that is in no `VarMap` or what an optimizer keeps.
pub fn add(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor) {
    let (storage, layout) = tensor.storage_and_layout();
    let allocated = allocated(&storage);
    let size = tensor.dtype().size_in_bytes() as u64;
    // Types of less than a byte have size 0; candle keeps them as bytes, which no view divides.
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

/// The bytes of the storage between its first element and its last.
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
    match tensor.device().location() {
        DeviceLocation::Cpu => describe(Device::Cpu),
        DeviceLocation::Cuda { gpu_id } => describe(Device::Cuda(gpu_id as u32)),
        DeviceLocation::Metal { gpu_id } => describe(Device::Other(text(&metal_name(gpu_id)))),
    }
}

/// Bytes held for a storage, where candle lets them be read.
fn allocated(storage: &Storage) -> Option<u64> {
    match storage {
        Storage::Cpu(storage) => held(storage),
        #[cfg(cuda)]
        Storage::Cuda(storage) => on_cuda(&storage.slice),
        _ => None,
    }
}

fn held(storage: &CpuStorage) -> Option<u64> {
    fn of<T>(elements: &Vec<T>) -> Option<u64> {
        Some((elements.capacity() * std::mem::size_of::<T>()) as u64)
    }
    match storage {
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
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// What was asked of the driver; how it rounds that, it does not say.
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
        #[allow(unreachable_patterns)]
        _ => return None,
    };
    Some((elements * size) as u64)
}

/// `metal:0`, without the heap.
fn metal_name(ordinal: usize) -> [u8; 16] {
    use std::io::Write;
    let mut name = [0; 16];
    // A number that does not fit is cut off.
    let _ = write!(&mut name[..], "metal:{ordinal}");
    name
}

fn text(name: &[u8]) -> &str {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).unwrap_or_default()
}
