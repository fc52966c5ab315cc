//! How many tests run at once, and which metrics depend on the tests beside them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::metric::{self, Property};
use crate::number_or_word::NumberOrWord;
use memprof_support::counted::grouped;
use memprof_support::glob;
use memprof_support::suggest;

/// How many tests run at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrWord", into = "NumberOrWord")]
pub enum Jobs {
    /// As many as the machine that runs them has processors, but no test that allocates in several threads:
    /// their order, and so the test's figures, may depend on the tests beside it.
    #[default]
    Exact,
    /// As many as the machine that runs them has processors.
    Auto,
    /// This many, at least one.
    Number(u32),
}

/// The most tests at once. Cargo's build jobs have the same limit.
pub(crate) const MOST: u32 = 10_000;

impl Jobs {
    /// One test after the other.
    pub const ONE: Self = Self::Number(1);

    /// Returns the number on a machine with this many processors.
    pub fn on(self, processors: usize) -> usize {
        match self {
            Self::Exact | Self::Auto => processors.max(1),
            Self::Number(number) => number as usize,
        }
    }

    fn number(number: u32) -> Result<Self, String> {
        match number {
            0 => Err("at least one test must run at a time; write 1 or more".to_owned()),
            1..=MOST => Ok(Self::Number(number)),
            _ => Err(too_many(&number.to_string())),
        }
    }
}

fn too_many(number: &str) -> String {
    format!("{number} are too many: at most {} tests run at once", grouped(i128::from(MOST)))
}

impl TryFrom<NumberOrWord> for Jobs {
    type Error = String;

    fn try_from(written: NumberOrWord) -> Result<Self, String> {
        match written {
            NumberOrWord::Number(number) => Self::number(number),
            NumberOrWord::Word(word) => word.parse(),
        }
    }
}

impl From<Jobs> for NumberOrWord {
    fn from(jobs: Jobs) -> Self {
        match jobs {
            Jobs::Number(number) => Self::Number(number),
            word => Self::Word(word.to_string()),
        }
    }
}

impl FromStr for Jobs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.parse() {
            Ok(number) => Self::number(number),
            Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(too_many(text))
            }
            Err(_) if text == "auto" => Ok(Self::Auto),
            Err(_) if text == "exact" => Ok(Self::Exact),
            Err(_) => {
                let near = suggest::did_you_mean(text, ["auto", "exact"]).map(|help| format!(": {help}"));
                let near = near.unwrap_or_default();
                Err(format!("'{text}' is neither a number such as 4, nor `auto` or `exact`{near}"))
            }
        }
    }
}

impl fmt::Display for Jobs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => formatter.write_str("exact"),
            Self::Auto => formatter.write_str("auto"),
            Self::Number(number) => write!(formatter, "{number}"),
        }
    }
}

/// Returns the first metric that one of these patterns means and that depends on the tests that run at
/// the same time. In runs beside others such metrics are absent. A pattern that means all metrics, such as `*`, means none in particular.
pub fn of_neighbours<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let means = |pattern: &str, metric: &str| pattern != "*" && glob::matches(pattern, metric);
    patterns
        .into_iter()
        .find_map(|pattern| metric::with(Property::Alone).find(|metric| means(pattern, metric)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_auto_is_read_and_nothing_else() {
        assert_eq!("auto".parse(), Ok(Jobs::Auto));
        assert_eq!("exact".parse(), Ok(Jobs::default()));
        assert_eq!(" 4 ".parse(), Ok(Jobs::Number(4)));
        assert_eq!((Jobs::Auto.on(8), Jobs::Exact.on(0), Jobs::Number(3).on(8)), (8, 1, 3));
        for (text, problem) in [
            ("0", "at least one test must run at a time; write 1 or more"),
            ("99999999999", "99999999999 are too many: at most 10,000 tests run at once"),
            ("atuo", "'atuo' is neither a number such as 4, nor `auto` or `exact`: did you mean 'auto'?"),
        ] {
            assert_eq!(text.parse::<Jobs>().unwrap_err(), problem);
        }
        for jobs in [Jobs::Exact, Jobs::Auto, Jobs::Number(7)] {
            let written = serde_json::to_string(&jobs).unwrap();
            assert_eq!(serde_json::from_str::<Jobs>(&written).unwrap(), jobs);
        }
        assert!(serde_json::from_str::<Jobs>("0").is_err());
    }

    #[test]
    fn a_pattern_means_what_depends_on_neighbours_unless_it_means_everything() {
        assert_eq!(of_neighbours(["heap.*", "time"]), Some("time"));
        assert_eq!(of_neighbours(["cpu.p*"]), Some("cpu.pss"));
        assert_eq!(of_neighbours(["heap.peak", "cpu.peak", "gpu.*", "*"]), None);
    }
}
