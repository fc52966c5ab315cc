//! How much figures vary where nothing changed: measured by `--aa`, kept in a file, and known to later runs.

use std::collections::HashMap;

use camino::Utf8Path;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use crate::compare::comparison::{Comparison, PairView};
use crate::compare::matching::Key;
use crate::plan::rule::NoiseFigure;
use crate::results::measurement::Kind;
use crate::support::user_error::UserError;
use crate::verdict::statistics::spread;

/// The version of the file's format.
pub const VERSION: u32 = 1;

/// The file: what varied by how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseRecord {
    /// The version of this format, [`VERSION`].
    pub version: u32,
    /// The commit that was run against itself.
    pub commit: String,
    /// When, RFC 3339.
    pub created: String,
    /// By metric and checkpoint.
    pub figures: Vec<NoiseFigure>,
}

/// What a program against itself showed.
pub fn measured(comparison: &Comparison) -> NoiseRecord {
    let mut record = NoiseRecord {
        version: VERSION,
        commit: comparison.revisions[comparison.baseline].commit.clone(),
        created: comparison.created.clone(),
        figures: Vec::new(),
    };
    for view in comparison.pairs().filter(PairView::is_compared) {
        for metric in &comparison.metrics {
            let column = view.column(&metric.name);
            for row in view.rows {
                let of_side = |side: Option<crate::compare::aggregate::Column<'_>>, index: Option<usize>| {
                    side.zip(index).map_or_else(Vec::new, |(column, index)| column.samples(index))
                };
                let mut samples = of_side(column.baseline, row.baseline);
                samples.extend(of_side(column.candidate, row.candidate));
                let Some(&most) = samples.iter().max() else { continue };
                let key = view.key(row);
                record.figures.push(NoiseFigure {
                    test: view.cell.id.test.to_string(),
                    title: view.cell.id.title.clone(),
                    metric: metric.name.clone(),
                    source: view.baseline.source(&metric.name).map(str::to_owned),
                    checkpoint: view.cell.labels[key.label as usize].to_string(),
                    occurrence: key.occurrence,
                    scope: key.kind != Kind::Point,
                    spread: spread(&samples),
                    most,
                    runs: samples.len(),
                });
            }
        }
    }
    record
}

/// Reads the file.
pub fn read(file: &Utf8Path) -> anyhow::Result<Vec<NoiseFigure>> {
    let text = fs_err::read_to_string(file).map_err(|error| {
        UserError::new(format!("--noise: {error}")).help("`cargo memprof --aa --noise FILE` writes one")
    })?;
    let record: NoiseRecord = serde_json::from_str(&text)
        .map_err(|error| UserError::new(format!("{file} is not what --aa --noise writes: {error}")))?;
    if record.version > VERSION {
        let newer =
            format!("{file}: format {} is newer than this cargo-memprof reads ({VERSION})", record.version);
        return Err(UserError::new(newer).help("update cargo-memprof").into());
    }
    Ok(record.figures)
}

/// Known noise, to be asked by what a figure is of.
#[derive(Default)]
pub struct KnownNoise<'a>(HashMap<Place<'a>, &'a NoiseFigure, FxBuildHasher>);

#[derive(PartialEq, Eq, Hash)]
struct Place<'a> {
    test: &'a str,
    title: &'a str,
    metric: &'a str,
    checkpoint: &'a str,
    occurrence: u32,
    scope: bool,
}

impl<'a> KnownNoise<'a> {
    /// Of these figures; of several for one place the last.
    pub fn new(figures: &'a [NoiseFigure]) -> Self {
        let place = |figure: &'a NoiseFigure| Place {
            test: &figure.test,
            title: &figure.title,
            metric: &figure.metric,
            checkpoint: &figure.checkpoint,
            occurrence: figure.occurrence,
            scope: figure.scope,
        };
        Self(figures.iter().map(|figure| (place(figure), figure)).collect())
    }

    /// By how much a metric of a test varies at a checkpoint, if its figures came from the same source.
    pub fn of(&self, test: &str, view: &PairView<'_>, metric: &str, key: Key) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        let place = Place {
            test,
            title: &view.cell.id.title,
            metric,
            checkpoint: &view.cell.labels[key.label as usize],
            occurrence: key.occurrence,
            scope: key.kind != Kind::Point,
        };
        let figure = self.0.get(&place)?;
        (figure.source.as_deref() == view.baseline.source(metric)).then_some(figure.spread)
    }
}
