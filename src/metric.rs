//! The catalogue of metrics: name, unit, and what the figure means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a metric's raw number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of things, such as allocations.
    Count,
    /// Nanoseconds of the monotonic clock.
    Nanoseconds,
}

impl Unit {
    /// The name in files: `bytes`, `count`, `nanoseconds`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// The unit of the metric of this name: the last part of the name decides, so that `gpu.0.peak` needs no entry.
    pub fn of(metric: &str) -> Self {
        match metric.rsplit('.').next() {
            Some("time") => Self::Nanoseconds,
            Some("count") => Self::Count,
            _ => Self::Bytes,
        }
    }
}

/// The metrics of this release that every platform may have, with what each means, in the order of the table's columns.
pub const CATALOGUE: [(&str, &str); 7] = [
    ("heap.peak", "most heap bytes live since the last checkpoint (exact)"),
    ("heap.live", "heap bytes live"),
    ("heap.allocated", "heap bytes allocated since the last checkpoint"),
    ("heap.count", "heap allocations since the last checkpoint"),
    ("cpu.peak", "most resident memory since the last checkpoint"),
    ("cpu.rss", "resident memory (RSS)"),
    ("time", "time since `start`"),
];

/// The metrics shown unless others are asked for, where the measurement has them.
pub const DEFAULT: [&str; 2] = ["heap.peak", "cpu.peak"];
