//! What people see while a test runs: a line for each checkpoint on standard error.

use std::fmt;

use crate::untracked::Text;

/// `done encoder, outputs shaped [24, 1024, 1024]: CPU: 5.846GB`. A GB is 2^30 bytes here, as in the loggers that this
/// line is known from; exact figures are in the log.
pub(crate) fn checkpoint_line(label: &str, resident: Option<u64>) -> Text {
    match resident {
        Some(bytes) => Text::of(format_args!("{}: CPU: {:.3}GB\n", label, bytes as f64 / f64::from(1 << 30))),
        None => Text::of(format_args!("{}\n", label)),
    }
}

/// Something went wrong that a user must know of.
pub(crate) fn warn(message: fmt::Arguments<'_>) {
    write(Text::of(format_args!("memprof: {}\n", message)).as_str());
}

/// Straight to the descriptor: `std::io::stderr` has a lock that the caller's other threads may hold.
#[cfg(unix)]
pub(crate) fn write(text: &str) {
    use std::fs::File;
    use std::io::Write;
    use std::mem::ManuallyDrop;
    use std::os::unix::io::FromRawFd;

    // SAFETY: it is only borrowed, as it is never dropped; if the process has closed it, writing fails.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    let _ = stderr.write_all(text.as_bytes());
}

#[cfg(not(unix))]
pub(crate) fn write(text: &str) {
    use std::io::Write;

    let _ = std::io::stderr().write_all(text.as_bytes());
}
