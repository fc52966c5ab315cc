//! The files that the process has loaded: the executable and its shared libraries, with the
//! addresses of their code.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use crate::untracked::Untracked;

extern "C" {
    pub(crate) fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// `struct dl_phdr_info` of `link.h`, as in glibc and musl, up to the last field that is read.
#[repr(C)]
pub(crate) struct Object {
    /// What the loader added to the file's addresses.
    pub(crate) bias: usize,
    pub(crate) name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
    /// How many objects the process has loaded since it began.
    pub(crate) loads: u64,
}

/// `Elf64_Phdr` of `elf.h`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    virtual_address: usize,
    physical_address: usize,
    file_size: usize,
    memory_size: usize,
    align: usize,
}

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PF_X: u32 = 1;

/// A loaded file. The executable comes first, with an empty path.
#[derive(Clone, Copy)]
pub(crate) struct Module {
    pub(crate) path: &'static str,
    /// What the loader added to the file's addresses.
    pub(crate) bias: usize,
    /// The addresses of its code in this process.
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// What the loader added to the executable's addresses.
pub(crate) fn executable_bias() -> usize {
    unsafe extern "C" fn first(object: *const Object, _size: usize, bias: *mut c_void) -> c_int {
        *bias.cast::<usize>() = (*object).bias;
        1
    }
    let mut bias = 0;
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(first, std::ptr::addr_of_mut!(bias).cast()) };
    bias
}

/// Whether the executable names no dynamic loader.
pub(crate) fn is_executable_static() -> bool {
    unsafe extern "C" fn first(object: *const Object, _size: usize, is_static: *mut c_void) -> c_int {
        let object = &*object;
        if !object.headers.is_null() {
            let headers = std::slice::from_raw_parts(object.headers, object.header_count.into());
            *is_static.cast::<bool>() = headers.iter().all(|header| header.kind != PT_INTERP);
        }
        1
    }
    let mut is_static = false;
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(first, std::ptr::addr_of_mut!(is_static).cast()) };
    is_static
}

/// Adds the files that are loaded now and not in the list.
pub(crate) fn add_new(modules: &mut Untracked<Module>) {
    unsafe extern "C" fn each(object: *const Object, _size: usize, modules: *mut c_void) -> c_int {
        let modules = &mut *modules.cast::<Untracked<Module>>();
        let object = &*object;
        if object.headers.is_null() {
            return 0;
        }
        let headers = std::slice::from_raw_parts(object.headers, object.header_count.into());
        let is_code = |header: &&ProgramHeader| header.kind == PT_LOAD && header.flags & PF_X != 0;
        let (mut begin, mut end) = (usize::MAX, 0);
        for header in headers.iter().filter(is_code) {
            let from = object.bias.wrapping_add(header.virtual_address);
            begin = begin.min(from);
            end = end.max(from.wrapping_add(header.memory_size));
        }
        if begin >= end || modules.iter().any(|known| known.begin == begin && known.bias == object.bias) {
            return 0;
        }
        let path = if modules.is_empty() || object.name.is_null() {
            ""
        } else {
            let name = std::str::from_utf8(CStr::from_ptr(object.name).to_bytes());
            crate::untracked::kept(format_args!("{}", name.unwrap_or("a path that is not UTF-8")))
        };
        modules.push(Module { path, bias: object.bias, begin, end });
        0
    }
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(each, (modules as *mut Untracked<Module>).cast()) };
}
