//! The name of a framework's memory pool in metrics.

use memprof::Device;

use crate::text::Text;

/// `cubecl`, and `cubecl.1` on the second CUDA device that the process sees.
pub(crate) fn pool_name(framework: &str, device: Device<'_>) -> Text<32> {
    match device {
        Device::Cuda(ordinal) if ordinal > 0 => Text::format(format_args!("{framework}.{ordinal}")),
        _ => Text::format(format_args!("{framework}")),
    }
}
