//! Memory that was freed, and that the allocator keeps.

/// The allocator keeps at most so much in one piece.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MOST: libc::c_int = 4 << 20;

/// Lets the allocator return large pieces to the system. Each test is forked from this process, and a fork copies
/// the table of all its pages. glibc would keep as much as the largest executable that was read.
#[expect(unsafe_code, reason = "the standard library has no such call")]
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time. It sets two numbers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MOST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MOST);
    }
}

/// Returns all free pages to the system, also those between pieces in use: after work that took much memory and before
/// tests run.
#[expect(unsafe_code, reason = "the standard library has no such call")]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
