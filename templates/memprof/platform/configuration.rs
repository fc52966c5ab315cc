//! Numbers of this machine that do not change while a program runs: Linux and Android.

use std::os::raw::{c_int, c_long};

extern "C" {
    fn sysconf(name: c_int) -> c_long;
}

#[cfg(target_os = "linux")]
const _SC_PAGESIZE: c_int = 30;
#[cfg(target_os = "linux")]
const _SC_NPROCESSORS_ONLN: c_int = 84;
#[cfg(target_os = "android")]
const _SC_PAGESIZE: c_int = 39;
#[cfg(target_os = "android")]
const _SC_NPROCESSORS_ONLN: c_int = 97;

/// The bytes of a page; 0 if that is unknown.
pub(crate) fn page_size() -> u64 {
    number(_SC_PAGESIZE)
}

/// How many processors run; 0 if that is unknown.
pub(crate) fn processors() -> u64 {
    number(_SC_NPROCESSORS_ONLN)
}

fn number(name: c_int) -> u64 {
    // SAFETY: it takes a number and returns one.
    u64::try_from(unsafe { sysconf(name) }).unwrap_or(0)
}
