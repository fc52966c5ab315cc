//! Text of limited length, without the heap. Adapters build names in it.

use std::fmt;

/// At most `N` bytes of text. The rest is cut off, between two characters.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

// Each adapter uses some of these.
#[allow(dead_code)]
impl<const N: usize> Text<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self::new();
        // An error means that the text was cut off.
        let _ = fmt::Write::write_fmt(&mut text, arguments);
        text
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// Bytes of text so far.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Drops what comes after this many bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl<const N: usize> fmt::Write for Text<N> {
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
