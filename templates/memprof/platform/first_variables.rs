//! Variables of the environment for the first allocation, which decides what is recorded. Code in
//! `.preinit_array` may allocate before the C library has the variables. The kernel has them from the
//! beginning, in `/proc/self/environ`.

// What the system read is not negative.
#![allow(clippy::cast_sign_loss)]

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;

use crate::platform::own_memory;

extern "C" {
    static environ: *const *const c_char;
    fn getenv(name: *const c_char) -> *mut c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(file: c_int, into: *mut c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

/// The kernel allows an environment of at most 6 MiB.
const MOST: usize = 6 << 20;

/// Returns a variable that is set and not empty. `name` ends with a zero byte, and one follows the
/// value. Allocates nothing.
pub(crate) fn variable(name: &'static [u8]) -> Option<&'static [u8]> {
    // SAFETY: nothing changes the environment before `main`, and a value ends with a zero byte.
    let value = unsafe {
        if environ.is_null() {
            of_kernel(&name[..name.len() - 1])?
        } else {
            let value = getenv(name.as_ptr().cast());
            if value.is_null() {
                return None;
            }
            CStr::from_ptr(value).to_bytes()
        }
    };
    Some(value).filter(|value| !value.is_empty())
}

/// The value of a variable. It stays in memory of its own, and no other variable does: one of them is
/// the key of the log.
unsafe fn of_kernel(name: &[u8]) -> Option<&'static [u8]> {
    const READ_ONLY: c_int = 0;
    const CLOSE_ON_EXEC: c_int = 0o2_000_000;
    let file = open(b"/proc/self/environ\0".as_ptr().cast(), READ_ONLY | CLOSE_ON_EXEC);
    if file < 0 {
        return None;
    }
    let memory = own_memory::zeroed(MOST);
    let mut length = 0;
    if let Some(memory) = memory {
        // The last byte stays zero.
        while length < MOST - 1 {
            match read(file, memory.add(length).cast(), MOST - 1 - length) {
                more if more > 0 => length += more as usize,
                _ => break,
            }
        }
    }
    close(file);
    let memory = memory?;
    let all = std::slice::from_raw_parts(memory, length);
    let mut variables = all.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="));
    let value = value.map(|value| (value.as_ptr(), value.len()));
    let kept = value.map_or(0, |(_, length)| length);
    if let Some((value, _)) = value {
        ptr::copy(value, memory, kept);
    }
    ptr::write_bytes(memory.add(kept), 0, length - kept);
    value.map(|_| std::slice::from_raw_parts(memory, kept))
}
