//! File descriptors that stay open for the life of the process, at numbers where they are in nobody's way: tests that
//! count descriptors or expect the lowest one see what they saw without the shim, and where a program closes all
//! that it does not know, ours are not soon the numbers of its own files, into which we would then write.

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

    /// Below the usual limit of 1024, above what most programs come to.
    const LOWEST: c_int = 800;

    // SAFETY: the descriptor is open, and this command takes one `int`.
    let moved = unsafe { fcntl(file.as_raw_fd(), F_DUPFD_CLOEXEC, LOWEST) };
    if moved < 0 {
        // The limit is lower than usual; it stays where it is.
        return file;
    }
    // SAFETY: it was just made and nobody else has it.
    unsafe { File::from_raw_fd(moved) }
}

#[cfg(not(unix))]
pub(crate) fn out_of_the_way(file: File) -> File {
    file
}
