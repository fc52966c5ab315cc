//! What a later `bisect` needs to measure as this comparison did.

use serde::{Deserialize, Serialize};

/// The options of a comparison that a search takes, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchOptions {
    /// The flags with their values, as typed.
    pub words: Vec<String>,
    /// The values of `--threshold` that hold for every test: `heap.peak=5%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<String>,
    /// The indices of the revisions that have the baseline in their history.
    pub candidates: Vec<usize>,
    /// Those of them that are a single commit after the baseline, and no merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub single: Vec<usize>,
}
