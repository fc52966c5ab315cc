//! A budget: how large each metric may be at each checkpoint of each test. `cargo memprof budget
//! write` records it from a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::target_kind::TargetKind;

/// A budget as it was read from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// The file, as the user wrote it.
    pub file: String,
    /// One entry per test, checkpoint and metric.
    pub limits: Vec<BudgetLimit>,
}

/// One line of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLimit {
    /// `package::binary::test`.
    pub test: String,
    /// The target's kind, if targets of several kinds have the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// The name that an entry of `tests` gives the cell. `None` stands for each cell of the test that
    /// has no limits under its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The cell's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The checkpoint's label. The limit is for each checkpoint of that label.
    pub checkpoint: String,
    pub metric: String,
    /// The most that is allowed, in the metric's unit.
    pub limit: u64,
    /// The line in the file, from 1.
    pub line: usize,
}

impl Budget {
    /// Returns where an entry is: `memprof-budget.json:12`.
    pub fn place(&self, entry: &BudgetLimit) -> String {
        format!("{}:{}", self.file, entry.line)
    }
}
