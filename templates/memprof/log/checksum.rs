//! A checksum over the lines of a log, keyed with a secret of the run. The tool includes this file,
//! too, so that both compute the same.
//!
//! The key keeps other programs from adding lines that fit, if they know the log's path. It does
//! not keep the process itself from doing so, which can read the key from its own memory.

/// The lines so far.
#[derive(Clone, Copy)]
pub(crate) struct Checksum {
    state: u64,
    factor: u64,
}

impl Checksum {
    pub(crate) const fn new(key: (u64, u64)) -> Self {
        Self { state: key.0, factor: key.1 | 1 }
    }

    /// Adds a line with its newline. One multiplication for eight bytes is a small part of what
    /// writing the line costs.
    pub(crate) fn add(&mut self, line: &[u8]) {
        let mut words = line.chunks_exact(8);
        for word in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            self.mix(u64::from_le_bytes(bytes));
        }
        let mut rest = [0; 8];
        rest[..words.remainder().len()].copy_from_slice(words.remainder());
        self.mix(u64::from_le_bytes(rest));
        // The length tells a line from one with zero bytes at its end.
        self.mix(line.len() as u64);
    }

    // Both casts take one half of the product.
    #[allow(clippy::cast_possible_truncation)]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        let folded = product as u64 ^ (product >> 64) as u64;
        // A sum keeps the state from staying at zero.
        self.state = folded.rotate_left(23).wrapping_add(self.factor);
    }

    pub(crate) fn value(self) -> u64 {
        self.state
    }
}

/// Reads a key: 32 hexadecimal digits.
pub(crate) fn key(text: &str) -> Option<(u64, u64)> {
    if text.len() != 32 {
        return None;
    }
    Some((u64::from_str_radix(text.get(..16)?, 16).ok()?, u64::from_str_radix(text.get(16..)?, 16).ok()?))
}
