//! The files that the process has loaded: the executable and its shared libraries, with the
//! addresses of their code.
//!
//! The loader's list takes tens of nanoseconds if nothing was loaded since the last look. `dlopen`
//! with `RTLD_NOLOAD` is not used for that, because it searches the file system each time for a
//! library that is not loaded.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::untracked::Untracked;

extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// `struct dl_phdr_info` of `link.h`, as in glibc and musl, up to the last field that is read.
#[repr(C)]
struct Object {
    /// What the loader added to the file's addresses.
    bias: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
    /// How many objects the process has loaded since it began.
    loads: u64,
    unloads: u64,
    tls_module: usize,
    /// The calling thread's block of the object's thread-locals, if it has one.
    tls: *const c_void,
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

/// The size of the structure up to `loads`.
const LOADS_END: usize = 40;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_TLS: u32 = 7;
const PF_X: u32 = 1;
const PF_W: u32 = 2;

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

/// Where the executable begins and ends in memory.
pub(crate) fn executable_ends() -> (usize, usize) {
    unsafe extern "C" fn first(object: *const Object, _size: usize, ends: *mut c_void) -> c_int {
        let (object, ends) = (&*object, &mut *ends.cast::<(usize, usize)>());
        if !object.headers.is_null() {
            let headers = std::slice::from_raw_parts(object.headers, object.header_count.into());
            for header in headers.iter().filter(|header| header.kind == PT_LOAD) {
                let begin = object.bias.wrapping_add(header.virtual_address);
                ends.0 = ends.0.min(begin);
                ends.1 = ends.1.max(begin.wrapping_add(header.memory_size));
            }
        }
        1
    }
    let mut ends = (usize::MAX, 0);
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(first, std::ptr::addr_of_mut!(ends).cast()) };
    ends
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
            crate::platform::untracked::kept(format_args!("{}", name.unwrap_or("a path that is not UTF-8")))
        };
        modules.push(Module { path, bias: object.bias, begin, end });
        0
    }
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(each, (modules as *mut Untracked<Module>).cast()) };
}

/// Calls this with the addresses of each part of a loaded file that the program cannot write: code and constants.
pub(crate) fn each_constant_part(work: &mut dyn FnMut(usize, usize)) {
    unsafe extern "C" fn each(object: *const Object, _size: usize, work: *mut c_void) -> c_int {
        let (work, object) = (&mut *work.cast::<&mut dyn FnMut(usize, usize)>(), &*object);
        if !object.headers.is_null() {
            let headers = std::slice::from_raw_parts(object.headers, object.header_count.into());
            for header in headers.iter().filter(|header| header.kind == PT_LOAD && header.flags & PF_W == 0) {
                let begin = object.bias.wrapping_add(header.virtual_address);
                work(begin, begin.wrapping_add(header.memory_size));
            }
        }
        0
    }
    let mut work = work;
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(each, std::ptr::addr_of_mut!(work).cast()) };
}

/// Memory of a loaded file that the program may write: its statics, or the calling thread's
/// thread-locals.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// What the loader added to the file's addresses.
    pub(crate) bias: usize,
    pub(crate) are_thread_locals: bool,
}

/// The C library's lists of free memory point to the ends of blocks in use.
const OF_C: [&[u8]; 7] = [b"libc.", b"libc-", b"ld-", b"ld.", b"libpthread", b"libm.", b"libgcc_s"];

/// Adds the statics of all loaded files but those of the C library, and the executable's thread-locals of
/// the calling thread.
pub(crate) fn add_data(data: &mut Untracked<Data>) {
    struct Search<'a> {
        data: &'a mut Untracked<Data>,
        is_executable: bool,
    }
    unsafe extern "C" fn each(object: *const Object, size: usize, search: *mut c_void) -> c_int {
        let search = &mut *search.cast::<Search<'_>>();
        let object = &*object;
        let is_executable = std::mem::replace(&mut search.is_executable, false);
        if object.headers.is_null() {
            return 0;
        }
        if !is_executable && !object.name.is_null() {
            let path = CStr::from_ptr(object.name).to_bytes();
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            if OF_C.iter().any(|start| name.starts_with(start)) {
                return 0;
            }
        }
        let has_tls = size >= std::mem::size_of::<Object>() && !object.tls.is_null() && is_executable;
        for header in std::slice::from_raw_parts(object.headers, object.header_count.into()) {
            let begin = match header.kind {
                PT_LOAD if header.flags & PF_W != 0 => object.bias.wrapping_add(header.virtual_address),
                PT_TLS if has_tls => object.tls as usize,
                _ => continue,
            };
            search.data.push(Data {
                begin,
                end: begin.wrapping_add(header.memory_size),
                bias: object.bias,
                are_thread_locals: header.kind == PT_TLS,
            });
        }
        0
    }
    let mut search = Search { data, is_executable: true };
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(each, std::ptr::addr_of_mut!(search).cast()) };
}

/// How many objects were loaded at the last [`look`]; 0 before the first.
static LOADS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn loads() -> u64 {
    LOADS.load(Ordering::Relaxed)
}

/// Asks the loader how many objects were loaded so far.
pub(crate) fn look() {
    unsafe extern "C" fn first(object: *const Object, size: usize, loads: *mut c_void) -> c_int {
        if size >= LOADS_END {
            *loads.cast::<u64>() = (*object).loads;
        }
        1
    }
    let mut loads = u64::MAX;
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(first, std::ptr::addr_of_mut!(loads).cast()) };
    LOADS.store(loads, Ordering::Relaxed);
}

/// Longest path that is looked at (`PATH_MAX`).
const LONGEST: usize = 4096;

/// The loader's path of a loaded object.
pub(crate) struct LoadedPath {
    bytes: [u8; LONGEST],
}

impl LoadedPath {
    pub(crate) fn as_c_str(&self) -> &CStr {
        let end = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(LONGEST - 1);
        CStr::from_bytes_with_nul(&self.bytes[..=end]).unwrap_or_default()
    }
}

/// Returns the first loaded object whose file name passes.
pub(crate) fn find(passes: fn(file_name: &[u8]) -> bool) -> Option<LoadedPath> {
    struct Search {
        passes: fn(&[u8]) -> bool,
        found: Option<LoadedPath>,
    }
    unsafe extern "C" fn each(object: *const Object, _size: usize, search: *mut c_void) -> c_int {
        let search = &mut *search.cast::<Search>();
        if (*object).name.is_null() {
            return 0;
        }
        let path = CStr::from_ptr((*object).name).to_bytes_with_nul();
        let file_name = path[..path.len() - 1].rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if path.len() > LONGEST || !(search.passes)(file_name) {
            return 0;
        }
        let mut bytes = [0; LONGEST];
        bytes[..path.len()].copy_from_slice(path);
        search.found = Some(LoadedPath { bytes });
        1
    }
    let mut search = Search { passes, found: None };
    // SAFETY: the callback gets the pointer that is handed over here, and it lives that long.
    unsafe { dl_iterate_phdr(each, std::ptr::addr_of_mut!(search).cast()) };
    search.found
}
