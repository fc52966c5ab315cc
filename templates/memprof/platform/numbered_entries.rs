//! Folders of `/proc` whose entries have numbers: open descriptors, threads.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use crate::platform::untracked::Text;

/// Calls `take` with the name of each entry that is a number. The standard library would allocate for
/// this.
pub(crate) fn each(folder: &str, mut take: impl FnMut(&str)) {
    extern "C" {
        fn opendir(path: *const c_char) -> *mut c_void;
        fn readdir(folder: *mut c_void) -> *const Entry;
        fn closedir(folder: *mut c_void) -> c_int;
    }
    /// `struct dirent` of Linux with 64 bits.
    #[repr(C)]
    struct Entry {
        number: u64,
        offset: i64,
        length: u16,
        kind: u8,
        name: [c_char; 256],
    }
    let path = Text::format(format_args!("{folder}\0"));
    // SAFETY: the path is a C string. An entry is valid until the next one is read, and its name is
    // a C string.
    unsafe {
        let folder = opendir(path.as_str().as_ptr().cast());
        if folder.is_null() {
            return;
        }
        loop {
            let entry = readdir(folder);
            if entry.is_null() {
                break;
            }
            match CStr::from_ptr(std::ptr::addr_of!((*entry).name).cast()).to_str() {
                Ok(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => take(name),
                _ => {}
            }
        }
        closedir(folder);
    }
}
