//! The table for a terminal: the answer, then tables of checkpoints for tests that changed. Metrics
//! stand side by side as far as the width allows, then in blocks below. A row is always one line.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::IndexMap;

use crate::answer::{Answer, NotJudged};
use crate::answer_table::is_failure;
use crate::causes::sheet::CauseSheet;
use crate::frame::{self, Foot};
use crate::options::{Options, Rows};
use crate::page::{CompactLine, Group, Page, Text, Tone};
use crate::proof;
use crate::row_cells::{self, MetricCells, NOT_COMPARED, RowCells, noun};
use crate::selection::{self, MOST_ROWS, MetricFilter, ShownMetric, ShownRows, TableSection};
use crate::side_rows::{ShownView, TestAtSides};
use crate::sides::SideTables;
use crate::tensors::view;
use crate::text;
use crate::titles;
use crate::trace::calls;
use crate::troubles::{self, Trouble};
use crate::why::explained;
use memprof_judge::compare::aggregate::Availability;
use memprof_judge::compare::comparison::{Cell, Comparison, Pair, PairView};
use memprof_judge::compare::matching::Match;
use memprof_judge::compare::standing::Standing;
use memprof_judge::verdict::kinds::Verdict;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// With more tests, at most this many of those that changed have a table.
const MOST_TABLES: usize = 4;

/// With several tables, each has at most this many rows.
const FEW_ROWS: usize = 12;

/// Writes the answer, the tables, and the foot.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let filter = MetricFilter::new(options);
    let answers = Answer::of_all(comparison);
    let causes = CauseSheet::new(comparison, options);
    page.answers(comparison, &answers, &causes, options, out)?;
    if let Some(proof) = &options.proof {
        proof::section(proof, page, out)?;
    }
    let tables = Tables::select(comparison, &answers, &causes, &filter, options);
    if options.compact {
        page.compact_tables(comparison, &tables, out)?;
    } else {
        if let Some(sides) = SideTables::for_comparison(comparison, &causes, &filter, options) {
            sides.write(page, out)?;
        }
        for test in &tables.tests {
            page.test(comparison, test, tables.most_rows, options, out)?;
            writeln!(out)?;
        }
    }
    let remarks = if tables.is_short { explained::remarks(options) } else { Vec::new() };
    if tables.left_out > 0 {
        let line = format!("tables of {}: --rows all", counted(tables.left_out, "more changed test"));
        page.line(&line, "", Tone::Quiet, out)?;
    }
    Foot {
        comparison,
        options,
        filter: &filter,
        answers: &answers,
        not_judged: tables.not_judged.line(),
        remarks,
    }
    .write(page, out)
}

/// The tests that have a table, the worst first.
struct Tables<'a> {
    tests: Vec<ShownTest<'a>>,
    /// Changed tests without a table.
    left_out: usize,
    most_rows: usize,
    not_judged: NotJudged,
    /// Whether tests with a cause show no call sites of their own.
    is_short: bool,
}

/// A test that has a table.
struct ShownTest<'a> {
    /// The candidates that it changed at, or that were asked for, the worst first.
    shown: Vec<ShownView<'a>>,
    /// All candidates, which are the columns of the table; empty if there is only one.
    columns: Vec<ShownView<'a>>,
    /// Whether causes above say where its memory comes from.
    is_explained: bool,
}

impl<'a> ShownTest<'a> {
    /// Puts the views of a test together. With a single candidate, each has one.
    fn group(
        views: impl Iterator<Item = ShownView<'a>>,
        comparison: &'a Comparison,
        filter: &MetricFilter,
        short: Option<&CauseSheet<'_>>,
    ) -> Vec<Self> {
        let mut tests: IndexMap<*const Cell, Self> = IndexMap::new();
        for (view, mut sections) in views {
            let causes = short.filter(|causes| causes.covers(&view));
            let keep = |sections: &mut [TableSection<'a>]| {
                if let Some(causes) = causes.filter(|_| filter.is_default()) {
                    keep_metrics_of(causes, sections);
                }
            };
            keep(&mut sections);
            let columns = || {
                let pairs = view.cell.pairs.iter().filter(|_| view.cell.pairs.len() > 1);
                let views = pairs.map(|pair| comparison.view(view.cell, pair));
                let sections = |view: &PairView<'a>| {
                    let mut sections = filter.sections(comparison, view);
                    keep(&mut sections);
                    sections
                };
                views.map(|view| (view, sections(&view))).collect()
            };
            let test = tests.entry(std::ptr::from_ref(view.cell));
            let is_explained = causes.is_some();
            test.or_insert_with(|| Self { shown: Vec::new(), columns: columns(), is_explained })
                .shown
                .push((view, sections));
        }
        tests.into_values().collect()
    }
}

impl<'a> Tables<'a> {
    fn select(
        comparison: &'a Comparison,
        answers: &[Answer<'a>],
        causes: &CauseSheet<'_>,
        filter: &MetricFilter,
        options: &Options,
    ) -> Self {
        let ranks = ranks(answers);
        let mut not_judged = NotJudged::default();
        let mut shown = Vec::new();
        for view in comparison.pairs() {
            let sections = filter.sections(comparison, &view);
            let has_unjudged_change = not_judged.add(&view, &sections);
            let rank = ranks.get(&std::ptr::from_ref(view.pair)).copied();
            // Failures have a line above. Their tables show how far they came.
            let is_cut_off =
                [view.baseline, view.candidate].iter().any(|side| side.availability == Availability::CutOff);
            let is_failed = is_failure(Standing::for_pair(comparison, &view));
            let relevance = match (rank.is_some() || has_unjudged_change, is_failed && !is_cut_off) {
                (true, _) => Relevance::Changed,
                (false, true) => Relevance::Failed,
                (false, false) => Relevance::Asked,
            };
            shown.push((rank.unwrap_or(usize::MAX), relevance, view, sections));
        }
        // With few tests, or with traces, unchanged tests have a table, too.
        let is_few = selection::has_few_tests(comparison) || !comparison.traces.is_empty();
        // Causes say what changed in a test. Only their worst tests have a table, unless few tests were asked for more.
        let is_short = !causes.is_empty() && !options.shows_sites && !options.compact;
        let is_said = is_short && !(causes.is_asked_for_more() && selection::has_few_tests(comparison));
        match options.rows {
            Rows::All => {}
            Rows::None => shown.clear(),
            Rows::Changed if is_said => shown.retain(|(_, relevance, view, _)| {
                *relevance == Relevance::Changed && causes.leaves_to_a_table(view, options)
            }),
            Rows::Changed if options.only_changed => {
                shown.retain(|(_, relevance, ..)| *relevance == Relevance::Changed);
            }
            Rows::Changed if options.compact => {}
            Rows::Changed => {
                let least = if is_few { Relevance::Asked } else { Relevance::Changed };
                shown.retain(|(_, relevance, ..)| *relevance <= least);
            }
        }
        let is_cut = options.rows == Rows::Changed
            && (!is_few || is_said)
            && !options.compact
            && !options.only_changed;
        if options.rows == Rows::Changed {
            shown.sort_by_key(|(rank, ..)| *rank);
        }
        let most = if is_cut { MOST_TABLES } else { usize::MAX };
        let views = shown.into_iter().map(|(_, _, view, sections)| (view, sections));
        let short = (options.rows == Rows::Changed && is_short).then_some(causes);
        let mut tests = ShownTest::group(views, comparison, filter, short);
        let left_out = tests.len().saturating_sub(most);
        tests.truncate(most);
        let most_rows = if is_cut && tests.len() > 1 { FEW_ROWS } else { MOST_ROWS };
        Self { tests, left_out, most_rows, not_judged, is_short: short.is_some() }
    }
}

/// Leaves out the metrics that no cause is about, such as resident memory, which follows from the heap.
fn keep_metrics_of(causes: &CauseSheet<'_>, sections: &mut [TableSection<'_>]) {
    for section in sections {
        causes.keep_metrics(&mut section.shown, |shown| &shown.metric.name);
    }
}

/// Why a test has a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relevance {
    Changed,
    /// Is one of few tests that were asked for.
    Asked,
    /// Failed without a figure to show, and has a line above.
    Failed,
}

/// Returns each changed pair's place among the findings of all candidates. Failures have a line of
/// their own.
fn ranks(answers: &[Answer]) -> HashMap<*const Pair, usize> {
    let findings = answers.iter().flat_map(|answer| &answer.findings);
    let mut with_figures: Vec<_> = findings.filter(|finding| !is_failure(finding.standing)).collect();
    with_figures.sort_by_key(|finding| finding.order());
    with_figures
        .into_iter()
        .enumerate()
        .map(|(rank, finding)| (std::ptr::from_ref(finding.view.pair), rank))
        .collect()
}

/// Returns the headings of the measured sides. A mark shows that a run did not pass.
fn side_headings(page: Page, view: &PairView) -> Vec<String> {
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    let measured = sides.iter().filter(|(_, side)| side.availability != Availability::Missing);
    measured.map(|(revision, side)| page.heading_of_side(&revision.name, side)).collect()
}

/// Returns one metric's columns. If no row is compared, its name says so.
fn group(page: Page, view: &PairView, metric: &str, rows: &[&Match]) -> Group {
    let mut headings = side_headings(page, view);
    let all = MetricCells::new(view, metric);
    let all: Vec<RowCells> = rows.iter().map(|row| all.at(row)).collect();
    let is_compared = all.iter().any(RowCells::is_compared);
    let has_both = headings.len() == 2;
    if is_compared {
        headings.extend(["Δ".to_owned(), "Δ %".to_owned()]);
    }
    let has_signs = all.iter().any(|cells| cells.sign.is_some());
    let remarks: Vec<Text> = all.iter().map(RowCells::remark).collect();
    let cells = all.into_iter().map(|cells| {
        let sides = [(view.baseline, cells.baseline), (view.candidate, cells.candidate)];
        let measured = sides.into_iter().filter(|(side, _)| side.availability != Availability::Missing);
        let mut row: Vec<Text> = measured.map(|(_, figure)| figure).collect();
        if is_compared {
            let percent = if has_signs { cells.percent.signed(cells.sign) } else { cells.percent };
            row.extend([cells.difference, percent]);
        }
        row
    });
    let mut cells: Vec<Vec<Text>> = cells.collect();
    row_cells::add_remarks(&mut headings, &mut cells, remarks);
    let suffix = if is_compared || !has_both { String::new() } else { format!(" · {NOT_COMPARED}") };
    Group::from_cells(format!("{metric}{suffix}"), headings, cells)
}

/// Returns a pair's lines of the compact table: one per metric, or its troubles.
fn compact_lines(
    view: &PairView,
    sections: &[TableSection],
    troubles: &[Trouble],
    has_several_candidates: bool,
) -> Vec<CompactLine> {
    let mut test = titles::title(view);
    if has_several_candidates {
        _ = write!(test, " → {}", one_line(&view.new.name));
    }
    if !view.is_compared() {
        return troubles.iter().map(|trouble| trouble_line(&test, trouble)).collect();
    }
    let metrics = sections.iter().flat_map(|section| section.shown.iter().map(move |shown| (section, shown)));
    metrics.filter_map(|(section, shown)| compact_line(&test, view, section, shown)).collect()
}

fn trouble_line(test: &str, trouble: &Trouble) -> CompactLine {
    CompactLine {
        test: test.to_owned(),
        metric: String::new(),
        cells: [Text::empty(), Text::empty(), Text::empty(), Text::empty()],
        at: Text::new(&trouble.headline, frame::tone_of(trouble)),
    }
}

/// Returns the line of a metric, with the figures of its most important row.
fn compact_line(
    test: &str,
    view: &PairView,
    section: &TableSection,
    shown: &ShownMetric,
) -> Option<CompactLine> {
    let metric = MetricCells::new(view, &shown.metric.name);
    let row = most_important(section, shown, &metric)?;
    let cells = metric.at(row);
    let is_noise = cells.sign == Some(text::WITHIN_NOISE);
    let is_changed = cells.delta.is_some_and(|delta| delta.difference != 0) && !is_noise;
    let remark = cells.remark();
    let at = match (remark.is_empty(), is_changed) {
        (true, true) => Text::new(text::row_label(view, row), Tone::Plain),
        (true, false) => Text::new(counted(section.rows.len(), noun(section.kind)), Tone::Quiet),
        // The remark comes first: a narrow terminal cuts the place.
        (false, _) => Text::new(format!("{}: {}", remark.as_str(), text::row_label(view, row)), Tone::Plain),
    };
    let RowCells { baseline, candidate, difference, percent, sign, .. } = cells;
    let cells = [baseline, candidate, difference, percent.signed(sign)];
    Some(CompactLine { test: test.to_owned(), metric: shown.metric.name.clone(), cells, at })
}

/// Returns a row above its limit, or that regressed; else the row with the largest difference; else the
/// row with the largest figure.
fn most_important<'a>(
    section: &TableSection<'a>,
    shown: &ShownMetric,
    metric: &MetricCells,
) -> Option<&'a Match> {
    let rows = section.rows.iter().copied();
    rows.max_by_key(|row| {
        let figures = shown.column.at(row);
        let ruling = shown.ruling(row);
        let is_regressed = ruling.is_some_and(|ruling| ruling.verdict == Verdict::Regressed);
        let difference = figures.delta.map(|delta| {
            let is_noise = text::is_within_noise(ruling, delta.difference);
            (is_regressed, if is_noise { 0 } else { delta.difference.unsigned_abs() })
        });
        let figure = figures.baseline.or(figures.candidate).map(|figure| figure.value);
        (metric.is_over_limit(row), difference, figure, Reverse(row.baseline))
    })
}

impl Page {
    /// Writes a test's tables, and what explains them.
    fn test(
        self,
        comparison: &Comparison,
        test: &ShownTest,
        most_rows: usize,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if test.columns.is_empty() {
            return test.shown.iter().try_for_each(|(view, sections)| {
                self.pair(view, sections, most_rows, options, out)?;
                self.below(comparison, view, !test.is_explained, options, out)
            });
        }
        TestAtSides { comparison, views: &test.columns, most_rows }.write(self, options, out)?;
        for (view, _) in &test.shown {
            let mut below = Vec::new();
            self.below(comparison, view, !test.is_explained, options, &mut below)?;
            if !below.is_empty() {
                writeln!(out)?;
                self.title(view, out)?;
                out.write_all(&below)?;
            }
        }
        Ok(())
    }

    /// Writes what stands below the tables of a pair: call sites, missing figures, traced functions and
    /// tensors.
    fn below(
        self,
        comparison: &Comparison,
        view: &PairView,
        shows_sites: bool,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if shows_sites {
            explained::write_text(view, options, out)?;
        }
        self.beside_figures(&troubles::troubles(comparison, view), out)?;
        calls::render(comparison, view, options, out)?;
        view::render(comparison, view, options, out)
    }

    /// Writes a pair's title and tables.
    fn pair(
        self,
        view: &PairView,
        sections: &[TableSection],
        most_rows: usize,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.title(view, out)?;
        let mut is_first = true;
        for section in sections {
            let rows = selection::rows(view, section, most_rows, options);
            if rows.shown.is_empty() {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                writeln!(out)?;
            }
            self.blocks(view, section, &rows, out)?;
            self.left_out(&rows, out)?;
        }
        Ok(())
    }

    /// Writes why figures are missing. The messages of failures stand above the tables.
    fn beside_figures(self, troubles: &[Trouble], out: &mut dyn Write) -> io::Result<()> {
        for trouble in troubles {
            if !trouble.is_failure {
                self.headline(trouble, out)?;
            }
            if let Some(figures) = &trouble.figures {
                self.line(figures, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    fn left_out(self, rows: &ShownRows, out: &mut dyn Write) -> io::Result<()> {
        if rows.left_out == 0 {
            return Ok(());
        }
        let changed = match rows.changed_left_out {
            0 => "unchanged".to_owned(),
            changed => counted(changed, "smaller change"),
        };
        let line =
            format!("… {} not shown ({changed}): --rows all or --format csv", counted(rows.left_out, "row"));
        self.line(&line, " ", Tone::Quiet, out)
    }

    /// Writes the metrics in as many blocks as the width needs, each with the column of
    /// checkpoints.
    fn blocks(
        self,
        view: &PairView,
        section: &TableSection,
        rows: &ShownRows,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let labels: Vec<Text> = rows.shown.iter().map(|row| row_cells::label(view, row)).collect();
        let metrics = section.shown.iter().map(|shown| &shown.metric.name);
        let groups = metrics.map(|metric| group(self, view, metric, &rows.shown)).collect();
        self.tables(noun(section.kind), &labels, groups, out)
    }

    /// Writes a line for each test and metric.
    fn compact_tables(self, comparison: &Comparison, tables: &Tables, out: &mut dyn Write) -> io::Result<()> {
        let several = comparison.revisions.len() > 2;
        let of_pair = |(view, sections): &(PairView, Vec<TableSection>)| {
            compact_lines(view, sections, &troubles::troubles(comparison, view), several)
        };
        let views = tables.tests.iter().flat_map(|test| &test.shown);
        let lines: Vec<CompactLine> = views.flat_map(of_pair).collect();
        if lines.is_empty() {
            return Ok(());
        }
        self.compact(&lines, out)?;
        writeln!(out)
    }
}
