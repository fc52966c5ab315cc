//! Byte counts for display: binary units, three significant digits. Files keep the raw number.

use std::fmt;

/// A number of bytes. Displays as `42.1 MiB`; [`Bytes::delta`] displays a signed difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl Bytes {
    /// Returns a signed difference of bytes: `+2.31 GiB`, `-512 MiB`, or `=` for zero.
    pub fn delta(difference: i128) -> String {
        if difference == 0 {
            return "=".to_owned();
        }
        let magnitude = Bytes(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
        format!("{}{magnitude}", if difference > 0 { '+' } else { '-' })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return formatter.pad(&format!("{} B", self.0));
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 999.5 would be printed as 1000, so the next unit starts there.
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = match value {
            ..9.995 => 2,
            ..99.95 => 1,
            _ => 0,
        };
        formatter.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits_in_binary_units() {
        let shown = |bytes| Bytes(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.00 KiB");
        assert_eq!(shown(44_145_050), "42.1 MiB");
        assert_eq!(shown(117_440_512), "112 MiB");
        assert_eq!(shown(1023 * 1024), "1.00 MiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn deltas_carry_a_sign_and_none_is_an_equals_sign() {
        assert_eq!(Bytes::delta(0), "=");
        assert_eq!(Bytes::delta(-536_870_912), "-512 MiB");
        assert_eq!(Bytes::delta(1), "+1 B");
    }
}
