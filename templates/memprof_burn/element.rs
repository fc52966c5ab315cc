//! The element type of a tensor that carries its `DType`.

use burn::tensor::DType;

/// The name and the size in bytes. `None` for quantized tensors: burn does not tell how many bytes
/// they take, because it packs values smaller than a byte and stores scales beside them.
pub(crate) fn element_of(dtype: DType) -> Option<(&'static str, usize)> {
    let is_quantized = matches!(dtype, DType::QFloat(_));
    (!is_quantized).then(|| (dtype.name(), dtype.size()))
}
