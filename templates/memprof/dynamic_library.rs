//! Shared libraries at run time: which ones this process has loaded, and their functions.
//!
//! The loader's list takes tens of nanoseconds if nothing was loaded since the last look. `dlopen`
//! with `RTLD_NOLOAD` is not used for that, because it searches the file system each time for a
//! library that is not loaded.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::loaded::{Object, dl_iterate_phdr};
use crate::untracked::kept;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
}

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// A library that stays loaded for the life of the process.
#[derive(Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: a handle names something that the loader guards itself, and it is never closed.
unsafe impl Send for Library {}

impl Library {
    /// Loads a library, or returns the loader's reason. The name ends with a zero byte.
    pub(crate) fn open(name: &'static [u8]) -> Result<Self, &'static str> {
        // SAFETY: the name is a C string. What a library does when it is loaded is up to the user's
        // driver.
        let handle = unsafe { dlopen(name.as_ptr().cast(), RTLD_LAZY) };
        if handle.is_null() {
            return Err(last_error());
        }
        Ok(Self(handle))
    }

    /// Returns a library that is loaded already, by the loader's path for it.
    pub(crate) fn loaded(path: &CStr) -> Option<Self> {
        // SAFETY: the path is a C string.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
        if handle.is_null() { None } else { Some(Self(handle)) }
    }

    /// The address of a function. The name ends with a zero byte.
    pub(crate) fn symbol(self, name: &'static [u8]) -> Option<*mut c_void> {
        // SAFETY: the handle is open and the name is a C string.
        let address = unsafe { dlsym(self.0, name.as_ptr().cast()) };
        if address.is_null() { None } else { Some(address) }
    }
}

/// A function of a library, with the type of the place that it is assigned to.
macro_rules! function {
    ($library:expr, $name:literal) => {
        $library
            .symbol(concat!($name, "\0").as_bytes())
            // SAFETY: the caller's type is that of the function of this name in its header.
            .map(|address| unsafe { std::mem::transmute::<*mut std::os::raw::c_void, _>(address) })
    };
}
pub(crate) use function;

fn last_error() -> &'static str {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    let text = unsafe {
        let text = dlerror();
        if text.is_null() {
            return "the loader gave no reason";
        }
        CStr::from_ptr(text)
    };
    kept(format_args!("{}", String::from_utf8_lossy(text.to_bytes())))
}

/// How many objects were loaded at the last [`look`]; 0 before the first.
static LOADS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn loads() -> u64 {
    LOADS.load(Ordering::Relaxed)
}

/// Asks the loader how many objects were loaded so far.
pub(crate) fn look() {
    unsafe extern "C" fn first(object: *const Object, size: usize, loads: *mut c_void) -> c_int {
        if size >= std::mem::size_of::<Object>() {
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
