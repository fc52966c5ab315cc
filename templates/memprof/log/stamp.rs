//! The build's key, which the tool writes into the executable after linking, so that a run can
//! prove its build.
//!
//! It has 24 bytes to search for, and 64 that are `-` until the tool writes the key's hexadecimal
//! digits over them. The same bytes must not be anywhere else in an executable. One that embeds this
//! source has its text, so they are put together from parts. The compiler must not know the
//! contents: they are read volatile, from a static that is kept even if it seems unused.

const MAGIC: [&[u8]; 2] = [b"cargo-memprof-", b"build-key:"];
const MAGIC_LENGTH: usize = 24;
const KEY_LENGTH: usize = 64;

#[used]
static STAMP: [u8; MAGIC_LENGTH + KEY_LENGTH] = unstamped();

const fn unstamped() -> [u8; MAGIC_LENGTH + KEY_LENGTH] {
    let mut stamp = [b'-'; MAGIC_LENGTH + KEY_LENGTH];
    let mut place = 0;
    while place < MAGIC_LENGTH {
        let begin = MAGIC[0].len();
        stamp[place] = if place < begin { MAGIC[0][place] } else { MAGIC[1][place - begin] };
        place += 1;
    }
    stamp
}

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
