//! Groups and families of metrics: their order in reports, and their names for people.
//!
//! The first part of a metric's name is its group: `gpu` of `gpu.0.pool.used`. A family is a level with
//! its peak: `gpu.0.pool`. Scopes have three figures of a family.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group of metrics, in the order of reports: GPUs first, whose memory is scarcest, and resident memory
/// after what is counted exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricGroup {
    /// GPU memory.
    Gpu,
    /// Pools of frameworks.
    Pool,
    /// The heap.
    Heap,
    /// The C library's allocator.
    Malloc,
    /// Resident memory.
    Cpu,
    /// Time.
    Time,
}

impl MetricGroup {
    /// All groups.
    pub const ALL: [Self; 6] = [Self::Gpu, Self::Pool, Self::Heap, Self::Malloc, Self::Cpu, Self::Time];

    /// Returns the group of a metric, a family or a pattern: `gpu` of `gpu.0.*` and of `gpu*`.
    pub fn of(name: &str) -> Option<Self> {
        let first = name.split(['.', '*']).next()?;
        Self::ALL.into_iter().find(|group| group.as_str() == first)
    }

    /// Returns the first part of the group's names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Pool => "pool",
            Self::Heap => "heap",
            Self::Malloc => "malloc",
            Self::Cpu => "cpu",
            Self::Time => "time",
        }
    }

    /// Whether the group has devices or pools, whose names are part of the metrics' names.
    pub(crate) fn has_instances(self) -> bool {
        matches!(self, Self::Gpu | Self::Pool)
    }
}

/// A level and its peak, and the figures of scopes that are computed from both.
struct Family {
    /// `gpu.*`
    name: &'static str,
    /// How the level's name goes on after the family's.
    level: &'static str,
    /// How the peak's name goes on.
    peak: &'static str,
    /// The name for people; `*` is the device or the pool.
    words: &'static str,
}

/// Of two that fit a name, the first counts.
const FAMILIES: [Family; 8] = [
    Family { name: "gpu.*.pool.reserved", level: "", peak: "_peak", words: "GPU * pool, reserved" },
    Family { name: "gpu.*.pool", level: ".used", peak: ".used_peak", words: "GPU * pool" },
    Family { name: "gpu.*", level: ".live", peak: ".peak", words: "GPU *" },
    Family { name: "pool.*.reserved", level: "", peak: "_peak", words: "pool *, reserved" },
    Family { name: "pool.*", level: ".in_use", peak: ".in_use_peak", words: "pool *" },
    Family { name: "heap", level: ".live", peak: ".peak", words: "heap" },
    Family { name: "malloc", level: ".live", peak: ".peak", words: "malloc" },
    Family { name: "cpu", level: ".rss", peak: ".peak", words: "resident" },
];

/// What a scope has of a family: its end minus its beginning, the peak above both, and the end.
pub const OF_SCOPES: [&str; 3] = ["consumed", "peaked", "used"];

/// Returns what the `*` of a pattern stands for in a name: `0` of `gpu.0.live` in `gpu.*.live`.
pub fn instance<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    let (begin, end) = pattern.split_once('*')?;
    name.strip_prefix(begin)?.strip_suffix(end).filter(|instance| !instance.is_empty())
}

/// Whether a name fits a pattern with at most one `*`, which stands for at least one character.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    pattern == name || instance(pattern, name).is_some()
}

/// Returns a family's name for people: `heap`, `resident`, `GPU 0`, `pool torch`.
pub fn in_words(family: &str) -> String {
    let known = FAMILIES.iter().find(|known| fits(known.name, family));
    known.map_or_else(
        || family.to_owned(),
        |known| known.words.replacen('*', instance(known.name, family).unwrap_or_default(), 1),
    )
}

/// Returns the level and the peak of a family: `cpu.rss` and `cpu.peak` of `cpu`.
pub fn level_and_peak(family: &str) -> Option<[String; 2]> {
    let known = FAMILIES.iter().find(|known| fits(known.name, family))?;
    Some([known.level, known.peak].map(|end| format!("{family}{end}")))
}

/// Returns the family of a level or a peak: `pool.x` of `pool.x.in_use`.
pub fn family_of_point(metric: &str) -> Option<&str> {
    FAMILIES.iter().find_map(|known| {
        let ends = [known.level, known.peak];
        ends.iter().find_map(|end| metric.strip_suffix(end).filter(|family| fits(known.name, family)))
    })
}

/// Returns the family of a scope's metric: `pool.x` of `pool.x.consumed`.
pub fn family_of_scope(metric: &str) -> Option<&str> {
    let (family, part) = metric.rsplit_once('.')?;
    OF_SCOPES.contains(&part).then_some(family)
}

/// Returns the families of scopes' metrics in the order of reports, each once.
pub fn families_of_scopes<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut families: Vec<&str> = metrics.into_iter().filter_map(family_of_scope).collect();
    families.sort_unstable_by_key(|family| (MetricGroup::of(family), *family));
    families.dedup();
    families
}

/// Returns the peak of a level: `cpu.peak` of `cpu.rss`.
pub fn peak_of_level(metric: &str) -> Option<String> {
    let [level, peak] = level_and_peak(family_of_point(metric)?)?;
    (level == metric).then_some(peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_a_group_and_a_name_for_people() {
        assert!(FAMILIES.iter().all(|family| MetricGroup::of(family.name).is_some()));
        for (family, words) in [
            ("heap", "heap"),
            ("cpu", "resident"),
            ("gpu.0", "GPU 0"),
            ("gpu.1.pool", "GPU 1 pool"),
            ("gpu.1.pool.reserved", "GPU 1 pool, reserved"),
            ("pool.torch", "pool torch"),
            ("zebra", "zebra"),
        ] {
            assert_eq!(in_words(family), words);
        }
    }

    #[test]
    fn families_come_in_the_order_of_their_groups() {
        let metrics =
            ["cpu.consumed", "malloc.used", "heap.used", "heap.peaked", "gpu.1.used", "gpu.0.consumed"];
        assert_eq!(families_of_scopes(metrics), ["gpu.0", "gpu.1", "heap", "malloc", "cpu"]);
    }

    #[test]
    fn a_name_or_a_pattern_has_a_group_whose_word_is_that_of_stored_plans() {
        assert_eq!(MetricGroup::of("gpu.0.pool.used"), Some(MetricGroup::Gpu));
        assert_eq!(MetricGroup::of("gpu*"), Some(MetricGroup::Gpu));
        assert_eq!(MetricGroup::of("cpu"), Some(MetricGroup::Cpu));
        assert_eq!((MetricGroup::of("*"), MetricGroup::of("cpux.rss")), (None, None));
        for group in MetricGroup::ALL {
            assert_eq!(serde_json::to_value(group).unwrap(), group.as_str());
        }
    }
}
