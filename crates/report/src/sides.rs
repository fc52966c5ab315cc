//! Tests beside sides: with several candidates, a row per test and a column per side, for each
//! metric.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::causes::sheet::CauseSheet;
use crate::markdown_text::escape;
use crate::options::{Options, Rows};
use crate::page::{Page, Text, Tone};
use crate::row_cells::{BrokenLimit, NOT_COMPARED, broken_limits, signed};
use crate::selection::{MOST_TESTS, MetricFilter, has_few_tests};
use crate::side_columns::{CandidateCell, SideColumns};
use crate::test_figures::{of_both, of_test};
use crate::text;
use crate::titles;
use memprof_judge::compare::aggregate::Availability;
use memprof_judge::compare::comparison::JudgedMetric;
use memprof_judge::compare::comparison::{Cell, Comparability, Comparison, Delta, Metric};
use memprof_judge::compare::standing::Standing;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::axes::SEPARATOR;
use memprof_plan::axis_labels::in_words;
use memprof_support::counted::counted;
use memprof_support::labels::{one_line, width};

/// A side's name above its column is cut to this width, if the names still differ.
const MOST_SIDE_NAME: usize = 32;

/// One metric of the tests that changed.
pub(super) struct SideTable<'a> {
    pub(super) metric: &'a Metric,
    pub(super) rows: Vec<SideRow<'a>>,
}

/// A test.
pub(super) struct SideRow<'a> {
    pub(super) cell: &'a Cell,
    /// By revision.
    pub(super) figures: Vec<SideFigure>,
}

/// A test's figure at a side.
#[derive(Clone, Copy)]
pub(super) struct SideFigure {
    value: Option<i64>,
    /// The difference to the baseline, if the figures may be compared.
    delta: Option<Delta>,
    /// What it is compared with, if it is not the baseline's figure: that of the rounds that both have.
    against: Option<i64>,
    /// The sign of the verdict on this metric.
    pub(super) sign: Option<char>,
    /// The absolute limit that the metric is above at any checkpoint.
    broken_limit: Option<BrokenLimit>,
    /// Whether a run did not pass.
    is_cut_off: bool,
    is_baseline: bool,
}

/// The tables of a comparison.
pub(super) struct SideTables<'a> {
    comparison: &'a Comparison,
    /// The revisions, the baseline first.
    pub(super) order: Vec<usize>,
    pub(super) tables: Vec<SideTable<'a>>,
    /// Changed tests without a row.
    pub(super) left_out: usize,
}

impl<'a> SideTables<'a> {
    /// Looks up the figures of the tests that changed. `None` with a single candidate, and if only the
    /// answer is wanted.
    pub(super) fn for_comparison(
        comparison: &'a Comparison,
        causes: &CauseSheet<'_>,
        filter: &MetricFilter,
        options: &Options,
    ) -> Option<Self> {
        if comparison.candidates().count() < 2 || options.rows == Rows::None {
            return None;
        }
        let is_whole = options.all_rows() || (has_few_tests(comparison) && !options.only_changed);
        let mut cells: Vec<&Cell> =
            comparison.cells.iter().filter(|cell| is_whole || is_notable(comparison, cell)).collect();
        let most = if options.all_rows() { usize::MAX } else { MOST_TESTS };
        let left_out = cells.len().saturating_sub(most);
        if left_out > 0 {
            cells.sort_by_key(|cell| standing(comparison, cell));
            cells.truncate(most);
        }
        let table = |metric: &'a Metric| {
            let rows = cells.iter().map(|cell| SideRow::for_metric(comparison, cell, metric));
            let rows: Vec<SideRow> = rows.filter(SideRow::has_figure).collect();
            (!rows.is_empty()).then_some(SideTable { metric, rows })
        };
        let mut metrics = filter.of_points(comparison);
        if filter.is_default() && !options.all_rows() {
            causes.keep_metrics(&mut metrics, |metric| &metric.name);
        }
        let tables: Vec<SideTable> = metrics.into_iter().filter_map(table).collect();
        let order = std::iter::once(comparison.baseline).chain(comparison.candidates()).collect();
        (!tables.is_empty()).then_some(Self { comparison, order, tables, left_out })
    }

    /// Writes the tables for a terminal.
    pub(super) fn write(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        let names = headings(page, self.comparison);
        let baseline = one_line(&self.comparison.revisions[self.comparison.baseline].name);
        let of = self.axes().map(|axes| format!(" of {axes}")).unwrap_or_default();
        let title = format!("all sides{of} · Δ is the difference to {baseline}");
        page.line(&title, "", Tone::Heading, out)?;
        for (index, table) in self.tables.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let labels =
                table.rows.iter().map(|row| Text::new(titles::distinct_title(row.cell), Tone::Plain));
            let labels: Vec<Text> = labels.collect();
            let [baseline, candidates @ ..] = self.order.as_slice() else { continue };
            let candidates = candidates.iter().map(|&side| (names[side].clone(), table.candidate(side)));
            let baseline = Some((names[*baseline].clone(), table.baseline(*baseline)));
            SideColumns { baseline, candidates: candidates.collect() }.write(
                page,
                &table.metric.name,
                &labels,
                out,
            )?;
        }
        if self.left_out > 0 {
            let line = format!("… {}: --rows all", counted(self.left_out, "more changed test"));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        writeln!(out)
    }

    /// Returns the tables as markdown.
    pub(super) fn markdown(&self) -> String {
        let names = short_names(self.comparison);
        let names: Vec<&String> = self.order.iter().map(|&side| &names[side]).collect();
        let mut text = String::new();
        if let Some(axes) = self.axes() {
            _ = write!(text, "\nAxes: {}\n", escape(&axes));
        }
        for table in &self.tables {
            let heads = names.iter().map(|name| escape(name)).collect::<Vec<_>>().join(" | ");
            _ = write!(text, "\n| {} | {heads} |\n", escape(&table.metric.name));
            _ = writeln!(text, "| --- |{}", " ---: |".repeat(names.len()));
            for row in &table.rows {
                let cells = self.order.iter().map(|&side| escape(&row.figures[side].in_words(table.metric)));
                let cells = cells.collect::<Vec<_>>().join(" | ");
                _ = writeln!(text, "| {} | {cells} |", escape(&titles::distinct_title(row.cell)));
            }
        }
        if self.left_out > 0 {
            _ = write!(text, "\n_… {}_\n", counted(self.left_out, "more changed test"));
        }
        text
    }

    /// The axes whose combinations the sides are, in words.
    pub(super) fn axes(&self) -> Option<String> {
        let axes = &self.comparison.axes;
        (!axes.is_empty()).then(|| one_line(&in_words(axes)).into_owned())
    }
}

/// Returns the heading of each revision: its name without the parts that all have. On a terminal, it is
/// cut if that leaves the headings apart.
pub(super) fn headings(page: Page, comparison: &Comparison) -> Vec<String> {
    let names = short_names(comparison);
    let cut: Vec<String> = names.iter().map(|name| page.cut(name, MOST_SIDE_NAME).into_owned()).collect();
    let distinct: BTreeSet<&String> = cut.iter().collect();
    if distinct.len() == names.len() { cut } else { names }
}

/// Returns the name of each revision without the parts that all have.
pub(super) fn short_names(comparison: &Comparison) -> Vec<String> {
    let names = comparison.revisions.iter().map(|revision| one_line(&revision.name).into_owned());
    distinct_parts(&names.collect::<Vec<_>>())
}

impl<'a> SideRow<'a> {
    fn for_metric(comparison: &Comparison, cell: &'a Cell, metric: &Metric) -> Self {
        let figures =
            (0..comparison.revisions.len()).map(|side| SideFigure::for_side(comparison, cell, metric, side));
        Self { cell, figures: figures.collect() }
    }

    fn has_figure(&self) -> bool {
        self.figures.iter().any(|figure| figure.value.is_some())
    }
}

impl SideFigure {
    fn for_side(comparison: &Comparison, cell: &Cell, metric: &Metric, side: usize) -> Self {
        let aggregate = &cell.sides[side];
        let none = Self {
            value: of_test(aggregate, metric),
            delta: None,
            against: None,
            sign: None,
            broken_limit: None,
            is_cut_off: aggregate.availability == Availability::CutOff,
            is_baseline: side == comparison.baseline,
        };
        let Some(pair) = cell.pairs.iter().find(|pair| pair.candidate == side) else { return none };
        let view = comparison.view(cell, pair);
        // Where a metric ends early, a test's figure is one of only a part of the test.
        let is_whole =
            [view.baseline, view.candidate].iter().all(|side| side.why_absent(&metric.name).is_none());
        let may_compare = view.column(&metric.name).comparability == Comparability::Comparable && is_whole;
        let [old, value] = of_both(&view, metric);
        let delta = old.zip(value).filter(|_| may_compare).map(|(old, new)| Delta::between(old, new));
        let against = old.filter(|_| delta.is_some() && old != of_test(view.baseline, metric));
        let sign = view.judged(&metric.name).and_then(|judged| sign(judged, delta));
        // One that counts matters more than one that is expected.
        let broken_limit = broken_limits(&view, &metric.name).into_values().min();
        Self { value, delta, against, sign, broken_limit, ..none }
    }

    /// Returns the figure, with a mark if a run did not pass.
    fn figure(&self, metric: &Metric) -> Text {
        match self.value {
            Some(value) if self.is_cut_off => {
                Text::new(format!("✗ {}", text::figure(value, metric.unit)), Tone::Growth)
            }
            value => Text::figure(value, metric.unit),
        }
    }

    /// Returns the difference to the baseline.
    fn difference(&self, metric: &Metric) -> Text {
        match self.delta {
            Some(delta) if self.sign == Some(text::WITHIN_NOISE) => {
                Text::new(text::difference(delta.difference, metric.unit), Tone::Quiet)
            }
            Some(delta) => Text::difference(delta.difference, metric.unit),
            None => Text::new(self.value.map_or(text::NONE, |_| NOT_COMPARED), Tone::Quiet),
        }
    }

    /// Returns the figure with its difference: `1.00 MiB (+24 B ▲)`.
    pub(super) fn in_words(&self, metric: &Metric) -> String {
        let figure = self.figure(metric);
        if self.is_baseline || self.value.is_none() {
            return figure.as_str().to_owned();
        }
        let sign = self.sign.map_or_else(String::new, |sign| format!(" {sign}"));
        let remark = self.remark(metric);
        let comma = if remark.is_empty() { "" } else { ", " };
        let (figure, difference) = (figure.as_str(), self.difference(metric));
        format!("{figure} ({}{sign}{comma}{})", difference.as_str(), remark.as_str())
    }

    fn remark(&self, metric: &Metric) -> Text {
        let of_limit = self.broken_limit.map_or_else(Text::empty, BrokenLimit::remark);
        match self.against {
            Some(old) => of_limit.after(&format!("against {}", text::figure(old, metric.unit))),
            None => of_limit,
        }
    }

    fn cell(&self, metric: &Metric) -> CandidateCell {
        CandidateCell {
            figure: self.figure(metric),
            difference: signed(self.difference(metric), self.sign),
            remark: self.remark(metric),
            is_added: false,
        }
    }
}

impl SideTable<'_> {
    fn baseline(&self, side: usize) -> Vec<Text> {
        self.rows.iter().map(|row| row.figures[side].figure(self.metric)).collect()
    }

    fn candidate(&self, side: usize) -> Vec<CandidateCell> {
        self.rows.iter().map(|row| row.figures[side].cell(self.metric)).collect()
    }
}

/// Returns the sign of the worst verdict on a metric, at any checkpoint of the test.
fn sign(judged: &JudgedMetric, delta: Option<Delta>) -> Option<char> {
    let has = |verdict| judged.rulings().any(|ruling| ruling.verdict == verdict);
    let is_within_noise =
        |delta: Delta| judged.rulings().any(|ruling| ruling.is_within_noise(delta.difference));
    if has(Verdict::Regressed) {
        Some('▲')
    } else if has(Verdict::Inconclusive) {
        Some('?')
    } else if has(Verdict::Improved) {
        Some('▼')
    } else {
        delta.is_some_and(is_within_noise).then_some(text::WITHIN_NOISE)
    }
}

/// Returns the most important of what became of a test at any side.
fn standing(comparison: &Comparison, cell: &Cell) -> Option<Standing> {
    cell.pairs.iter().map(|pair| Standing::for_pair(comparison, &comparison.view(cell, pair))).min()
}

fn is_notable(comparison: &Comparison, cell: &Cell) -> bool {
    standing(comparison, cell).is_some_and(Standing::is_notable)
}

/// Leaves out the parts that all names have: `main · dev · simd` and `main · release · simd` are `dev`
/// and `release`.
fn distinct_parts(names: &[String]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split(SEPARATOR).collect()).collect();
    let count = parts.first().map_or(0, Vec::len);
    if parts.iter().any(|of_one| of_one.len() != count) {
        return names.to_vec();
    }
    let differs = |place: usize| parts.iter().any(|of_one| of_one[place] != parts[0][place]);
    let kept: Vec<usize> = (0..count).filter(|place| differs(*place)).collect();
    let shortened = |of_one: &Vec<&str>| {
        let kept: Vec<&str> = kept.iter().map(|&place| of_one[place]).collect();
        kept.join(SEPARATOR)
    };
    let shortened: Vec<String> = parts.iter().map(shortened).collect();
    // A name is never empty.
    if shortened.iter().any(|name| width(name) == 0) { names.to_vec() } else { shortened }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(names: &str) -> String {
        let names: Vec<String> = names.split(", ").map(str::to_owned).collect();
        distinct_parts(&names).join(", ")
    }

    #[test]
    fn headings_leave_out_what_all_sides_have() {
        assert_eq!(parts("main · dev · none, main · dev · simd"), "none, simd");
        assert_eq!(parts("main · dev · a, . · dev · a, . · release · a"), "main · dev, . · dev, . · release");
        assert_eq!(parts("main, pr/1, pr/2"), "main, pr/1, pr/2");
        assert_eq!(parts("main, main · simd"), "main, main · simd");
        assert_eq!(parts("a, a"), "a, a");
    }
}
