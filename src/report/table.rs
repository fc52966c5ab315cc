//! The table for a terminal. Metrics stand side by side as far as the width allows, then in blocks
//! below. A row is always one line.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::compare::aggregate::Availability;
use crate::compare::comparison::{Comparison, PairView, RowFigures};
use crate::compare::matching::{Match, RowChange};
use crate::report::frame::{self, Foot};
use crate::report::options::Options;
use crate::report::page::{CompactLine, Group, Page, Text, Tone, tone_of};
use crate::report::selection::{self, MetricFilter, ShownMetric, ShownRows, TableSection};
use crate::report::summary::Tally;
use crate::report::tensors::view;
use crate::report::text;
use crate::report::titles;
use crate::report::trace::calls;
use crate::report::troubles::{self, Trouble};
use crate::results::measurement::Kind;
use crate::support::counted::counted;
use crate::support::labels::{cut, one_line};
use crate::verdict::kinds::Verdict;

/// A ref's name above its column is cut to this width.
const MOST_HEADING: usize = 12;

/// With more tests than this, only those that changed or failed have a table.
const MOST_TABLES: usize = 20;

/// Writes the answer, the tables, and the foot.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let filter = MetricFilter::new(options);
    let mut tally = Tally::of_whole(comparison);
    let pairs: Vec<(PairView, Vec<TableSection>)> = comparison
        .pairs()
        .map(|view| {
            let sections = filter.sections(comparison, &view);
            tally.add(comparison, &view, &sections);
            (view, sections)
        })
        .collect();
    writeln!(out, "{}\n", page.paint.apply(&tally.counts(), Tone::Heading))?;
    // The report of a large suite fits a screen: tables of what changed or failed, and counts.
    let is_large = pairs.len() > MOST_TABLES && !options.all_rows && comparison.traces.is_empty();
    let (mut unchanged_tests, mut one_sided_tests) = (0, 0);
    let mut shown_before = HashSet::new();
    let mut lines = Vec::new();
    for (view, sections) in pairs {
        let troubles = new_troubles(comparison, &view, &mut shown_before);
        let is_folded = is_large && !options.compact && view.pair.breaches.is_empty();
        if is_folded && !view.is_compared() && !troubles.iter().any(|trouble| trouble.is_failure) {
            one_sided_tests += 1;
        } else if (options.only_changed || is_folded) && troubles.is_empty() && !has_changes(&view, &sections)
        {
            unchanged_tests += 1;
        } else if options.compact {
            lines.extend(compact_lines(&view, &sections, &troubles, comparison.revisions.len() > 2));
        } else {
            page.pair(&view, &sections, options, out)?;
            page.troubles(&troubles, out)?;
            calls::render(comparison, &view, options, out)?;
            view::render(comparison, &view, options, out)?;
            writeln!(out)?;
        }
    }
    if !lines.is_empty() {
        page.compact_title(comparison, out)?;
        page.compact(&lines, out)?;
        writeln!(out)?;
    }
    if one_sided_tests > 0 {
        let tests = counted(one_sided_tests, "test");
        let line =
            format!("{tests} that only one of two revisions runs: not compared, shown with --all-rows");
        page.line(&line, "", Tone::Quiet, out)?;
    }
    Foot { comparison, options, filter: &filter, tally: Some(&tally), unchanged_tests }.write(page, out)
}

/// Returns a pair's troubles. A failed build is the same for all tests, so only the first test
/// shows its errors.
fn new_troubles(
    comparison: &Comparison,
    view: &PairView,
    shown_before: &mut HashSet<Trouble>,
) -> Vec<Trouble> {
    let mut troubles = troubles::troubles(comparison, view);
    for trouble in &mut troubles {
        if !shown_before.insert(trouble.clone()) {
            trouble.details.clear();
        }
    }
    troubles
}

fn has_changes(view: &PairView, sections: &[TableSection]) -> bool {
    let is_changed = |section: &TableSection, row: &&Match| selection::is_changed(view, row, &section.shown);
    sections.iter().any(|section| section.rows.iter().any(|row| is_changed(section, row)))
}

/// Returns the headings of the measured sides. A mark shows that a run did not pass.
fn side_headings(view: &PairView) -> Vec<String> {
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    let measured = sides.iter().filter(|(_, side)| side.availability != Availability::Missing);
    measured
        .map(|(revision, side)| {
            let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
            format!("{mark}{}", cut(&one_line(&revision.name), MOST_HEADING))
        })
        .collect()
}

/// Returns one metric's columns.
fn group(view: &PairView, shown: &ShownMetric, rows: &[&Match]) -> Group {
    let mut headings = side_headings(view);
    let is_compared = rows.iter().any(|row| {
        let came_or_went = matches!(view.change(row), Some(RowChange::Added | RowChange::Removed));
        came_or_went || shown.column.at(row).delta.is_some()
    });
    if is_compared {
        headings.extend(["Δ".to_owned(), "Δ %".to_owned()]);
    }
    let sign = |row: &Match| shown.ruling(row).and_then(|ruling| text::sign_of(ruling.verdict));
    let has_signs = rows.iter().any(|row| sign(row).is_some());
    let cells = rows.iter().map(|row| {
        let figures = shown.column.at(row);
        let sides = [(view.baseline, figures.baseline), (view.candidate, figures.candidate)];
        let measured = sides.iter().filter(|(side, _)| side.availability != Availability::Missing);
        let mut cells: Vec<Text> = measured
            .map(|(_, figure)| Text::figure(figure.map(|figure| figure.value), shown.metric.unit))
            .collect();
        if is_compared {
            let [difference, mut percent] = differences(view, row, &figures, shown);
            if has_signs {
                percent = percent.signed(sign(row));
            }
            cells.extend([difference, percent]);
        }
        cells
    });
    let cells = cells.collect();
    Group::of(shown.metric.name.clone(), headings, cells)
}

fn differences(view: &PairView, row: &Match, figures: &RowFigures, shown: &ShownMetric) -> [Text; 2] {
    match (view.change(row), figures.delta) {
        (Some(RowChange::Added), _) => [Text::new("added", Tone::Structure), Text::empty()],
        (Some(RowChange::Removed), _) => [Text::new("removed", Tone::Structure), Text::empty()],
        (_, None) => [Text::new(text::NONE, Tone::Quiet), Text::empty()],
        (_, Some(delta)) if text::is_within_noise(shown.ruling(row), delta.difference) => {
            [Text::new(text::WITHIN_NOISE, Tone::Quiet), Text::empty()]
        }
        (_, Some(delta)) => {
            let tone = match shown.ruling(row).map(|ruling| ruling.verdict) {
                Some(Verdict::Unchanged | Verdict::Inconclusive) if delta.difference != 0 => Tone::Plain,
                _ => tone_of(delta.difference),
            };
            let difference = text::difference(delta.difference, shown.metric.unit);
            [Text::new(difference, tone), Text::new(text::percent(&delta), tone)]
        }
    }
}

/// Returns the word for rows of a kind.
fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Point => "checkpoint",
        Kind::Scope => "scope",
        Kind::Call => "call",
    }
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
    let (row, figures) = most_important(section, shown)?;
    let ruling = shown.ruling(row);
    let [difference, percent] = differences(view, row, &figures, shown);
    let percent = percent.signed(ruling.and_then(|ruling| text::sign_of(ruling.verdict)));
    let is_changed = figures
        .delta
        .is_some_and(|delta| delta.difference != 0 && !text::is_within_noise(ruling, delta.difference));
    let at = if is_changed {
        Text::new(text::row_label(view, row), Tone::Plain)
    } else {
        Text::new(counted(section.rows.len(), noun(section.kind)), Tone::Quiet)
    };
    let [baseline, candidate] = [figures.baseline, figures.candidate]
        .map(|figure| Text::figure(figure.map(|figure| figure.value), shown.metric.unit));
    let cells = [baseline, candidate, difference, percent];
    Some(CompactLine { test: test.to_owned(), metric: shown.metric.name.clone(), cells, at })
}

/// Returns the row that regressed; else the row with the largest difference; else the row with the
/// largest figure.
fn most_important<'a>(section: &TableSection<'a>, shown: &ShownMetric) -> Option<(&'a Match, RowFigures)> {
    let rows = section.rows.iter().map(|row| (*row, shown.column.at(row)));
    rows.max_by_key(|(row, figures)| {
        let ruling = shown.ruling(row);
        let is_regressed = ruling.is_some_and(|ruling| ruling.verdict == Verdict::Regressed);
        let difference = figures.delta.map(|delta| {
            let is_noise = text::is_within_noise(ruling, delta.difference);
            (is_regressed, if is_noise { 0 } else { delta.difference.unsigned_abs() })
        });
        let figure = figures.baseline.or(figures.candidate).map(|figure| figure.value);
        (difference, figure, Reverse(row.baseline))
    })
}

impl Page {
    /// Writes a pair's title and tables.
    fn pair(
        self,
        view: &PairView,
        sections: &[TableSection],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.title(view, out)?;
        let mut is_first = true;
        for section in sections {
            let rows = selection::rows(view, section, options);
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

    fn troubles(self, troubles: &[Trouble], out: &mut dyn Write) -> io::Result<()> {
        for trouble in troubles {
            self.headline(trouble, out)?;
            for detail in &trouble.details {
                self.line(detail, "   ", Tone::Plain, out)?;
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
            format!("… {} not shown ({changed}): --all-rows or --format csv", counted(rows.left_out, "row"));
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
        let label = |row: &&Match| {
            let tone = match view.change(row) {
                Some(RowChange::Matched) | None => Tone::Plain,
                Some(_) => Tone::Structure,
            };
            Text::new(text::row_label(view, row), tone)
        };
        let labels: Vec<Text> = rows.shown.iter().map(label).collect();
        let groups = section.shown.iter().map(|shown| group(view, shown, &rows.shown)).collect();
        self.tables(noun(section.kind), &labels, groups, out)
    }

    fn compact_title(self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let baseline = &comparison.revisions[comparison.baseline].name;
        let candidates: Vec<&str> =
            comparison.candidates().map(|index| comparison.revisions[index].name.as_str()).collect();
        self.line(&format!("{baseline} → {}", candidates.join(", ")), "", Tone::Heading, out)
    }
}
