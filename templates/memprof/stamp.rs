//! The key of the build, patched into the executable after it was linked, so that a run can prove which build it is.
//!
//! 24 bytes that can be searched for, and 64 that are `-` until the tool writes the key's hexadecimal digits over
//! them. The same 24 bytes must stand nowhere else, this comment included, and the compiler must not know the
//! contents: they are read volatile, from a static that is kept even where nothing seems to use it.

const MAGIC_LENGTH: usize = 24;
const KEY_LENGTH: usize = 64;

#[used]
static STAMP: [u8; MAGIC_LENGTH + KEY_LENGTH] =
    *b"cargo-memprof-build-key:----------------------------------------------------------------";

/// The key's digits.
pub(crate) struct Key([u8; KEY_LENGTH]);

impl Key {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("?")
    }
}

/// The key, if the executable was stamped.
pub(crate) fn key() -> Option<Key> {
    // SAFETY: a reference to a static is valid and aligned for reads of its type.
    let stamp = unsafe { std::ptr::read_volatile(&STAMP) };
    let mut key = [0; KEY_LENGTH];
    key.copy_from_slice(&stamp[MAGIC_LENGTH..]);
    if key.iter().all(|&digit| digit == b'-') { None } else { Some(Key(key)) }
}
