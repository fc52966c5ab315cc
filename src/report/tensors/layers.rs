//! Named memory layer by layer: those that differ between two revisions, and the table of all.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::IndexMap;

use crate::compare::tensor_comparison::{LayerChange, LayerRow, Moment, layers};
use crate::report::options::Options;
use crate::report::page::{Group, Page, Text, Tone};
use crate::report::tensors::totals::{DeltaCell, LEAST_PATH, TensorReport};
use crate::results::tensor_record::{TensorDevice, TensorKind};
use crate::support::counted::counted;
use crate::support::labels;

/// How many layers that differ are shown below a table.
const MOST_LAYERS: usize = 10;

impl TensorReport<'_> {
    /// Layers that came, went or changed and were not told of yet, the largest differences first.
    pub(in crate::report) fn differing(
        &self,
        page: Page,
        moment: &Moment,
        told: &mut HashSet<(String, TensorKind, TensorDevice, LayerChange)>,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if !self.is_compared() || !self.is_on_both_sides(moment) {
            return Ok(());
        }
        let [old, new] = [0, 1].map(|side| self.alive(moment, side));
        if old.is_empty() && new.is_empty() {
            return Ok(());
        }
        for (number, alive) in [&old, &new].into_iter().enumerate() {
            if alive.is_empty() {
                let line = format!("nothing is named here in {}", self.names[number]);
                return page.line(&line, " ", Tone::Quiet, out);
            }
        }
        let rows = layers(&old, &new);
        let changed: Vec<(&LayerRow, LayerChange)> =
            rows.iter().filter_map(|row| Some((row, row.change()?))).collect();
        page.line(&counts(&rows, &changed), " ", Tone::Quiet, out)?;
        let mut fresh: Vec<&(&LayerRow, LayerChange)> = changed
            .iter()
            .filter(|(row, change)| {
                let description = row.one().description;
                let device = description.device.clone();
                told.insert((description.name.to_string(), description.kind, device, *change))
            })
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        // Stable: of equal differences, the earlier layer first.
        fresh.sort_by_key(|(row, _)| std::cmp::Reverse(row.grown().abs()));
        let shown = if options.all_rows { fresh.len() } else { fresh.len().min(MOST_LAYERS) };
        writeln!(out)?;
        self.changes(page, &fresh[..shown], out)?;
        if shown < fresh.len() {
            let line = format!("… {} more differ: --view tensors", counted(fresh.len() - shown, "tensor"));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    fn changes(&self, page: Page, rows: &[&(&LayerRow, LayerChange)], out: &mut dyn Write) -> io::Result<()> {
        let label = |(row, change): &&(&LayerRow, LayerChange)| {
            let name = labels::one_line(&row.one().description.name).into_owned();
            Text::new(format!("{} {name}", mark(Some(*change))), Tone::Structure)
        };
        let labels: Vec<Text> = rows.iter().map(label).collect();
        let devices: HashSet<&TensorDevice> =
            rows.iter().map(|(row, _)| &row.one().description.device).collect();
        let about = rows.iter().map(|(row, change)| {
            let description = row.one().description;
            let mut kind = description.kind.singular().to_owned();
            if devices.len() > 1 {
                _ = write!(kind, ", {}", description.device);
            }
            vec![Text::new(kind, Tone::Plain), Text::new(form(row, *change), Tone::Plain)]
        });
        let about =
            Group::of("tensor".to_owned(), vec!["kind".to_owned(), "shape".to_owned()], about.collect());
        let bytes = rows.iter().map(|(row, change)| {
            let values = row.sides.iter().map(|side| side.map(|side| i128::from(side.counted)));
            (values.collect(), DeltaCell::Change(Some(*change)))
        });
        let bytes = self.group("bytes".to_owned(), bytes);
        page.lay_beside(LEAST_PATH, "layer", &labels, vec![about, bytes], out)
    }

    /// The layers of one device, a row for each name, what is of it by kind.
    pub(in crate::report) fn layers<'r>(
        &self,
        page: Page,
        device: &TensorDevice,
        rows: &[&'r LayerRow<'r>],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // Of several with the same name and kind, each has a row of its own.
        let mut times: HashMap<(&str, TensorKind), usize> = HashMap::new();
        let mut by_name: IndexMap<(&str, usize), Vec<&LayerRow>> = IndexMap::new();
        for row in rows {
            let description = row.one().description;
            let times = times.entry((&description.name, description.kind)).or_default();
            by_name.entry((&description.name, *times)).or_default().push(row);
            *times += 1;
        }
        // What the shape is of: the weight, where there is one.
        let first = |rows: &[&'r LayerRow<'r>]| {
            *rows.iter().min_by_key(|row| row.one().description.kind).unwrap_or(&rows[0])
        };
        let change = |rows: &[&'r LayerRow<'r>]| first(rows).change().filter(|_| self.is_compared());
        if options.only_changed {
            by_name.retain(|_, rows| rows.iter().any(|row| row.change().is_some()));
        }
        let label = |((name, _), rows): (&(&str, usize), &Vec<&'r LayerRow<'r>>)| {
            let shared = rows.iter().find_map(|row| row.one().shares_with);
            let shared = shared.map_or_else(String::new, |owner| format!("(->{})", labels::one_line(owner)));
            let change = change(rows);
            let mark = if self.is_compared() { format!("{} ", mark(change)) } else { String::new() };
            let tone = if change.is_some() { Tone::Structure } else { Tone::Plain };
            Text::new(format!("{mark}{}{shared}", labels::one_line(name)), tone)
        };
        let labels: Vec<Text> = by_name.iter().map(label).collect();
        let shapes = by_name.values().map(|rows| {
            vec![Text::new(form(first(rows), change(rows).unwrap_or(LayerChange::Added)), Tone::Plain)]
        });
        let mut groups = vec![Group::of(device.to_string(), vec!["shape".to_owned()], shapes.collect())];
        for kind in TensorKind::ALL {
            if rows.iter().all(|row| row.one().description.kind != kind) {
                continue;
            }
            let bytes = by_name.values().map(|rows| {
                let row = rows.iter().find(|row| row.one().description.kind == kind);
                let of = |side: usize| Some(i128::from(row?.sides[side]?.counted));
                ((0..self.names.len()).map(of).collect(), DeltaCell::Change(row.and_then(|row| row.change())))
            });
            groups.push(self.group(kind.plural().to_owned(), bytes));
        }
        page.lay_filled(LEAST_PATH.min(page.width() / 2), "layer", &labels, groups, out)
    }
}

pub(in crate::report) fn mark(change: Option<LayerChange>) -> char {
    match change {
        Some(LayerChange::Added) => '+',
        Some(LayerChange::Removed) => '-',
        Some(LayerChange::Resized) => '~',
        Some(LayerChange::Shared) => '>',
        None => ' ',
    }
}

/// `f32 [2, 3] → [2, 6]`, or what became of its sharing.
pub(in crate::report) fn form(row: &LayerRow, change: LayerChange) -> String {
    let one = row.one().description.form();
    match (change, row.sides) {
        (LayerChange::Resized, [Some(old), Some(new)]) => {
            let [old, new] = [old, new].map(|one| one.description);
            let before = old.form();
            match one.strip_prefix(&*new.dtype).filter(|_| old.dtype == new.dtype && !new.dtype.is_empty()) {
                Some(shape) if before != one => format!("{before} →{shape}"),
                Some(_) => one,
                None => format!("{before} → {one}"),
            }
        }
        (LayerChange::Shared, [Some(old), Some(new)]) => match (old.shares_with, new.shares_with) {
            (_, Some(owner)) => format!("{one} shares with {}", labels::one_line(owner)),
            (Some(_), None) => format!("{one} shares no more"),
            (None, None) => one,
        },
        _ => one,
    }
}

/// `3 of 5 tensors differ: 1 added, 1 removed, 1 resized`.
pub(in crate::report) fn counts(rows: &[LayerRow], changed: &[(&LayerRow, LayerChange)]) -> String {
    if changed.is_empty() {
        return format!("{}: the same on both sides", counted(rows.len(), "tensor"));
    }
    let words = [
        (LayerChange::Added, "added"),
        (LayerChange::Removed, "removed"),
        (LayerChange::Resized, "resized"),
        (LayerChange::Shared, "sharing otherwise"),
    ];
    let counts = words.map(|(change, word)| {
        let count = changed.iter().filter(|(_, one)| *one == change).count();
        (count > 0).then(|| format!("{count} {word}"))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let verb = if rows.len() == 1 { "differs" } else { "differ" };
    format!("{} of {} {verb}: {}", changed.len(), counted(rows.len(), "tensor"), counts.join(", "))
}
