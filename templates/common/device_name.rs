//! The device of a burn or cubecl tensor, read from its `Debug` text: these crates offer no other
//! access.

use std::fmt::Debug;

use memprof::Device;

use crate::text::Text;

/// The `Debug` text of a device.
pub(crate) struct DeviceName(Text<128>);

impl DeviceName {
    pub(crate) fn from_debug(device: &dyn Debug) -> Self {
        Self(Text::format(format_args!("{device:?}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The device whose allocator metric the memory belongs to. `backend` names the backend, for
    /// example by its type name; it may be empty.
    pub(crate) fn device(&self, backend: &str) -> Device<'_> {
        let name = self.as_str();
        let is_of = |lower: &str, camel: &str| backend.contains(lower) || name.contains(camel);
        if let Some(ordinal) = ordinal(name) {
            return Device::Cuda(ordinal);
        }
        // Both keep their elements in a `Vec`, or in memory allocated like one.
        if is_of("burn_ndarray", "NdArray") || is_of("burn_flex", "Flex") {
            return Device::Cpu;
        }
        if is_of("burn_candle", "Candle") && name.contains("Cpu") {
            return Device::Cpu;
        }
        if is_of("burn_tch", "LibTorch") && name.contains("Cpu") {
            return Device::CpuMalloc;
        }
        Device::Other(name)
    }
}

/// The CUDA ordinal in `CudaDevice { index: 0 }`, `Cuda(0)` or `Cuda(CudaDevice { device:
/// CudaDevice(DeviceId(1)), index: 0 })`. The `DeviceId` in the last one is candle's own number, so
/// `index` comes first.
fn ordinal(name: &str) -> Option<u32> {
    let (_, after) = name.split_once("Cuda")?;
    let after = after.split_once("index: ").map_or(after, |(_, index)| index);
    let digits = after.trim_start_matches(|character: char| !character.is_ascii_digit());
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}
