//! One JSON object, written field by field into a buffer that is reused for each line.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::platform::untracked::Untracked;

/// Digits of the largest figure.
const DIGITS: usize = 20;

pub(crate) struct Json<'a> {
    buffer: &'a mut Untracked<u8>,
    /// Whether the current object has a field already.
    started: bool,
}

impl<'a> Json<'a> {
    /// Begins the line's object and clears the buffer.
    pub(crate) fn begin(buffer: &'a mut Untracked<u8>) -> Self {
        buffer.clear();
        buffer.push(b'{');
        Self { buffer, started: false }
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quote(value);
    }

    pub(crate) fn text_or_null(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.number(name, format_args!("null")),
        }
    }

    /// Writes a number in decimal form.
    pub(crate) fn number(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        // The buffer grows, or the process ends; it never returns an error.
        let _ = self.buffer.write_fmt(value);
    }

    pub(crate) fn figure(&mut self, name: &str, value: u64) {
        self.name(name);
        write_figure(self.buffer, value);
    }

    /// Writes the clock on the wall, in nanoseconds since 1970. The log's own clock does not jump.
    pub(crate) fn clock(&mut self) {
        if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
            self.figure("clock", u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Writes an array of numbers. `None` becomes -1.
    pub(crate) fn numbers(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        self.name(name);
        let mut before = b'[';
        for value in values {
            self.buffer.push(before);
            before = b',';
            match value {
                Some(value) => write_figure(self.buffer, value),
                None => self.buffer.extend(b"-1"),
            }
        }
        self.buffer.extend(if before == b'[' { b"[]".as_ref() } else { b"]" });
    }

    /// Writes 16 hexadecimal digits as text. A number of 64 bits is more than some readers of JSON
    /// can take.
    pub(crate) fn hexadecimal(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.buffer, "\"{value:016x}\"");
    }

    /// Writes an object as a field, with the fields that the closure writes.
    pub(crate) fn object(&mut self, name: &str, fields: impl FnOnce(&mut Json<'_>)) {
        self.name(name);
        self.buffer.push(b'{');
        fields(&mut Json { buffer: self.buffer, started: false });
        self.buffer.push(b'}');
    }

    /// Ends the object and the line.
    pub(crate) fn end(self) {
        self.buffer.extend(b"}\n");
    }

    fn name(&mut self, name: &str) {
        if self.started {
            self.buffer.push(b',');
        }
        self.started = true;
        // All names are the shim's own and need no escapes.
        self.buffer.push(b'"');
        self.buffer.extend(name.as_bytes());
        self.buffer.extend(b"\":");
    }

    /// RFC 8259: quotation mark, reverse solidus and U+0000 to U+001F must be escaped. All other
    /// characters may be plain UTF-8.
    fn quote(&mut self, text: &str) {
        self.buffer.push(b'"');
        let bytes = text.as_bytes();
        // Most texts need no escapes. Without an early end, the check takes many bytes at a time.
        if !bytes.iter().fold(false, |found, &byte| found | must_be_escaped(byte)) {
            self.buffer.extend(bytes);
            self.buffer.push(b'"');
            return;
        }
        let mut plain_from = 0;
        for (index, &byte) in bytes.iter().enumerate() {
            if !must_be_escaped(byte) {
                continue;
            }
            self.buffer.extend(&bytes[plain_from..index]);
            plain_from = index + 1;
            match byte {
                b'"' => self.buffer.extend(b"\\\""),
                b'\\' => self.buffer.extend(b"\\\\"),
                b'\n' => self.buffer.extend(b"\\n"),
                b'\r' => self.buffer.extend(b"\\r"),
                b'\t' => self.buffer.extend(b"\\t"),
                _ => {
                    let _ = write!(self.buffer, "\\u{byte:04x}");
                }
            }
        }
        self.buffer.extend(&bytes[plain_from..]);
        self.buffer.push(b'"');
    }
}

/// Writes a figure. Formatting figures with `write!` would take most of a checkpoint's time.
// The cast values are less than 100.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
/// Figures are below 2^63. A larger one is negative: a level below that at the body's beginning.
fn write_figure(buffer: &mut Untracked<u8>, value: u64) {
    let value = value as i64;
    if value < 0 {
        buffer.push(b'-');
    }
    let mut digits = [0; DIGITS];
    let mut first = DIGITS;
    let mut left = value.unsigned_abs();
    while left >= 10 {
        let pair = (left % 100) as u8;
        left /= 100;
        first -= 2;
        digits[first] = b'0' + pair / 10;
        digits[first + 1] = b'0' + pair % 10;
    }
    if left > 0 || first == DIGITS {
        first -= 1;
        digits[first] = b'0' + left as u8;
    }
    buffer.extend(&digits[first..]);
}

fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}
