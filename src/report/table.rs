//! The table for a terminal. Metrics stand side by side as far as the width goes, and below one another from there on;
//! a row is always one line.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::compare::aggregate::Availability;
use crate::compare::comparison::{Comparison, PairView, RowFigures};
use crate::compare::matching::{Match, RowChange};
use crate::report::options::Options;
use crate::report::page::{CompactLine, Group, Page, Text, Tone, tone_of};
use crate::report::selection::{self, MetricFilter, Rows, Shown, TableSection};
use crate::report::summary::{self, Tally, Trouble};
use crate::report::tensors::totals;
use crate::report::text;
use crate::report::trace::calls;
use crate::results::measurement::Kind;
use crate::support::counted::{counted, grouped};
use crate::support::labels;
use crate::support::labels::{cut, width};
use crate::verdict::kinds::Verdict;

/// How many lines say what regressed, and how many of what the runs do not tell.
const MOST_LINES: usize = 8;

/// A ref's name above its column is cut to this.
const MOST_HEADING: usize = 12;

/// Writes the tables, then the answer in a line, then what must be said beside the figures.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let wanted = MetricFilter::new(options);
    let mut tally = Tally::default();
    let mut without_change = 0;
    let mut told = HashSet::new();
    let mut lines = Vec::new();
    let pairs: Vec<(PairView, Vec<TableSection>)> = comparison
        .pairs()
        .map(|view| {
            let parts = wanted.parts(comparison, &view);
            tally.add(comparison, &view, &parts);
            (view, parts)
        })
        .collect();
    writeln!(out, "{}\n", page.paint.apply(&tally.counts(), Tone::Heading))?;
    for (view, parts) in pairs {
        let mut troubles = summary::troubles(comparison, &view);
        for trouble in &mut troubles {
            // A build that failed is the same for all tests: its errors are shown once.
            if !told.insert(trouble.clone()) {
                trouble.details.clear();
            }
        }
        if options.only_changed && troubles.is_empty() && !has_changes(&view, &parts) {
            without_change += 1;
            continue;
        }
        if options.compact {
            lines.extend(compact_lines(&view, &parts, &troubles, comparison.revisions.len() > 2));
        } else {
            page.pair(&view, &parts, &troubles, options, out)?;
            calls::render(comparison, &view, options, out)?;
            totals::render(comparison, &view, options, out)?;
            writeln!(out)?;
        }
    }
    if !lines.is_empty() {
        page.compact_title(comparison, out)?;
        page.compact(&lines, out)?;
        writeln!(out)?;
    }
    page.foot(comparison, options, &wanted, Some(&tally), without_change, out)
}

fn has_changes(view: &PairView, parts: &[TableSection]) -> bool {
    parts.iter().any(|part| part.rows.iter().any(|row| selection::is_changed(view, row, &part.shown)))
}

/// One metric's columns.
fn group(view: &PairView, shown: &Shown, rows: &[&Match]) -> Group {
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    let mut headings: Vec<String> = sides
        .iter()
        .filter(|(_, side)| side.availability != Availability::Missing)
        .map(|(revision, side)| {
            // The figures of a run that did not pass are marked where they stand.
            let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
            format!("{mark}{}", cut(&labels::one_line(&revision.name), MOST_HEADING))
        })
        .collect();
    let compared = rows.iter().any(|row| {
        let came_or_went = matches!(view.change(row), Some(RowChange::Added | RowChange::Removed));
        came_or_went || shown.column.at(row).delta.is_some()
    });
    if compared {
        headings.extend(["Δ".to_owned(), "Δ %".to_owned()]);
    }
    let has_signs = rows
        .iter()
        .any(|row| shown.ruling(row).is_some_and(|ruling| text::sign_of(ruling.verdict).is_some()));
    let cells: Vec<Vec<Text>> = rows
        .iter()
        .map(|row| {
            let entry = shown.column.at(row);
            let figures = [(view.baseline, entry.baseline), (view.candidate, entry.candidate)];
            let mut cells: Vec<Text> = figures
                .iter()
                .filter(|(side, _)| side.availability != Availability::Missing)
                .map(|(_, figure)| match figure {
                    Some(figure) => Text::new(text::figure(figure.value, shown.metric.unit), Tone::Plain),
                    None => Text::new(text::NONE, Tone::Quiet),
                })
                .collect();
            if compared {
                let [difference, mut percent] = differences(view, row, &entry, shown);
                if has_signs {
                    percent =
                        percent.signed(shown.ruling(row).and_then(|ruling| text::sign_of(ruling.verdict)));
                }
                cells.extend([difference, percent]);
            }
            cells
        })
        .collect();
    Group::of(shown.metric.name.clone(), headings, cells)
}

fn differences(view: &PairView, row: &Match, entry: &RowFigures, shown: &Shown) -> [Text; 2] {
    let word = match view.change(row) {
        Some(RowChange::Added) => Some("added"),
        Some(RowChange::Removed) => Some("removed"),
        _ => None,
    };
    let nothing = Text::new("", Tone::Plain);
    match (word, entry.delta) {
        (Some(word), _) => [Text::new(word, Tone::Structure), nothing],
        (None, None) => [Text::new(text::NONE, Tone::Quiet), nothing],
        (None, Some(delta)) if text::is_within_noise(shown.ruling(row), delta.difference) => {
            [Text::new(text::WITHIN_NOISE, Tone::Quiet), nothing]
        }
        (None, Some(delta)) => {
            let tone = match shown.ruling(row).map(|ruling| ruling.verdict) {
                Some(Verdict::Unchanged | Verdict::Inconclusive) if delta.difference != 0 => Tone::Plain,
                _ => tone_of(delta.difference),
            };
            let difference = text::difference(delta.difference, shown.metric.unit);
            [Text::new(difference, tone), Text::new(text::percent(&delta), tone)]
        }
    }
}

/// What the rows of a part are called.
fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Point => "checkpoint",
        Kind::Scope => "scope",
        Kind::Call => "call",
    }
}

fn compact_lines(
    view: &PairView,
    parts: &[TableSection],
    troubles: &[Trouble],
    has_several_candidates: bool,
) -> Vec<CompactLine> {
    let mut test = summary::title(view);
    if has_several_candidates {
        _ = write!(test, " → {}", labels::one_line(&view.new.name));
    }
    let empty = || Text::new("", Tone::Plain);
    if !view.is_compared() {
        let told = troubles.iter().map(|trouble| {
            let tone = if trouble.is_failure { Tone::Growth } else { Tone::Quiet };
            let cells = [empty(), empty(), empty(), empty()];
            CompactLine {
                test: test.clone(),
                metric: String::new(),
                cells,
                at: Text::new(&trouble.headline, tone),
            }
        });
        return told.collect();
    }
    let of_parts = parts.iter().flat_map(|part| part.shown.iter().map(move |shown| (part, shown)));
    let lines = of_parts.filter_map(|(part, shown)| {
        let entries = part.rows.iter().map(|row| (row, shown.column.at(row)));
        // What regressed, then the largest difference; where there is none, the largest figure.
        let (row, entry) = entries.max_by_key(|(row, entry)| {
            let ruling = shown.ruling(row);
            let regressed = ruling.is_some_and(|ruling| ruling.verdict == Verdict::Regressed);
            let difference = entry.delta.map(|delta| {
                let is_noise = text::is_within_noise(ruling, delta.difference);
                (regressed, if is_noise { 0 } else { delta.difference.unsigned_abs() })
            });
            let figure = entry.baseline.or(entry.candidate).map(|figure| figure.value);
            (difference, figure, std::cmp::Reverse(row.baseline))
        })?;
        let figure = |figure: Option<crate::compare::aggregate::Figure>| match figure {
            Some(figure) => Text::new(text::figure(figure.value, shown.metric.unit), Tone::Plain),
            None => Text::new(text::NONE, Tone::Quiet),
        };
        let [difference, percent] = differences(view, row, &entry, shown);
        let sign = shown.ruling(row).and_then(|ruling| text::sign_of(ruling.verdict));
        let percent = percent.signed(sign);
        let changed = entry.delta.is_some_and(|delta| {
            delta.difference != 0 && !text::is_within_noise(shown.ruling(row), delta.difference)
        });
        let at = if changed {
            Text::new(text::row_label(view, row), Tone::Plain)
        } else {
            Text::new(counted(part.rows.len(), noun(part.kind)), Tone::Quiet)
        };
        let cells = [figure(entry.baseline), figure(entry.candidate), difference, percent];
        Some(CompactLine { test: test.clone(), metric: shown.metric.name.clone(), cells, at })
    });
    lines.collect()
}

impl Page {
    fn pair(
        self,
        view: &PairView,
        parts: &[TableSection],
        troubles: &[Trouble],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.title(view, out)?;
        let mut is_first = true;
        for part in parts {
            let rows = selection::rows(view, part, options);
            if rows.shown.is_empty() {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                writeln!(out)?;
            }
            self.blocks(view, part, &rows, out)?;
            self.left_out(&rows, out)?;
        }
        for trouble in troubles {
            let tone = if trouble.is_failure { Tone::Growth } else { Tone::Quiet };
            self.line(&trouble.headline, " ", tone, out)?;
            for detail in &trouble.details {
                self.line(detail, "   ", Tone::Plain, out)?;
            }
            if let Some(figures) = &trouble.figures {
                self.line(figures, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    /// `bart::tests hf_fwd · main → pr/3370 · 3 runs each`, in one line.
    pub(super) fn title(self, view: &PairView, out: &mut dyn Write) -> io::Result<()> {
        let compared = format!("{} → {}", labels::one_line(&view.old.name), labels::one_line(&view.new.name));
        let mut rest = format!(" · {compared}");
        if let Some(runs) = summary::runs(view) {
            _ = write!(rest, " · {runs}");
        }
        let rest = cut(&rest, self.width().saturating_sub(8)).into_owned();
        let title = summary::full_title(view);
        let title = cut(&title, self.width() - width(&rest));
        writeln!(out, "{}{rest}", self.paint.apply(&title, Tone::Heading))
    }

    fn left_out(self, rows: &Rows, out: &mut dyn Write) -> io::Result<()> {
        if rows.left_out == 0 {
            return Ok(());
        }
        let changed = match rows.changed_left_out {
            0 => "unchanged".to_owned(),
            changed => {
                format!("{} of them changed, less than these", grouped(i128::try_from(changed).unwrap_or(0)))
            }
        };
        let line =
            format!("… {} not shown ({changed}): --all-rows or --format csv", counted(rows.left_out, "row"));
        self.line(&line, " ", Tone::Quiet, out)
    }

    /// The metrics in as many blocks as the width needs, each with the checkpoints' column.
    fn blocks(
        self,
        view: &PairView,
        part: &TableSection,
        rows: &Rows,
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
        let groups = part.shown.iter().map(|shown| group(view, shown, &rows.shown)).collect();
        self.lay(noun(part.kind), &labels, groups, out)
    }

    fn compact_title(self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let baseline = &comparison.revisions[comparison.baseline].name;
        let candidates: Vec<&str> =
            comparison.candidates().map(|index| comparison.revisions[index].name.as_str()).collect();
        self.line(&format!("{baseline} → {}", candidates.join(", ")), "", Tone::Heading, out)
    }

    pub(super) fn foot(
        self,
        comparison: &Comparison,
        options: &Options,
        wanted: &MetricFilter,
        tally: Option<&Tally>,
        without_change: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (verdict, line) in tally.iter().flat_map(|tally| tally.lines(MOST_LINES)) {
            let tone = match verdict {
                Some(Verdict::Regressed) => Tone::Growth,
                Some(Verdict::Improved) => Tone::Shrinkage,
                _ => Tone::Plain,
            };
            self.line(&line, "", tone, out)?;
        }
        if let Some(growth) = tally.and_then(Tally::largest_growth) {
            self.line(&format!("largest growth: {growth}"), "", Tone::Growth, out)?;
        }
        if let Some(tally) = tally.filter(|_| comparison.pairs().nth(1).is_some()) {
            // Above many tables the answer is out of sight.
            writeln!(out, "{}", self.paint.apply(&tally.counts(), Tone::Heading))?;
        }
        if without_change > 0 {
            self.line(
                &format!("{} without a change not shown", counted(without_change, "test")),
                "",
                Tone::Quiet,
                out,
            )?;
        }
        for note in summary::notes(comparison, wanted) {
            self.line(&note, "", Tone::Plain, out)?;
        }
        if let Some(path) = &options.report_path {
            // A path is for copying: it is never cut.
            writeln!(out, "{}", self.paint.apply(&format!("report: {path}"), Tone::Quiet))?;
        }
        Ok(())
    }
}
