//! How often a cell runs: a fixed number of times, or as often as the verdict needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::number_or_word::NumberOrWord;
use memprof_support::counted::grouped;
use memprof_support::suggest;

/// How often a cell runs at each revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrWord", into = "NumberOrWord")]
pub enum Repeat {
    /// Twice, and more often while the runs so far give no clear verdict.
    #[default]
    Auto,
    /// This many times, at least once.
    Times(u32),
}

/// The most runs of a cell. A verdict compares each run with each run of the other side, and needs
/// far fewer.
pub const MOST: u32 = 1_000;

impl Repeat {
    fn times(times: u32) -> Result<Self, String> {
        match times {
            0 => Err("each cell must run at least once; write 1 or more".to_owned()),
            1..=MOST => Ok(Self::Times(times)),
            _ => Err(too_many(&times.to_string())),
        }
    }
}

fn too_many(times: &str) -> String {
    format!("{times} is too often: a cell runs at most {} times", grouped(i128::from(MOST)))
}

impl TryFrom<NumberOrWord> for Repeat {
    type Error = String;

    fn try_from(written: NumberOrWord) -> Result<Self, String> {
        match written {
            NumberOrWord::Number(times) => Self::times(times),
            NumberOrWord::Word(word) => word.parse(),
        }
    }
}

impl From<Repeat> for NumberOrWord {
    fn from(repeat: Repeat) -> Self {
        match repeat {
            Repeat::Auto => Self::Word("auto".to_owned()),
            Repeat::Times(times) => Self::Number(times),
        }
    }
}

impl FromStr for Repeat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.parse() {
            Ok(times) => Self::times(times),
            // A number that is too large for its type.
            Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(too_many(text))
            }
            Err(_) if text == "auto" => Ok(Self::Auto),
            Err(_) => {
                let near = suggest::did_you_mean(text, ["auto"]).map(|help| format!(": {help}"));
                Err(format!("'{text}' is neither a number such as 3 nor `auto`{}", near.unwrap_or_default()))
            }
        }
    }
}

impl fmt::Display for Repeat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Times(times) => write!(formatter, "{times}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_runs_a_number_of_times_or_as_often_as_needed() {
        assert_eq!("3".parse(), Ok(Repeat::Times(3)));
        assert_eq!("auto".parse(), Ok(Repeat::Auto));
        assert_eq!("0".parse::<Repeat>().unwrap_err(), "each cell must run at least once; write 1 or more");
        assert!("-1".parse::<Repeat>().is_err());
        assert_eq!(
            "atuo".parse::<Repeat>().unwrap_err(),
            "'atuo' is neither a number such as 3 nor `auto`: did you mean 'auto'?"
        );
    }

    #[test]
    fn files_have_a_number_or_the_word() {
        for (repeat, text) in [(Repeat::Auto, "\"auto\""), (Repeat::Times(4), "4")] {
            assert_eq!(serde_json::to_string(&repeat).unwrap(), text);
            assert_eq!(serde_json::from_str::<Repeat>(text).unwrap(), repeat);
        }
    }
}
