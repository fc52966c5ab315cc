//! Names the tensors of burn 0.19 to 0.21, where a tensor's type has its backend. See `lib.rs`.

#[macro_use]
mod adapter;
mod described;
#[path = "../common/device_name.rs"]
mod device_name;
mod element;
#[cfg(moments)]
mod optimizer;
mod path;
#[path = "../common/text.rs"]
mod text;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Int, Tensor};
use described::Described;
use element::element_of;
use memprof::{Kind, Names};
pub use memprof::{forward, layer};
#[cfg(moments)]
pub use optimizer::{Moments, optimizer};
use path::Path;

functions! { backend: B, gradients: B::Gradients }
visitors_by_path! { backend: B, gradients: B::Gradients, device: B::Device, value: val }
