//! Names the tensors of tch: the variables of a `VarStore`, their gradients, and any other tensor.
//!
//! ```ignore
//! let _weights = memprof_tch::weights(&var_store);
//! let _gradients = memprof_tch::gradients(&var_store);
//! let mlp = memprof_tch::layer("mlp.0", linear); // a `Module` like the linear layer
//! ```
//!
//! Nothing is copied. Tensors share a storage if it begins at the same address.

// libtorch has extents and offsets as `i64`; they are never negative. Device ordinals fit into 32
// bits.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

#[path = "../common/by_name.rs"]
mod by_name;
mod layer;
#[path = "../common/text.rs"]
mod text;

pub use layer::{Layer, LayerT, backward, layer, layer_t};
pub use memprof::forward;

use memprof::{Device, Kind, Names};
use tch::nn::VarStore;
use tch::{Device as Place, Kind as Type, Tensor};
use text::Text;

/// Names each variable of a store by its path, in the order of the paths. The names last until the
/// guard is dropped.
pub fn weights(variables: &VarStore) -> Names {
    let mut names = Names::new();
    let variables = variables.variables_.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    by_name::each(&variables.named_variables, |name, variable| add(&mut names, name, Kind::Weight, variable));
    names
}

/// Names the gradient of each variable that has one, by the variable's path.
pub fn gradients(variables: &VarStore) -> Names {
    let mut names = Names::new();
    let variables = variables.variables_.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    by_name::each(&variables.named_variables, |name, variable| {
        let gradient = variable.grad();
        if gradient.defined() {
            add(&mut names, name, Kind::Gradient, &gradient);
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

/// Adds one more tensor to a group, for example the state of an optimizer. A sparse tensor is two:
/// `NAME (indices)` and `NAME (values)`. Quantized tensors are not named, because their size is not
/// known.
pub fn add(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor) {
    if !tensor.defined() {
        return;
    }
    // A sparse tensor has no storage of its own, but two parts that have.
    if tensor.is_sparse() {
        for (part, of_part) in [("indices", tensor.internal_indices()), ("values", tensor.internal_values())]
        {
            add(names, Text::<512>::format(format_args!("{name} ({part})")).as_str(), kind, &of_part);
        }
        return;
    }
    // A quantized one stores scales beside it.
    let Some((dtype, size)) = element(tensor.kind()) else { return };
    let extents = tensor.size();
    let mut shape = [0; 16];
    let rank = extents.len().min(shape.len());
    for (place, extent) in shape.iter_mut().zip(&extents) {
        *place = *extent as usize;
    }
    // Versions of tch differ in the devices that they know.
    #[allow(clippy::match_wildcard_for_single_variants)]
    let device = match tensor.device() {
        Place::Cpu => Device::CpuMalloc,
        Place::Cuda(ordinal) => Device::Cuda(ordinal as u32),
        Place::Mps => Device::Other("mps"),
        _ => Device::Other("vulkan"),
    };
    let (storage, range) = place(tensor, &extents, size);
    names.add(memprof::Tensor {
        name,
        kind,
        shape: &shape[..rank],
        dtype,
        device,
        storage,
        bytes: tensor.numel() as u64 * size,
        allocated: None,
        range,
    });
}

/// Logs why the metrics `pool.torch.…` are missing. Always returns false: tch has no call for the
/// figures of libtorch's caching allocator.
// A test may ignore the answer, and its crate may deny warnings.
#[allow(clippy::must_use_candidate)]
pub fn pool(device: Place) -> bool {
    // Versions of tch differ in the devices that they know.
    let reason = match device {
        Place::Cpu => "libtorch has no caching allocator on the CPU; its tensors are in malloc.live",
        Place::Cuda(_) => {
            "tch does not expose libtorch's caching allocator; gpu.N.live has what it reserved, and \
             docs/adapters.md has a way to its own figures"
        }
        _ => "tch tells nothing of a memory pool on this device",
    };
    memprof::no_pool("torch", reason);
    false
}

/// The address of the storage's first element, and the bytes of the storage from the tensor's first
/// element to the end of its last one.
#[cfg(offsets)]
fn place(tensor: &Tensor, extents: &[i64], size: u64) -> (u64, Option<(u64, u64)>) {
    let start = tensor.storage_offset() as u64 * size;
    let storage = (tensor.data_ptr() as u64).saturating_sub(start);
    if extents.contains(&0) {
        return (storage, Some((start, start)));
    }
    let last: i64 = extents.iter().zip(tensor.stride()).map(|(extent, stride)| (extent - 1) * stride).sum();
    (storage, Some((start, start + (last as u64 + 1) * size)))
}

/// Older versions do not tell where a storage begins. So only tensors with the same first element
/// are known to share one.
#[cfg(not(offsets))]
fn place(tensor: &Tensor, _extents: &[i64], _size: u64) -> (u64, Option<(u64, u64)>) {
    (tensor.data_ptr() as u64, None)
}

/// The name of an element type and its size in bytes. `None` for quantized types.
fn element(kind: Type) -> Option<(&'static str, u64)> {
    Some(match kind {
        Type::Uint8 => ("u8", 1),
        Type::Int8 => ("i8", 1),
        Type::Int16 => ("i16", 2),
        Type::Int => ("i32", 4),
        Type::Int64 => ("i64", 8),
        Type::Half => ("f16", 2),
        Type::Float => ("f32", 4),
        Type::Double => ("f64", 8),
        Type::ComplexHalf => ("c16", 4),
        Type::ComplexFloat => ("c32", 8),
        Type::ComplexDouble => ("c64", 16),
        Type::Bool => ("bool", 1),
        Type::BFloat16 => ("bf16", 2),
        _ => return None,
    })
}
