//! Sizes, percentages, durations and days, as users write them on the command line and in
//! `memprof.yaml`.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::metric::Unit;

/// How much a metric may grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// Growth in percent of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Growth in the metric's own unit: bytes, a count, or nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A limit as written: `5%`, `16MiB`, `100` or `50ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// `5%`.
    Percent(f64),
    /// `16MiB`.
    Bytes(u64),
    /// `100`: in whatever unit the metric has.
    Plain(u64),
    /// `50ms`.
    Nanoseconds(u64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.ends_with('%') {
            return percent(text).map(Self::Percent);
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Plain(number));
        }
        let as_duration = || {
            // `16M` would be sixteen months.
            if text.ends_with('M') {
                return None;
            }
            let nanoseconds = humantime::parse_duration(text).ok()?.as_nanos();
            u64::try_from(nanoseconds).ok()
        };
        match size(text) {
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(problem) => as_duration().map(Self::Nanoseconds).ok_or(problem),
        }
    }
}

impl Limit {
    /// Returns the threshold that this limit sets for a metric of this unit.
    ///
    /// # Errors
    /// The unit does not fit, such as bytes for a count, or is missing: 64 may mean bytes, MiB or
    /// percent. Zero is zero in any unit.
    pub fn on(self, unit: Unit) -> Result<Threshold, String> {
        let absolute = |amount| Ok(Threshold { percent: None, bytes: Some(amount) });
        match (self, unit) {
            (Self::Percent(percent), _) => Ok(Threshold { percent: Some(percent), bytes: None }),
            (Self::Plain(amount), Unit::Count)
            | (Self::Plain(amount @ 0) | Self::Bytes(amount), Unit::Bytes)
            | (Self::Nanoseconds(amount), Unit::Nanoseconds) => absolute(amount),
            (Self::Plain(amount), Unit::Bytes) => {
                Err(format!("{amount} needs a unit: write {amount}MiB, {amount}B or, for growth, {amount}%"))
            }
            (_, Unit::Bytes) => {
                Err("this metric needs a size such as 16MiB, or a percentage such as 5%".to_owned())
            }
            (_, Unit::Count) => {
                Err("this metric needs a number such as 100, or a percentage such as 5%".to_owned())
            }
            (_, Unit::Nanoseconds) => {
                Err("this metric needs a duration such as 50ms, or a percentage such as 5%".to_owned())
            }
        }
    }
}

/// Reads growth in percent: `5%`, `5 %`, `2.5`.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err(format!("'{text}' is not a percentage such as 5%")),
    }
}

const SIZE_UNITS: [(&str, u64); 11] = [
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("", 1),
];

/// Reads a size: `16MiB`, `1.5 GiB`, `100KB`, `2048`. A bare `16M` is refused, because it may be
/// decimal or binary.
pub fn size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed
        .find(|character: char| !character.is_ascii_digit() && !".,_".contains(character))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let unit = unit.trim().to_lowercase();
    let not_a_size = || format!("'{text}' is not a size such as 16MiB");
    if ["k", "m", "g", "t"].contains(&unit.as_str()) {
        let letter = unit.to_uppercase();
        return Err(format!("'{text}' is ambiguous: write {number}{letter}iB or {number}{letter}B"));
    }
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(not_a_size)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*factor).ok_or_else(|| format!("'{text}' is too large"));
    }
    let number: f64 = number.parse().map_err(|_| not_a_size())?;
    // Nobody means a part of a byte.
    if unit.is_empty() {
        return Err(format!("{trimmed} needs a unit: write {trimmed}MiB"));
    }
    #[expect(clippy::cast_precision_loss, reason = "a fraction was asked for")]
    let bytes = number * *factor as f64;
    if !bytes.is_finite() || bytes >= 1.8e19 {
        return Err(format!("'{text}' is too large"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range, and the digits have no sign"
    )]
    Ok(bytes.round() as u64)
}

/// Reads the time limit of a run, such as `10m`, `90s` or `1h 30m`. Returns seconds.
pub fn timeout(text: &str) -> Result<u64, String> {
    if text.trim().parse::<f64>().is_ok() {
        return Err(format!("'{text}' has no unit: write {}s for seconds", text.trim()));
    }
    let duration = humantime::parse_duration(text.trim())
        .map_err(|problem| format!("'{text}' is not a duration such as 10m: {problem}"))?;
    if duration < Duration::from_secs(1) {
        return Err(format!("'{text}' is shorter than a second"));
    }
    if duration.subsec_nanos() != 0 {
        return Err(format!("'{text}' is not in whole seconds"));
    }
    Ok(duration.as_secs())
}

/// Reads a pause such as `2s` or `500ms`, in milliseconds.
pub(crate) fn delay(text: &str) -> Result<u64, String> {
    if text.trim().parse::<f64>().is_ok() {
        return Err(format!("'{text}' has no unit: write {}s for seconds", text.trim()));
    }
    let duration = humantime::parse_duration(text.trim())
        .map_err(|problem| format!("'{text}' is not a duration such as 2s: {problem}"))?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("'{text}' is not in whole milliseconds"));
    }
    u64::try_from(duration.as_millis()).map_err(|_| format!("'{text}' is too long"))
}

/// Reads a day such as `2023-05-01`, and returns it in the same form.
pub fn day(text: &str) -> Result<String, String> {
    text.trim()
        .parse::<jiff::civil::Date>()
        .map(|date| date.to_string())
        .map_err(|_| format!("'{text}' is not a day such as 2023-05-01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_or_decimal_and_never_guessed() {
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert_eq!(size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(size("100kB"), Ok(100_000));
        assert_eq!(size("2048"), Ok(2048));
        assert_eq!(size("16M").unwrap_err(), "'16M' is ambiguous: write 16MiB or 16MB");
        assert_eq!(size("1.5").unwrap_err(), "1.5 needs a unit: write 1.5MiB");
        for wrong in ["", "MiB", "-1MiB", "1.2.3MiB", "16 apples", "99999999TiB", "1e400"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_fits_the_unit_of_its_metric() {
        let on = |text: &str, unit| text.parse::<Limit>().and_then(|limit| limit.on(unit));
        assert_eq!(on("5%", Unit::Count).unwrap().percent, Some(5.0));
        assert_eq!(on("16MiB", Unit::Bytes).unwrap().bytes, Some(16 << 20));
        assert_eq!(on("100", Unit::Count).unwrap().bytes, Some(100));
        assert_eq!(on("0", Unit::Bytes).unwrap().bytes, Some(0));
        assert!(on("1.5", Unit::Bytes).unwrap_err().contains("1.5 needs a unit"));
        let told = "64 needs a unit: write 64MiB, 64B or, for growth, 64%";
        assert_eq!(on("64", Unit::Bytes).unwrap_err(), told);
        assert_eq!(on("50ms", Unit::Nanoseconds).unwrap().bytes, Some(50_000_000));
        assert!(on("16MiB", Unit::Count).unwrap_err().contains("a number such as 100"));
        assert!(on("100", Unit::Nanoseconds).unwrap_err().contains("50ms"));
        assert!(on("50ms", Unit::Bytes).unwrap_err().contains("16MiB"));
        assert!(on("-5%", Unit::Bytes).is_err());
        assert!(on("nan%", Unit::Bytes).is_err());
    }

    #[test]
    fn a_timeout_needs_a_unit_and_whole_seconds() {
        assert_eq!(timeout("10m"), Ok(600));
        assert_eq!(timeout("1h 30m"), Ok(5400));
        assert_eq!(timeout("600").unwrap_err(), "'600' has no unit: write 600s for seconds");
        assert!(timeout("500ms").unwrap_err().contains("shorter than a second"));
        assert!(timeout("1500ms").unwrap_err().contains("whole seconds"));
        assert!(timeout("soon").unwrap_err().contains("such as 10m"));
    }

    #[test]
    fn a_delay_needs_a_unit_and_whole_milliseconds() {
        assert_eq!(delay("2s"), Ok(2_000));
        assert_eq!(delay("1500ms"), Ok(1_500));
        assert_eq!(delay("0s"), Ok(0));
        assert_eq!(delay("2").unwrap_err(), "'2' has no unit: write 2s for seconds");
        assert!(delay("10us").unwrap_err().contains("whole milliseconds"));
        assert!(delay("soon").unwrap_err().contains("such as 2s"));
    }

    #[test]
    fn a_day_must_be_in_the_calendar() {
        assert_eq!(day("2023-05-01").unwrap(), "2023-05-01");
        assert!(day("2023-02-30").is_err());
        assert!(day("yesterday").is_err());
    }
}
