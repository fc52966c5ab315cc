//! Bytes as text.

use std::fmt;

/// Bytes as the reports show them: `812 KiB`, `9.85 MiB`.
pub(crate) struct Bytes(pub(crate) i128);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.unsigned_abs() < 1024 {
            return write!(formatter, "{} B", self.0);
        }
        // Shown with three digits.
        #[allow(clippy::cast_precision_loss)]
        let mut value = self.0 as f64 / 1024.0;
        let mut units = ["MiB", "GiB", "TiB", "PiB", "EiB"].iter();
        let mut unit = "KiB";
        // From here on, it would be shown as 1000 or more.
        while value.abs() >= 999.5 {
            match units.next() {
                Some(next) => unit = next,
                None => break,
            }
            value /= 1024.0;
        }
        let digits = match value.abs() {
            below if below < 9.995 => 2,
            below if below < 99.95 => 1,
            _ => 0,
        };
        write!(formatter, "{value:.digits$} {unit}")
    }
}
