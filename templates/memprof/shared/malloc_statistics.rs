//! The statistics of glibc's allocator: `cpu.kept`, and `malloc.live` without the library in front of
//! it.

use std::os::raw::{c_char, c_int, c_void};

/// These statistics count the blocks in a thread's cache as in use, and rounded sizes.
pub(crate) const SOURCE: &str = "mallinfo2 (uordblks + hblkhd; thread caches included)";

/// `struct mallinfo2` of `malloc.h`.
#[repr(C)]
pub(crate) struct MallInfo2 {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

#[repr(C)]
struct DlInfo {
    file_name: *const c_char,
    file_base: *mut c_void,
    symbol_name: *const c_char,
    symbol_address: *mut c_void,
}

extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

pub(crate) const KEPT_SOURCE: &str = "mallinfo2 (fordblks)";

pub(crate) type Statistics = unsafe extern "C" fn() -> MallInfo2;

/// Looked up at run time, because glibc has it only since 2.33.
pub(crate) fn find() -> Result<Statistics, &'static str> {
    let malloc = symbol(b"malloc\0");
    if malloc.is_null() {
        return Err("mallinfo2 cannot be looked up in a static executable");
    }
    let statistics = symbol(b"mallinfo2\0");
    if statistics.is_null() {
        return Err("this C library has no mallinfo2 (glibc has it since 2.33)");
    }
    // An allocator that replaces malloc leaves the C library's statistics at zero, which is not
    // a figure.
    if home(malloc) != home(statistics) {
        return Err("another allocator replaces malloc, and the C library's statistics do not count it");
    }
    // SAFETY: this is the type of the function of this name in glibc.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Statistics>(statistics) })
}

/// Returns free memory to the system. Its argument is how much of it to keep at the end of the heap.
pub(crate) type Trim = unsafe extern "C" fn(usize) -> c_int;

pub(crate) fn find_trim() -> Result<Trim, &'static str> {
    let malloc = symbol(b"malloc\0");
    if malloc.is_null() {
        return Err("malloc_trim cannot be looked up in a static executable");
    }
    let trim = symbol(b"malloc_trim\0");
    if trim.is_null() || home(malloc) != home(trim) {
        return Err("another allocator replaces malloc, and malloc_trim does not reach it");
    }
    // SAFETY: this is the type of the function of this name in glibc.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Trim>(trim) })
}

pub(crate) fn trim(trim: Trim) {
    // SAFETY: glibc's malloc_trim locks one arena after the other, and allocates nothing.
    unsafe { trim(0) };
}

fn symbol(name: &'static [u8]) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; a null handle is RTLD_DEFAULT.
    unsafe { dlsym(std::ptr::null_mut(), name.as_ptr().cast()) }
}

/// The base address of the loaded file that has this address.
fn home(address: *const c_void) -> *mut c_void {
    let null: *mut c_void = std::ptr::null_mut();
    let mut info =
        DlInfo { file_name: null.cast(), file_base: null, symbol_name: null.cast(), symbol_address: null };
    // SAFETY: any address is allowed, and `info` is writable.
    unsafe { dladdr(address, &mut info) };
    info.file_base
}

pub(crate) fn in_use(statistics: Statistics) -> u64 {
    let info = read(statistics);
    (info.uordblks + info.hblkhd) as u64
}

/// Free memory that the allocator has not returned to the system.
pub(crate) fn kept(statistics: Statistics) -> u64 {
    read(statistics).fordblks as u64
}

fn read(statistics: Statistics) -> MallInfo2 {
    // SAFETY: glibc's mallinfo2 takes nothing, locks one arena after the other, and allocates
    // nothing.
    unsafe { statistics() }
}
