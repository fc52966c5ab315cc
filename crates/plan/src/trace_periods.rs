//! Which calls of traced functions are logged and measured by line: each N-th of all functions, or
//! `bert::**@5,bart::**@1`.

use std::fmt;
use std::str::FromStr;

use crate::trace_pattern::TracePattern;

/// Each so many-th call of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePeriods {
    /// Of the functions that no pattern matches.
    pub others: Option<u64>,
    /// Of the functions that a pattern matches. The first one counts.
    pub of_patterns: Vec<PatternPeriod>,
}

/// Each so many-th call of the functions that a pattern matches: `bert::**@5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternPeriod {
    /// The functions.
    pub pattern: TracePattern,
    /// How many calls.
    pub every: u64,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeriodError(String);

impl FromStr for TracePeriods {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let mut periods = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            // A pattern may have commas itself.
            let mut commas = rest.match_indices(',').map(|(comma, _)| comma).chain([rest.len()]);
            let is_whole = |end: &usize| {
                let number = rest[..*end].rsplit('@').next().unwrap_or_default().trim();
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            };
            let Some(end) = commas.find(is_whole) else {
                return Err(PeriodError(format!(
                    "'{rest}' is neither a number of calls such as 10 nor PATTERN@N such as 'bert::**@5'"
                )));
            };
            let piece = rest[..end].trim();
            rest = rest.get(end + 1..).unwrap_or_default().trim_start();
            if piece.contains('@') {
                periods.of_patterns.push(piece.parse()?);
            } else if periods.others.replace(number(piece)?).is_some() {
                return Err(PeriodError(format!("'{text}' has two numbers without a pattern")));
            }
        }
        if periods == Self::default() {
            return Err(PeriodError("write a number of calls such as 10, or 'bert::**@5,bart::**@1'".into()));
        }
        Ok(periods)
    }
}

impl FromStr for PatternPeriod {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let (pattern, every) = text.rsplit_once('@').unwrap_or((text, ""));
        let every = number(every)?;
        let pattern = pattern.parse().map_err(|error| PeriodError(format!("{error}")))?;
        Ok(Self { pattern, every })
    }
}

impl fmt::Display for PatternPeriod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.pattern, self.every)
    }
}

fn number(text: &str) -> Result<u64, PeriodError> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| PeriodError(format!("'{text}' is not a number of calls such as 10, from 1 on")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Option<u64>, Vec<String>), String> {
        let periods: TracePeriods = text.parse().map_err(|error: PeriodError| error.to_string())?;
        Ok((periods.others, periods.of_patterns.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn functions_have_periods_of_their_own() {
        let patterns = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("10"), Ok((Some(10), Vec::new())));
        assert_eq!(read("bert::**@5,bart::**@1"), Ok((None, patterns(&["bert::**@5", "bart::**@1"]))));
        assert_eq!(read("<A<u8, u16> as B>::f@5, 2"), Ok((Some(2), patterns(&["<A<u8, u16> as B>::f@5"]))));
    }

    #[test]
    fn what_is_no_period_says_what_to_write() {
        for (text, said) in [
            ("", "write a number of calls"),
            ("0", "'0' is not a number of calls such as 10, from 1 on"),
            ("a::b@0", "'0' is not a number of calls"),
            ("a::b", "'a::b' is neither a number of calls such as 10 nor PATTERN@N"),
            ("bert@5", "has one segment only"),
            ("5,6", "two numbers without a pattern"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
