//! One revision alone: a line per test, then a table of checkpoints per test.

use std::cmp::Reverse;
use std::io::{self, Write};

use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::frame::{Foot, tone_of};
use crate::markdown::{self, Comment, FailureList, MARKER, TableLine};
use crate::markdown_text::{code, code_in_cell, escape};
use crate::options::Options;
use crate::page::{Group, Page, Text, Tone};
use crate::row_cells::{MetricCells, RowCells, add_remarks, label};
use crate::selection::{MOST_ROWS, MetricFilter};
use crate::test_figures::{of_test, points};
use crate::text;
use crate::titles;
use crate::trace::calls::{TraceReport, render_sums};
use crate::troubles::{self, Trouble};
use crate::why::{explained, limits};
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Breach, Cell, Comparison, Metric, PairView};
use memprof_judge::compare::matching::Match;
use memprof_judge::results::measurement::Kind;
use memprof_plan::resolved::Revision;
use memprof_support::counted::counted;
use memprof_support::labels;

/// The tables of checkpoints are shown for at most this many tests, unless all rows are wanted.
const MOST_TABLES: usize = 5;

/// Metrics of the table of tests, beside the peaks, if the user chose none.
const OF_TESTS: [&str; 2] = ["heap.count", "time"];

/// The number of metrics in one group of columns.
const METRICS_OF_GROUP: usize = 4;

/// The revision's name above its columns is cut to this width.
const MOST_NAME: usize = 30;

/// A comparison of one revision.
pub(crate) struct Single<'a> {
    pub comparison: &'a Comparison,
    /// The only revision.
    pub revision: &'a Revision,
}

impl Single<'_> {
    /// Writes the tables for a terminal.
    pub fn table(&self, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let page = Page::new(options);
        let filter = MetricFilter::new(options);
        writeln!(out, "{}\n", page.paint.apply(&self.headline(), Tone::Heading))?;
        let mut measured: Vec<(&Cell, &Aggregate)> =
            self.sides().filter(|(_, side)| is_measured(side)).collect();
        let left_out = if options.all_rows() { 0 } else { measured.len().saturating_sub(MOST_ROWS) };
        if left_out > 0 {
            let first = filter.of_points(self.comparison).into_iter().next();
            measured.sort_by_cached_key(|(_, side)| Reverse(first.and_then(|metric| of_test(side, metric))));
            measured.truncate(MOST_ROWS);
        }
        if !measured.is_empty() {
            let labels: Vec<Text> = measured
                .iter()
                .map(|(cell, side)| {
                    let tone = if is_over_limit(cell) { Tone::Growth } else { Tone::Plain };
                    Text::new(format!("{}{}", mark(cell, side), titles::distinct_title(cell)), tone)
                })
                .collect();
            let column = |metric: &&Metric| {
                let figures = measured.iter().map(|(_, side)| of_test(side, metric));
                let cells = figures.map(|figure| vec![Text::figure(figure, metric.unit)]);
                (vec![metric.name.clone()], cells.collect())
            };
            let columns: Vec<_> = self.metrics_of_tests(&filter).iter().map(column).collect();
            page.tables("test", &labels, self.groups(page, &columns), out)?;
            if left_out > 0 {
                let line =
                    format!("… {} with less: --rows all, or select with -k", counted(left_out, "more test"));
                page.line(&line, " ", Tone::Quiet, out)?;
            }
            writeln!(out)?;
        }
        if !options.is_brief() {
            self.checkpoints(&measured, &filter, page, options, out)?;
            traced(self.comparison, options, out)?;
        }
        for trouble in self.troubles() {
            page.headline(&trouble, out)?;
            trouble.details.iter().try_for_each(|detail| page.line(detail, "   ", tone_of(&trouble), out))?;
        }
        page.findings(self.findings().iter(), None, options, out)?;
        page.whole_troubles(self.comparison, out)?;
        Foot {
            comparison: self.comparison,
            options,
            filter: &filter,
            answers: &[],
            not_judged: None,
            remarks: Vec::new(),
        }
        .write(page, out)
    }

    /// Writes a table of checkpoints for each test that has some of its own.
    fn checkpoints(
        &self,
        measured: &[(&Cell, &Aggregate)],
        filter: &MetricFilter,
        page: Page,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let with_points = measured.iter().filter(|(_, side)| points(side).count() > 2);
        let with_points: Vec<_> = with_points.collect();
        let shown = if options.all_rows() { with_points.len() } else { MOST_TABLES.min(with_points.len()) };
        let metrics = filter.of_points(self.comparison);
        for (cell, side) in &with_points[..shown] {
            let Some(pair) = &cell.alone else { continue };
            let view = self.comparison.view(cell, pair);
            writeln!(out, "{}", page.paint.apply(&titles::full_title_of(&cell.id), Tone::Heading))?;
            let is_point = |row: &&Match| view.key(row).kind == Kind::Point;
            let all = view.rows.iter().filter(is_point).count();
            let most = if options.all_rows() { usize::MAX } else { MOST_ROWS };
            let rows: Vec<&Match> = view.rows.iter().filter(is_point).take(most).collect();
            let labels: Vec<Text> = rows.iter().map(|row| label(&view, row)).collect();
            let measured = metrics.iter().filter(|metric| side.column(&metric.name).is_some());
            let columns: Vec<_> = measured.map(|metric| column(&view, &metric.name, &rows)).collect();
            page.tables("checkpoint", &labels, self.groups(page, &columns), out)?;
            if rows.len() < all {
                let line = format!("… {} not shown: --rows all", counted(all - rows.len(), "row"));
                page.line(&line, " ", Tone::Quiet, out)?;
            }
            writeln!(out)?;
        }
        call_sites(self.comparison, page, options, out)?;
        if shown < with_points.len() {
            let rest = counted(with_points.len() - shown, "more test");
            page.line(
                &format!("checkpoints of {rest}: --rows all, or select with -k"),
                "",
                Tone::Quiet,
                out,
            )?;
        }
        Ok(())
    }

    /// Puts the columns of a few metrics into each group, so that groups may wrap.
    fn groups(&self, page: Page, columns: &[MetricColumns]) -> Vec<Group> {
        let name = page.cut(&labels::one_line(&self.revision.name), MOST_NAME).into_owned();
        let group = |some: &[MetricColumns]| {
            let headings = some.iter().flat_map(|(headings, _)| headings.clone()).collect();
            let rows = some.first().map_or(0, |(_, rows)| rows.len());
            let cells = (0..rows).map(|row| some.iter().flat_map(|(_, rows)| rows[row].clone()).collect());
            Group::from_cells(name.clone(), headings, cells.collect())
        };
        columns.chunks(METRICS_OF_GROUP).map(group).collect()
    }

    /// Writes the table of tests as a comment.
    pub fn markdown(&self, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let filter = MetricFilter::new(options);
        let metrics = self.metrics_of_tests(&filter);
        let headline = self.headline_with(&code(&self.revision.name), &code(&self.revision.short()));
        let mut comment = Comment::default();
        comment.text = format!("{MARKER}\n### {headline}\n");
        let mut failures = FailureList::of_whole(self.comparison);
        for finding in self.findings() {
            let line = format!("{} {}: {}", finding.sign, finding.test(), finding.sentence());
            failures.add_line(&format!("\n{}\n", escape(&line)));
        }
        for view in self.comparison.alone() {
            for limit in limits::sentences(&view, options) {
                let title = code(&titles::distinct_title(view.cell));
                failures.add_line(&format!("\n{title}: {}\n", escape(&limit)));
            }
        }
        for trouble in self.troubles() {
            failures.add(format!("\n{}\n", escape(&trouble.headline)), &trouble);
        }
        let failures = failures.finish();
        let causes = CauseSheet::new(self.comparison, options);
        let notes = markdown::notes(self.comparison, &causes, &filter, options);
        comment.reserve(&[&failures, &notes]);
        let heads = metrics.iter().map(|metric| code(&metric.name)).collect::<Vec<_>>().join(" | ");
        let head = format!("\n| test | {heads} |\n| --- |{}\n", " ---: |".repeat(metrics.len()));
        let row = |(cell, side): (&Cell, &Aggregate)| {
            let shown = |metric: &&Metric| match of_test(side, metric) {
                Some(value) => text::figure(value, metric.unit),
                None => text::NONE.to_owned(),
            };
            let figures: Vec<String> = metrics.iter().map(shown).collect();
            let title = format!("{}{}", mark(cell, side), titles::distinct_title(cell));
            TableLine::unranked(format!("| {} | {} |\n", code_in_cell(&title), figures.join(" | ")))
        };
        let rows: Vec<TableLine> = self.sides().filter(|(_, side)| is_measured(side)).map(row).collect();
        comment.rows(&head, &rows, "");
        comment.text.push_str(&failures);
        comment.text.push_str(&notes);
        comment.left_out();
        out.write_all(comment.text.as_bytes())
    }

    /// `memory of 3 tests in main 4f1c2aa, 1 not measured`.
    pub(super) fn headline(&self) -> String {
        let name = labels::one_line(&self.revision.name);
        self.headline_with(&name, &self.revision.short())
    }

    /// Returns the headline with the revision's name and commit as they are shown.
    fn headline_with(&self, name: &str, short: &str) -> String {
        let tests = counted(self.sides().filter(|(_, side)| is_measured(side)).count(), "test");
        let commit =
            if self.revision.spec == self.revision.short() { String::new() } else { format!(" {short}") };
        let is_missing = |(cell, side): &(&Cell, &Aggregate)| !is_measured(side) && !is_over_limit(cell);
        let missing = self.sides().filter(is_missing).count();
        let missing = if missing > 0 { format!(", {missing} not measured") } else { String::new() };
        let over = self.comparison.cells.iter().filter(|cell| is_over_limit(cell)).count();
        let over = if over > 0 { format!(", {over} over a limit") } else { String::new() };
        format!("memory of {tests} in {name}{commit}{over}{missing}")
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = (&Cell, &Aggregate)> {
        self.comparison.cells.iter().filter_map(|cell| Some((cell, cell.sides.first()?)))
    }

    /// Returns the tests with figures above a limit.
    fn findings(&self) -> Vec<Finding<'_>> {
        self.comparison.cells.iter().filter_map(|cell| Finding::alone(self.comparison, cell)).collect()
    }

    /// Returns what went wrong, with the test's name in front.
    fn troubles(&self) -> Vec<Trouble> {
        let of_side = |(cell, side): (&Cell, &Aggregate)| {
            let title = titles::distinct_title(cell);
            let troubles = troubles::side_troubles(self.comparison, self.revision, side);
            let named = move |mut trouble: Trouble| {
                trouble.headline = format!("{title}: {}", trouble.headline);
                // They say what is compared, which is nothing here.
                trouble.figures = None;
                trouble
            };
            troubles.into_iter().map(named).collect::<Vec<_>>()
        };
        self.sides().flat_map(of_side).collect()
    }

    /// Returns the columns of the table of tests.
    pub(super) fn metrics_of_tests(&self, filter: &MetricFilter) -> Vec<&Metric> {
        let mut metrics = filter.of_points(self.comparison);
        if filter.is_default() {
            let more =
                self.comparison.metrics.iter().filter(|metric| OF_TESTS.contains(&metric.name.as_str()));
            metrics.extend(more);
            // A limit may be on a metric that is not shown by default.
            let is_exceeded = |metric: &&Metric| {
                let mut breaches = self.comparison.alone().flat_map(|view| &view.pair.breaches);
                breaches.any(|breach| breach.metric == metric.name)
            };
            let is_new = |metric: &&Metric| metrics.iter().all(|known| known.name != metric.name);
            let more: Vec<&Metric> =
                self.comparison.metrics.iter().filter(is_new).filter(is_exceeded).collect();
            metrics.extend(more);
        }
        metrics
    }
}

/// The headings and cells of a metric: its figures, and remarks if there are any.
type MetricColumns = (Vec<String>, Vec<Vec<Text>>);

/// Returns a metric's figures at checkpoints, with those above a limit marked.
fn column(view: &PairView, metric: &str, rows: &[&Match]) -> MetricColumns {
    let all = MetricCells::new(view, metric);
    let all: Vec<RowCells> = rows.iter().map(|row| all.at(row)).collect();
    let has_signs = all.iter().any(|cells| cells.sign.is_some());
    let remarks = all.iter().map(RowCells::remark).collect();
    let figure =
        |RowCells { candidate, sign, .. }| if has_signs { candidate.signed(sign) } else { candidate };
    let mut cells: Vec<Vec<Text>> = all.into_iter().map(|cells| vec![figure(cells)]).collect();
    let mut headings = vec![metric.to_owned()];
    add_remarks(&mut headings, &mut cells, remarks);
    (headings, cells)
}

pub(super) fn is_measured(side: &Aggregate) -> bool {
    side.availability != Availability::Missing
}

/// Returns the mark of a test that did not pass, or that exceeds a limit.
fn mark(cell: &Cell, side: &Aggregate) -> &'static str {
    match side.availability {
        Availability::CutOff => "✗ ",
        _ if is_over_limit(cell) => "▲ ",
        _ => "",
    }
}

/// Whether a figure of the test exceeds a limit that `allow` does not lift, or a memory assertion of it does not hold.
pub(super) fn is_over_limit(cell: &Cell) -> bool {
    cell.sides.first().is_some_and(|side| side.is_over_limit)
        || cell.alone.iter().flat_map(|pair| &pair.breaches).any(Breach::counts)
}

/// Writes the traced functions and lines of each test, if any were traced.
pub(super) fn traced(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for cell in &comparison.cells {
        let traced = TraceReport::of_one(comparison, cell);
        if !traced.is_empty() {
            let page = Page::new(options);
            writeln!(out, "{}", page.paint.apply(&titles::full_title_of(&cell.id), Tone::Heading))?;
            render_sums(&traced, false, options, out)?;
        }
    }
    Ok(())
}

/// Writes the call sites of each test that has some, below its name.
pub(super) fn call_sites(
    comparison: &Comparison,
    page: Page,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    for view in comparison.alone() {
        let mut text = Vec::new();
        explained::write_text(&view, options, &mut text)?;
        if !text.is_empty() {
            writeln!(out, "{}", page.paint.apply(&titles::full_title_of(&view.cell.id), Tone::Heading))?;
            out.write_all(&text)?;
            writeln!(out)?;
        }
    }
    Ok(())
}
