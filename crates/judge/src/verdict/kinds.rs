//! The verdicts on one metric at one checkpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Grew by more than the limit.
    Regressed,
    /// Shrank by more than the limit.
    Improved,
    /// Changed by less than the limit, or not at all.
    Unchanged,
    /// Too much noise, or too few runs, for a verdict.
    Inconclusive,
    /// Only the candidate has this checkpoint.
    Added,
    /// Only the baseline has this checkpoint.
    Removed,
    /// A side has no figure to compare.
    Missing,
}

impl Verdict {
    /// Returns the word in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Improved => "improved",
            Self::Unchanged => "unchanged",
            Self::Inconclusive => "inconclusive",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Missing => "missing",
        }
    }

    /// Returns the verdict with baseline and candidate exchanged.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Regressed => Self::Improved,
            Self::Improved => Self::Regressed,
            Self::Added => Self::Removed,
            Self::Removed => Self::Added,
            same => same,
        }
    }
}
