//! Named memory layer by layer: the layers that differ between two revisions, and the table of all
//! layers.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::IndexMap;

use crate::options::Options;
use crate::page::{Group, Page, Text, Tone};
use crate::tensors::report::{DeltaCell, LEAST_PATH, TensorReport};
use memprof_judge::compare::tensor_comparison::{LayerChange, LayerRow, Moment, layers};
use memprof_judge::results::tensor_record::{TensorDevice, TensorKind};
use memprof_support::counted::counted;
use memprof_support::labels;

/// Show at most this many layers that differ below a table.
const MOST_LAYERS: usize = 10;

/// A layer that differs, and how.
pub(super) type ChangedLayer<'r, 'a> = (&'r LayerRow<'a>, LayerChange);

/// Returns the layers that differ.
pub(super) fn changed<'r, 'a>(rows: &'r [LayerRow<'a>]) -> Vec<ChangedLayer<'r, 'a>> {
    rows.iter().filter_map(|row| Some((row, row.change()?))).collect()
}

/// Sorts layers by the size of their change, largest first. Equal ones keep their order.
pub(super) fn largest_first(changed: &mut [ChangedLayer]) {
    changed.sort_by_key(|(row, _)| Reverse(row.grown().abs()));
}

/// The changes that earlier tables showed.
#[derive(Default)]
pub(super) struct ShownChanges(HashSet<(String, TensorKind, TensorDevice, LayerChange)>);

impl ShownChanges {
    /// Adds a change. Returns whether it is new.
    fn insert(&mut self, row: &LayerRow, change: LayerChange) -> bool {
        let description = row.one().description;
        self.0.insert((description.name.to_string(), description.kind, description.device.clone(), change))
    }
}

impl TensorReport<'_> {
    /// Writes the layers that differ and were not shown before, the largest differences first.
    pub(super) fn differing(
        &self,
        page: Page,
        moment: &Moment,
        shown_before: &mut ShownChanges,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if !self.is_compared() || !self.is_on_both_sides(moment) {
            return Ok(());
        }
        let [old, new] = [0, 1].map(|side| self.alive(moment, side));
        match [old.is_empty(), new.is_empty()] {
            [true, true] => return Ok(()),
            [false, false] => {}
            [is_old, _] => {
                let name = &self.names[usize::from(!is_old)];
                return page.line(&format!("{name} names no tensor here"), " ", Tone::Quiet, out);
            }
        }
        let rows = layers(&old, &new);
        let mut changed = changed(&rows);
        page.line(&counts(&rows, &changed), " ", Tone::Quiet, out)?;
        changed.retain(|(row, change)| shown_before.insert(row, *change));
        if changed.is_empty() {
            return Ok(());
        }
        largest_first(&mut changed);
        let shown = if options.all_rows() { changed.len() } else { changed.len().min(MOST_LAYERS) };
        writeln!(out)?;
        self.changes(page, &changed[..shown], out)?;
        if shown < changed.len() {
            let more = counted(changed.len() - shown, "more tensor");
            page.line(&format!("… {more} differ: --view tensors"), " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    fn changes(&self, page: Page, rows: &[ChangedLayer], out: &mut dyn Write) -> io::Result<()> {
        let label = |(row, change): &ChangedLayer| {
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
            vec![Text::new(kind, Tone::Plain), Text::new(form(row, Some(*change)), Tone::Plain)]
        });
        let about = Group::from_cells(
            "tensor".to_owned(),
            vec!["kind".to_owned(), "shape".to_owned()],
            about.collect(),
        );
        let bytes = rows.iter().map(|(row, change)| {
            let values = row.sides.iter().map(|side| side.map(|side| i128::from(side.counted)));
            (values.collect(), DeltaCell::Change(Some(*change)))
        });
        let bytes = self.group("bytes".to_owned(), bytes);
        page.tables_with_long_labels(LEAST_PATH, "layer", &labels, vec![about, bytes], out)
    }

    /// Writes the layers of one device: a row per layer, a column per kind of tensor.
    pub(super) fn layers(
        &self,
        page: Page,
        device: &TensorDevice,
        rows: &[&LayerRow],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut layers = Layer::by_name(rows);
        if options.only_changed {
            layers.retain(|layer| layer.rows.iter().any(|row| row.change().is_some()));
        }
        let labels: Vec<Text> = layers.iter().map(|layer| self.label_of(layer)).collect();
        let shape = |layer: &Layer| vec![Text::new(form(layer.main(), self.change(layer)), Tone::Plain)];
        let shapes = layers.iter().map(shape).collect();
        let mut groups = vec![Group::from_cells(device.to_string(), vec!["shape".to_owned()], shapes)];
        let kinds = TensorKind::ALL.into_iter();
        let kinds = kinds.filter(|kind| rows.iter().any(|row| row.one().description.kind == *kind));
        groups.extend(kinds.map(|kind| self.kind_group(kind, &layers)));
        page.tables_of_filled_rows(LEAST_PATH.min(page.width() / 2), "layer", &labels, groups, out)
    }

    fn label_of(&self, layer: &Layer) -> Text {
        let shared = layer.rows.iter().find_map(|row| row.one().shares_with);
        let shared = shared.map_or_else(String::new, |owner| format!("(->{})", labels::one_line(owner)));
        let change = self.change(layer);
        let mark = if self.is_compared() { format!("{} ", mark(change)) } else { String::new() };
        let tone = if change.is_some() { Tone::Structure } else { Tone::Plain };
        Text::new(format!("{mark}{}{shared}", labels::one_line(layer.name)), tone)
    }

    /// Returns the bytes of one kind of tensor, by layer.
    fn kind_group(&self, kind: TensorKind, layers: &[Layer]) -> Group {
        let bytes = layers.iter().map(|layer| {
            let row = layer.rows.iter().find(|row| row.one().description.kind == kind);
            let of = |side: usize| Some(i128::from(row?.sides[side]?.counted));
            let change = row.and_then(|row| row.change());
            ((0..self.names.len()).map(of).collect(), DeltaCell::Change(change))
        });
        self.group(kind.plural().to_owned(), bytes)
    }

    /// Returns how a layer's main tensor changed.
    fn change(&self, layer: &Layer) -> Option<LayerChange> {
        layer.main().change().filter(|_| self.is_compared())
    }
}

/// The tensors with one name, at most one of each kind.
struct Layer<'r> {
    name: &'r str,
    rows: Vec<&'r LayerRow<'r>>,
}

impl<'r> Layer<'r> {
    /// Groups tensors by name. Several tensors with the same name and kind become several layers.
    fn by_name(rows: &[&'r LayerRow<'r>]) -> Vec<Self> {
        let mut times: HashMap<(&str, TensorKind), usize> = HashMap::new();
        let mut by_name: IndexMap<(&str, usize), Vec<&LayerRow>> = IndexMap::new();
        for row in rows {
            let description = row.one().description;
            let times = times.entry((&description.name, description.kind)).or_default();
            by_name.entry((&description.name, *times)).or_default().push(row);
            *times += 1;
        }
        by_name.into_iter().map(|((name, _), rows)| Self { name, rows }).collect()
    }

    /// Returns the tensor that stands for the layer: the weight, if there is one.
    fn main(&self) -> &'r LayerRow<'r> {
        let main = self.rows.iter().min_by_key(|row| row.one().description.kind);
        main.expect("a layer has at least one tensor")
    }
}

/// Returns the mark of a change in the table.
pub(super) fn mark(change: Option<LayerChange>) -> char {
    match change {
        Some(LayerChange::Added) => '+',
        Some(LayerChange::Removed) => '-',
        Some(LayerChange::Resized) => '~',
        Some(LayerChange::Shared) => '>',
        None => ' ',
    }
}

/// Returns the shape: `f32 [2, 3]`, `f32 [2, 3] → [2, 6]`, or `f32 [2, 3] shares with embedding`.
pub(super) fn form(row: &LayerRow, change: Option<LayerChange>) -> String {
    let one = row.one().description.form();
    match (change, row.sides) {
        (Some(LayerChange::Resized), [Some(old), Some(new)]) => {
            let [old, new] = [old, new].map(|one| one.description);
            let before = old.form();
            match one.strip_prefix(&*new.dtype).filter(|_| old.dtype == new.dtype && !new.dtype.is_empty()) {
                Some(shape) if before != one => format!("{before} →{shape}"),
                Some(_) => one,
                None => format!("{before} → {one}"),
            }
        }
        (Some(LayerChange::Shared), [Some(old), Some(new)]) => match (old.shares_with, new.shares_with) {
            (_, Some(owner)) => format!("{one} shares with {}", labels::one_line(owner)),
            (Some(_), None) => format!("{one} own storage"),
            (None, None) => one,
        },
        _ => one,
    }
}

/// Returns `3 of 5 tensors differ: 1 added, 1 removed, 1 resized`.
pub(super) fn counts(rows: &[LayerRow], changed: &[ChangedLayer]) -> String {
    if changed.is_empty() {
        return format!("{}: the same on both sides", counted(rows.len(), "tensor"));
    }
    let words = [
        (LayerChange::Added, "added"),
        (LayerChange::Removed, "removed"),
        (LayerChange::Resized, "resized"),
        (LayerChange::Shared, "shared differently"),
    ];
    let counts = words.map(|(change, word)| {
        let count = changed.iter().filter(|(_, one)| *one == change).count();
        (count > 0).then(|| format!("{count} {word}"))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let verb = if rows.len() == 1 { "differs" } else { "differ" };
    format!("{} of {} {verb}: {}", changed.len(), counted(rows.len(), "tensor"), counts.join(", "))
}
