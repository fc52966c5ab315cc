//! Traced functions, below a test's table: the tree of their calls, and the annotated source of those whose lines are told
//! apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::compare::aggregate::Aggregate;
use crate::compare::comparison::{Cell, Comparability, Comparison, PairView};
use crate::compare::trace_comparison::{
    CallFigures, CallRow, LineFigures, LineProfile, LineRow, TraceSide, calls, lines, locations,
};
use crate::plan::metric::Unit;
use crate::report::options::Options;
use crate::report::page::{Group, Page, Text, Tone, tone_of};
use crate::report::selection::MetricFilter;
use crate::report::text;
use crate::results::trace_facts::TraceFacts;
use crate::support::counted::counted;
use crate::support::labels;
use crate::support::labels::cut;

/// Rows of a tree that are shown unless all are asked for.
const MOST_ROWS: usize = 60;

/// A function's path is cut to this before figures move below.
const LEAST_PATH: usize = 44;

/// A line of source is cut to this before figures move below.
const LEAST_CODE: usize = 56;

/// A revision's name above its columns is cut to this.
const MOST_HEADING: usize = 12;

/// Writes what was traced in a pair; nothing where nothing was.
pub(in crate::report) fn render(
    comparison: &Comparison,
    view: &PairView,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    let part = TraceReport::of(comparison, view);
    part.tree(page, &part.calls(), options, out)?;
    part.sources(page, options, out)?;
    part.remarks(page, out)
}

/// Writes what all calls add up to, below a tree that has some of them one by one; of the one revision there is the lines
/// too, which no other view shows.
pub(in crate::report) fn render_sums(
    part: &TraceReport,
    has_scopes: bool,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    if has_scopes {
        let line = "Above are the first calls of each traced function (--max-events), below the sums of all:";
        page.line(line, "", Tone::Quiet, out)?;
    }
    part.tree(page, &part.calls(), options, out)?;
    if part.view.is_none() {
        part.sources(page, options, out)?;
    }
    if part.view.is_none() || !part.has_calls() {
        part.remarks(page, out)?;
    }
    writeln!(out)
}

fn heading(name: &str) -> String {
    cut(&labels::one_line(name), MOST_HEADING).into_owned()
}

fn trace_side<'a>(comparison: &'a Comparison, side: &Aggregate, name: &str) -> TraceSide<'a> {
    let records = side.runs.iter().map(|&run| &comparison.runs[run].measurement.trace);
    let revision = comparison.revisions.iter().position(|revision| revision.name == name);
    TraceSide {
        records: records.filter(|record| !record.is_empty()).collect(),
        facts: revision.and_then(|revision| comparison.traces.get(&revision)),
    }
}

/// What was traced in a pair, or in the one revision there is.
pub(in crate::report) struct TraceReport<'a> {
    view: Option<&'a PairView<'a>>,
    /// The second is empty where there is but one.
    sides: [TraceSide<'a>; 2],
    /// As many as there are sides.
    names: Vec<String>,
    /// Whether a side has runs, and none of them called a traced function.
    is_silent: [bool; 2],
}

impl<'a> TraceReport<'a> {
    pub(in crate::report) fn of(comparison: &'a Comparison, view: &'a PairView<'a>) -> Self {
        let sides = [(view.baseline, &view.old.name), (view.candidate, &view.new.name)]
            .map(|(side, name)| trace_side(comparison, side, name));
        let names = [&view.old.name, &view.new.name].map(|name| heading(name)).to_vec();
        let is_silent = [0, 1].map(|side| is_silent([view.baseline, view.candidate][side], &sides[side]));
        Self { view: Some(view), sides, names, is_silent }
    }

    pub(in crate::report) fn of_one(comparison: &'a Comparison, cell: &'a Cell) -> Self {
        let name = &comparison.revisions[0].name;
        let side = trace_side(comparison, &cell.sides[0], name);
        let is_silent = [is_silent(&cell.sides[0], &side), false];
        Self { view: None, sides: [side, TraceSide::default()], names: vec![heading(name)], is_silent }
    }

    /// Whether nothing was to be traced.
    pub(in crate::report) fn is_empty(&self) -> bool {
        !self.has_calls() && self.sides.iter().all(|side| side.facts.is_none_or(TraceFacts::is_empty))
    }

    /// Whether a traced function was called.
    pub(in crate::report) fn has_calls(&self) -> bool {
        self.sides.iter().any(|side| !side.records.is_empty())
    }

    /// The tree of calls.
    pub(in crate::report) fn calls(&self) -> Vec<CallRow> {
        calls(&self.sides)
    }

    /// The functions whose lines are told apart.
    pub(in crate::report) fn lines(&self) -> Vec<LineProfile> {
        lines(&self.sides)
    }

    /// Whether the two sides of a row differ in what is shown of them and may be compared.
    pub(in crate::report) fn differs(&self, row: &CallRow) -> bool {
        let figures = |family: &str, side: &Option<CallFigures>| {
            let get = |figures: &BTreeMap<String, i64>, part: &str| {
                figures.get(&format!("{family}.{part}")).copied()
            };
            side.as_ref().map(|one| (get(&one.sums, "consumed"), get(&one.most, "peaked")))
        };
        let [old, new] = &row.sides;
        old.as_ref().map(|one| one.calls) != new.as_ref().map(|one| one.calls)
            || families(std::slice::from_ref(row))
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

    /// The tree of calls as a table; nothing where there are none.
    pub(in crate::report) fn tree(
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
        let rows = if options.all_rows { rows } else { &rows[..all.min(MOST_ROWS)] };
        writeln!(out)?;
        let label = |row: &CallRow| {
            let elsewhere = if row.elsewhere { " (reached in further ways)" } else { "" };
            let is_everywhere = row.sides.iter().take(self.names.len()).all(Option::is_some);
            let tone = if is_everywhere { Tone::Plain } else { Tone::Structure };
            let apart = row.apart.as_ref().map(|apart| format!(" ({apart})")).unwrap_or_default();
            let indent = "· ".repeat(row.depth);
            let room = (LEAST_PATH - 2).saturating_sub(indent.chars().count());
            let path = labels::one_line(&row.label);
            let label = text::cut_path(&path, room);
            Text::new(format!("{indent}{label}{}{elsewhere}", labels::one_line(&apart)), tone)
        };
        let labels: Vec<Text> = rows.iter().map(label).collect();
        let is_pair = self.view.is_some();
        let mut groups = vec![self.group("calls", Unit::Count, is_pair, rows, |figures| Some(figures.calls))];
        for family in shown(families(rows), options) {
            let name = |part: &str| format!("{family}.{part}");
            let compare = self.may_compare(&family);
            let consumed = name("consumed");
            let peaked = name("peaked");
            groups.push(
                self.group(&consumed, Unit::Bytes, compare, rows, |one| one.sums.get(&consumed).copied()),
            );
            groups.push(self.group(
                &format!("{peaked}, most of a call"),
                Unit::Bytes,
                compare,
                rows,
                |one| one.most.get(&peaked).copied(),
            ));
        }
        page.lay_beside(LEAST_PATH.min(page.width() / 2), "traced function", &labels, groups, out)?;
        if all > rows.len() {
            let line = format!("… {} not shown: --all-rows", counted(all - rows.len(), "function"));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        self.oddities(page, rows, out)
    }

    /// Calls whose figures do not mean what they say, or are missing.
    fn oddities(&self, page: Page, rows: &[CallRow], out: &mut dyn Write) -> io::Result<()> {
        for (side, name) in self.names.iter().enumerate() {
            let sum = |get: fn(&CallFigures) -> i64| -> i64 {
                rows.iter().filter_map(|row| row.sides[side].as_ref()).map(get).sum()
            };
            let told = [
                (
                    sum(|one| one.overlapped),
                    "ran while a traced function ran on another thread: what that did is in the figures too",
                ),
                (sum(|one| one.open), "never ended: without figures"),
                (
                    sum(|one| one.recursive),
                    "came from within a call of the same function: the figures are in that one's",
                ),
            ];
            for (count, what) in told.iter().filter(|(count, _)| *count > 0) {
                let calls = counted(usize::try_from(*count).unwrap_or(usize::MAX), "call");
                let line = format!("{name}: {calls} {what}");
                page.line(&line, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    /// A figure on both sides, and the difference.
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
            let mut cells: Vec<Text> = values
                .iter()
                .take(self.names.len())
                .map(|value| match value {
                    Some(value) => Text::new(text::figure(*value, unit), Tone::Plain),
                    None => Text::new(text::NONE, Tone::Quiet),
                })
                .collect();
            if compare {
                cells.push(match values {
                    [Some(old), Some(new)] => {
                        let difference = i128::from(new) - i128::from(old);
                        Text::new(text::difference(difference, unit), tone_of(difference))
                    }
                    _ => Text::new("", Tone::Plain),
                });
            }
            cells
        });
        let cells = cells.collect();
        let mut headings = self.names.clone();
        headings.extend(compare.then(|| "Δ".to_owned()));
        Group::of(name.to_owned(), headings, cells)
    }

    /// The source of each function whose lines are told apart.
    fn sources(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        for profile in self.lines() {
            writeln!(out)?;
            page.line(&Self::title(&profile), "", Tone::Heading, out)?;
            self.source(page, &profile, options, out)?;
        }
        Ok(())
    }

    /// A function's path, and where it is.
    pub(in crate::report) fn title(profile: &LineProfile) -> String {
        format!("{}  {}", profile.label, locations(profile.at.each_ref().map(Option::as_deref)))
    }

    /// The source of a function, with what ran on each line.
    pub(in crate::report) fn source(
        &self,
        page: Page,
        profile: &LineProfile,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let indent = indent(&profile.rows);
        let width = profile.rows.iter().flat_map(|row| &row.sides).flatten().map(|(line, _)| *line).max();
        let width = width.unwrap_or(0).to_string().len();
        let label = |row: &LineRow| {
            let (mark, tone) = match &row.sides {
                _ if self.view.is_none() => (' ', Tone::Plain),
                [Some(_), None] => ('-', Tone::Structure),
                [None, Some(_)] => ('+', Tone::Structure),
                _ => (' ', Tone::Plain),
            };
            let number = row.sides.iter().flatten().next_back().map_or(0, |(line, _)| *line);
            let code = labels::one_line(row.text.get(indent..).unwrap_or_default()).into_owned();
            Text::new(format!("{mark}{number:>width$} {code}"), tone)
        };
        let labels: Vec<Text> = profile.rows.iter().map(label).collect();
        let metrics: BTreeSet<&String> = profile
            .rows
            .iter()
            .flat_map(|row| row.sides.iter().flatten())
            .filter_map(|(_, figures)| figures.as_ref())
            .flat_map(|figures| figures.metrics.keys())
            .filter(|metric| *metric != "heap.count")
            .collect();
        let get = |row: &LineRow, get: &dyn Fn(&LineFigures) -> Option<i64>| {
            row.sides.each_ref().map(|side| side.as_ref().and_then(|(_, figures)| get(figures.as_ref()?)))
        };
        let mut groups = vec![self.lines_group(
            "times",
            Unit::Count,
            profile.rows.iter().map(|row| get(row, &|figures| Some(figures.times))),
        )];
        // What is most asked for comes first.
        let of_lines: BTreeSet<&str> = metrics.iter().map(|metric| family_of(metric)).collect();
        let families = shown(of_lines.into_iter().map(str::to_owned).collect(), options);
        let mut metrics: Vec<&String> = metrics.into_iter().collect();
        metrics.retain(|metric| families.iter().any(|family| family == family_of(metric)));
        metrics.sort_by_key(|metric| (family_order(metric), metric.strip_suffix(".peak").is_none(), *metric));
        for metric in metrics {
            let values = profile.rows.iter().map(|row| get(row, &|one| one.metrics.get(metric).copied()));
            groups.push(self.lines_group(metric, Unit::of(metric), values));
        }
        page.lay_beside(LEAST_CODE.min(page.width() / 2), "line", &labels, groups, out)
    }

    /// As [`Self::columns`], with nothing where no statement begins.
    fn lines_group(&self, name: &str, unit: Unit, values: impl Iterator<Item = [Option<i64>; 2]>) -> Group {
        let figure = |value: Option<i64>| match value {
            Some(0) => Text::new("0", Tone::Quiet),
            Some(value) => Text::new(text::figure(value, unit), Tone::Plain),
            None => Text::new("", Tone::Plain),
        };
        let cells = values.map(|values| values.into_iter().take(self.names.len()).map(figure).collect());
        Group::of(name.to_owned(), self.names.clone(), cells.collect())
    }

    /// What was asked for and is not traced.
    pub(in crate::report) fn remarks(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        for ((name, side), is_silent) in self.names.iter().zip(&self.sides).zip(self.is_silent) {
            let Some(facts) = side.facts else { continue };
            for line in remarks(name, facts) {
                page.line(&line, " ", Tone::Quiet, out)?;
            }
            if is_silent && facts.traced() > 0 {
                let line = format!("{name}: no traced function was called");
                page.line(&line, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }
}

fn is_silent(side: &Aggregate, traced: &TraceSide<'_>) -> bool {
    !side.runs.is_empty() && traced.records.is_empty()
}

fn remarks(name: &str, facts: &TraceFacts) -> Vec<String> {
    let mut lines = Vec::new();
    let reasons = facts.reasons();
    if !reasons.is_empty() {
        let all = counted(facts.functions.len(), "function");
        let mut line = format!("{name}: {} of {all} traced", facts.traced());
        for (reason, count) in reasons.iter().take(4) {
            _ = write!(line, "; {count} not: {reason}");
        }
        lines.push(line);
    }
    lines.extend(facts.unmet.iter().map(|pattern| format!("{name}: no function is meant by {pattern}")));
    lines
}

/// `gpu.0`, `heap`, `cpu`: what there are figures of.
fn families(rows: &[CallRow]) -> Vec<String> {
    let sides = rows.iter().flat_map(|row| row.sides.iter().flatten());
    let metrics = sides.flat_map(|figures| figures.sums.keys());
    let families: BTreeSet<&str> = metrics.filter_map(|metric| metric.strip_suffix(".consumed")).collect();
    let mut families: Vec<String> = families.into_iter().map(str::to_owned).collect();
    families.sort_by_key(|family| family_order(family));
    families
}

/// `gpu.0` of `gpu.0.peak`.
fn family_of(metric: &str) -> &str {
    metric.rsplit_once('.').map_or(metric, |(family, _)| family)
}

/// What is shown of them: what was asked for if any of it is there. Pools are parts of a device, and shown on request.
fn shown(families: Vec<String>, options: &Options) -> Vec<String> {
    if options.all {
        return families;
    }
    let asked = options.metrics.as_deref().unwrap_or_default();
    let wanted = MetricFilter::new(options);
    let asks_for_pools = asked.iter().any(|pattern| pattern.contains("pool"));
    let rest: Vec<String> =
        families.into_iter().filter(|family| asks_for_pools || !family.contains(".pool")).collect();
    let is_asked = |family: &&String| {
        ["consumed", "peaked", "peak"].iter().any(|part| wanted.contains(&format!("{family}.{part}")))
    };
    let chosen: Vec<String> = rest.iter().filter(is_asked).cloned().collect();
    if asked.is_empty() || chosen.is_empty() { rest } else { chosen }
}

/// GPUs first, for what they have is scarcest; resident memory last, for it is least exact.
fn family_order(metric: &str) -> u8 {
    match metric.split('.').next() {
        Some("gpu") => 0,
        Some("heap") => 1,
        _ => 2,
    }
}

/// Bytes of white space that all lines begin with.
fn indent(rows: &[LineRow]) -> usize {
    let of = |text: &str| text.len() - text.trim_start().len();
    rows.iter().filter(|row| !row.text.trim().is_empty()).map(|row| of(&row.text)).min().unwrap_or(0)
}
