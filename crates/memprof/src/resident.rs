//! Resident memory of this process: now, and its peak since the mark was reset. On Linux.

use std::fs;

/// Returns resident bytes.
pub(crate) fn now() -> Option<u64> {
    kibibytes("VmRSS:")
}

/// Returns the most resident bytes since the process began or the mark was reset.
pub(crate) fn peak() -> Option<u64> {
    kibibytes("VmHWM:")
}

/// Resets the mark to what is resident now. Returns whether it could.
pub(crate) fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Returns a line of the process's status, in bytes. Other platforms do not have the file.
fn kibibytes(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}
