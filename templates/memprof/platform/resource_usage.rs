//! What `getrusage` tells of this process, on Linux with 64 bits.

/// The most resident bytes of the process, or of its parent before `exec`.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) fn maximum_resident() -> Option<u64> {
    // `ru_maxrss` comes after the two times, and is in KiB.
    number(4).map(|kibibytes| kibibytes * 1024)
}

/// How many pages the process touched for the first time, without those that were read from a disk.
pub(crate) fn minor_faults() -> Option<u64> {
    // `ru_minflt` comes after the four sizes.
    number(8)
}

/// Where `long` and `time_t` have 64 bits, `struct rusage` is two `timeval` and fourteen `long`.
#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64", not(miri)))]
fn number(place: usize) -> Option<u64> {
    use std::mem::MaybeUninit;
    use std::os::raw::c_int;

    extern "C" {
        fn getrusage(who: c_int, usage: *mut [i64; 18]) -> c_int;
    }

    const RUSAGE_SELF: c_int = 0;
    let mut usage = MaybeUninit::<[i64; 18]>::zeroed();
    // SAFETY: the array is as large as the structure on these platforms, and zeroes are a valid value
    // of it.
    let usage = unsafe {
        if getrusage(RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    u64::try_from(usage[place]).ok()
}

/// Elsewhere the layout depends on the system and its C library.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64", not(miri))))]
fn number(_place: usize) -> Option<u64> {
    None
}
