//! Quantized tensors.

use candle_core::DeviceLocation;
use candle_core::quantized::QTensor;
use memprof::{Kind, Names};

use crate::text::Text;
use crate::with_location;

/// Names one quantized tensor, with the bytes of its blocks. On the CPU, two names of one `QTensor`,
/// for example through an `Arc`, count once. On a GPU, candle does not tell where the blocks are, so
/// each name counts.
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
            storage: storage(tensor),
            bytes: tensor.storage_size_in_bytes() as u64,
            allocated: None,
            range: None,
        });
    });
}

/// The address of the blocks, which stays if the `QTensor` moves. 0 on a GPU, from which `data` would
/// copy them.
fn storage(tensor: &QTensor) -> u64 {
    match tensor.device().location() {
        DeviceLocation::Cpu => tensor.data().map_or(0, |blocks| blocks.as_ptr() as u64),
        _ => 0,
    }
}
