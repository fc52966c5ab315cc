//! The catalogue of metrics: names, units and meanings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_support::glob;

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
    /// Returns the name in files: `bytes`, `count`, `nanoseconds`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// Returns the unit of a metric. The last part of the name decides, so that `gpu.0.peak` needs
    /// no entry.
    pub fn of(metric: &str) -> Self {
        match metric.rsplit('.').next() {
            Some("time") => Self::Nanoseconds,
            Some("count") => Self::Count,
            _ => Self::Bytes,
        }
    }
}

/// The metrics that any platform may have, with their meanings, in the order of the table's
/// columns.
pub const CATALOGUE: [(&str, &str); 18] = [
    ("heap.peak", "peak of live heap bytes since the last checkpoint (exact)"),
    ("heap.peak_above_start", "heap.peak minus heap.live at `start` (computed)"),
    ("heap.live", "live heap bytes"),
    ("heap.allocated", "heap bytes allocated since the last checkpoint"),
    ("heap.count", "number of heap allocations since the last checkpoint"),
    ("heap.before", "live heap bytes when the test's body began, which are in no other figure"),
    ("cpu.peak", "peak of resident memory since the last checkpoint"),
    ("cpu.peak_above_start", "cpu.peak minus cpu.rss at `start` (computed)"),
    ("cpu.rss", "resident memory (RSS)"),
    ("cpu.kept", "free memory that the C library's allocator has not returned"),
    ("cpu.pss", "proportional set size (PSS): a shared page counts in part, divided among all that share it"),
    ("cpu.private", "resident memory that no other process maps"),
    ("cpu.shared", "resident memory that is mapped more than once"),
    ("malloc.peak", "peak of malloc.live since the last checkpoint (exact)"),
    ("malloc.live", "live bytes of the C library's allocator, which includes the Rust heap"),
    ("malloc.allocated", "bytes allocated by the C library's allocator since the last checkpoint"),
    ("malloc.count", "number of allocations by the C library's allocator since the last checkpoint"),
    ("time", "time since `start`"),
];

/// The metrics that are read on request only: they are slow, or add little to the others.
pub const ON_REQUEST: [&str; 8] = [
    "heap.before",
    "cpu.pss",
    "cpu.private",
    "cpu.shared",
    "malloc.peak",
    "malloc.live",
    "malloc.allocated",
    "malloc.count",
];

/// Whether the shim can have written this name. Reports and commands show it as it is, so it has no blanks,
/// quotes, markup or escape codes.
pub fn is_name(metric: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.:/#".contains(character);
    !metric.is_empty() && metric.chars().all(is_plain)
}

/// Returns which of these metrics are read on request only, each once. `malloc.*` requests its
/// whole family. Other patterns request nothing, because the figures of `cpu.*` are slow to read.
pub fn on_request<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<&str> = metrics.into_iter().collect();
    let is_wanted = |name: &&str| {
        wanted
            .iter()
            .any(|wanted| wanted == name || (wanted.starts_with("malloc.") && glob::matches(wanted, name)))
    };
    ON_REQUEST.into_iter().filter(is_wanted).map(str::to_owned).collect()
}

/// The last parts of the metrics of a memory pool, `pool.NAME.in_use`.
pub const OF_POOL: [&str; 4] = ["in_use", "in_use_peak", "reserved", "reserved_peak"];

/// Returns the name and the last part of a memory pool's metric: `torch` and `in_use` of
/// `pool.torch.in_use`. Names may have dots.
pub fn of_pool(metric: &str) -> Option<(&str, &str)> {
    let (name, part) = metric.strip_prefix("pool.")?.rsplit_once('.')?;
    (!name.is_empty()).then_some((name, part))
}

/// The last part of metrics that are computed: a peak above the level at `start`. Also of GPUs:
/// `gpu.0.peak_above_start`.
pub const ABOVE_START: &str = "peak_above_start";

/// Returns which of these metrics are computed, each once. They exist only where they are named, so
/// that reports and files hold no figure twice.
pub fn derived<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = metrics
        .into_iter()
        .filter(|name| name.rsplit('.').next() == Some(ABOVE_START))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The metrics shown by default, as far as the measurement has them.
pub const DEFAULT: [&str; 2] = ["heap.peak", "cpu.peak"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pools_metric_has_a_name_and_a_part() {
        assert_eq!(of_pool("pool.torch.in_use"), Some(("torch", "in_use")));
        assert_eq!(of_pool("pool.torch.1.reserved_peak"), Some(("torch.1", "reserved_peak")));
        assert_eq!(of_pool("pool.in_use").or(of_pool("pool..in_use")).or(of_pool("gpu.0.pool.used")), None);
    }

    #[test]
    fn a_pattern_requests_the_family_of_malloc_and_no_other() {
        assert_eq!(on_request(["heap.peak", "cpu.pss"]), ["cpu.pss"]);
        let all = ["malloc.peak", "malloc.live", "malloc.allocated", "malloc.count"];
        assert_eq!(on_request(["malloc.*"]), all);
        assert_eq!(on_request(["malloc.*", "malloc.live"]), all);
        assert_eq!(on_request(["malloc.l*"]), ["malloc.live"]);
        assert!(on_request(["*", "cpu.*", "*.live"]).is_empty());
    }
}
