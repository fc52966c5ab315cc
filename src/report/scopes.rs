//! `--view scopes`: what each scope consumed, how high it went in between, and what was used at its end, as a tree.

use std::fmt::Write as _;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparison, PairView};
use crate::compare::matching::{Key, Match, RowChange};
use crate::plan::metric::Unit;
use crate::plan::resolved::Revision;
use crate::report::options::Options;
use crate::report::page::{Group, Page, Text, Tone, tone_of};
use crate::report::selection::{self, MOST_ROWS, MetricFilter, Shown, TableSection};
use crate::report::summary::{self, Tally};
use crate::report::text;
use crate::report::trace::calls;
use crate::results::measurement::{Kind, Nesting};
use crate::results::stored::Run;
use crate::support::counted::counted;
use crate::support::labels;
use crate::support::labels::cut;

/// The parts of a scope's figures, and what they are called in the heading.
const PARTS: [(&str, &str); 3] = [("consumed", "Consumed"), ("peaked", "Peaked"), ("used", "Used")];

/// A revision's name above its columns is cut to this.
const MOST_HEADING: usize = 12;

/// Writes a tree of scopes for each test: of each candidate beside the baseline, or of the one revision there is.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let wanted = MetricFilter::new(options);
    let mut tally = Tally::default();
    let mut is_empty = true;
    if comparison.revisions.len() == 1 {
        for cell in &comparison.cells {
            let tree = ScopeTree::of_one(comparison, cell, options);
            let traced = calls::TraceReport::of_one(comparison, cell);
            if tree.rows.is_empty() && traced.is_empty() {
                continue;
            }
            is_empty = false;
            let title = summary::full_title_of(&cell.id);
            page.line(&format!("{title} · {}", comparison.revisions[0].name), "", Tone::Heading, out)?;
            tree.write(page, comparison, &wanted, options, out)?;
            if !traced.is_empty() {
                calls::render_sums(&traced, tree.has_calls(), options, out)?;
            }
        }
    }
    for view in comparison.pairs() {
        let tree = ScopeTree::of_pair(comparison, &view, &wanted, options);
        tally.add(comparison, &view, &parts(comparison, &view, &wanted));
        let troubles = summary::troubles(comparison, &view);
        let traced = calls::TraceReport::of(comparison, &view);
        if tree.rows.is_empty() && troubles.is_empty() && traced.is_empty() {
            continue;
        }
        is_empty &= tree.rows.is_empty() && traced.is_empty();
        page.title(&view, out)?;
        tree.write(page, comparison, &wanted, options, out)?;
        if !traced.is_empty() {
            calls::render_sums(&traced, tree.has_calls(), options, out)?;
        }
        for trouble in &troubles {
            page.line(
                &trouble.headline,
                " ",
                if trouble.is_failure { Tone::Growth } else { Tone::Quiet },
                out,
            )?;
        }
        if !troubles.is_empty() {
            writeln!(out)?;
        }
    }
    if is_empty {
        let line = "no scope was logged: `let _scope = memprof::scope!(\"name\");` makes one, to the end of its block";
        page.line(line, "", Tone::Quiet, out)?;
    }
    let compared = (comparison.revisions.len() > 1 && !is_empty).then_some(&tally);
    page.foot(comparison, options, &wanted, compared, 0, out)
}

/// The scopes of a pair, with their figures of the families that are shown.
fn parts<'a>(
    comparison: &'a Comparison,
    view: &PairView<'a>,
    wanted: &MetricFilter,
) -> Vec<TableSection<'a>> {
    let rows: Vec<&Match> = view.rows.iter().filter(|row| view.key(row).kind != Kind::Point).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let families = families(comparison, &[view.baseline, view.candidate], wanted);
    let is_of = |metric: &str| {
        let Some((family, part)) = metric.rsplit_once('.') else { return false };
        families.iter().any(|known| known == family) && PARTS.iter().any(|(name, _)| *name == part)
    };
    let shown = comparison.metrics.iter().filter(|metric| is_of(&metric.name));
    let shown = shown
        .map(|metric| Shown { metric, column: view.column(&metric.name), judged: view.judged(&metric.name) })
        .collect();
    vec![TableSection { kind: Kind::Scope, rows, shown }]
}

/// The families to show, `gpu.0`, `heap`, `cpu`: those asked for; else the GPUs' and the heap's, and resident memory where
/// there are no heap figures.
fn families(comparison: &Comparison, sides: &[&Aggregate], wanted: &MetricFilter) -> Vec<String> {
    let measured: Vec<&str> = comparison
        .metrics
        .iter()
        .filter(|metric| sides.iter().any(|side| side.column(&metric.name).is_some()))
        .filter_map(|metric| metric.name.strip_suffix(".used"))
        .collect();
    let asked_for = |family: &&&str| {
        ["consumed", "peaked", "used", "peak", "live", "rss"]
            .iter()
            .any(|part| wanted.contains(&format!("{family}.{part}")))
    };
    // By default the resident set's peak is wanted too, at checkpoints.
    let is_usual = |family: &&&str| wanted.is_default() && **family == "cpu" && measured.contains(&"heap");
    let mut families: Vec<&str> =
        measured.iter().filter(asked_for).filter(|family| !is_usual(family)).copied().collect();
    if families.is_empty() {
        families.extend(measured.iter().find(|family| **family == "heap").or(measured.first()));
    }
    families.into_iter().map(str::to_owned).collect()
}

/// `RAM`, `RAM (resident)`, `GPU 0`.
fn heading(family: &str) -> String {
    match family {
        "heap" => "RAM".to_owned(),
        "cpu" => "RAM (resident)".to_owned(),
        other => match other.strip_prefix("gpu.") {
            Some(device) => format!("GPU {device}"),
            None => other.to_owned(),
        },
    }
}

/// One or two revisions' scopes.
struct ScopeTree<'a> {
    sides: Vec<(&'a Revision, &'a Aggregate)>,
    /// Whether the sides' figures may be compared.
    pair: Option<PairView<'a>>,
    rows: Vec<ScopeRow<'a>>,
    left_out: usize,
}

struct ScopeRow<'a> {
    label: Text,
    /// Of each side, its index there.
    places: Vec<Option<usize>>,
    of_pair: Option<&'a Match>,
}

impl<'a> ScopeTree<'a> {
    fn of_one(comparison: &'a Comparison, cell: &'a Cell, options: &Options) -> Self {
        let side = &cell.sides[0];
        let nestings = nestings(&comparison.runs, cell, side);
        let scopes: Vec<usize> =
            (0..side.keys.len()).filter(|&index| side.keys[index].kind != Kind::Point).collect();
        let ends: Vec<Nesting> = scopes.iter().map(|&index| nestings[&side.keys[index]]).collect();
        let mut rows: Vec<ScopeRow> = outer_first(&ends)
            .into_iter()
            .map(|(row, level)| {
                let index = scopes[row];
                let label = indented(level, &label(side.keys[index], cell));
                ScopeRow { label: Text::new(label, Tone::Plain), places: vec![Some(index)], of_pair: None }
            })
            .collect();
        let shown = if options.all_rows { rows.len() } else { rows.len().min(MOST_ROWS) };
        let left_out = rows.len() - shown;
        rows.truncate(shown);
        Self { sides: vec![(&comparison.revisions[0], side)], pair: None, rows, left_out }
    }

    fn of_pair(
        comparison: &'a Comparison,
        view: &PairView<'a>,
        wanted: &MetricFilter,
        options: &Options,
    ) -> Self {
        let sides = [(view.old, view.baseline), (view.new, view.candidate)];
        let sides: Vec<_> =
            sides.into_iter().filter(|(_, side)| side.availability != Availability::Missing).collect();
        let mut tree = Self { sides, pair: Some(*view), rows: Vec::new(), left_out: 0 };
        let Some(part) = parts(comparison, view, wanted).pop() else { return tree };
        let [old, new] =
            [view.baseline, view.candidate].map(|side| nestings(&comparison.runs, view.cell, side));
        // The tree is the candidate's; what only the baseline has lies where it lay there.
        let nesting = |row: &Match| match (row.candidate, row.baseline) {
            (Some(index), _) => new[&view.candidate.keys[index]],
            (None, Some(index)) => old[&view.baseline.keys[index]],
            (None, None) => unreachable!("a row is of a scope"),
        };
        let rows = selection::rows(view, &part, options);
        tree.left_out = rows.left_out;
        let shown: std::collections::HashSet<*const Match> =
            rows.shown.iter().map(|row| std::ptr::from_ref(*row)).collect();
        let ends: Vec<Nesting> = part.rows.iter().map(|row| nesting(row)).collect();
        for (index, level) in outer_first(&ends) {
            let row = part.rows[index];
            if !shown.contains(&std::ptr::from_ref(row)) {
                continue;
            }
            let old_label = label(view.key(row), view.cell);
            let (label, tone) = match (view.change(row), view.new_key(row)) {
                (Some(RowChange::Added), _) => (format!("+ {old_label}"), Tone::Structure),
                (Some(RowChange::Removed), _) => (format!("- {old_label}"), Tone::Structure),
                (_, Some(new)) => (format!("{old_label} → {}", label(new, view.cell)), Tone::Structure),
                _ => (old_label, Tone::Plain),
            };
            let places = [(view.baseline, row.baseline), (view.candidate, row.candidate)];
            let places = places.into_iter().filter(|(side, _)| side.availability != Availability::Missing);
            tree.rows.push(ScopeRow {
                label: Text::new(indented(level, &label), tone),
                places: places.map(|(_, place)| place).collect(),
                of_pair: Some(row),
            });
        }
        tree
    }

    /// Whether calls of traced functions are among the rows.
    fn has_calls(&self) -> bool {
        let mut places = self.rows.iter().flat_map(|row| row.places.iter().zip(&self.sides));
        places.any(|(place, (_, side))| place.is_some_and(|place| side.keys[place].kind == Kind::Call))
    }

    fn write(
        &self,
        page: Page,
        comparison: &Comparison,
        wanted: &MetricFilter,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let sides: Vec<&Aggregate> = self.sides.iter().map(|(_, side)| *side).collect();
        let labels: Vec<Text> = self.rows.iter().map(|row| row.label.clone()).collect();
        for (index, family) in families(comparison, &sides, wanted).iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            if options.compact {
                page.lay_once("scope", &labels, &self.groups_of_parts(family), out)?;
            } else {
                page.lay("scope", &labels, self.groups_of_sides(family), out)?;
            }
        }
        if self.left_out > 0 {
            let line = format!("… {} not shown: --all-rows or --format csv", counted(self.left_out, "scope"));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        writeln!(out)
    }

    /// Each revision's three figures side by side, and then what changed.
    fn groups_of_sides(&self, family: &str) -> Vec<Group> {
        let headings = || PARTS.iter().map(|(_, heading)| (*heading).to_owned()).collect::<Vec<_>>();
        let of_side = |(place, (revision, side)): (usize, &(&Revision, &Aggregate))| {
            let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
            let name = cut(&labels::one_line(&revision.name), MOST_HEADING).into_owned();
            let cells = self.rows.iter().map(|row| {
                PARTS.iter().map(|(part, _)| figure(side, family, part, row.places[place])).collect()
            });
            Group::of(format!("{mark}{name} · {}", heading(family)), headings(), cells.collect())
        };
        let mut groups: Vec<Group> = self.sides.iter().enumerate().map(of_side).collect();
        if self.is_compared() {
            let cells = self
                .rows
                .iter()
                .map(|row| PARTS.iter().map(|(part, _)| self.difference(family, part, row)).collect());
            groups.push(Group::of("Δ".to_owned(), headings(), cells.collect()));
        }
        groups
    }

    /// The newest revision's figures, each with what changed: a line a scope at any width.
    fn groups_of_parts(&self, family: &str) -> Vec<Group> {
        let group = |(index, (part, name)): (usize, &(&str, &str))| {
            let place = self.sides.len() - 1;
            let (revision, side) = self.sides[place];
            let mut headings = vec![cut(&labels::one_line(&revision.name), MOST_HEADING).into_owned()];
            headings.extend(self.is_compared().then(|| "Δ".to_owned()));
            let cells = self.rows.iter().map(|row| {
                let mut cells = vec![figure(side, family, part, row.places[place])];
                cells.extend(self.is_compared().then(|| self.difference(family, part, row)));
                cells
            });
            let name = if index == 0 { format!("{}: {name}", heading(family)) } else { (*name).to_owned() };
            Group::of(name, headings, cells.collect())
        };
        PARTS.iter().enumerate().map(group).collect()
    }

    fn is_compared(&self) -> bool {
        self.pair.is_some_and(|view| view.is_compared())
    }

    fn difference(&self, family: &str, part: &str, row: &ScopeRow) -> Text {
        let nothing = Text::new(text::NONE, Tone::Quiet);
        let (Some(view), Some(of_pair)) = (&self.pair, row.of_pair) else { return nothing };
        match (view.change(of_pair), view.column(&format!("{family}.{part}")).at(of_pair).delta) {
            (Some(RowChange::Added), _) => Text::new("added", Tone::Structure),
            (Some(RowChange::Removed), _) => Text::new("removed", Tone::Structure),
            (_, Some(delta)) => {
                Text::new(text::difference(delta.difference, Unit::Bytes), tone_of(delta.difference))
            }
            (_, None) => nothing,
        }
    }
}

fn figure(side: &Aggregate, family: &str, part: &str, place: Option<usize>) -> Text {
    let column = side.column(&format!("{family}.{part}"));
    match column.zip(place).and_then(|(column, place)| column.figure(place)) {
        Some(figure) => Text::new(text::figure(figure.value, Unit::Bytes), Tone::Plain),
        None => Text::new(text::NONE, Tone::Quiet),
    }
}

fn label(key: Key, cell: &Cell) -> String {
    let mut label = labels::label(&cell.labels[key.label as usize]);
    if key.occurrence > 1 {
        _ = write!(label, " #{}", key.occurrence);
    }
    label
}

fn indented(level: usize, label: &str) -> String {
    format!("{}{label}", "  ".repeat(level))
}

/// How each scope of a side lay among others, in the first of the repeats that has it.
fn nestings(runs: &[Run], cell: &Cell, side: &Aggregate) -> FxHashMap<Key, Nesting> {
    let mut nestings = FxHashMap::default();
    for run in &side.runs {
        let measurement = &runs[*run].measurement;
        for checkpoint in measurement.checkpoints().iter().filter(|one| one.kind != Kind::Point) {
            let Some(label) = cell.labels.get_index_of(measurement.label(checkpoint)) else { continue };
            let label = u32::try_from(label).unwrap_or(u32::MAX);
            let key = Key { label, occurrence: checkpoint.occurrence, kind: checkpoint.kind };
            nestings.entry(key).or_insert(checkpoint.nesting);
        }
    }
    nestings
}

/// From scopes in the order in which they ended to the order in which they are shown: indices, outer ones before what was
/// inside of them, each with its level in the tree.
///
/// A scope holds those of its thread that ended before it, after the last one that was not deeper, and were deeper.
fn outer_first(ends: &[Nesting]) -> Vec<(usize, usize)> {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); ends.len()];
    let mut open: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    for (index, end) in ends.iter().enumerate() {
        let ended = open.entry(end.thread).or_default();
        let first =
            ended.iter().rposition(|&other| ends[other].depth <= end.depth).map_or(0, |last| last + 1);
        inside[index] = ended.split_off(first);
        ended.push(index);
    }
    let mut outermost: Vec<usize> = open.into_values().flatten().collect();
    outermost.sort_unstable();
    let mut pending: Vec<(usize, usize)> = outermost.into_iter().rev().map(|index| (index, 0)).collect();
    let mut shown = Vec::with_capacity(ends.len());
    while let Some((index, level)) = pending.pop() {
        shown.push((index, level));
        pending.extend(inside[index].iter().rev().map(|&inner| (inner, level + 1)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(of: &[(u32, u32)]) -> Vec<Nesting> {
        of.iter().map(|&(thread, depth)| Nesting { thread, depth }).collect()
    }

    #[test]
    fn outer_scopes_come_before_what_was_inside_of_them() {
        // a { b { c } d } e
        let order = outer_first(&ends(&[(1, 2), (1, 1), (1, 1), (1, 0), (1, 0)]));
        assert_eq!(order, [(3, 0), (1, 1), (0, 2), (2, 1), (4, 0)]);
    }

    #[test]
    fn threads_have_trees_of_their_own() {
        let order = outer_first(&ends(&[(2, 1), (1, 1), (2, 0), (1, 0)]));
        assert_eq!(order, [(2, 0), (0, 1), (3, 0), (1, 1)]);
    }

    #[test]
    fn a_scope_whose_outer_one_never_ended_is_an_outermost_one() {
        assert_eq!(outer_first(&ends(&[(1, 2), (1, 1), (1, 1)])), [(1, 0), (0, 1), (2, 0)]);
    }

    #[test]
    fn each_scope_is_shown_once_however_they_lie() {
        let all: Vec<(u32, u32)> = (0..500_u32).map(|index| (index % 3, index * 7 % 11)).collect();
        let mut shown: Vec<usize> = outer_first(&ends(&all)).into_iter().map(|(index, _)| index).collect();
        shown.sort_unstable();
        assert_eq!(shown, (0..500).collect::<Vec<_>>());
    }
}
