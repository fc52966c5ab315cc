//! Named memory: below a test's table what it comes to, against its allocators and what pools say, and `--view tensors`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparability, Comparison, PairView};
use crate::compare::tensor_comparison::{
    DeviceFigures, LayerChange, LayerRow, Moment, TensorSide, highest, layers, moments,
};
use crate::compare::tensor_states::Alive;
use crate::plan::metric::Unit;
use crate::report::options::Options;
use crate::report::page::{Group, Page, Text, Tone, tone_of};
use crate::report::selection::MetricFilter;
use crate::report::summary;
use crate::report::text;
use crate::results::measurement::{Kind, Measurement, Names};
use crate::results::tensor_record::{TensorDevice, TensorKind};
use crate::support::counted::counted;
use crate::support::labels;
use crate::support::labels::cut;

/// How many different states of the named memory are shown below a table, and in the view of their own.
const MOST_MOMENTS: usize = 4;
const MOST_MOMENTS_OF_VIEW: usize = 12;

/// A layer's path is cut to this before figures move below.
pub(in crate::report) const LEAST_PATH: usize = 36;

/// A revision's name above its columns is cut to this.
const MOST_HEADING: usize = 12;

/// Writes what was named in a pair, below its table; nothing where nothing was.
pub(in crate::report) fn render(
    comparison: &Comparison,
    view: &PairView,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let part = TensorReport::of_pair(comparison, view);
    let page = Page::new(options);
    let moments = part.moments();
    let shown = if options.all_rows { moments.clone() } else { highest(&moments, MOST_MOMENTS) };
    let mut told = HashSet::new();
    for moment in &shown {
        writeln!(out)?;
        part.head(page, moment, out)?;
        part.totals(page, moment, out)?;
        part.pools(page, moment, out)?;
        part.differing(page, moment, &mut told, options, out)?;
    }
    if shown.len() < moments.len() {
        let line = format!("{}: --view tensors, --all-rows", left_out(moments.len() - shown.len()));
        page.line(&line, " ", Tone::Quiet, out)?;
    }
    if shown.is_empty() { part.unseen(page, out) } else { part.remarks(page, out) }
}

/// Writes all tensors of each test, of each candidate beside the baseline or of the one revision there is.
pub fn render_view(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    let mut is_empty = true;
    if comparison.revisions.len() == 1 {
        for cell in &comparison.cells {
            let part = TensorReport::of_one(comparison, cell);
            if part.is_empty() {
                continue;
            }
            is_empty = false;
            let title = summary::full_title_of(&cell.id);
            page.line(&format!("{title} · {}", comparison.revisions[0].name), "", Tone::Heading, out)?;
            part.whole(page, options, out)?;
            writeln!(out)?;
        }
    }
    for view in comparison.pairs() {
        let part = TensorReport::of_pair(comparison, &view);
        let troubles = summary::troubles(comparison, &view);
        let has_none = part.is_empty();
        if has_none && troubles.is_empty() {
            continue;
        }
        is_empty &= has_none;
        page.title(&view, out)?;
        part.whole(page, options, out)?;
        for trouble in &troubles {
            let tone = if trouble.is_failure { Tone::Growth } else { Tone::Quiet };
            page.line(&trouble.headline, " ", tone, out)?;
        }
        writeln!(out)?;
    }
    if is_empty {
        let line = "no tensor was named: `let _named = memprof::tensor(memprof::Tensor { name, bytes, .. });` names one";
        page.line(line, "", Tone::Quiet, out)?;
    }
    page.foot(comparison, options, &MetricFilter::new(options), None, 0, out)
}

fn left_out(count: usize) -> String {
    format!("… {} of named tensors, none of them higher, not shown", counted(count, "other set"))
}

/// One revision's named memory, or two's side by side.
pub(in crate::report) struct TensorReport<'a> {
    pub(in crate::report) sides: [Option<TensorSide<'a>>; 2],
    pub(in crate::report) names: Vec<String>,
    pub(in crate::report) runs: usize,
    /// Points of the test, with their names.
    rows: Vec<[Option<usize>; 2]>,
    labels: Vec<String>,
    view: Option<&'a PairView<'a>>,
}

/// What stands beside the figures of both sides.
#[derive(Clone, Copy)]
pub(in crate::report) enum DeltaCell {
    /// The difference.
    Difference,
    /// What became of the layer, and else the difference.
    Change(Option<LayerChange>),
    /// Nothing: they may not be compared.
    Nothing,
}

/// A row of the totals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum TotalsRow {
    Kind(TensorKind),
    Rounding,
    Unattributed,
    Live,
    Rest,
    Peak,
}

impl TotalsRow {
    pub(in crate::report) const ALL: [Self; 10] = [
        Self::Kind(TensorKind::Weight),
        Self::Kind(TensorKind::Gradient),
        Self::Kind(TensorKind::OptimizerState),
        Self::Kind(TensorKind::Activation),
        Self::Kind(TensorKind::Other),
        Self::Rounding,
        Self::Unattributed,
        Self::Live,
        Self::Rest,
        Self::Peak,
    ];

    pub(in crate::report) fn label(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.plural(),
            Self::Rounding => "rounding",
            Self::Unattributed => "unattributed",
            Self::Live => "= live",
            Self::Rest => "activations and the rest at the peak",
            Self::Peak => "peak",
        }
    }

    pub(in crate::report) fn of(self, figures: &DeviceFigures) -> Option<i128> {
        let totals = &figures.totals;
        match self {
            Self::Kind(kind) => Some(totals.of(kind).bytes),
            Self::Rounding => (totals.with_allocated > 0).then_some(totals.rounding),
            Self::Unattributed => figures.unattributed(),
            Self::Live => figures.live.as_ref().ok().map(|live| i128::from(*live)),
            Self::Rest => figures.rest_at_peak(),
            Self::Peak => figures.peak.as_ref().ok().map(|peak| i128::from(*peak)),
        }
    }

    /// Whether it is made of what was named alone.
    pub(in crate::report) fn is_named(self) -> bool {
        matches!(self, Self::Kind(_) | Self::Rounding)
    }

    /// Whether it is worth a row, given all figures that stand in it.
    pub(in crate::report) fn is_shown(self, of: &[&DeviceFigures]) -> bool {
        match self {
            Self::Kind(kind) => of.iter().any(|figures| figures.totals.of(kind).tensors > 0),
            Self::Rounding | Self::Rest | Self::Peak => of.iter().any(|one| self.of(one).is_some()),
            Self::Unattributed | Self::Live => true,
        }
    }
}

impl<'a> TensorReport<'a> {
    fn of_one(comparison: &'a Comparison, cell: &'a Cell) -> Self {
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
            names: vec![heading(&comparison.revisions[0].name, side)],
            sides,
            view: None,
        }
    }

    pub(in crate::report) fn of_pair(comparison: &'a Comparison, view: &'a PairView<'a>) -> Self {
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
            names: [(view.old, view.baseline), (view.new, view.candidate)]
                .map(|(revision, side)| heading(&revision.name, side))
                .to_vec(),
            sides,
            view: Some(view),
        }
    }

    pub(in crate::report) fn moments(&self) -> Vec<Moment> {
        if self.is_empty() {
            return Vec::new();
        }
        moments(self.sides.each_ref().map(Option::as_ref), &self.rows)
    }

    /// A side with its checkpoint of a moment.
    pub(in crate::report) fn at(&self, moment: &Moment, side: usize) -> Option<(&TensorSide<'a>, usize)> {
        self.sides[side].as_ref().zip(self.rows[moment.row][side])
    }

    pub(in crate::report) fn alive(&self, moment: &Moment, side: usize) -> Vec<Alive<'a>> {
        self.at(moment, side).map_or_else(Vec::new, |(side, place)| side.alive_at(place))
    }

    /// What the checkpoint of a moment is called.
    pub(in crate::report) fn label(&self, moment: &Moment) -> &str {
        &self.labels[moment.row]
    }

    /// Whether the checkpoint is there on both sides.
    pub(in crate::report) fn is_on_both_sides(&self, moment: &Moment) -> bool {
        self.at(moment, 0).is_some() && self.at(moment, 1).is_some()
    }

    /// The metrics that say what is live on a device, on each side that has one.
    fn metrics(&self, device: &TensorDevice) -> Vec<String> {
        self.sides.iter().flatten().filter_map(|side| Some(side.allocator(device).ok()?.live)).collect()
    }

    /// Whether the allocators' figures of a device mean the same on both sides.
    pub(in crate::report) fn is_comparable(&self, device: &TensorDevice) -> bool {
        let metrics = self.metrics(device);
        metrics.windows(2).all(|two| two[0] == two[1])
            && metrics.first().is_some_and(|metric| self.may_compare(metric))
    }

    pub(in crate::report) fn is_compared(&self) -> bool {
        self.view.is_some_and(PairView::is_compared)
    }

    fn head(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let mut line = format!("tensors at {}", self.label(moment));
        if moment.rows > 1 {
            _ = write!(line, ", the highest of {} with the same ones", counted(moment.rows, "checkpoint"));
        }
        page.line(&line, "", Tone::Heading, out)
    }

    pub(in crate::report) fn devices(&self, moment: &Moment) -> Vec<TensorDevice> {
        let both = (0..2).filter_map(|side| self.at(moment, side));
        let devices: IndexSet<&TensorDevice> =
            both.flat_map(|(side, place)| side.devices_at(place)).collect();
        let mut devices: Vec<TensorDevice> = devices.into_iter().cloned().collect();
        devices.sort();
        devices
    }

    /// What is named, by device and kind, against what its allocator says.
    fn totals(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let devices = self.devices(moment);
        if devices.is_empty() {
            return Ok(());
        }
        let figures: Vec<Vec<Option<DeviceFigures>>> = devices
            .iter()
            .map(|device| {
                let of = |side| self.at(moment, side).map(|(side, place)| side.figures_at(place, device));
                (0..self.names.len()).map(of).collect()
            })
            .collect();
        let all: Vec<&DeviceFigures> = figures.iter().flatten().flatten().collect();
        let lines: Vec<TotalsRow> = TotalsRow::ALL.into_iter().filter(|line| line.is_shown(&all)).collect();
        let labels: Vec<Text> = lines.iter().map(|line| Text::new(line.label(), Tone::Plain)).collect();
        let mut groups = Vec::new();
        for (device, figures) in devices.iter().zip(&figures) {
            let name = self
                .metrics(device)
                .first()
                .map_or_else(|| device.to_string(), |metric| format!("{device}: {metric}"));
            let is_comparable = self.is_comparable(device);
            let rows = lines.iter().map(|line| {
                let values = figures.iter().map(|figures| line.of(figures.as_ref()?)).collect();
                let said =
                    if line.is_named() || is_comparable { DeltaCell::Difference } else { DeltaCell::Nothing };
                (values, said)
            });
            groups.push(self.group(name, rows));
        }
        page.lay_beside(LEAST_PATH, "", &labels, groups, out)?;
        for (device, figures) in devices.iter().zip(&figures) {
            self.oddities(page, device, figures, out)?;
        }
        Ok(())
    }

    fn may_compare(&self, metric: &str) -> bool {
        self.view.is_some_and(|view| view.column(metric).comparability == Comparability::Comparable)
    }

    /// Bytes of each side, and the difference where both are there and may be compared.
    pub(in crate::report) fn group(
        &self,
        name: String,
        rows: impl Iterator<Item = (Vec<Option<i128>>, DeltaCell)>,
    ) -> Group {
        let cells = rows.map(|(values, said)| {
            let mut cells: Vec<Text> = values
                .iter()
                .map(|value| match value {
                    Some(value) => Text::new(text::figure(narrow(*value), Unit::Bytes), Tone::Plain),
                    None => Text::new(text::NONE, Tone::Quiet),
                })
                .collect();
            if self.is_compared() {
                cells.push(match (said, &values[..]) {
                    (DeltaCell::Change(Some(LayerChange::Added)), [None, Some(_)]) => {
                        Text::new("added", Tone::Structure)
                    }
                    (DeltaCell::Change(Some(LayerChange::Removed)), [Some(_), None]) => {
                        Text::new("removed", Tone::Structure)
                    }
                    (DeltaCell::Difference | DeltaCell::Change(_), [Some(old), Some(new)]) => {
                        Text::new(text::difference(new - old, Unit::Bytes), tone_of(new - old))
                    }
                    _ => Text::new("", Tone::Plain),
                });
            }
            cells
        });
        let mut headings = self.names.clone();
        headings.extend(self.is_compared().then(|| "Δ".to_owned()));
        Group::of(name, headings, cells.collect())
    }

    /// What pools said before this checkpoint.
    fn pools(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let mut pools: IndexMap<(&str, String), [Option<[u64; 3]>; 2]> = IndexMap::new();
        for number in 0..2 {
            let Some((side, place)) = self.at(moment, number) else { continue };
            for pool in side.pools_at(place) {
                pools.entry((&pool.name, pool.device.to_string())).or_default()[number] = Some(pool.figures);
            }
        }
        if pools.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let label = |(name, device): &(&str, String)| {
            let of = if name.contains(device.as_str()) { String::new() } else { format!(", {device}") };
            Text::new(format!("{}{of}", labels::one_line(name)), Tone::Plain)
        };
        let labels: Vec<Text> = pools.keys().map(label).collect();
        let groups = ["in use", "padding", "reserved"].into_iter().enumerate().map(|(figure, name)| {
            let rows = pools.values().map(|sides| {
                let values = (0..self.names.len()).map(|side| Some(i128::from(sides[side]?[figure])));
                (values.collect(), DeltaCell::Difference)
            });
            self.group(name.to_owned(), rows)
        });
        let groups = groups.collect();
        page.lay_beside(LEAST_PATH, "pool", &labels, groups, out)
    }

    /// Everything that is named, layer by layer.
    fn whole(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let moments = self.moments();
        let shown = if options.all_rows { moments.clone() } else { highest(&moments, MOST_MOMENTS_OF_VIEW) };
        for (number, moment) in shown.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            self.head(page, moment, out)?;
            self.totals(page, moment, out)?;
            self.pools(page, moment, out)?;
            let rows = match self.view {
                Some(_) => layers(&self.alive(moment, 0), &self.alive(moment, 1)),
                None => layers(&self.alive(moment, 0), &[]),
            };
            for device in self.devices(moment) {
                let of_device: Vec<&LayerRow> =
                    rows.iter().filter(|row| row.one().description.device == device).collect();
                writeln!(out)?;
                self.layers(page, &device, &of_device, options, out)?;
            }
        }
        if shown.len() < moments.len() {
            let line = format!("{}: --all-rows", left_out(moments.len() - shown.len()));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        if shown.is_empty() { self.unseen(page, out) } else { self.remarks(page, out) }
    }

    /// Whether nothing was named at all.
    fn is_empty(&self) -> bool {
        self.sides.iter().flatten().all(|side| side.measurement.tensors.is_empty())
    }
}

/// A figure as the table takes it; what a program says of itself may be beyond any memory.
pub(in crate::report) fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn heading(name: &str, side: &Aggregate) -> String {
    let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
    format!("{mark}{}", cut(&labels::one_line(name), MOST_HEADING))
}

fn tensor_side<'a>(comparison: &'a Comparison, side: &Aggregate) -> Option<TensorSide<'a>> {
    let runs: Vec<&Measurement> = side.runs.iter().map(|&run| &*comparison.runs[run].measurement).collect();
    TensorSide::new(&runs)
}
