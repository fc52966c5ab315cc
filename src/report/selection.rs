//! What of a comparison is shown: which metrics, and which rows of a test that has very many.

use regex::Regex;

use crate::compare::comparison::{Comparison, JudgedMetric, Metric, PairColumn, PairView, Ruling};
use crate::compare::matching::{Match, RowChange};
use crate::plan::metric::{DEFAULT, Unit};
use crate::report::options::Options;
use crate::report::text;
use crate::results::measurement::Kind;
use crate::verdict::kinds::Verdict;

/// More rows of one test than this help nobody in a terminal or a comment.
pub const MOST_ROWS: usize = 40;

/// How many metrics are shown where none of the default ones was measured.
const FALLBACK: usize = 2;

/// The metrics of scopes that are shown unless others are asked for.
const DEFAULT_OF_SCOPES: [&str; 4] = ["gpu.*.consumed", "gpu.*.peaked", "heap.consumed", "heap.peaked"];

/// A metric that is shown, with its figures on both sides of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// Its figures.
    pub column: PairColumn<'a>,
    /// Its verdicts, if it is judged.
    pub judged: Option<&'a JudgedMetric>,
}

impl Shown<'_> {
    /// The verdict at a row.
    pub fn ruling(&self, row: &Match) -> Option<Ruling> {
        self.judged?.at(row)
    }
}

/// The rows of a pair that have the same metrics: points have levels and peaks, scopes what was consumed between their
/// ends.
pub struct TableSection<'a> {
    /// Of what the rows are.
    pub kind: Kind,
    /// All rows of this kind, in order.
    pub rows: Vec<&'a Match>,
    /// The metrics to show of them.
    pub shown: Vec<Shown<'a>>,
}

/// Which metric names the options ask for.
pub struct MetricFilter {
    patterns: Vec<Regex>,
    /// The patterns as typed; empty where nobody chose.
    chosen: Vec<String>,
    is_default: bool,
}

impl MetricFilter {
    /// From the options. Without any, the GPUs' peaks and the default metrics.
    pub fn new(options: &Options) -> Self {
        let chosen = options.metrics.clone().filter(|_| !options.all).unwrap_or_default();
        let patterns: Vec<Regex> = match &options.metrics {
            _ if options.all => vec![glob("*")],
            Some(chosen) => chosen.iter().map(|pattern| glob(&of_scopes_too(pattern))).collect(),
            None => {
                let defaults = std::iter::once("gpu.*.peak").chain(DEFAULT);
                defaults.chain(DEFAULT_OF_SCOPES).map(glob_of_one_part).collect()
            }
        };
        Self { patterns, chosen, is_default: !options.all && options.metrics.is_none() }
    }

    /// The chosen patterns that no metric has the name of, whether it was measured or is absent with a reason.
    pub fn unknown<'a>(&'a self, comparison: &'a Comparison) -> impl Iterator<Item = &'a str> {
        let is_known = |pattern: &Regex| {
            let mut sides = comparison.cells.iter().flat_map(|cell| &cell.sides);
            comparison.metrics.iter().any(|metric| pattern.is_match(&metric.name))
                || sides.any(|side| side.absent.keys().any(|metric| pattern.is_match(metric)))
        };
        let chosen = self.chosen.iter().zip(&self.patterns);
        chosen.filter(move |(_, pattern)| !is_known(pattern)).map(|(name, _)| name.as_str())
    }

    /// Whether nobody chose.
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// The wanted metrics of points that any run has, in the order of the patterns; the first ones where none is wanted.
    pub fn of_points<'a>(&self, comparison: &'a Comparison) -> Vec<&'a Metric> {
        let is_of_scope = |metric: &Metric| {
            let part = metric.name.rsplit('.').next().unwrap_or_default();
            // A memory pool has a level of this name too.
            ["consumed", "peaked", "used"].contains(&part) && !metric.name.ends_with(".pool.used")
        };
        let points: Vec<&Metric> = comparison.metrics.iter().filter(|metric| !is_of_scope(metric)).collect();
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

    /// Whether a metric of this name is wanted.
    pub fn contains(&self, metric: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(metric))
    }

    /// What to show of a pair: the wanted metrics, in the order of the patterns, of points and of scopes. A table is
    /// never empty for want of a name: if none is wanted of what was measured, the first that there are are shown.
    pub fn parts<'a>(&self, comparison: &'a Comparison, view: &PairView<'a>) -> Vec<TableSection<'a>> {
        // Calls of traced functions have a tree of their own, and are shown here only where a rule judges them.
        let rows_of = |kind: Kind| -> Vec<&Match> {
            let of_kind = view.rows.iter().filter(|row| view.key(row).kind == kind);
            of_kind.filter(|row| kind != Kind::Call || view.is_judged(row)).collect()
        };
        let [points, scopes, calls] = [Kind::Point, Kind::Scope, Kind::Call].map(rows_of);
        let mut parts: Vec<(TableSection, Vec<Shown>)> =
            [(Kind::Point, points), (Kind::Scope, scopes), (Kind::Call, calls)]
                .into_iter()
                .filter(|(_, rows)| !rows.is_empty())
                .map(|(kind, rows)| {
                    let measured = measured(comparison, view, &rows);
                    let mut shown = self.of(&measured);
                    if self.is_default {
                        // What a rule asks for, and what regressed, is shown with the rest.
                        let matters = measured.iter().filter(|shown| {
                            let name = &shown.metric.name;
                            let is_judged = shown.judged.is_some_and(|judged| {
                                judged.is_asked
                                    || judged.rulings().any(|ruling| ruling.verdict == Verdict::Regressed)
                            });
                            is_judged || view.breaches(name).next().is_some()
                        });
                        let missing = matters
                            .filter(|one| shown.iter().all(|known| known.metric.name != one.metric.name));
                        let missing: Vec<Shown> = missing.copied().collect();
                        shown.extend(missing);
                    }
                    (TableSection { kind, rows, shown }, measured)
                })
                .collect();
        // Who chose a point's metric did not ask for scopes.
        let is_answered = !self.chosen.is_empty() && parts.iter().any(|(part, _)| !part.shown.is_empty());
        if is_answered {
            parts.retain(|(part, _)| !part.shown.is_empty());
        }
        let parts = parts.into_iter().map(|(mut part, measured)| {
            if part.shown.is_empty() {
                part.shown = measured.into_iter().take(FALLBACK).collect();
            }
            part
        });
        parts.collect()
    }

    fn of<'a>(&self, measured: &[Shown<'a>]) -> Vec<Shown<'a>> {
        let mut wanted: Vec<Shown> = Vec::new();
        for pattern in &self.patterns {
            for shown in measured.iter().filter(|shown| pattern.is_match(&shown.metric.name)) {
                if wanted.iter().all(|known| known.metric.name != shown.metric.name) {
                    wanted.push(*shown);
                }
            }
        }
        wanted
    }
}

/// The metrics that a side has figures of in these rows.
fn measured<'a>(comparison: &'a Comparison, view: &PairView<'a>, rows: &[&Match]) -> Vec<Shown<'a>> {
    let shown = comparison.metrics.iter().map(|metric| Shown {
        metric,
        column: view.column(&metric.name),
        judged: view.judged(&metric.name),
    });
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

/// What a point's metric is called at a scope is asked for with it: `heap.peak` also finds `heap.peaked`.
fn of_scopes_too(pattern: &str) -> String {
    match pattern.rsplit_once('.') {
        Some((_, "peak")) => format!("{pattern}{{,ed}}"),
        _ => pattern.to_owned(),
    }
}

/// A pattern in which `*` stands for anything, and `{,ed}` for itself or nothing.
fn glob(pattern: &str) -> Regex {
    let escaped = regex::escape(pattern).replace(r"\*", ".*").replace(r"\{,ed\}", "(ed)?");
    Regex::new(&format!("^{escaped}$")).expect("an escaped pattern is a regular expression")
}

/// A pattern in which `*` stands for one part of a name: `gpu.*.peaked` is of a device, and not of its memory pool.
fn glob_of_one_part(pattern: &str) -> Regex {
    let escaped = regex::escape(pattern).replace(r"\*", r"[^.]+");
    Regex::new(&format!("^{escaped}$")).expect("an escaped pattern is a regular expression")
}

/// Whether anything is to be said of a row: it came, went, changed its name, or one of the figures shown changed.
pub fn is_changed(view: &PairView, row: &Match, shown: &[Shown]) -> bool {
    match view.change(row) {
        Some(RowChange::Matched) => shown.iter().any(|shown| {
            let difference = shown.column.at(row).delta.map_or(0, |delta| delta.difference);
            difference != 0 && !text::is_within_noise(shown.ruling(row), difference)
        }),
        _ => true,
    }
}

/// The rows to show, in order, and what was left out for their number.
pub struct Rows<'a> {
    /// Those to show.
    pub shown: Vec<&'a Match>,
    /// How many were left out because there are too many.
    pub left_out: usize,
    /// How many of these changed.
    pub changed_left_out: usize,
}

/// Chooses rows: all up to [`MOST_ROWS`], else the changed ones first and among them the largest.
pub fn rows<'a>(view: &PairView<'a>, part: &TableSection<'a>, options: &Options) -> Rows<'a> {
    let TableSection { rows, shown, .. } = part;
    let mut rows = rows.clone();
    if options.only_changed {
        rows.retain(|row| is_changed(view, row, shown));
    }
    if options.all_rows || rows.len() <= MOST_ROWS {
        return Rows { shown: rows, left_out: 0, changed_left_out: 0 };
    }
    let mut ranked: Vec<(Weight, usize)> =
        rows.iter().enumerate().map(|(index, row)| (Weight::of(view, row, shown), index)).collect();
    // The heaviest first; among equals, the order of the run.
    let heaviest_first = |a: &(Weight, usize), b: &(Weight, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
    ranked.select_nth_unstable_by(MOST_ROWS - 1, heaviest_first);
    let changed_left_out = ranked[MOST_ROWS..].iter().filter(|(weight, _)| weight.changed).count();
    let mut kept: Vec<usize> = ranked[..MOST_ROWS].iter().map(|(_, index)| *index).collect();
    kept.sort_unstable();
    let left_out = rows.len() - kept.len();
    Rows { shown: kept.into_iter().map(|index| rows[index]).collect(), left_out, changed_left_out }
}

/// How much a row has to say. Bytes come before counts and those before times, which differ always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    changed: bool,
    bytes: u128,
    count: u128,
    nanoseconds: u128,
}

impl Weight {
    fn of(view: &PairView, row: &Match, shown: &[Shown]) -> Self {
        let mut weight = Self { changed: view.change(row) != Some(RowChange::Matched), ..Self::default() };
        for shown in shown {
            let entry = shown.column.at(row);
            // What only one side has weighs its whole figure.
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
    fn a_star_stands_for_any_part_of_a_name_and_a_dot_for_itself() {
        let options =
            Options { metrics: Some(vec!["gpu.*.peak".to_owned(), "time".to_owned()]), ..Options::default() };
        let wanted = MetricFilter::new(&options);
        assert!(wanted.contains("gpu.0.peak") && wanted.contains("time"));
        assert!(
            !wanted.contains("gpu.0.peak.x")
                && !wanted.contains("gpuX0Xpeak")
                && !wanted.contains("cpu.peak")
        );
    }
}
