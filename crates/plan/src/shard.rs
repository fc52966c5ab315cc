//! Shards: parts of a comparison that run on machines of their own. A test with all its revisions
//! and repeats belongs to one shard.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The maximum number of shards.
pub const MOST: u32 = 10_000;

/// One of several parts, `2/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Which part, from 1.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl Shard {
    /// The note of a report that has only this shard's tests.
    pub fn note(self) -> String {
        format!("this is shard {self}, with its own tests only; `cargo memprof merge RUN…` shows all shards")
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `2/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, count)| {
            let (number, count) = (number.trim().parse().ok()?, count.trim().parse().ok()?);
            Some(Self { number, count })
        });
        match parsed {
            Some(shard) if (1..=MOST).contains(&shard.count) && (1..=shard.count).contains(&shard.number) => {
                Ok(shard)
            }
            _ => Err(format!("'{text}' is no shard; write 1/4 for the first of four, up to {MOST}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_written_as_a_fraction() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, count: 8 }));
        assert_eq!(Shard { number: 2, count: 8 }.to_string(), "2/8");
        for mistake in ["0/8", "9/8", "1/0", "2", "a/b", "1/20000", ""] {
            let error = mistake.parse::<Shard>().unwrap_err();
            assert!(error.contains("write 1/4"), "{error}");
        }
    }
}
