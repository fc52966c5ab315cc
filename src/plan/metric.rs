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
pub const CATALOGUE: [(&str, &str); 11] = [
    ("heap.peak", "most heap bytes live since the last checkpoint (exact)"),
    ("heap.live", "heap bytes live"),
    ("heap.allocated", "heap bytes allocated since the last checkpoint"),
    ("heap.count", "heap allocations since the last checkpoint"),
    ("cpu.peak", "most resident memory since the last checkpoint"),
    ("cpu.rss", "resident memory (RSS)"),
    ("cpu.pss", "proportional part of the resident memory: shared pages count once for all that share them"),
    ("cpu.private", "resident memory that no other process maps"),
    ("cpu.shared", "resident memory that is mapped more than once"),
    ("malloc.live", "bytes in use in the C library's allocator, by its own statistics"),
    ("time", "time since `start`"),
];

/// The metrics that are read only if they are asked for: they take long, or say little beside the others.
pub const ON_REQUEST: [&str; 4] = ["cpu.pss", "cpu.private", "cpu.shared", "malloc.live"];

/// Of some metrics those that are read only on request, each once.
pub fn on_request<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<&str> = metrics.into_iter().collect();
    ON_REQUEST.into_iter().filter(|name| wanted.contains(name)).map(str::to_owned).collect()
}

/// The metrics shown unless others are asked for, where the measurement has them.
pub const DEFAULT: [&str; 2] = ["heap.peak", "cpu.peak"];
