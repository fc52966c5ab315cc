//! Selects what a report shows: which metrics, and which rows of a test with many.

use regex::Regex;

use crate::options::Options;
use crate::text;
use memprof_judge::compare::comparison::{Comparison, JudgedMetric, Metric, PairColumn, PairView, Ruling};
use memprof_judge::compare::matching::{Match, RowChange};
use memprof_judge::compare::standing::worst_change;
use memprof_judge::results::measurement::Kind;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::metric::{self, Property, Unit};
use memprof_plan::metric_family::peak_of_level;

/// Show at most this many rows of a test in a terminal or a comment.
pub(crate) const MOST_ROWS: usize = 40;

/// The same on the page. Nobody reads a longer table, and the chart has all points.
pub(crate) const MOST_ROWS_OF_PAGE: usize = 300;

/// Show at most this many rows of a tree of calls.
pub(crate) const MOST_CALLS: usize = 60;

/// Show at most this many tests: those that changed beside sides, and in a comment those of one standing or
/// cause.
pub(crate) const MOST_TESTS: usize = 20;

/// Show this many metrics if no default metric was measured.
const FALLBACK: usize = 2;

/// A shown metric, with its figures on both sides of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownMetric<'a> {
    pub metric: &'a Metric,
    /// The figures.
    pub column: PairColumn<'a>,
    /// The verdicts, if judged.
    pub judged: Option<&'a JudgedMetric>,
}

impl<'a> ShownMetric<'a> {
    /// Looks up a metric of a pair.
    pub fn new(view: &PairView<'a>, metric: &'a Metric) -> Self {
        Self { metric, column: view.column(&metric.name), judged: view.judged(&metric.name) }
    }

    /// Returns the verdict at a row.
    pub fn ruling(&self, row: &Match) -> Option<Ruling> {
        self.judged?.at(row)
    }

    /// Whether to show it even if it is not a default metric: a rule covers it, it regressed, the answer
    /// names it, or it exceeds a limit.
    fn matters(&self, view: &PairView, named: &[&str]) -> bool {
        // A level that grew together with its peak says nothing more.
        let peak = peak_of_level(&self.metric.name).and_then(|peak| view.judged(&peak));
        let is_regressed = |judged: &JudgedMetric, row: &Match| {
            judged.at(row).is_some_and(|ruling| ruling.verdict == Verdict::Regressed)
        };
        let regressed_alone = |judged: &JudgedMetric, row: &Match| {
            is_regressed(judged, row) && !peak.is_some_and(|peak| is_regressed(peak, row))
        };
        let is_judged = self.judged.is_some_and(|judged| {
            judged.is_asked || view.rows.iter().any(|row| regressed_alone(judged, row))
        });
        is_judged
            || named.contains(&self.metric.name.as_str())
            || view.breaches(&self.metric.name).next().is_some()
    }
}

/// The rows of one kind, with the metrics to show. Points have levels and peaks, scopes and calls
/// have consumption.
pub(crate) struct TableSection<'a> {
    /// The kind of the rows.
    pub kind: Kind,
    /// All rows of this kind, in order.
    pub rows: Vec<&'a Match>,
    /// The metrics to show.
    pub shown: Vec<ShownMetric<'a>>,
}

/// The metric names that the options select.
pub(crate) struct MetricFilter {
    patterns: Vec<Regex>,
    /// The patterns as typed; empty for the default.
    chosen: Vec<String>,
    is_default: bool,
}

impl MetricFilter {
    /// Reads the options.
    pub fn new(options: &Options) -> Self {
        let chosen = options.metrics.clone().filter(|_| !options.all).unwrap_or_default();
        let patterns: Vec<Regex> = match &options.metrics {
            _ if options.all => vec![glob("*")],
            Some(chosen) => chosen.iter().map(|pattern| of_scopes_too(pattern)).collect(),
            None => metric::with(Property::Shown).map(glob_of_one_part).collect(),
        };
        Self { patterns, chosen, is_default: !options.all && options.metrics.is_none() }
    }

    /// Returns the chosen patterns that match no metric, neither a measured nor an unavailable one.
    pub fn unknown<'a>(&'a self, comparison: &'a Comparison) -> impl Iterator<Item = &'a str> {
        let is_known = |pattern: &Regex| {
            let mut sides = comparison.cells.iter().flat_map(|cell| &cell.sides);
            comparison.metrics.iter().any(|metric| pattern.is_match(&metric.name))
                || sides.any(|side| side.absent.keys().any(|metric| pattern.is_match(metric)))
        };
        let chosen = self.chosen.iter().zip(&self.patterns);
        chosen.filter(move |(_, pattern)| !is_known(pattern)).map(|(name, _)| name.as_str())
    }

    /// Whether the default applies.
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// Returns the measured metrics of points that match, in the order of the patterns; if none
    /// matches, the first ones.
    pub(crate) fn of_points<'a>(&self, comparison: &'a Comparison) -> Vec<&'a Metric> {
        let is_of_scopes = |metric: &Metric| metric::known(&metric.name).is(Property::OfScopes);
        let points: Vec<&Metric> = comparison.metrics.iter().filter(|metric| !is_of_scopes(metric)).collect();
        let mut wanted: Vec<&Metric> = Vec::new();
        for pattern in &self.patterns {
            for metric in points.iter().filter(|metric| pattern.is_match(&metric.name)) {
                if !wanted.contains(metric) {
                    wanted.push(metric);
                }
            }
        }
        if wanted.is_empty() { points.into_iter().take(FALLBACK).collect() } else { wanted }
    }

    /// Whether a metric's name matches.
    pub fn contains(&self, metric: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(metric))
    }

    /// Returns what to show of a pair, by kind of row. Metrics follow the order of the patterns. A
    /// section is never empty: if no measured metric matches, it shows the first ones.
    pub fn sections<'a>(&self, comparison: &'a Comparison, view: &PairView<'a>) -> Vec<TableSection<'a>> {
        let mut sections: Vec<(TableSection, Vec<ShownMetric>)> = [Kind::Point, Kind::Scope, Kind::Call]
            .into_iter()
            .filter_map(|kind| self.section(comparison, view, kind))
            .collect();
        // Choosing a metric of points does not ask for scopes.
        if !self.chosen.is_empty() && sections.iter().any(|(section, _)| !section.shown.is_empty()) {
            sections.retain(|(section, _)| !section.shown.is_empty());
        }
        let filled = sections.into_iter().map(|(mut section, measured)| {
            if section.shown.is_empty() {
                section.shown = measured.into_iter().take(FALLBACK).collect();
            }
            section
        });
        filled.collect()
    }

    /// Returns the rows of a kind with the matching metrics, and all metrics measured there; `None`
    /// without rows.
    fn section<'a>(
        &self,
        comparison: &'a Comparison,
        view: &PairView<'a>,
        kind: Kind,
    ) -> Option<(TableSection<'a>, Vec<ShownMetric<'a>>)> {
        let mut rows: Vec<&Match> = view.rows.iter().filter(|row| view.key(row).kind == kind).collect();
        // Calls have a tree of their own. Tables show only those that a rule judges.
        rows.retain(|row| kind != Kind::Call || view.is_judged(row));
        if rows.is_empty() {
            return None;
        }
        let measured = measured(comparison, view, &rows);
        let mut shown = self.matching(&measured);
        if self.is_default {
            let named = named(view);
            let is_new = |one: &&ShownMetric| shown.iter().all(|known| known.metric.name != one.metric.name);
            let more: Vec<ShownMetric> =
                measured.iter().filter(|one| one.matters(view, &named)).filter(is_new).copied().collect();
            shown.extend(more);
        }
        Some((TableSection { kind, rows, shown }, measured))
    }

    fn matching<'a>(&self, measured: &[ShownMetric<'a>]) -> Vec<ShownMetric<'a>> {
        let mut matching: Vec<ShownMetric> = Vec::new();
        for pattern in &self.patterns {
            for shown in measured.iter().filter(|shown| pattern.is_match(&shown.metric.name)) {
                if matching.iter().all(|known| known.metric.name != shown.metric.name) {
                    matching.push(*shown);
                }
            }
        }
        matching
    }
}

/// Returns the metrics that the answer names: the largest change in each direction.
fn named<'a>(view: &PairView<'a>) -> Vec<&'a str> {
    let verdicts = [Verdict::Regressed, Verdict::Improved];
    let worst = verdicts.map(|verdict| worst_change(view, |ruling| ruling.verdict == verdict));
    worst.into_iter().flatten().map(|worst| worst.metric).collect()
}

/// Returns the metrics with figures in these rows.
fn measured<'a>(comparison: &'a Comparison, view: &PairView<'a>, rows: &[&Match]) -> Vec<ShownMetric<'a>> {
    let shown = comparison.metrics.iter().map(|metric| ShownMetric::new(view, metric));
    shown
        .filter(|shown| {
            let is_on_a_side = shown.column.baseline.is_some() || shown.column.candidate.is_some();
            is_on_a_side
                && rows.iter().any(|row| {
                    let entry = shown.column.at(row);
                    entry.baseline.is_some() || entry.candidate.is_some()
                })
        })
        .collect()
}

/// Extends a pattern of points to scopes: `heap.peak` also matches `heap.peaked`, and
/// `pool.x.in_use_peak` also matches `pool.x.peaked`.
fn of_scopes_too(pattern: &str) -> Regex {
    match pattern.rsplit_once('.') {
        Some((family, part @ ("peak" | "in_use_peak"))) => {
            let family = glob_text(family);
            Regex::new(&format!("^{family}\\.({part}|peaked)$")).expect("both parts are plain")
        }
        _ => glob(pattern),
    }
}

/// Returns a pattern in which `*` matches anything.
fn glob(pattern: &str) -> Regex {
    let escaped = glob_text(pattern);
    Regex::new(&format!("^{escaped}$")).expect("an escaped pattern is a regular expression")
}

fn glob_text(pattern: &str) -> String {
    regex::escape(pattern).replace(r"\*", ".*")
}

/// Returns a pattern in which `*` matches one part of a name: `gpu.*.peaked` matches a device, not
/// its memory pool.
fn glob_of_one_part(pattern: &str) -> Regex {
    let escaped = regex::escape(pattern).replace(r"\*", r"[^.]+");
    Regex::new(&format!("^{escaped}$")).expect("an escaped pattern is a regular expression")
}

/// Whether a row was added, removed or renamed, or one of the shown figures changed beyond noise, or
/// only one side has it.
pub(crate) fn is_changed(view: &PairView, row: &Match, shown: &[ShownMetric]) -> bool {
    match view.change(row) {
        Some(RowChange::Matched) => shown.iter().any(|shown| {
            let figures = shown.column.at(row);
            let difference = figures.delta.map_or(0, |delta| delta.difference);
            figures.baseline.is_some() != figures.candidate.is_some()
                || (difference != 0 && !text::is_within_noise(shown.ruling(row), difference))
        }),
        _ => true,
    }
}

/// The rows to show, in order, and how many are left out.
pub(crate) struct ShownRows<'a> {
    /// The rows to show.
    pub shown: Vec<&'a Match>,
    /// The number of rows left out.
    pub left_out: usize,
    /// The number of changed rows among those left out.
    pub changed_left_out: usize,
}

/// With at most this many tests, all rows of each are shown, changed or not.
const FEW_TESTS: usize = 3;

/// Whether a comparison has so few tests that unchanged ones are shown, too.
pub(crate) fn has_few_tests(comparison: &Comparison) -> bool {
    comparison.cells.iter().filter(|cell| !cell.pairs.is_empty()).count() <= FEW_TESTS
}

/// Selects rows: all, up to this number; beyond that, the ones with the largest changes.
pub(crate) fn rows<'a>(
    view: &PairView<'a>,
    section: &TableSection<'a>,
    most: usize,
    options: &Options,
) -> ShownRows<'a> {
    let TableSection { rows, shown, .. } = section;
    let mut rows = rows.clone();
    if options.only_changed {
        rows.retain(|row| is_changed(view, row, shown));
    }
    if options.all_rows() || rows.len() <= most {
        return ShownRows { shown: rows, left_out: 0, changed_left_out: 0 };
    }
    let mut ranked: Vec<(Weight, usize)> =
        rows.iter().enumerate().map(|(index, row)| (Weight::of_row(view, row, shown), index)).collect();
    // Largest change first; among equals, in the order of the run.
    let heaviest_first = |a: &(Weight, usize), b: &(Weight, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
    ranked.select_nth_unstable_by(most - 1, heaviest_first);
    let changed_left_out = ranked[most..].iter().filter(|(weight, _)| weight.changed).count();
    let mut kept: Vec<usize> = ranked[..most].iter().map(|(_, index)| *index).collect();
    kept.sort_unstable();
    let left_out = rows.len() - kept.len();
    ShownRows { shown: kept.into_iter().map(|index| rows[index]).collect(), left_out, changed_left_out }
}

/// The size of a row's change. Bytes rank before counts, and counts before times, which always
/// differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    changed: bool,
    bytes: u128,
    count: u128,
    nanoseconds: u128,
}

impl Weight {
    fn of_row(view: &PairView, row: &Match, shown: &[ShownMetric]) -> Self {
        let mut weight = Self { changed: view.change(row) != Some(RowChange::Matched), ..Self::default() };
        for shown in shown {
            let entry = shown.column.at(row);
            // An added or removed row counts with its whole figure.
            let whole = entry.baseline.or(entry.candidate).map(|figure| i128::from(figure.value));
            let difference = match (entry.delta, weight.changed) {
                (Some(delta), _) if text::is_within_noise(shown.ruling(row), delta.difference) => 0,
                (Some(delta), _) => delta.difference.unsigned_abs(),
                (None, true) => whole.unwrap_or(0).unsigned_abs(),
                (None, false) => 0,
            };
            let slot = match shown.metric.unit {
                Unit::Bytes => &mut weight.bytes,
                Unit::Count => &mut weight.count,
                Unit::Nanoseconds => &mut weight.nanoseconds,
            };
            *slot = (*slot).max(difference);
        }
        weight.changed |= weight.bytes > 0 || weight.count > 0 || weight.nanoseconds > 0;
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_part_of_a_name_and_a_dot_only_itself() {
        let options =
            Options { metrics: Some(vec!["gpu.*.peak".to_owned(), "time".to_owned()]), ..Options::default() };
        let wanted = MetricFilter::new(&options);
        assert!(wanted.contains("gpu.0.peak") && wanted.contains("time"));
        assert!(wanted.contains("gpu.0.peaked") && !wanted.contains("pool.a.in_use_peak"));
        let options = Options { metrics: Some(vec!["pool.*.in_use_peak".to_owned()]), ..options };
        let wanted_of_pools = MetricFilter::new(&options);
        assert!(wanted_of_pools.contains("pool.a.in_use_peak") && wanted_of_pools.contains("pool.a.peaked"));
        assert!(!wanted_of_pools.contains("pool.a.reserved_peak"));
        let by_default = MetricFilter::new(&Options::default());
        assert!(by_default.contains("pool.a.in_use_peak") && !by_default.contains("pool.a.reserved"));
        assert!(
            !wanted.contains("gpu.0.peak.x")
                && !wanted.contains("gpuX0Xpeak")
                && !wanted.contains("cpu.peak")
        );
    }
}
