//! The table of metrics: where each one's figures come from, how they are judged, and what is shown.
//! docs/metrics.md and docs/gpu.md explain them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric_family::{MetricGroup, fits, level_and_peak};
use memprof_support::glob;

use Property::{Alone, Drawn, FromBody, Judged, OfLines, OfScopes, OnRequest, Shown, ZeroAtFirst};

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

    /// Returns the unit of a metric.
    pub fn of_metric(metric: &str) -> Self {
        known(metric).source.unit()
    }
}

/// Where figures come from. It decides their unit and their usual limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Bytes, counted at every allocation. Equal repeats prove that they do not vary.
    Counted,
    /// Allocations, counted in the same way.
    Allocations,
    /// Bytes that the kernel or a GPU's driver states. They may be equal by chance.
    Stated,
    /// Events that the kernel counts. Few of them depend on the machine alone.
    Events,
    /// The monotonic clock.
    Clock,
}

impl Source {
    /// Returns the unit of the figures.
    pub fn unit(self) -> Unit {
        match self {
            Self::Counted | Self::Stated => Unit::Bytes,
            Self::Allocations | Self::Events => Unit::Count,
            Self::Clock => Unit::Nanoseconds,
        }
    }

    /// Returns the usual limits on growth, in percent and in the unit: for figures that repeat exactly,
    /// and for those that vary, as with threads or random hash seeds.
    pub fn limits(self) -> [(f64, u64); 2] {
        match self {
            Self::Counted => [(0.5, 16 << 10), (3.0, 64 << 10)],
            Self::Allocations => [(0.5, 16), (3.0, 100)],
            // Resident memory comes in pages, arenas and the kernel's batches.
            Self::Stated => [(3.0, 1 << 20); 2],
            // As many pages of 4 KiB.
            Self::Events => [(3.0, 256); 2],
            // 50 ms.
            Self::Clock => [(10.0, 50_000_000); 2],
        }
    }
}

/// How the figures at checkpoints become one for the whole test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A figure of the moment: the last one.
    Level,
    /// The highest since the last checkpoint: the greatest one.
    Peak,
    /// What was added since the last checkpoint: the sum.
    Total,
}

/// What holds for some metrics only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Is judged without a rule. Exact peaks and levels are, and the peak of resident memory. A level
    /// shows where memory is kept: the peak grows at the next checkpoint only.
    Judged,
    /// Is shown by default.
    Shown,
    /// The page draws it.
    Drawn,
    /// Is read on request only: it is slow, or adds little to the others.
    OnRequest,
    /// Is about a scope, from its beginning to its end.
    OfScopes,
    /// Is about lines of traced functions.
    OfLines,
    /// Depends on tests that run at the same time (docs/judging.md has the measurements).
    Alone,
    /// Is zero before its first figure: before the GPU's driver starts, the process holds no memory
    /// of the device.
    ZeroAtFirst,
    /// The level is logged above that at which the test's body began.
    FromBody,
}

/// A metric, or those that differ in a device or a pool.
#[derive(Debug)]
pub struct Metric {
    /// `gpu.*.peak`; `*` is the device or the pool.
    pub name: &'static str,
    /// Where its figures come from.
    pub source: Source,
    /// What its figures are.
    pub figure: Figure,
    properties: &'static [Property],
}

const fn level(name: &'static str, source: Source, properties: &'static [Property]) -> Metric {
    Metric { name, source, figure: Figure::Level, properties }
}

const fn peak(name: &'static str, source: Source, properties: &'static [Property]) -> Metric {
    Metric { name, source, figure: Figure::Peak, properties }
}

const fn total(name: &'static str, source: Source, properties: &'static [Property]) -> Metric {
    Metric { name, source, figure: Figure::Total, properties }
}

/// All metrics, in the order of columns. Of two that fit a name, the first counts.
pub static METRICS: &[Metric] = &[
    level("gpu.*.pool.reserved.consumed", Source::Counted, &[OfScopes]),
    level("gpu.*.pool.reserved.peaked", Source::Counted, &[OfScopes]),
    level("gpu.*.pool.reserved.used", Source::Counted, &[OfScopes]),
    level("gpu.*.pool.reserved", Source::Counted, &[]),
    peak("gpu.*.pool.reserved_peak", Source::Counted, &[]),
    level("gpu.*.pool.consumed", Source::Counted, &[OfScopes]),
    level("gpu.*.pool.peaked", Source::Counted, &[OfScopes]),
    // Scopes have a figure of this name, too.
    level("gpu.*.pool.used", Source::Counted, &[]),
    peak("gpu.*.pool.used_peak", Source::Counted, &[]),
    level("gpu.*.consumed", Source::Counted, &[OfScopes, Judged, Shown]),
    level("gpu.*.peaked", Source::Counted, &[OfScopes, Judged, Shown]),
    level("gpu.*.used", Source::Counted, &[OfScopes]),
    peak("gpu.*.peak", Source::Counted, &[Judged, Shown, Drawn]),
    peak("gpu.*.peak_above_start", Source::Counted, &[]),
    level("gpu.*.live", Source::Counted, &[Judged, Drawn, ZeroAtFirst]),
    level("gpu.*.process", Source::Stated, &[Drawn]),
    level("gpu.*.device", Source::Stated, &[Drawn]),
    level("gpu.*.context", Source::Stated, &[]),
    level("gpu.*.vram", Source::Stated, &[]),
    level("pool.*.reserved.consumed", Source::Counted, &[OfScopes]),
    level("pool.*.reserved.peaked", Source::Counted, &[OfScopes]),
    level("pool.*.reserved.used", Source::Counted, &[OfScopes]),
    level("pool.*.consumed", Source::Counted, &[OfScopes, Judged]),
    level("pool.*.peaked", Source::Counted, &[OfScopes, Judged]),
    level("pool.*.used", Source::Counted, &[OfScopes]),
    level("pool.*.in_use", Source::Counted, &[Judged, Drawn]),
    peak("pool.*.in_use_peak", Source::Counted, &[Judged, Shown, Drawn]),
    // What a pool reserves for what it hands out is its own choice.
    level("pool.*.reserved", Source::Counted, &[Drawn]),
    peak("pool.*.reserved_peak", Source::Counted, &[Drawn]),
    peak("heap.peak", Source::Counted, &[Judged, Shown, Drawn]),
    peak("heap.peak_above_start", Source::Counted, &[]),
    level("heap.live", Source::Counted, &[Judged, Drawn, FromBody]),
    total("heap.allocated", Source::Counted, &[]),
    total("heap.count", Source::Allocations, &[]),
    level("heap.before", Source::Counted, &[OnRequest, FromBody]),
    level("heap.consumed", Source::Counted, &[OfScopes, Judged, Shown]),
    level("heap.peaked", Source::Counted, &[OfScopes, Judged, Shown]),
    level("heap.used", Source::Counted, &[OfScopes]),
    total("heap.freed", Source::Counted, &[OfLines]),
    peak("malloc.peak", Source::Counted, &[OnRequest, Drawn]),
    peak("malloc.peak_above_start", Source::Counted, &[]),
    level("malloc.live", Source::Counted, &[OnRequest, Drawn]),
    total("malloc.allocated", Source::Counted, &[OnRequest]),
    total("malloc.count", Source::Allocations, &[OnRequest]),
    level("malloc.consumed", Source::Counted, &[OfScopes]),
    level("malloc.peaked", Source::Counted, &[OfScopes]),
    level("malloc.used", Source::Counted, &[OfScopes]),
    peak("cpu.peak", Source::Stated, &[Judged, Shown, Drawn]),
    peak("cpu.peak_above_start", Source::Stated, &[]),
    level("cpu.rss", Source::Stated, &[Drawn]),
    level("cpu.kept", Source::Stated, &[]),
    level("cpu.program", Source::Stated, &[]),
    level("cpu.pss", Source::Stated, &[OnRequest, Alone]),
    level("cpu.private", Source::Stated, &[OnRequest, Alone]),
    level("cpu.shared", Source::Stated, &[OnRequest, Alone]),
    total("cpu.faults", Source::Events, &[OnRequest]),
    level("cpu.consumed", Source::Stated, &[OfScopes]),
    level("cpu.peaked", Source::Stated, &[OfScopes]),
    level("cpu.used", Source::Stated, &[OfScopes]),
    level("time", Source::Clock, &[Alone, Drawn]),
    total("*.grown", Source::Stated, &[OfLines]),
];

/// What is assumed of a metric that the table lacks, such as one of a newer version.
static OTHER: Metric = level("*", Source::Stated, &[]);

/// Returns a metric by its name; `None` if there is none.
pub fn find(name: &str) -> Option<&'static Metric> {
    place(name).map(|place| &METRICS[place])
}

/// Where a metric is in the table.
fn place(name: &str) -> Option<usize> {
    // Every figure asks, and few names are of families.
    let named = METRICS.iter().position(|metric| metric.name == name);
    named.or_else(|| METRICS.iter().position(|metric| metric.fits(name)))
}

/// Returns a metric by its name. One that the table lacks is a level in bytes that nothing judges.
pub fn known(name: &str) -> &'static Metric {
    find(name).unwrap_or(&OTHER)
}

impl Metric {
    /// Whether this holds for the metric.
    pub fn is(&self, property: Property) -> bool {
        self.properties.contains(&property)
    }

    /// Whether equal repeats prove that the metric does not vary.
    pub fn is_counted(&self) -> bool {
        matches!(self.source, Source::Counted | Source::Allocations)
    }

    /// Whether figures of several calls or lines are added up.
    pub fn is_total(&self) -> bool {
        self.figure == Figure::Total || self.source == Source::Clock
    }

    /// Whether figures depend on where they begin. Figures that begin elsewhere are of another source,
    /// and never compared.
    pub fn counts_from_start(&self) -> bool {
        self.figure != Figure::Level || self.source == Source::Clock || self.is(FromBody)
    }

    fn fits(&self, name: &str) -> bool {
        fits(self.name, name)
    }
}

/// Returns what orders metrics: by group, then devices and pools by name, and others as in the table.
pub fn order(metric: &str) -> (usize, usize, &str) {
    let group = MetricGroup::of(metric);
    let place = place(metric).unwrap_or(METRICS.len());
    let has_instances = group.is_some_and(MetricGroup::has_instances);
    let rank = group.map_or(MetricGroup::ALL.len(), |group| group as usize);
    (rank, if has_instances { 0 } else { place }, metric)
}

/// Whether the shim can have written this name. Reports and commands show it as it is, so it has no blanks,
/// quotes, markup or escape codes.
pub fn is_name(metric: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.:/#".contains(character);
    !metric.is_empty() && metric.chars().all(is_plain)
}

/// Returns which of these metrics are read on request only, each once. `malloc.*` requests its
/// whole group. Other patterns request nothing, because the figures of `cpu.*` are slow to read. A
/// computed metric requests what it is computed from.
pub fn on_request<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let named: Vec<&str> = metrics.into_iter().collect();
    let families = named.iter().filter_map(|name| name.strip_suffix(ABOVE_START)?.strip_suffix('.'));
    let sources: Vec<String> = families.filter_map(level_and_peak).flatten().collect();
    let wanted: Vec<&str> = named.into_iter().chain(sources.iter().map(String::as_str)).collect();
    let is_of_malloc = |wanted: &str| MetricGroup::of(wanted) == Some(MetricGroup::Malloc);
    let is_wanted = |name: &&str| {
        wanted.iter().any(|wanted| wanted == name || (is_of_malloc(wanted) && glob::matches(wanted, name)))
    };
    with(OnRequest).filter(is_wanted).map(str::to_owned).collect()
}

/// Returns the names of the metrics with this property.
pub fn with(property: Property) -> impl Iterator<Item = &'static str> {
    METRICS.iter().filter(move |metric| metric.is(property)).map(|metric| metric.name)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_family::{OF_SCOPES, family_of_point, family_of_scope, peak_of_level};

    #[test]
    fn a_name_finds_the_row_that_fits_it_most_closely() {
        for (name, row) in [
            ("heap.peak", "heap.peak"),
            ("gpu.0.peak", "gpu.*.peak"),
            ("gpu.GPU-5d2c1f0a.live", "gpu.*.live"),
            ("gpu.0000:03:00.0.vram", "gpu.*.vram"),
            ("gpu.0.pool.used", "gpu.*.pool.used"),
            ("gpu.0.used", "gpu.*.used"),
            ("pool.torch.1.reserved_peak", "pool.*.reserved_peak"),
            ("pool.torch.reserved.consumed", "pool.*.reserved.consumed"),
            ("gpu.0.pool.grown", "*.grown"),
        ] {
            assert_eq!(find(name).map(|metric| metric.name), Some(row), "{name}");
        }
        for name in ["heap", "gpu..peak", "pool.in_use", "pool..in_use", "heap.peek", ""] {
            assert!(find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn each_row_is_found_by_its_name() {
        for metric in METRICS {
            let found = find(&metric.name.replace('*', "0")).unwrap();
            assert_eq!(found.name, metric.name);
        }
    }

    #[test]
    fn a_family_has_a_level_a_peak_and_figures_of_scopes() {
        for (family, level, peak) in [
            ("heap", "heap.live", "heap.peak"),
            ("cpu", "cpu.rss", "cpu.peak"),
            ("gpu.0", "gpu.0.live", "gpu.0.peak"),
            ("gpu.0.pool", "gpu.0.pool.used", "gpu.0.pool.used_peak"),
            ("pool.a.b", "pool.a.b.in_use", "pool.a.b.in_use_peak"),
            ("pool.a.reserved", "pool.a.reserved", "pool.a.reserved_peak"),
        ] {
            assert_eq!(level_and_peak(family).unwrap(), [level, peak]);
            assert_eq!([family_of_point(level), family_of_point(peak)], [Some(family); 2]);
            assert_eq!(peak_of_level(level).as_deref(), Some(peak));
            assert_eq!((known(level).figure, known(peak).figure), (Figure::Level, Figure::Peak));
            for part in OF_SCOPES {
                let metric = format!("{family}.{part}");
                assert_eq!(family_of_scope(&metric), Some(family));
                assert!(metric == level || known(&metric).is(OfScopes), "{metric}");
            }
        }
        assert_eq!((family_of_point("heap.count"), family_of_point("time")), (None, None));
        assert!(peak_of_level("heap.peak").is_none() && level_and_peak("zebra").is_none());
    }

    #[test]
    fn metrics_are_ordered_by_group_then_as_in_the_table_or_by_name() {
        let mut names = [
            "zebra",
            "time",
            "cpu.peak",
            "malloc.live",
            "heap.live",
            "heap.peak",
            "pool.a.in_use",
            "gpu.1.live",
        ];
        names.sort_by_key(|name| order(name));
        assert_eq!(
            names,
            [
                "gpu.1.live",
                "pool.a.in_use",
                "heap.peak",
                "heap.live",
                "malloc.live",
                "cpu.peak",
                "time",
                "zebra"
            ]
        );
        let places: Vec<usize> = METRICS.iter().map(|metric| order(metric.name).0).collect();
        assert!(places.is_sorted(), "the table is in the order of the groups");
    }

    #[test]
    fn a_pattern_requests_the_group_of_malloc_and_no_other() {
        assert_eq!(on_request(["heap.peak", "cpu.pss"]), ["cpu.pss"]);
        let all = ["malloc.peak", "malloc.live", "malloc.allocated", "malloc.count"];
        assert_eq!(on_request(["malloc.*"]), all);
        assert_eq!(on_request(["malloc.*", "malloc.live"]), all);
        assert_eq!(on_request(["malloc.l*"]), ["malloc.live"]);
        assert_eq!(on_request(["malloc.peak_above_start"]), ["malloc.peak", "malloc.live"]);
        assert!(on_request(["*", "cpu.*", "*.live"]).is_empty());
    }
}
