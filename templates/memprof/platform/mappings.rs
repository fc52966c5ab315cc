//! The mappings of this process, and other files of `/proc/self`, read without the global allocator.

// Addresses, and lengths that the system returned.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::os::raw::{c_char, c_int, c_void};

use crate::platform::untracked::Untracked;

extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(file: c_int, into: *mut c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

/// A line of `/proc/self/maps`.
pub(crate) struct Mapping<'m> {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// Such as `rw-p`.
    pub(crate) permissions: &'m [u8],
    /// The device and the inode; `00:00` and `0` without a file.
    pub(crate) file: [&'m [u8]; 2],
}

impl Mapping<'_> {
    pub(crate) fn has(&self, address: usize) -> bool {
        (self.begin..self.end).contains(&address)
    }
}

/// The mappings in the text of `/proc/self/maps`.
pub(crate) fn of(maps: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    maps.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let range = fields.next()?;
        let dash = range.iter().position(|&byte| byte == b'-')?;
        let begin = number(&range[..dash], 16)? as usize;
        let end = number(&range[dash + 1..], 16)? as usize;
        let permissions = fields.next()?;
        let file = [fields.nth(1)?, fields.next()?];
        Some(Mapping { begin, end, permissions, file })
    })
}

pub(crate) fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

/// The content of a file; empty if it cannot be read. The path ends with a zero byte.
pub(crate) fn whole(path: &[u8]) -> Untracked<u8> {
    const CLOSE_ON_EXEC: c_int = 0o2_000_000;
    let mut content = Untracked::new();
    // SAFETY: the path ends with a zero byte, and the buffer has the given size.
    unsafe {
        let file = open(path.as_ptr().cast(), CLOSE_ON_EXEC);
        if file >= 0 {
            let mut part = [0_u8; 4096];
            loop {
                match read(file, part.as_mut_ptr().cast(), part.len()) {
                    length if length > 0 => content.extend(&part[..length as usize]),
                    _ => break,
                }
            }
            close(file);
        }
    }
    content
}
