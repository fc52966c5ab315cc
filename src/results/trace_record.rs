//! What a run's log says of traced functions: the tree of their calls, and their lines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRecord {
    /// By number, which is lower for a caller than for what it called.
    pub nodes: BTreeMap<u64, CallNode>,
    /// The lines that ran.
    pub lines: Vec<LineRecord>,
}

/// A traced function, reached in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallNode {
    node: u64,
    /// Its caller's number; absent where no traced function called it.
    pub parent: Option<u64>,
    /// Whether the way to it is not kept, because there were too many.
    #[serde(default)]
    pub elsewhere: bool,
    /// The function's path.
    pub label: String,
    /// Where the function stands: `FILE:LINE`.
    #[serde(default)]
    pub at: String,
    /// How often it was called.
    pub calls: u64,
    /// Calls of it by itself, through others too. Their figures are in those of the call around them.
    pub recursive: u64,
    /// Calls that never ended.
    pub open: u64,
    /// Calls during which a traced function ran on another thread.
    pub overlapped: u64,
    /// Sums over all calls that ended.
    pub metrics: BTreeMap<String, i64>,
    /// The most of a single call.
    pub most: BTreeMap<String, i64>,
}

/// A line of a traced function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineRecord {
    /// The function's path.
    pub label: String,
    /// Where the function stands: `FILE:LINE`.
    pub at: String,
    /// The line's number.
    pub line: usize,
    /// How often it ran.
    pub times: u64,
    /// `heap.peak`, the most while it ran; `heap.grown` and totals, sums.
    pub metrics: BTreeMap<String, i64>,
}

impl TraceRecord {
    /// Takes a line of the log; the last one of a node counts. `None` if the event is not of traced functions.
    pub fn take(&mut self, event: &str, line: &[u8]) -> Option<serde_json::Result<()>> {
        Some(match event {
            "calls" => serde_json::from_slice(line).map(|node: CallNode| {
                self.nodes.insert(node.node, node);
            }),
            "line" => serde_json::from_slice(line).map(|line| self.lines.push(line)),
            _ => return None,
        })
    }

    /// Whether nothing was traced.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.lines.is_empty()
    }
}
