//! The totals of named memory by device and kind, against the allocators' figures, and what pools
//! report.

use std::io::{self, Write};

use indexmap::IndexMap;

use crate::page::{Page, Text, Tone};
use crate::tensors::report::{DeltaCell, LEAST_PATH, TensorReport};
use memprof_judge::compare::tensor_comparison::{DeviceFigures, Moment};
use memprof_judge::results::tensor_record::TensorKind;
use memprof_support::labels;

/// A row of the totals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TotalsRow {
    Kind(TensorKind),
    Rounding,
    Unattributed,
    Live,
    Rest,
    Peak,
}

impl TotalsRow {
    pub(crate) const ALL: [Self; 11] = [
        Self::Kind(TensorKind::Weight),
        Self::Kind(TensorKind::Gradient),
        Self::Kind(TensorKind::OptimizerState),
        Self::Kind(TensorKind::Activation),
        Self::Kind(TensorKind::IntermediateGradient),
        Self::Kind(TensorKind::Other),
        Self::Rounding,
        Self::Unattributed,
        Self::Live,
        Self::Rest,
        Self::Peak,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.plural(),
            Self::Rounding => "rounding",
            Self::Unattributed => "unattributed",
            Self::Live => "= live",
            Self::Rest => "activations and the rest at the peak",
            Self::Peak => "peak",
        }
    }

    pub fn value_in(self, figures: &DeviceFigures) -> Option<i128> {
        let totals = &figures.totals;
        match self {
            Self::Kind(kind) => Some(totals.of_kind(kind).bytes),
            Self::Rounding => (totals.with_allocated > 0).then_some(totals.rounding),
            Self::Unattributed => figures.unattributed(),
            Self::Live => figures.live.as_ref().ok().map(|live| i128::from(*live)),
            Self::Rest => figures.rest_at_peak(),
            Self::Peak => figures.peak.as_ref().ok().map(|peak| i128::from(*peak)),
        }
    }

    /// Whether it comes from named tensors alone.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Kind(_) | Self::Rounding)
    }

    /// Whether to show the row, given all its figures.
    pub(crate) fn is_shown(self, of: &[&DeviceFigures]) -> bool {
        match self {
            Self::Kind(kind) => of.iter().any(|figures| figures.totals.of_kind(kind).tensors > 0),
            Self::Rounding | Self::Rest | Self::Peak => of.iter().any(|one| self.value_in(one).is_some()),
            Self::Unattributed | Self::Live => true,
        }
    }
}

impl TensorReport<'_> {
    /// Writes the named memory of each device by kind, with its allocator's figures.
    pub(super) fn totals(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let devices = self.devices(moment);
        if devices.is_empty() {
            return self.elsewhere(page, out);
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
                let values = figures.iter().map(|figures| line.value_in(figures.as_ref()?)).collect();
                let delta =
                    if line.is_named() || is_comparable { DeltaCell::Difference } else { DeltaCell::Nothing };
                (values, delta)
            });
            groups.push(self.group(name, rows));
        }
        page.tables_with_long_labels(LEAST_PATH, "", &labels, groups, out)?;
        for (device, figures) in devices.iter().zip(&figures) {
            self.oddities(page, device, figures, out)?;
        }
        Ok(())
    }

    /// Writes the last readings of pools before this checkpoint.
    pub(super) fn pools(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let mut pools: IndexMap<(&str, String), [Option<[u64; 3]>; 2]> = IndexMap::new();
        for number in 0..2 {
            let Some((side, place)) = self.at(moment, number) else { continue };
            for pool in side.pools_at(place).into_iter().filter(|pool| self.shows(&pool.device)) {
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
        page.tables_with_long_labels(LEAST_PATH, "pool", &labels, groups, out)
    }
}
