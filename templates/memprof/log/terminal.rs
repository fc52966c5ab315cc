//! What a user sees while a test runs: a line for each checkpoint on standard error.

use std::fmt;

use crate::platform::untracked::Text;

/// Returns `done encoder, outputs shaped [24, 1024, 1024]: GPU: 9.969GB CPU: 5.846GB`. Several GPUs
/// each appear with a name. 1 GB is 2^30 bytes here, as in the loggers that this format comes from.
/// The log has exact figures.
pub(crate) fn checkpoint_line<'a>(
    label: &str,
    gpus: impl Iterator<Item = (&'a str, u64)> + Clone,
    resident: Option<u64>,
) -> Text {
    struct Figures<G>(G, Option<u64>);
    impl<'a, G: Iterator<Item = (&'a str, u64)> + Clone> fmt::Display for Figures<G> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            // Shown with three digits after the point.
            #[allow(clippy::cast_precision_loss)]
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
    Text::format(format_args!("{}{}\n", label, Figures(gpus, resident)))
}

/// Warns the user on standard error.
pub(crate) fn warn(message: fmt::Arguments<'_>) {
    write(Text::format(format_args!("memprof: {message}\n")).as_str());
}

/// Writes to the descriptor directly: another thread may hold the lock of `std::io::stderr`.
#[cfg(unix)]
pub(crate) fn write(text: &str) {
    use std::fs::File;
    use std::io::Write;
    use std::mem::ManuallyDrop;
    use std::os::unix::io::FromRawFd;

    // SAFETY: it is only borrowed, because it is never dropped. If the process has closed it,
    // writing fails.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    let _ = stderr.write_all(text.as_bytes());
}

#[cfg(not(unix))]
pub(crate) fn write(text: &str) {
    use std::io::Write;

    let _ = std::io::stderr().write_all(text.as_bytes());
}
