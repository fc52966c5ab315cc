//! Quantized tensors.

use candle_core::quantized::QTensor;
use memprof::{Kind, Names};

use crate::text::Text;
use crate::with_location;

/// Names one quantized tensor, with the bytes of its blocks. Two names of one `QTensor`, for example
/// through an `Arc`, count once.
pub fn quantized(name: &str, kind: Kind, tensor: &QTensor) -> Names {
    let mut names = Names::new();
    add_quantized(&mut names, name, kind, tensor);
    names
}

/// Adds one more quantized tensor to a group.
pub fn add_quantized(names: &mut Names, name: &str, kind: Kind, tensor: &QTensor) {
    let dtype = Text::<16>::format(format_args!("{:?}", tensor.dtype()));
    with_location(&tensor.device().location(), |device| {
        names.add(memprof::Tensor {
            name,
            kind,
            shape: tensor.shape().dims(),
            dtype: dtype.as_str(),
            device,
            storage: std::ptr::addr_of!(*tensor) as u64,
            bytes: tensor.storage_size_in_bytes() as u64,
            allocated: None,
            range: None,
        });
    });
}
