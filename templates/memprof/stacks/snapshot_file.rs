//! The file that a snapshot of the live blocks is written to: words of 64 bits, in pieces.

// Lengths and positions.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint, c_void};

use crate::platform::untracked::Untracked;

extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn write(file: c_int, from: *const c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

const WRITE_ONLY: c_int = 1;
const CREATE: c_int = 0o100;
const EXCLUSIVE: c_int = 0o200;
const CLOSE_ON_EXEC: c_int = 0o2_000_000;
const OWNER_ONLY: c_uint = 0o600;

/// Words that are written at once.
const PIECE: usize = 1 << 13;
/// Most words of a file: 4 GiB.
const MOST: u64 = 1 << 29;

pub(crate) struct SnapshotFile {
    file: c_int,
    piece: Untracked<u64>,
    words: u64,
    has_failed: bool,
}

impl SnapshotFile {
    /// Makes a new file. `None` if there is one, or if it cannot be made.
    pub(crate) fn create(path: &CStr) -> Option<Self> {
        let flags = WRITE_ONLY | CREATE | EXCLUSIVE | CLOSE_ON_EXEC;
        // SAFETY: the path ends with a zero byte.
        let file = unsafe { open(path.as_ptr(), flags, OWNER_ONLY) };
        if file < 0 {
            return None;
        }
        let mut piece = Untracked::new();
        piece.reserve(PIECE);
        Some(Self { file, piece, words: 0, has_failed: false })
    }

    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        self.piece.push(word);
        if self.piece.len() >= PIECE {
            self.flush();
        }
    }

    pub(crate) fn push_all(&mut self, words: &[u64]) {
        for word in words {
            self.push(*word);
        }
    }

    /// Whether the file is as large as it may be.
    pub(crate) fn is_full(&self) -> bool {
        self.words >= MOST
    }

    #[cold]
    fn flush(&mut self) {
        self.words += self.piece.len() as u64;
        let (mut from, mut left) = (self.piece.as_ptr().cast::<u8>(), self.piece.len() * 8);
        while left > 0 && !self.has_failed {
            // SAFETY: so many bytes of the piece are left.
            match unsafe { write(self.file, from.cast(), left) } {
                // SAFETY: at most `left` bytes were written.
                written if written > 0 => unsafe {
                    from = from.add(written as usize);
                    left -= written as usize;
                },
                _ => self.has_failed = true,
            }
        }
        self.piece.clear();
    }

    /// Writes what is left. A file that could not be written has no end, and its reader says so.
    pub(crate) fn finish(mut self) {
        self.flush();
        // SAFETY: the descriptor is open, and nobody else has it.
        unsafe { close(self.file) };
    }
}
