//! What a comparison says of one metric at one checkpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verdict of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It grew by more than it may.
    Regressed,
    /// It shrank by more than it may grow.
    Improved,
    /// Whatever changed is less than that.
    Unchanged,
    /// The runs do not tell.
    Inconclusive,
    /// Only the candidate has this checkpoint.
    Added,
    /// Only the baseline has this checkpoint.
    Removed,
    /// A side has no figure that could be compared.
    Missing,
}

impl Verdict {
    /// The word in files and reports.
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

    /// The verdict with baseline and candidate exchanged.
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
