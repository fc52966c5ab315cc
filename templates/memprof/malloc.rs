//! `malloc.live`, on request: bytes in use in the C library's allocator, from its own statistics. C
//! and C++ libraries allocate there and not through the Rust allocator.

use crate::environment::Environment;
use crate::metric::{Catalogue, Index, Kind, Values};
use crate::sources::{Extent, Source};

const NAME: &str = "malloc.live";

pub(crate) struct Malloc {
    found: Option<(Index, platform::Statistics)>,
}

impl Malloc {
    pub(crate) const fn new() -> Self {
        Self { found: None }
    }
}

impl Source for Malloc {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        if !environment.wants(NAME) {
            return;
        }
        match platform::find() {
            Ok(statistics) => {
                self.found = Some((catalogue.add(NAME, platform::SOURCE, Kind::Level), statistics));
            }
            Err(reason) => catalogue.add_absent(NAME, reason),
        }
    }

    fn read(&mut self, values: &mut Values, extent: Extent) {
        if let (Extent::Whole, Some((index, statistics))) = (extent, self.found) {
            values.set(index, Some(platform::in_use(statistics)));
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod platform {
    use std::os::raw::{c_char, c_int, c_void};

    /// These statistics count the blocks in a thread's cache as in use, and rounded sizes.
    pub(super) const SOURCE: &str = "mallinfo2 (uordblks + hblkhd; thread caches included)";

    /// `struct mallinfo2` of `malloc.h`.
    #[repr(C)]
    pub(super) struct MallInfo2 {
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

    pub(super) type Statistics = unsafe extern "C" fn() -> MallInfo2;

    /// Looked up at run time, because glibc has it only since 2.33.
    pub(super) fn find() -> Result<Statistics, &'static str> {
        let statistics = symbol(b"mallinfo2\0");
        if statistics.is_null() {
            return Err("this C library has no mallinfo2 (glibc has it since 2.33)");
        }
        // An allocator that replaces malloc leaves the C library's statistics at zero, which is not
        // a figure.
        if home(symbol(b"malloc\0")) != home(statistics) {
            return Err("another allocator replaces malloc, and the C library's statistics do not count it");
        }
        // SAFETY: this is the type of the function of this name in glibc.
        Ok(unsafe { std::mem::transmute::<*mut c_void, Statistics>(statistics) })
    }

    fn symbol(name: &'static [u8]) -> *mut c_void {
        // SAFETY: the name ends with a zero byte; a null handle is RTLD_DEFAULT.
        unsafe { dlsym(std::ptr::null_mut(), name.as_ptr().cast()) }
    }

    /// The base address of the loaded file that has this address.
    fn home(address: *const c_void) -> *mut c_void {
        let null: *mut c_void = std::ptr::null_mut();
        let mut info = DlInfo {
            file_name: null.cast(),
            file_base: null,
            symbol_name: null.cast(),
            symbol_address: null,
        };
        // SAFETY: any address is allowed, and `info` is writable.
        unsafe { dladdr(address, &mut info) };
        info.file_base
    }

    pub(super) fn in_use(statistics: Statistics) -> u64 {
        // SAFETY: glibc's mallinfo2 takes nothing, locks one arena after the other, and allocates
        // nothing.
        let info = unsafe { statistics() };
        (info.uordblks + info.hblkhd) as u64
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod platform {
    pub(super) const SOURCE: &str = "";

    /// Never made on this platform.
    #[derive(Clone, Copy)]
    pub(super) enum Statistics {}

    pub(super) fn find() -> Result<Statistics, &'static str> {
        Err("available with glibc only (mallinfo2)")
    }

    pub(super) fn in_use(statistics: Statistics) -> u64 {
        match statistics {}
    }
}
