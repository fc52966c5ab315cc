//! Traced functions below a test's table: the tree of their calls, and remarks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::options::Options;
use crate::page::{Group, Page, Text, Tone, cut_heading};
use crate::selection::MOST_CALLS;
use crate::text;
use crate::trace::families;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Cell, Comparability, Comparison, PairView};
use memprof_judge::compare::trace_comparison::{CallFigures, CallRow, LineProfile, TraceSide, calls, lines};
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels;

/// A function's path is cut to this width before figures move to a block below.
const LEAST_PATH: usize = 44;

/// Show at most this many reasons why functions are not traced.
const MOST_REASONS: usize = 4;

/// Writes what a pair traced, if anything.
pub fn render(
    comparison: &Comparison,
    view: &PairView,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    let traced = TraceReport::for_pair(comparison, view);
    traced.tree(page, &traced.calls(), options, out)?;
    traced.sources(page, options, out)?;
    traced.remarks(page, out)
}

/// Writes the sums of all calls, below a tree that shows the first calls one by one, and the source
/// lines.
pub(crate) fn render_sums(
    traced: &TraceReport,
    has_scopes: bool,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    if has_scopes {
        let line =
            "Above are the first calls of each traced function (--max-events), below the sums of all calls:";
        page.line(line, "", Tone::Quiet, out)?;
    }
    traced.tree(page, &traced.calls(), options, out)?;
    traced.sources(page, options, out)?;
    if traced.view.is_none() || !traced.has_calls() {
        traced.remarks(page, out)?;
    }
    writeln!(out)
}

pub(crate) fn trace_side<'a>(comparison: &'a Comparison, side: &Aggregate, name: &str) -> TraceSide<'a> {
    let records = side.runs.iter().map(|&run| &comparison.runs[run].measurement.trace);
    let revision = comparison.revisions.iter().position(|revision| revision.name == name);
    TraceSide {
        records: records.filter(|record| !record.is_empty()).collect(),
        facts: revision.and_then(|revision| comparison.traces.get(&revision)),
    }
}

/// The traced functions of a pair, or of a single revision.
pub(crate) struct TraceReport<'a> {
    pub(super) view: Option<&'a PairView<'a>>,
    /// The second side is empty for a single revision.
    sides: [TraceSide<'a>; 2],
    /// One name per side.
    pub(super) names: Vec<String>,
    /// Whether a side has runs, but none of them called a traced function.
    is_silent: [bool; 2],
    /// Why metrics are unavailable.
    pub(super) absent: BTreeMap<String, String>,
    /// How a side's run ended, if it did not pass, so that its figures are incomplete.
    cut_off: [Option<String>; 2],
}

impl<'a> TraceReport<'a> {
    pub(crate) fn for_pair(comparison: &'a Comparison, view: &'a PairView<'a>) -> Self {
        let sides = [(view.baseline, &view.old.name), (view.candidate, &view.new.name)]
            .map(|(side, name)| trace_side(comparison, side, name));
        let names = [&view.old.name, &view.new.name].map(|name| cut_heading(name)).to_vec();
        let aggregates = [view.baseline, view.candidate];
        let is_silent = [0, 1].map(|side| is_silent(aggregates[side], &sides[side]));
        let absent = aggregates.into_iter().flat_map(|side| side.absent.clone()).collect();
        let cut_off = aggregates.map(|side| cut_off(comparison, side));
        Self { view: Some(view), sides, names, is_silent, absent, cut_off }
    }

    pub(crate) fn of_one(comparison: &'a Comparison, cell: &'a Cell) -> Self {
        let name = &comparison.revisions[0].name;
        let side = trace_side(comparison, &cell.sides[0], name);
        let is_silent = [is_silent(&cell.sides[0], &side), false];
        let absent = cell.sides[0].absent.clone();
        let cut_off = [cut_off(comparison, &cell.sides[0]), None];
        let sides = [side, TraceSide::default()];
        Self { view: None, sides, names: vec![cut_heading(name)], is_silent, absent, cut_off }
    }

    /// Whether tracing was not requested.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_calls() && self.sides.iter().all(|side| side.facts.is_none_or(TraceFacts::is_empty))
    }

    /// Whether any traced function was called.
    pub(crate) fn has_calls(&self) -> bool {
        self.sides.iter().any(|side| !side.records.is_empty())
    }

    /// Returns the tree of calls.
    pub(crate) fn calls(&self) -> Vec<CallRow> {
        calls(&self.sides)
    }

    /// Returns the functions with figures by line.
    pub(crate) fn lines(&self) -> Vec<LineProfile> {
        lines(&self.sides)
    }

    /// Whether the two sides of a row differ in a shown figure that may be compared.
    pub(crate) fn differs(&self, row: &CallRow) -> bool {
        let figures = |family: &str, side: &Option<CallFigures>| {
            let get = |figures: &BTreeMap<String, i64>, part: &str| {
                figures.get(&format!("{family}.{part}")).copied()
            };
            side.as_ref().map(|one| (get(&one.sums, "consumed"), get(&one.most, "peaked")))
        };
        let [old, new] = &row.sides;
        old.as_ref().map(|one| one.calls) != new.as_ref().map(|one| one.calls)
            || families::of_calls(std::slice::from_ref(row))
                .iter()
                .filter(|family| self.may_compare(family))
                .any(|family| figures(family, old) != figures(family, new))
    }

    fn may_compare(&self, family: &str) -> bool {
        self.view.is_some_and(|view| {
            view.column(&format!("{family}.peak")).comparability != Comparability::SourcesDiffer
                && view.is_compared()
        })
    }

    /// Writes the tree of calls as a table, if there are any.
    pub(crate) fn tree(
        &self,
        page: Page,
        rows: &[CallRow],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let all = rows.len();
        let rows = if options.all_rows() { rows } else { &rows[..all.min(MOST_CALLS)] };
        writeln!(out)?;
        let labels: Vec<Text> = rows.iter().map(|row| self.label(row)).collect();
        let groups = self.groups(rows, options);
        if options.compact {
            page.one_table("traced function", &labels, &groups, out)?;
        } else {
            let least = LEAST_PATH.min(page.width() / 2);
            page.tables_with_long_labels(least, "traced function", &labels, groups, out)?;
        }
        if all > rows.len() {
            let line = format!("… {} not shown: --rows all", counted(all - rows.len(), "function"));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        self.oddities(page, rows, out)
    }

    fn label(&self, row: &CallRow) -> Text {
        let elsewhere = if row.elsewhere { " (from other callers)" } else { "" };
        let is_everywhere = row.sides.iter().take(self.names.len()).all(Option::is_some);
        let tone = if is_everywhere { Tone::Plain } else { Tone::Structure };
        let apart = row.apart.as_ref().map(|apart| format!(" ({apart})")).unwrap_or_default();
        let indent = "· ".repeat(row.depth);
        let room = (LEAST_PATH - 2).saturating_sub(indent.chars().count());
        let path = labels::one_line(&row.label);
        let path = text::cut_path(&path, room);
        Text::new(format!("{indent}{path}{}{elsewhere}", labels::one_line(&apart)), tone)
    }

    /// Returns the columns: calls, then consumption and peak of each family of metrics.
    fn groups(&self, rows: &[CallRow], options: &Options) -> Vec<Group> {
        let is_pair = self.view.is_some();
        let mut groups = vec![self.group("calls", Unit::Count, is_pair, rows, |figures| Some(figures.calls))];
        for family in families::shown(families::of_calls(rows), options) {
            let compare = self.may_compare(&family);
            let consumed = format!("{family}.consumed");
            let of_consumed = |figures: &CallFigures| figures.sums.get(&consumed).copied();
            groups.push(self.group(&consumed, Unit::Bytes, compare, rows, of_consumed));
            let peaked = format!("{family}.peaked");
            let of_peaked = |figures: &CallFigures| figures.most.get(&peaked).copied();
            let heading = format!("{peaked}, largest call");
            groups.push(self.group(&heading, Unit::Bytes, compare, rows, of_peaked));
        }
        for total in families::totals(rows, options) {
            let of_total = |figures: &CallFigures| figures.sums.get(&total).copied();
            // Time is never equal, and says nothing about the memory.
            let compare = is_pair && Unit::of_metric(&total) != Unit::Nanoseconds;
            groups.push(self.group(&total, Unit::of_metric(&total), compare, rows, of_total));
        }
        groups
    }

    /// Remarks on calls whose figures are missing or include others.
    fn oddities(&self, page: Page, rows: &[CallRow], out: &mut dyn Write) -> io::Result<()> {
        for (side, name) in self.names.iter().enumerate() {
            let sum = |get: fn(&CallFigures) -> i64| -> i64 {
                rows.iter().filter_map(|row| row.sides[side].as_ref()).map(get).sum()
            };
            let remarks = [
                (
                    sum(|one| one.overlapped),
                    "overlapped with a traced function on another thread: their figures include its memory",
                ),
                (sum(|one| one.open), "never ended: they have no figures"),
                (sum(|one| one.recursive), "were recursive: the figures of the outer call include them"),
            ];
            for (count, what) in remarks.iter().filter(|(count, _)| *count > 0) {
                let calls = counted(usize::try_from(*count).unwrap_or(usize::MAX), "call");
                page.line(&format!("{name}: {calls} {what}"), " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    /// Returns the columns of a figure: both sides, and the difference.
    fn group(
        &self,
        name: &str,
        unit: Unit,
        compare: bool,
        rows: &[CallRow],
        get: impl Fn(&CallFigures) -> Option<i64>,
    ) -> Group {
        let values = rows.iter().map(|row| row.sides.each_ref().map(|side| side.as_ref().and_then(&get)));
        self.columns(name, unit, compare, values)
    }

    fn columns(
        &self,
        name: &str,
        unit: Unit,
        compare: bool,
        values: impl Iterator<Item = [Option<i64>; 2]>,
    ) -> Group {
        let cells = values.map(|values| {
            let sides = values.into_iter().take(self.names.len());
            let mut cells: Vec<Text> = sides.map(|value| Text::figure(value, unit)).collect();
            if compare {
                cells.push(match values {
                    [Some(old), Some(new)] => Text::difference(i128::from(new) - i128::from(old), unit),
                    _ => Text::empty(),
                });
            }
            cells
        });
        let cells = cells.collect();
        let mut headings = self.names.clone();
        headings.extend(compare.then(|| "Δ".to_owned()));
        Group::from_cells(name.to_owned(), headings, cells)
    }

    /// Returns how the runs ended of which only a part was logged. An end of both sides is named once.
    fn ends(&self) -> Option<String> {
        let [old, new] = [&self.names[0], self.names.last()?];
        match &self.cut_off {
            [Some(of_old), Some(of_new)] if of_old == of_new => {
                Some(format!("{old} and {new}: incomplete ({of_old})"))
            }
            [Some(of_old), Some(of_new)] => Some(format!("incomplete ({old}: {of_old}; {new}: {of_new})")),
            [Some(end), None] => Some(format!("{old}: incomplete ({end})")),
            [None, Some(end)] => Some(format!("{new}: incomplete ({end})")),
            [None, None] => None,
        }
    }

    /// Writes which requested functions were not traced, and whether none was called.
    pub(crate) fn remarks(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        if let Some(ends) = self.ends() {
            let line = format!("{ends}; these figures are what was logged until then");
            page.line(&line, " ", Tone::Growth, out)?;
        }
        let of_sides = self.sides.each_ref().map(|side| side.facts.map(remarks).unwrap_or_default());
        for (side, (name, lines)) in self.names.iter().zip(&of_sides).enumerate() {
            // What is the same of both is said once.
            let is_of_both = self.names.len() == 2 && of_sides[0] == of_sides[1];
            let whose = if is_of_both { self.names.join(" and ") } else { name.clone() };
            for line in lines.iter().filter(|_| !is_of_both || side == 0) {
                page.line(&format!("{whose}: {line}"), " ", Tone::Quiet, out)?;
            }
            if self.is_silent[side] && self.sides[side].facts.is_some_and(|facts| facts.traced() > 0) {
                let line = format!("{name}: no traced function was called");
                page.line(&line, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }
}

/// Returns how the run ended whose figures a side shows, if it did not pass.
fn cut_off(comparison: &Comparison, side: &Aggregate) -> Option<String> {
    let run = side.runs.first().filter(|_| side.availability == Availability::CutOff)?;
    comparison.runs[*run].trouble()
}

fn is_silent(side: &Aggregate, traced: &TraceSide<'_>) -> bool {
    !side.runs.is_empty() && traced.records.is_empty()
}

fn remarks(facts: &TraceFacts) -> Vec<String> {
    let mut lines = Vec::new();
    let reasons = facts.reasons();
    if !reasons.is_empty() {
        let all = counted(facts.functions.len(), "function");
        let mut line = format!("{} of {all} traced", facts.traced());
        for (reason, count) in reasons.iter().take(MOST_REASONS) {
            _ = write!(line, "; {count} not: {reason}");
        }
        lines.push(line);
    }
    lines.extend(facts.unmet.iter().map(|pattern| format!("no function matches {pattern}")));
    lines
}
