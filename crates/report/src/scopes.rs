//! `--view scopes`: a tree of scopes with what each consumed, how far it peaked, and what was in
//! use at its end.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::answer::{Answer, NotJudged};
use crate::frame::Foot;
use crate::options::Options;
use crate::page::{Group, Page, Text, Tone};
use crate::row_cells::{MetricCells, RowCells, add_remarks, label_with};
use crate::selection::{self, MOST_ROWS, MetricFilter, ShownMetric, TableSection};
use crate::titles;
use crate::trace::calls::{self, TraceReport};
use crate::troubles;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Cell, Comparison, PairView};
use memprof_judge::compare::matching::{Key, Match};
use memprof_judge::results::measurement::{Kind, Nesting};
use memprof_judge::results::stored::Run;
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::{MetricGroup, OF_SCOPES, families_of_scopes, in_words, level_and_peak};
use memprof_plan::resolved::Revision;
use memprof_support::counted::counted;
use memprof_support::labels;

/// The headings of a scope's figures, in the order of [`OF_SCOPES`].
const HEADINGS: [&str; 3] = ["Consumed", "Peaked", "Used"];

/// What the headings mean.
const LEGEND: &str = "Consumed: end minus beginning. Peaked: above both ends. Used: at the end.";

/// With `--compact`, a scope's name has at least this width.
const LEAST_SCOPE: usize = 24;

const NO_SCOPE: &str =
    "no scope was logged: `let _scope = memprof::scope!(\"name\");` opens one until the end of its block";

/// Writes a tree of scopes for each test: of each candidate beside the baseline, or of a single
/// revision.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let filter = MetricFilter::new(options);
    let view = ScopeView { comparison, options, filter: &filter, page: Page::new(options) };
    let answers = Answer::of_all(comparison);
    let mut not_judged = NotJudged::default();
    view.page.reasons(comparison, options, out)?;
    view.page.whole_troubles(comparison, out)?;
    let mut is_empty = true;
    if comparison.revisions.len() == 1 {
        for cell in &comparison.cells {
            is_empty &= !view.single(cell, out)?;
        }
    }
    for pair in comparison.pairs() {
        let sections: Vec<TableSection> = scope_section(comparison, &pair, &filter).into_iter().collect();
        not_judged.add(&pair, &sections);
        is_empty &= !view.pair(&pair, out)?;
    }
    let measured = |cell: &Cell| cell.sides.iter().any(|side| side.availability != Availability::Missing);
    // A program that was not built or not started has no scopes either, and the report says so.
    if is_empty && comparison.cells.iter().any(measured) {
        view.page.line(NO_SCOPE, "", Tone::Quiet, out)?;
    }
    let answers = if is_empty { &[][..] } else { &answers };
    Foot { comparison, options, filter: &filter, answers, not_judged: not_judged.line(), remarks: Vec::new() }
        .write(view.page, out)
}

/// Writes the tree of scopes of one test, if it has any.
pub(super) fn render_tree(
    comparison: &Comparison,
    view: &PairView,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let filter = MetricFilter::new(options);
    let tree = if view.is_alone() {
        ScopeTree::of_one(comparison, view.cell, options)
    } else {
        ScopeTree::of_pair(comparison, view, &filter, options)
    };
    ScopeView { comparison, options, filter: &filter, page: Page::new(options) }.figures(&tree, out)
}

/// The view of a comparison's scopes.
struct ScopeView<'a> {
    comparison: &'a Comparison,
    options: &'a Options,
    filter: &'a MetricFilter,
    page: Page,
}

impl ScopeView<'_> {
    /// Writes the scopes of a test of the only revision. Returns whether there were any.
    fn single(&self, cell: &Cell, out: &mut dyn Write) -> io::Result<bool> {
        let tree = ScopeTree::of_one(self.comparison, cell, self.options);
        let traced = TraceReport::of_one(self.comparison, cell);
        let revision = &self.comparison.revisions[0];
        let mut troubles = troubles::side_troubles(self.comparison, revision, &cell.sides[0]);
        troubles.retain(|trouble| trouble.is_failure);
        let has_scopes = !tree.rows.is_empty() || !traced.is_empty();
        if !has_scopes && troubles.is_empty() {
            return Ok(false);
        }
        let title = titles::full_title_of(&cell.id);
        self.page.line(&format!("{title} · {}", revision.name), "", Tone::Heading, out)?;
        self.tree(&tree, &traced, out)?;
        for trouble in &troubles {
            // No other part of this report has the message.
            self.page.headline(trouble, out)?;
            trouble.details.iter().try_for_each(|detail| self.page.quoted(detail, "     ", out))?;
        }
        if !troubles.is_empty() {
            writeln!(out)?;
        }
        Ok(has_scopes)
    }

    /// Writes the scopes of a pair, and its troubles. Returns whether there were any scopes.
    fn pair(&self, view: &PairView, out: &mut dyn Write) -> io::Result<bool> {
        let tree = ScopeTree::of_pair(self.comparison, view, self.filter, self.options);
        let troubles = troubles::troubles(self.comparison, view);
        let traced = TraceReport::for_pair(self.comparison, view);
        let has_scopes = !tree.rows.is_empty() || !traced.is_empty();
        if !has_scopes && troubles.is_empty() {
            return Ok(false);
        }
        self.page.title(view, out)?;
        self.tree(&tree, &traced, out)?;
        for trouble in &troubles {
            self.page.headline(trouble, out)?;
        }
        if !troubles.is_empty() {
            writeln!(out)?;
        }
        Ok(has_scopes)
    }

    fn tree(&self, tree: &ScopeTree, traced: &TraceReport, out: &mut dyn Write) -> io::Result<()> {
        self.figures(tree, out)?;
        if !traced.is_empty() {
            calls::render_sums(traced, tree.has_calls(), self.options, out)?;
        }
        Ok(())
    }

    fn figures(&self, tree: &ScopeTree, out: &mut dyn Write) -> io::Result<()> {
        if tree.rows.is_empty() {
            return Ok(());
        }
        let sides: Vec<&Aggregate> = tree.sides.iter().map(|(_, side)| *side).collect();
        let labels: Vec<Text> = tree.rows.iter().map(|row| row.label.clone()).collect();
        let families = families(self.comparison, &sides, self.filter);
        if self.options.compact {
            self.one_line_each(tree, &labels, &families, out)?;
        } else {
            for (index, family) in families.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                // Time and place are the same for all families.
                let more = tree.time_and_place(self.page).filter(|_| index == 0);
                let groups = tree.groups_of_sides(self.page, family).into_iter().chain(more);
                self.page.tables("scope", &labels, groups.collect(), out)?;
            }
        }
        if tree.left_out > 0 {
            let line = format!("… {} not shown: --rows all or --format csv", counted(tree.left_out, "scope"));
            self.page.line(&line, " ", Tone::Quiet, out)?;
        }
        self.page.line(LEGEND, " ", Tone::Quiet, out)?;
        writeln!(out)
    }
}

impl ScopeView<'_> {
    /// Writes one line per scope, with as many families as fit beside each other.
    fn one_line_each(
        &self,
        tree: &ScopeTree,
        labels: &[Text],
        families: &[String],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut groups: Vec<Group> = Vec::new();
        let mut left_out = Vec::new();
        let all = self.page.width().saturating_sub(LEAST_SCOPE);
        let time = tree.newest_time();
        let mut room = all.saturating_sub(time.as_ref().map_or(0, Group::width));
        // Resident memory, which says the least about a single scope, is the last.
        for family in families {
            let mut more = tree.groups_of_parts(self.page, family, true);
            if groups.is_empty() && more.iter().map(Group::width).sum::<usize>() > all {
                // Names of scopes matter more than signs, which the view without --compact has.
                more = tree.groups_of_parts(self.page, family, false);
            }
            let width: usize = groups.iter().chain(&more).map(Group::width).sum();
            if groups.is_empty() && width > room {
                room = all;
            }
            if groups.is_empty() || width <= room {
                groups.extend(more);
            } else {
                left_out.push(format!("--metrics '{family}.*'"));
            }
        }
        groups.extend(time.filter(|_| room < all));
        self.page.one_table("scope", labels, &groups, out)?;
        if room == all {
            self.page.line("no room for the time: --format csv", " ", Tone::Quiet, out)?;
        }
        if !left_out.is_empty() {
            let line = format!("no room for other metrics: {}", left_out.join(", or "));
            self.page.line(&line, " ", Tone::Quiet, out)?;
        }
        Ok(())
    }
}

/// Returns the scopes of a pair with the figures of the shown families; `None` without scopes.
fn scope_section<'a>(
    comparison: &'a Comparison,
    view: &PairView<'a>,
    filter: &MetricFilter,
) -> Option<TableSection<'a>> {
    let rows: Vec<&Match> = view.rows.iter().filter(|row| view.key(row).kind != Kind::Point).collect();
    if rows.is_empty() {
        return None;
    }
    let families = families(comparison, &[view.baseline, view.candidate], filter);
    let is_shown = |metric: &str| {
        let Some((family, part)) = metric.rsplit_once('.') else { return false };
        families.iter().any(|known| known == family) && OF_SCOPES.contains(&part)
    };
    let metrics = comparison.metrics.iter().filter(|metric| is_shown(&metric.name));
    let shown = metrics.map(|metric| ShownMetric::new(view, metric)).collect();
    Some(TableSection { kind: Kind::Scope, rows, shown })
}

/// Returns the families to show, such as `gpu.0`, `heap`, `cpu`: the chosen ones; by default the
/// GPUs and the heap, or resident memory without heap figures.
fn families(comparison: &Comparison, sides: &[&Aggregate], filter: &MetricFilter) -> Vec<String> {
    let metrics = comparison.metrics.iter().map(|metric| metric.name.as_str());
    let measured =
        families_of_scopes(metrics.filter(|metric| sides.iter().any(|side| side.column(metric).is_some())));
    let asked_for = |family: &&&str| {
        let of_scopes = OF_SCOPES.map(|part| format!("{family}.{part}"));
        let of_points = level_and_peak(family).into_iter().flatten();
        of_points.chain(of_scopes).any(|metric| filter.contains(&metric))
    };
    // The default metrics include `cpu.peak`, but only for checkpoints.
    let is = |family: &str, group| MetricGroup::of(family) == Some(group);
    let has_heap = measured.iter().any(|family| is(family, MetricGroup::Heap));
    let is_usual = |family: &&&str| filter.is_default() && is(family, MetricGroup::Cpu) && has_heap;
    let mut families: Vec<&str> =
        measured.iter().filter(asked_for).filter(|family| !is_usual(family)).copied().collect();
    if families.is_empty() {
        families.extend(measured.iter().find(|family| is(family, MetricGroup::Heap)).or(measured.first()));
    }
    families.into_iter().map(str::to_owned).collect()
}

/// The scopes of one or two revisions.
struct ScopeTree<'a> {
    sides: Vec<(&'a Revision, &'a Aggregate)>,
    /// The pair, if there are two revisions.
    pair: Option<PairView<'a>>,
    rows: Vec<ScopeRow<'a>>,
    left_out: usize,
}

struct ScopeRow<'a> {
    label: Text,
    /// Where in the source it is; of two places, the newer one.
    place: String,
    /// The index of the scope on each side.
    indices: Vec<Option<usize>>,
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
                let label = Text::new(label(side.keys[index], cell), Tone::Plain).indented(level);
                let place = side.place(index).unwrap_or_default().to_owned();
                ScopeRow { label, place, indices: vec![Some(index)], of_pair: None }
            })
            .collect();
        let shown = if options.all_rows() { rows.len() } else { rows.len().min(MOST_ROWS) };
        let left_out = rows.len() - shown;
        rows.truncate(shown);
        Self { sides: vec![(&comparison.revisions[0], side)], pair: None, rows, left_out }
    }

    fn of_pair(
        comparison: &'a Comparison,
        view: &PairView<'a>,
        filter: &MetricFilter,
        options: &Options,
    ) -> Self {
        let sides = [(view.old, view.baseline), (view.new, view.candidate)];
        let sides: Vec<_> =
            sides.into_iter().filter(|(_, side)| side.availability != Availability::Missing).collect();
        let mut tree = Self { sides, pair: Some(*view), rows: Vec::new(), left_out: 0 };
        let Some(section) = scope_section(comparison, view, filter) else { return tree };
        let [old, new] =
            [view.baseline, view.candidate].map(|side| nestings(&comparison.runs, view.cell, side));
        // The tree is the candidate's. Removed scopes keep their place in the baseline's.
        let nesting = |row: &Match| match (row.candidate, row.baseline) {
            (Some(index), _) => new[&view.candidate.keys[index]],
            (None, Some(index)) => old[&view.baseline.keys[index]],
            (None, None) => unreachable!("a row has at least one scope"),
        };
        let rows = selection::rows(view, &section, MOST_ROWS, options);
        tree.left_out = rows.left_out;
        let shown: HashSet<*const Match> = rows.shown.iter().map(|row| std::ptr::from_ref(*row)).collect();
        let ends: Vec<Nesting> = section.rows.iter().map(|row| nesting(row)).collect();
        let in_tree = outer_first(&ends).into_iter().map(|(index, level)| (section.rows[index], level));
        let is_shown = |(row, _): &(&'a Match, usize)| shown.contains(&std::ptr::from_ref(*row));
        tree.rows = in_tree.filter(is_shown).map(|(row, level)| ScopeRow::new(view, row, level)).collect();
        tree
    }

    /// Whether any row is a call of a traced function.
    fn has_calls(&self) -> bool {
        let mut indices = self.rows.iter().flat_map(|row| row.indices.iter().zip(&self.sides));
        indices.any(|(index, (_, side))| index.is_some_and(|index| side.keys[index].kind == Kind::Call))
    }

    /// Returns each revision's three figures, then the differences.
    fn groups_of_sides(&self, page: Page, family: &str) -> Vec<Group> {
        let headings = || HEADINGS.map(str::to_owned).to_vec();
        let of_side = |(number, (revision, side)): (usize, &(&Revision, &Aggregate))| {
            let name = page.heading_of_side(&revision.name, side);
            let cells = self.rows.iter().map(|row| {
                OF_SCOPES.iter().map(|part| figure(side, family, part, row.indices[number])).collect()
            });
            Group::from_cells(format!("{name} · {}", in_words(family)), headings(), cells.collect())
        };
        let mut groups: Vec<Group> = self.sides.iter().enumerate().map(of_side).collect();
        if self.is_compared() {
            let (mut headings, mut cells) = (Vec::new(), vec![Vec::new(); self.rows.len()]);
            for (part, heading) in OF_SCOPES.into_iter().zip(HEADINGS) {
                let metric = format!("{family}.{part}");
                self.add_differences(&metric, heading, true, &mut headings, &mut cells);
            }
            groups.push(Group::from_cells("Δ".to_owned(), headings, cells));
        }
        groups
    }

    /// Returns the newest revision's figures, each with its difference: one line per scope at any
    /// width.
    fn groups_of_parts(&self, page: Page, family: &str, has_signs: bool) -> Vec<Group> {
        let group = |(index, (part, name)): (usize, (&str, &str))| {
            let newest = self.sides.len() - 1;
            let (revision, side) = self.sides[newest];
            let mut headings = vec![page.heading(&revision.name)];
            let cells = self.rows.iter().map(|row| vec![figure(side, family, part, row.indices[newest])]);
            let mut cells: Vec<Vec<Text>> = cells.collect();
            if self.is_compared() {
                let metric = format!("{family}.{part}");
                self.add_differences(&metric, "Δ", has_signs, &mut headings, &mut cells);
            }
            let name = if index == 0 { format!("{}: {name}", in_words(family)) } else { name.to_owned() };
            Group::from_cells(name, headings, cells)
        };
        OF_SCOPES.into_iter().zip(HEADINGS).enumerate().map(group).collect()
    }

    fn duration(&self, row: &ScopeRow, side: usize) -> Option<i64> {
        Some(self.sides[side].1.column("time")?.figure(row.indices[side]?)?.value)
    }

    /// Returns how long each scope took in the newest revision, as far as it is known.
    fn newest_time(&self) -> Option<Group> {
        let newest = self.sides.len() - 1;
        let times: Vec<_> = self.rows.iter().map(|row| self.duration(row, newest)).collect();
        times.iter().any(Option::is_some).then(|| {
            let cells = times.into_iter().map(|time| vec![Text::figure(time, Unit::Nanoseconds)]);
            Group::from_cells(String::new(), vec!["Time".to_owned()], cells.collect())
        })
    }

    /// Returns how long each scope took, and where it is in the source, as far as it is known.
    fn time_and_place(&self, page: Page) -> Option<Group> {
        let has_time = |number: &usize| self.rows.iter().any(|row| self.duration(row, *number).is_some());
        let with_time: Vec<usize> = (0..self.sides.len()).filter(has_time).collect();
        let has_places = self.rows.iter().any(|row| !row.place.is_empty());
        let name = |number: &usize| match self.sides.len() {
            1 => "Time".to_owned(),
            _ => page.heading(&self.sides[*number].0.name),
        };
        let mut headings: Vec<String> = with_time.iter().map(name).collect();
        headings.extend(has_places.then(|| "At".to_owned()));
        if headings.is_empty() {
            return None;
        }
        let cells = self.rows.iter().map(|row| {
            let times =
                with_time.iter().map(|number| Text::figure(self.duration(row, *number), Unit::Nanoseconds));
            let place = has_places.then(|| Text::new(labels::one_line(&row.place), Tone::Quiet));
            times.chain(place).collect()
        });
        let title = if self.sides.len() > 1 && !with_time.is_empty() { "Time" } else { "" };
        Some(Group::from_cells(title.to_owned(), headings, cells.collect()))
    }

    fn is_compared(&self) -> bool {
        self.pair.is_some_and(|view| view.is_compared())
    }

    /// Adds a column with a metric's differences. With signs, those of verdicts stand behind them, and
    /// remarks in a column of their own.
    fn add_differences(
        &self,
        metric: &str,
        heading: &str,
        has_signs: bool,
        headings: &mut Vec<String>,
        rows: &mut [Vec<Text>],
    ) {
        let Some(view) = &self.pair else { return };
        let metric = MetricCells::new(view, metric);
        let all: Vec<RowCells> =
            self.rows.iter().filter_map(|row| row.of_pair).map(|row| metric.at(row)).collect();
        let is_signed = has_signs && all.iter().any(|cells| cells.sign.is_some());
        let remarks = all.iter().filter(|_| has_signs).map(RowCells::remark).collect();
        headings.push(heading.to_owned());
        for (row, cells) in rows.iter_mut().zip(all) {
            row.push(if is_signed { cells.signed_difference() } else { cells.difference });
        }
        add_remarks(headings, rows, remarks);
    }
}

impl<'a> ScopeRow<'a> {
    /// The row of a pair at a level of the tree.
    fn new(view: &PairView<'a>, row: &'a Match, level: usize) -> Self {
        let sides = [(view.baseline, row.baseline), (view.candidate, row.candidate)];
        let measured = sides.into_iter().filter(|(side, _)| side.availability != Availability::Missing);
        let place = sides.iter().rev().find_map(|(side, index)| side.place((*index)?));
        Self {
            label: label_with(view, row, |key| label(key, view.cell)).indented(level),
            place: place.unwrap_or_default().to_owned(),
            indices: measured.map(|(_, index)| index).collect(),
            of_pair: Some(row),
        }
    }
}

fn figure(side: &Aggregate, family: &str, part: &str, index: Option<usize>) -> Text {
    let column = side.column(&format!("{family}.{part}"));
    let figure = column.zip(index).and_then(|(column, index)| column.figure(index));
    Text::figure(figure.map(|figure| figure.value), Unit::Bytes)
}

fn label(key: Key, cell: &Cell) -> String {
    let mut label = labels::label(&cell.labels[key.label as usize]);
    if key.occurrence > 1 {
        _ = write!(label, " #{}", key.occurrence);
    }
    label
}

/// Returns how each scope of a side was nested, in the first repeat that has it.
pub(super) fn nestings(runs: &[Run], cell: &Cell, side: &Aggregate) -> FxHashMap<Key, Nesting> {
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

/// Takes scopes in the order in which they ended. Returns their indices in display order, outer
/// scopes first, each with its level in the tree.
///
/// A scope contains the deeper scopes of its thread that ended before it, back to the last one that
/// was not deeper.
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
    fn outer_scopes_come_before_inner_ones() {
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
    fn a_scope_is_outermost_if_the_one_around_it_never_ended() {
        assert_eq!(outer_first(&ends(&[(1, 2), (1, 1), (1, 1)])), [(1, 0), (0, 1), (2, 0)]);
    }

    #[test]
    fn each_scope_appears_once_however_they_nest() {
        let all: Vec<(u32, u32)> = (0..500_u32).map(|index| (index % 3, index * 7 % 11)).collect();
        let mut shown: Vec<usize> = outer_first(&ends(&all)).into_iter().map(|(index, _)| index).collect();
        shown.sort_unstable();
        assert_eq!(shown, (0..500).collect::<Vec<_>>());
    }
}
