//! File descriptors that stay open for the life of the process, at high numbers.
//!
//! Tests that count descriptors or expect the lowest one see what they see without the shim. And if
//! a program closes all descriptors that it does not know, its own files do not soon get the
//! numbers of ours, into which we would then write.

use std::fs::File;

#[cfg(unix)]
pub(crate) fn out_of_the_way(file: File) -> File {
    use std::os::raw::c_int;
    use std::os::unix::io::{AsRawFd, FromRawFd};

    extern "C" {
        fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const F_DUPFD_CLOEXEC: c_int = 1030;
    #[cfg(any(target_os = "macos", target_os = "ios"))]
    const F_DUPFD_CLOEXEC: c_int = 67;
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
    const F_DUPFD_CLOEXEC: c_int = 17;
    #[cfg(target_os = "netbsd")]
    const F_DUPFD_CLOEXEC: c_int = 12;
    #[cfg(target_os = "openbsd")]
    const F_DUPFD_CLOEXEC: c_int = 10;
    #[cfg(any(target_os = "solaris", target_os = "illumos"))]
    const F_DUPFD_CLOEXEC: c_int = 37;

    /// Below the usual limit of 1024, and above what most programs reach.
    const LOWEST: c_int = 800;

    // SAFETY: the descriptor is open, and this command takes one `int`.
    let moved = unsafe { fcntl(file.as_raw_fd(), F_DUPFD_CLOEXEC, LOWEST) };
    if moved < 0 {
        // The limit is lower than usual, so it keeps its number.
        return file;
    }
    // SAFETY: it was just made, and nothing else has it.
    unsafe { File::from_raw_fd(moved) }
}

#[cfg(not(unix))]
pub(crate) fn out_of_the_way(file: File) -> File {
    file
}
