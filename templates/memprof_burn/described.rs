//! What the visitors of all versions share: the path of a parameter and the name of a device, without the heap.

use std::fmt::{self, Write};

use memprof::Device;

/// Names of modules from the outermost to the current one, joined by dots.
pub(crate) struct Path {
    text: [u8; 512],
    /// Where each name ends.
    ends: [u16; 64],
    depth: usize,
}

impl Path {
    pub(crate) fn new() -> Self {
        Self { text: [0; 512], ends: [0; 64], depth: 0 }
    }

    pub(crate) fn enter(&mut self, name: &str) {
        let start = self.end();
        let mut text = Text { bytes: &mut self.text, length: start };
        // A name that does not fit is cut off, and depth beyond the last place is only counted.
        let _ = write!(text, "{}{}", if start == 0 { "" } else { "." }, name);
        let end = text.length;
        if let Some(place) = self.ends.get_mut(self.depth) {
            *place = end as u16;
        }
        self.depth += 1;
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.end()]).unwrap_or_default()
    }

    fn end(&self) -> usize {
        let last = self.depth.min(self.ends.len());
        last.checked_sub(1).map_or(0, |last| usize::from(self.ends[last]))
    }
}

/// The text of a device, which burn gives no other access to.
pub(crate) struct DeviceName {
    bytes: [u8; 128],
    length: usize,
}

impl DeviceName {
    pub(crate) fn of(device: &dyn fmt::Debug) -> Self {
        let mut bytes = [0; 128];
        let mut text = Text { bytes: &mut bytes, length: 0 };
        let _ = write!(text, "{device:?}");
        let length = text.length;
        Self { bytes, length }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// `backend` is text by which the backend is known, such as the name of its type.
    pub(crate) fn device(&self, backend: &str) -> Device<'_> {
        let name = self.as_str();
        let is_of = |lower: &str, camel: &str| backend.contains(lower) || name.contains(camel);
        if let Some(ordinal) = ordinal(name) {
            return Device::Cuda(ordinal);
        }
        // Both keep their elements in a `Vec` or in what is allocated like one.
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

/// The number in `CudaDevice { index: 0 }`, `Cuda(0)`, `Cuda(CudaDevice { device: CudaDevice(DeviceId(1)), index: 0 })`: candle's
/// own number of a device, in the last of them, is another one.
fn ordinal(name: &str) -> Option<u32> {
    let (_, after) = name.split_once("Cuda")?;
    let after = after.split_once("index: ").map_or(after, |(_, index)| index);
    let digits = after.trim_start_matches(|character: char| !character.is_ascii_digit());
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Text in a place of fixed length, cut off between characters.
struct Text<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            let place = self.bytes.get_mut(self.length..self.length + encoded.len()).ok_or(fmt::Error)?;
            place.copy_from_slice(encoded);
            self.length += encoded.len();
        }
        Ok(())
    }
}
