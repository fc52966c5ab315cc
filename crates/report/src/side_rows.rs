//! The checkpoints of one test beside all sides: with several candidates, a row per checkpoint and a
//! column per side, for each metric.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::options::Options;
use crate::page::{Page, Text, Tone};
use crate::row_cells::{MetricCells, label, noun};
use crate::selection::{self, TableSection};
use crate::side_columns::{CandidateCell, SideColumns};
use crate::sides;
use crate::text;
use crate::titles;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Comparison, Metric, PairView};
use memprof_judge::compare::matching::{Key, Match, RowChange};
use memprof_judge::results::measurement::Kind;
use memprof_support::counted::counted;
use memprof_support::labels::width;

/// A test at the baseline and at one candidate, with what to show of it.
pub(super) type ShownView<'a> = (PairView<'a>, Vec<TableSection<'a>>);

/// One test, with all of its candidates.
pub(super) struct TestAtSides<'a, 'b> {
    pub(super) comparison: &'a Comparison,
    pub(super) views: &'b [ShownView<'a>],
    pub(super) most_rows: usize,
}

/// A checkpoint of the baseline, or one that only candidates have.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    OfBaseline(usize),
    /// After this checkpoint of the baseline.
    Added(Option<usize>, Key),
}

/// A row, with its place in each view that shows it.
struct UnitedRow<'a> {
    /// The checkpoint of the baseline that it is or that it follows, and its place after that.
    order: (Option<usize>, usize),
    /// By view.
    matches: Vec<Option<&'a Match>>,
}

impl<'a> TestAtSides<'a, '_> {
    /// Writes a title and the tables.
    pub(super) fn write(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        self.title(page, out)?;
        let mut is_first = true;
        for kind in [Kind::Point, Kind::Scope, Kind::Call] {
            let (rows, left_out) = self.rows(kind, options);
            if rows.is_empty() {
                continue;
            }
            let labels: Vec<Text> = rows.iter().map(|row| self.label(row)).collect();
            for metric in self.metrics(kind) {
                if !std::mem::take(&mut is_first) {
                    writeln!(out)?;
                }
                let noun = match kind {
                    Kind::Point => metric.name.clone(),
                    Kind::Scope | Kind::Call => format!("{} · {}", metric.name, noun(kind)),
                };
                self.columns(page, metric, &rows).write(page, &noun, &labels, out)?;
            }
            if left_out > 0 {
                let line = format!("… {} not shown: --rows all or --format csv", counted(left_out, "row"));
                page.line(&line, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    fn title(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        let Some((first, _)) = self.views.first() else { return Ok(()) };
        let rest = format!(" · {}", counted(self.views.len() + 1, "side"));
        let title = titles::full_title(first);
        let title = page.cut(&title, page.width().saturating_sub(width(&rest)));
        writeln!(out, "{}{rest}", page.paint.apply(&title, Tone::Heading))
    }

    fn section(&self, view: usize, kind: Kind) -> Option<&TableSection<'a>> {
        self.views[view].1.iter().find(|section| section.kind == kind)
    }

    /// Returns the metrics that any view shows.
    fn metrics(&self, kind: Kind) -> Vec<&'a Metric> {
        let mut metrics: Vec<&Metric> = Vec::new();
        let sections = (0..self.views.len()).filter_map(|view| self.section(view, kind));
        for shown in sections.flat_map(|section| &section.shown) {
            if metrics.iter().all(|known| known.name != shown.metric.name) {
                metrics.push(shown.metric);
            }
        }
        metrics
    }

    /// Returns the rows that any view shows, in the order of the baseline, and the number of rows that
    /// none does.
    fn rows(&self, kind: Kind, options: &Options) -> (Vec<UnitedRow<'a>>, usize) {
        let mut rows: Vec<UnitedRow> = Vec::new();
        let mut places: HashMap<Identity, usize> = HashMap::new();
        let mut is_shown: Vec<bool> = Vec::new();
        for (index, (view, _)) in self.views.iter().enumerate() {
            let Some(section) = self.section(index, kind) else { continue };
            let shown = selection::rows(view, section, self.most_rows, options).shown;
            let mut shown = shown.into_iter().peekable();
            let mut last = None;
            for row in section.rows.iter().copied() {
                last = row.baseline.or(last);
                let identity = match row.baseline {
                    Some(of_baseline) => Identity::OfBaseline(of_baseline),
                    None => Identity::Added(last, view.key(row)),
                };
                let order = (last, if row.baseline.is_some() { 0 } else { rows.len() + 1 });
                let place = *places.entry(identity).or_insert(rows.len());
                if place == rows.len() {
                    rows.push(UnitedRow { order, matches: vec![None; self.views.len()] });
                    is_shown.push(false);
                }
                rows[place].matches[index] = Some(row);
                is_shown[place] |= shown.next_if(|next| std::ptr::eq(*next, row)).is_some();
            }
        }
        let left_out = is_shown.iter().filter(|is_shown| !**is_shown).count();
        let mut shown: Vec<UnitedRow> =
            rows.into_iter().zip(is_shown).filter_map(|(row, is_shown)| is_shown.then_some(row)).collect();
        shown.sort_by_key(|row| row.order);
        (shown, left_out)
    }

    /// Returns a row's label, with its change if that is the same at all sides.
    fn label(&self, row: &UnitedRow) -> Text {
        let matched = self.views.iter().zip(&row.matches);
        let matched: Vec<(&PairView, &Match)> =
            matched.filter_map(|((view, _), row)| Some((view, (*row)?))).collect();
        let Some((view, first)) = matched.first() else { return Text::empty() };
        let change = view.change(first);
        let is_same = matched.iter().all(|(view, row)| view.change(row) == change);
        match change {
            Some(RowChange::Added | RowChange::Removed | RowChange::Renamed) if !is_same => {
                Text::new(view.key(first).shown(&view.cell.labels), Tone::Plain)
            }
            _ => label(view, first),
        }
    }

    /// Returns the columns of a metric.
    fn columns(&self, page: Page, metric: &'a Metric, rows: &[UnitedRow]) -> SideColumns {
        let names = sides::headings(page, self.comparison);
        let heading = |index: usize, side: &Aggregate| {
            let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
            format!("{mark}{}", names[index])
        };
        let measured =
            self.views.first().filter(|(view, _)| view.baseline.availability != Availability::Missing);
        let baseline = measured.map(|(view, _)| {
            let figures = rows.iter().map(|row| self.of_baseline(metric, row)).collect();
            (heading(self.comparison.baseline, view.baseline), figures)
        });
        let mut candidates = Vec::new();
        for (index, (view, _)) in self.views.iter().enumerate() {
            if view.candidate.availability == Availability::Missing {
                continue;
            }
            let cells = MetricCells::new(view, &metric.name);
            let cells = rows.iter().map(|row| of_candidate(&cells, row.matches[index]));
            candidates.push((heading(view.pair.candidate, view.candidate), cells.collect()));
        }
        SideColumns { baseline, candidates }
    }

    /// Returns the checkpoint's own figure. What a candidate is compared with may be joined with others.
    fn of_baseline(&self, metric: &Metric, row: &UnitedRow) -> Text {
        let mut matched = self.views.iter().zip(&row.matches);
        let figure = matched.find_map(|((view, _), row)| view.column(&metric.name).own_of_baseline((*row)?));
        Text::figure(figure.map(|figure| figure.value), metric.unit)
    }
}

fn of_candidate(cells: &MetricCells, row: Option<&Match>) -> CandidateCell {
    let Some(row) = row else {
        let none = Text::new(text::NONE, Tone::Quiet);
        let difference = none.clone().signed(None);
        return CandidateCell { figure: none, difference, remark: Text::empty(), is_added: false };
    };
    let joined = cells.joined_baseline(row);
    let cells = cells.at(row);
    let remark = match joined {
        Some(joined) if cells.delta.is_some() => cells.remark().after(&format!("against {joined}")),
        _ => cells.remark(),
    };
    let is_added = matches!(cells.change, Some(RowChange::Added));
    CandidateCell { figure: cells.candidate.clone(), difference: cells.signed_difference(), remark, is_added }
}
