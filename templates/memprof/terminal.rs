//! What people see while a test runs: a line for each checkpoint on standard error.

use std::fmt;

use crate::untracked::Text;

/// `done encoder, outputs shaped [24, 1024, 1024]: GPU: 9.969GB CPU: 5.846GB`, of several GPUs each by its name. A GB is
/// 2^30 bytes here, as in the loggers that this line is known from; exact figures are in the log.
pub(crate) fn checkpoint_line<'a>(
    label: &str,
    gpus: impl Iterator<Item = (&'a str, u64)> + Clone,
    resident: Option<u64>,
) -> Text {
    struct Figures<G>(G, Option<u64>);
    impl<'a, G: Iterator<Item = (&'a str, u64)> + Clone> fmt::Display for Figures<G> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let mut separator = ":";
            let several = self.0.clone().nth(1).is_some();
            for (name, bytes) in self.0.clone() {
                if several {
                    write!(formatter, "{} GPU {}: {:.3}GB", separator, name, gigabytes(bytes))?;
                } else {
                    write!(formatter, "{} GPU: {:.3}GB", separator, gigabytes(bytes))?;
                }
                separator = "";
            }
            match self.1 {
                Some(bytes) => write!(formatter, "{} CPU: {:.3}GB", separator, gigabytes(bytes)),
                None => Ok(()),
            }
        }
    }
    Text::of(format_args!("{}{}\n", label, Figures(gpus, resident)))
}

/// Something went wrong that a user must know of.
pub(crate) fn warn(message: fmt::Arguments<'_>) {
    write(Text::of(format_args!("memprof: {message}\n")).as_str());
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
