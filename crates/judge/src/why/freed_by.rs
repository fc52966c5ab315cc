//! Who freed what a thread had allocated.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Freed bytes by the thread that freed them. What a thread reallocates larger belongs to that thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyFreed")]
pub struct FreedBy {
    /// By the thread itself.
    pub itself: i64,
    /// By each other thread, by name; also by another one of the same name.
    pub others: BTreeMap<String, i64>,
    /// By threads of the same name that are not told apart.
    pub perhaps_itself: i64,
}

impl FreedBy {
    /// All freed bytes.
    pub fn all(&self) -> i64 {
        self.itself.saturating_add(self.by_others()).saturating_add(self.perhaps_itself)
    }

    /// Those that another thread freed.
    pub fn by_others(&self) -> i64 {
        self.others.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The other threads, the one that freed most first.
    pub fn largest(&self) -> Vec<(&str, i64)> {
        let mut others: Vec<(&str, i64)> =
            self.others.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        others.sort_by_key(|(name, bytes)| (Reverse(*bytes), *name));
        others
    }
}
