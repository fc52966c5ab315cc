//! Shared libraries at run time, and their functions.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use crate::platform::untracked::kept;

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
