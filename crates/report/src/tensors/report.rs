//! The named memory of a test: one revision's, or two side by side.

use std::io::{self, Write};

use indexmap::IndexSet;

use crate::page::{Group, Page, Text, Tone, cut_heading};
use crate::tensors::chosen_devices::ChosenDevices;
use crate::text;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Cell, Comparability, Comparison, PairView};
use memprof_judge::compare::tensor_comparison::{LayerChange, Moment, TensorSide, moments};
use memprof_judge::compare::tensor_states::Alive;
use memprof_judge::results::measurement::{Kind, Measurement, Names};
use memprof_judge::results::tensor_record::TensorDevice;
use memprof_plan::metric::Unit;
use memprof_plan::resolved::CellId;

/// A layer's path is cut to this width before figures move to a block below.
pub(super) const LEAST_PATH: usize = 36;

/// The named memory of one revision, or of a pair.
pub(crate) struct TensorReport<'a> {
    pub(crate) sides: [Option<TensorSide<'a>>; 2],
    pub(crate) names: Vec<String>,
    pub(crate) runs: usize,
    /// The test, and the index of its candidate or only revision.
    pub(super) cell: &'a CellId,
    pub(super) candidate: usize,
    /// The test's points as indices of both sides.
    rows: Vec<[Option<usize>; 2]>,
    /// The names of these points.
    labels: Vec<String>,
    pub(super) view: Option<&'a PairView<'a>>,
    /// The devices to show; all by default.
    chosen: ChosenDevices,
}

/// What to show in the column of differences.
#[derive(Clone, Copy)]
pub(crate) enum DeltaCell {
    Difference,
    /// `added` or `removed`, or else the difference.
    Change(Option<LayerChange>),
    /// Nothing: the figures may not be compared.
    Nothing,
}

impl<'a> TensorReport<'a> {
    pub(crate) fn of_one(comparison: &'a Comparison, cell: &'a Cell) -> Self {
        let side = &cell.sides[0];
        let sides = [tensor_side(comparison, side), None];
        let points = side.keys.iter().filter(|key| key.kind == Kind::Point);
        let places = points.clone().map(|key| {
            [
                sides[0]
                    .as_ref()
                    .and_then(|side| side.place(&cell.labels[key.label as usize], key.occurrence)),
                None,
            ]
        });
        Self {
            rows: places.collect(),
            labels: points.map(|key| key.shown(&cell.labels)).collect(),
            runs: side.runs.len(),
            cell: &cell.id,
            candidate: 0,
            names: vec![heading(&comparison.revisions[0].name, side)],
            sides,
            view: None,
            chosen: ChosenDevices::default(),
        }
    }

    pub(crate) fn of_pair(comparison: &'a Comparison, view: &'a PairView<'a>) -> Self {
        let both = [view.baseline, view.candidate];
        let sides = both.map(|side| tensor_side(comparison, side));
        let points = view.rows.iter().filter(|row| view.key(row).kind == Kind::Point);
        let labels: &Names = &view.cell.labels;
        let places = points.clone().map(|row| {
            let indices = [row.baseline, row.candidate];
            [0, 1].map(|number| {
                let key = both[number].keys[indices[number]?];
                sides[number].as_ref()?.place(&labels[key.label as usize], key.occurrence)
            })
        });
        Self {
            rows: places.collect(),
            labels: points.map(|row| text::row_label(view, row)).collect(),
            runs: both.iter().map(|side| side.runs.len()).max().unwrap_or(0),
            cell: &view.cell.id,
            candidate: view.pair.candidate,
            names: [(view.old, view.baseline), (view.new, view.candidate)]
                .map(|(revision, side)| heading(&revision.name, side))
                .to_vec(),
            sides,
            view: Some(view),
            chosen: ChosenDevices::default(),
        }
    }

    /// Leaves out devices that were not chosen.
    pub(crate) fn only(self, chosen: ChosenDevices) -> Self {
        Self { chosen, ..self }
    }

    /// Says that all named memory of a checkpoint is on devices that were not chosen, if so.
    pub(super) fn elsewhere(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        if self.chosen == ChosenDevices::default() {
            return Ok(());
        }
        page.line("no named tensor is on a device of --metrics", " ", Tone::Quiet, out)
    }

    /// Whether to show a device.
    pub(super) fn shows(&self, device: &TensorDevice) -> bool {
        self.chosen.contain(&self.metrics(device))
    }

    /// Whether to show a kind of memory, such as `gpu.0`.
    pub(super) fn shows_memory(&self, family: &str) -> bool {
        self.chosen.contain(&[family.to_owned()])
    }

    pub(crate) fn moments(&self) -> Vec<Moment> {
        if self.is_empty() {
            return Vec::new();
        }
        moments(self.sides.each_ref().map(Option::as_ref), &self.rows)
    }

    /// Returns a side, and its checkpoint at a moment.
    pub(crate) fn at(&self, moment: &Moment, side: usize) -> Option<(&TensorSide<'a>, usize)> {
        self.sides[side].as_ref().zip(self.rows[moment.row][side])
    }

    pub(crate) fn alive(&self, moment: &Moment, side: usize) -> Vec<Alive<'a>> {
        let mut alive = self.at(moment, side).map_or_else(Vec::new, |(side, place)| side.alive_at(place));
        alive.retain(|one| self.shows(&one.description.device));
        alive
    }

    /// Returns the name of a moment's checkpoint.
    pub(crate) fn label(&self, moment: &Moment) -> &str {
        &self.labels[moment.row]
    }

    /// Whether both sides have the checkpoint.
    pub(crate) fn is_on_both_sides(&self, moment: &Moment) -> bool {
        self.at(moment, 0).is_some() && self.at(moment, 1).is_some()
    }

    /// Returns the metrics of live memory on a device, for each side that has one.
    pub(super) fn metrics(&self, device: &TensorDevice) -> Vec<String> {
        self.sides.iter().flatten().filter_map(|side| Some(side.allocator(device).ok()?.live)).collect()
    }

    /// Whether a device's allocator figures may be compared.
    pub(crate) fn is_comparable(&self, device: &TensorDevice) -> bool {
        let metrics = self.metrics(device);
        metrics.windows(2).all(|two| two[0] == two[1])
            && metrics.first().is_some_and(|metric| self.may_compare(metric))
    }

    pub(crate) fn is_compared(&self) -> bool {
        self.view.is_some_and(PairView::is_compared)
    }

    pub(crate) fn devices(&self, moment: &Moment) -> Vec<TensorDevice> {
        let both = (0..2).filter_map(|side| self.at(moment, side));
        let devices: IndexSet<&TensorDevice> =
            both.flat_map(|(side, place)| side.devices_at(place)).collect();
        let mut devices: Vec<TensorDevice> =
            devices.into_iter().filter(|device| self.shows(device)).cloned().collect();
        devices.sort();
        devices
    }

    fn may_compare(&self, metric: &str) -> bool {
        self.view.is_some_and(|view| view.column(metric).comparability == Comparability::Comparable)
    }

    /// Returns the columns of a figure in bytes: each side, and the difference if the sides may be
    /// compared.
    pub(super) fn group(
        &self,
        name: String,
        rows: impl Iterator<Item = (Vec<Option<i128>>, DeltaCell)>,
    ) -> Group {
        self.group_in(Unit::Bytes, name, rows)
    }

    /// Like [`Self::group`], for a figure in this unit.
    pub(super) fn group_in(
        &self,
        unit: Unit,
        name: String,
        rows: impl Iterator<Item = (Vec<Option<i128>>, DeltaCell)>,
    ) -> Group {
        let cells = rows.map(|(values, delta)| {
            let mut cells: Vec<Text> =
                values.iter().map(|value| Text::figure(value.map(narrow), unit)).collect();
            if self.is_compared() {
                cells.push(delta.text(&values, unit));
            }
            cells
        });
        let mut headings = self.names.clone();
        headings.extend(self.is_compared().then(|| "Δ".to_owned()));
        Group::from_cells(name, headings, cells.collect())
    }

    /// Whether no side named any tensor.
    pub(super) fn is_empty(&self) -> bool {
        self.sides.iter().flatten().all(|side| side.measurement.tensors.is_empty())
    }
}

impl DeltaCell {
    fn text(self, values: &[Option<i128>], unit: Unit) -> Text {
        match (self, values) {
            (Self::Change(Some(LayerChange::Added)), [None, Some(_)]) => Text::new("added", Tone::Structure),
            (Self::Change(Some(LayerChange::Removed)), [Some(_), None]) => {
                Text::new("removed", Tone::Structure)
            }
            (Self::Difference | Self::Change(_), [Some(old), Some(new)]) => Text::difference(new - old, unit),
            _ => Text::empty(),
        }
    }
}

/// Returns a figure for the table. Programs report these numbers, so they may exceed any real
/// memory.
pub(crate) fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn heading(name: &str, side: &Aggregate) -> String {
    let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
    format!("{mark}{}", cut_heading(name))
}

fn tensor_side<'a>(comparison: &'a Comparison, side: &Aggregate) -> Option<TensorSide<'a>> {
    let runs: Vec<&Measurement> = side.runs.iter().map(|&run| &*comparison.runs[run].measurement).collect();
    TensorSide::new(&runs)
}
