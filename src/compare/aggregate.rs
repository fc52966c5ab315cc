//! What one revision says of one cell: its repeats put together, a figure for each checkpoint and metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compare::matching::{Key, Renames, match_checkpoints};
use crate::results::measurement::{Kind, Measurement, Names, intern, said_of};
use crate::results::stored::Run;

/// A metric's readings at one checkpoint, over the repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The median; for an even number of repeats the middle between the two middle ones, rounded down.
    pub value: i64,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// How many runs had a reading here.
    pub runs: u32,
}

impl Figure {
    fn of_one(value: i64) -> Self {
        Self { value, min: value, max: value, runs: 1 }
    }

    fn of(readings: &mut [i64]) -> Option<Self> {
        readings.sort_unstable();
        let (min, max) = (*readings.first()?, *readings.last()?);
        let (low, high) = (readings[(readings.len() - 1) / 2], readings[readings.len() / 2]);
        let middle = (i128::from(low) + i128::from(high)).div_euclid(2);
        let value = i64::try_from(middle).expect("the middle of two lies between them");
        Some(Self { value, min, max, runs: u32::try_from(readings.len()).unwrap_or(u32::MAX) })
    }

    /// Whether the reading was repeated, each time to the unit. One run alone proves nothing.
    pub fn is_exact(&self) -> bool {
        self.runs > 1 && self.min == self.max
    }
}

/// Where a side's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// From runs that passed: they may be compared.
    Measured,
    /// From a run that did not pass, up to its last checkpoint: they are shown and never compared.
    CutOff,
    /// There are none.
    Missing,
}

/// One revision's part in a cell.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Where the figures come from.
    pub availability: Availability,
    /// Indices, in the comparison's runs, of the runs that the figures are of.
    pub runs: Vec<usize>,
    /// Indices, in the comparison's runs, of the runs whose figures may not be compared.
    pub failed: Vec<usize>,
    /// The checkpoints, in order; labels are the cell's.
    pub keys: Vec<Key>,
    /// By metric: where its figures come from. Several sources among the repeats are joined.
    pub sources: BTreeMap<String, String>,
    /// By metric: why it is absent, at all checkpoints or from one on.
    pub absent: BTreeMap<String, String>,
    /// How many checkpoints and scopes are not in every repeat.
    pub unsteady: usize,
    figures: Figures,
}

/// A single run's readings are used where they lie.
#[derive(Clone, Debug)]
enum Figures {
    One(Arc<Measurement>),
    Several(Several),
}

/// Figures over several repeats, and where each of them has its own readings.
#[derive(Clone, Debug, Default)]
struct Several {
    columns: BTreeMap<String, Vec<Option<Figure>>>,
    measurements: Vec<Arc<Measurement>>,
    /// By repeat, then by row.
    places: Vec<Vec<Option<usize>>>,
}

impl Figures {
    fn column(&self, metric: &str) -> Option<Column<'_>> {
        match self {
            Self::One(measurement) => {
                measurement.column(metric).map(|column| Column::One(measurement, column))
            }
            Self::Several(several) => several.columns.get_key_value(metric).map(|(metric, figures)| {
                let Several { measurements, places, .. } = several;
                Column::Several(figures, Repeated { metric, measurements, places })
            }),
        }
    }
}

impl Aggregate {
    /// Puts the runs of one revision and cell together. `runs` are all of them, with their indices in the comparison;
    /// `labels` are the cell's, to which new ones are added.
    pub fn new(runs: &[(usize, &Run)], labels: &mut Names) -> Self {
        let (passed, failed): (Vec<_>, Vec<_>) = runs.iter().partition(|(_, run)| run.trouble().is_none());
        let (availability, used) = if passed.is_empty() {
            // The run that got furthest says most about where the others may have ended too.
            let furthest = failed.iter().rev().max_by_key(|(_, run)| run.measurement.checkpoints().len());
            match furthest {
                Some(&run) if !run.1.measurement.checkpoints().is_empty() => {
                    (Availability::CutOff, vec![run])
                }
                _ => (Availability::Missing, Vec::new()),
            }
        } else {
            (Availability::Measured, passed)
        };
        let mut sources: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut absent = BTreeMap::new();
        for (_, run) in &used {
            for (metric, source) in &run.measurement.sources {
                let known = sources.entry(metric.clone()).or_default();
                if !known.contains(&source.as_str()) {
                    known.push(source);
                }
            }
            for (metric, reason) in &run.measurement.absent {
                absent.entry(metric.clone()).or_insert_with(|| reason.clone());
            }
        }
        let measurements: Vec<&Arc<Measurement>> = used.iter().map(|(_, run)| &run.measurement).collect();
        let Repeats { keys, unsteady, figures } = put_together(&measurements, labels);
        Self {
            availability,
            runs: used.iter().map(|(index, _)| *index).collect(),
            failed: failed.iter().map(|(index, _)| *index).collect(),
            keys,
            sources: sources.into_iter().map(|(metric, sources)| (metric, sources.join(" / "))).collect(),
            absent,
            unsteady,
            figures,
        }
    }

    /// A handle for reading one metric's figures; `None` if no run has any.
    pub fn column(&self, metric: &str) -> Option<Column<'_>> {
        self.figures.column(metric)
    }

    /// Where a metric's figures come from.
    pub fn source(&self, metric: &str) -> Option<&str> {
        said_of(&self.sources, metric).map(String::as_str)
    }

    /// Why a metric is absent.
    pub fn why_absent(&self, metric: &str) -> Option<&str> {
        said_of(&self.absent, metric).map(String::as_str)
    }

    /// The metrics that have figures.
    pub fn metrics(&self) -> Vec<&str> {
        match &self.figures {
            Figures::One(measurement) => measurement.metrics().iter().map(|name| &**name).collect(),
            Figures::Several(several) => several.columns.keys().map(String::as_str).collect(),
        }
    }
}

/// The figures of one metric on one side.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Those of one run.
    One(&'a Measurement, usize),
    /// Those over several.
    Several(&'a [Option<Figure>], Repeated<'a>),
}

/// The repeats that a column's figures are made of.
#[derive(Clone, Copy, Debug)]
pub struct Repeated<'a> {
    metric: &'a str,
    measurements: &'a [Arc<Measurement>],
    places: &'a [Vec<Option<usize>>],
}

impl Column<'_> {
    /// The figure at a checkpoint.
    pub fn figure(&self, checkpoint: usize) -> Option<Figure> {
        match self {
            Self::One(measurement, column) => measurement.reading(*column, checkpoint).map(Figure::of_one),
            Self::Several(figures, _) => figures.get(checkpoint).copied().flatten(),
        }
    }

    /// Each repeat's reading at a checkpoint, in their order; `None` for one that has none there.
    pub fn readings(&self, checkpoint: usize) -> impl Iterator<Item = Option<i64>> + '_ {
        let (one, several) = match self {
            Self::One(measurement, column) => (Some(measurement.reading(*column, checkpoint)), None),
            Self::Several(_, repeated) => (None, Some(repeated)),
        };
        let of_several = several.into_iter().flat_map(move |repeated| {
            let each = repeated.measurements.iter().zip(repeated.places);
            each.map(move |(measurement, places)| {
                let at = places.get(checkpoint).copied().flatten()?;
                measurement.reading(measurement.column(repeated.metric)?, at)
            })
        });
        one.into_iter().chain(of_several)
    }

    /// The readings at a checkpoint of those repeats that have one.
    pub fn samples(&self, checkpoint: usize) -> Vec<i64> {
        self.readings(checkpoint).flatten().collect()
    }
}

struct Repeats {
    keys: Vec<Key>,
    unsteady: usize,
    figures: Figures,
}

fn put_together(measurements: &[&Arc<Measurement>], labels: &mut Names) -> Repeats {
    let each: Vec<Vec<Key>> = measurements.iter().map(|measurement| keys(measurement, labels)).collect();
    match (measurements, &each[..]) {
        ([], _) | (_, []) => {
            Repeats { keys: Vec::new(), unsteady: 0, figures: Figures::Several(Several::default()) }
        }
        ([measurement], [keys]) => {
            Repeats { keys: keys.clone(), unsteady: 0, figures: Figures::One(Arc::clone(measurement)) }
        }
        _ => {
            let spine = Spine::new(&each);
            let unsteady = (0..spine.keys.len())
                .filter(|&row| spine.keys[row].kind != Kind::Call)
                .filter(|&row| spine.places.iter().any(|places| places[row].is_none()))
                .count();
            let columns = columns(measurements, &spine);
            let measurements = measurements.iter().map(|measurement| Arc::clone(measurement)).collect();
            let figures = Figures::Several(Several { columns, measurements, places: spine.places });
            Repeats { keys: spine.keys, unsteady, figures }
        }
    }
}

fn keys(measurement: &Measurement, labels: &mut Names) -> Vec<Key> {
    let numbers: Vec<u32> = measurement.labels().iter().map(|label| intern(labels, label)).collect();
    let checkpoints = measurement.checkpoints().iter();
    checkpoints
        .map(|checkpoint| Key {
            label: numbers[checkpoint.label as usize],
            occurrence: checkpoint.occurrence,
            kind: checkpoint.kind,
        })
        .collect()
}

/// The checkpoints that any repeat has, in one order, and where each repeat has them.
struct Spine {
    keys: Vec<Key>,
    /// By repeat, then by row.
    places: Vec<Vec<Option<usize>>>,
}

impl Spine {
    fn new(repeats: &[Vec<Key>]) -> Self {
        let mut spine =
            Self { keys: repeats[0].clone(), places: vec![(0..repeats[0].len()).map(Some).collect()] };
        for repeat in &repeats[1..] {
            let rows = match_checkpoints(&spine.keys, repeat, Renames::Never);
            if rows.len() > spine.keys.len() {
                spine.keys = rows
                    .iter()
                    .map(|row| {
                        row.baseline.map_or_else(|| repeat[row.candidate.unwrap_or(0)], |old| spine.keys[old])
                    })
                    .collect();
                for places in &mut spine.places {
                    *places = rows.iter().map(|row| row.baseline.and_then(|old| places[old])).collect();
                }
            }
            spine.places.push(rows.iter().map(|row| row.candidate).collect());
        }
        spine
    }
}

fn columns(measurements: &[&Arc<Measurement>], spine: &Spine) -> BTreeMap<String, Vec<Option<Figure>>> {
    let mut columns = BTreeMap::new();
    let mut readings = Vec::with_capacity(measurements.len());
    for metric in measurements.iter().flat_map(|measurement| measurement.metrics()) {
        if columns.contains_key(&**metric) {
            continue;
        }
        let sources: Vec<_> = measurements.iter().map(|measurement| measurement.column(metric)).collect();
        let figures = (0..spine.keys.len()).map(|row| {
            readings.clear();
            for ((measurement, column), places) in measurements.iter().zip(&sources).zip(&spine.places) {
                readings
                    .extend(column.zip(places[row]).and_then(|(column, at)| measurement.reading(column, at)));
            }
            Figure::of(&mut readings)
        });
        columns.insert(metric.to_string(), figures.collect());
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_middle_rounded_down_on_both_sides_of_zero() {
        let median = |readings: &[i64]| Figure::of(&mut readings.to_vec()).map(|figure| figure.value);
        assert_eq!(median(&[3, 1, 2]), Some(2));
        assert_eq!(median(&[1, 2]), Some(1));
        assert_eq!(median(&[-1, -2]), Some(-2));
        assert_eq!(median(&[i64::MAX, i64::MAX - 1]), Some(i64::MAX - 1));
        assert_eq!(median(&[]), None);
    }
}
