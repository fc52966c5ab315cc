//! Combines one revision's runs of a cell: one figure per checkpoint and metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compare::matching::{Key, Match, Renames, match_checkpoints};
use crate::results::measurement::{Kind, Measurement, Names, intern, said_of};
use crate::results::outcome::Status;
use crate::results::stored::Run;

/// One metric at one checkpoint, over all repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The median. For an even number of repeats: the mean of the two middle readings, rounded
    /// down.
    pub value: i64,
    /// The lowest reading.
    pub min: i64,
    /// The highest reading.
    pub max: i64,
    /// The number of runs that had a reading here.
    pub runs: u32,
}

impl Figure {
    fn of_one(value: i64) -> Self {
        Self { value, min: value, max: value, runs: 1 }
    }

    pub(crate) fn from_readings(readings: &mut [i64]) -> Option<Self> {
        readings.sort_unstable();
        let (min, max) = (*readings.first()?, *readings.last()?);
        let (low, high) = (readings[(readings.len() - 1) / 2], readings[readings.len() / 2]);
        let middle = (i128::from(low) + i128::from(high)).div_euclid(2);
        let value = i64::try_from(middle).expect("the mean of two i64 fits an i64");
        Some(Self { value, min, max, runs: u32::try_from(readings.len()).unwrap_or(u32::MAX) })
    }

    /// Whether several runs read exactly the same. One run alone proves nothing.
    pub fn is_exact(&self) -> bool {
        self.runs > 1 && self.min == self.max
    }
}

/// Whether a revision has figures of a cell, and whether they may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Figures of runs that passed. They may be compared.
    Measured,
    /// Figures of a run that did not pass, up to its last checkpoint. They are shown and never
    /// compared.
    CutOff,
    /// No figures.
    Missing,
}

/// The runs of one revision in one cell, combined.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Whether there are figures that may be compared.
    pub availability: Availability,
    /// The runs that the figures come from, as indices into the comparison's runs.
    pub runs: Vec<usize>,
    /// The runs whose figures may not be compared, as indices into the comparison's runs.
    pub failed: Vec<usize>,
    /// The repeats of these runs, if each got the random numbers of its round; empty otherwise.
    pub rounds: Vec<u32>,
    /// Whether only one thread allocated in each of these runs, as their logs say.
    pub is_single_threaded: bool,
    /// The checkpoints, in order. Labels are indices into the cell's labels.
    pub keys: Vec<Key>,
    /// The source of each metric's figures. Several sources among the repeats are joined.
    pub sources: BTreeMap<String, String>,
    /// Why a metric is unavailable, at all checkpoints or from one on.
    pub absent: BTreeMap<String, String>,
    /// Whether only other revisions have the test, and the tool tried to put its file into this one.
    pub is_added: bool,
    /// The number of runs that took place and have no figures.
    unmeasured: usize,
    /// Whether a memory assertion of the test does not hold in some run.
    pub is_over_limit: bool,
    /// The number of checkpoints and scopes that some repeat lacks.
    pub unsteady: usize,
    figures: Figures,
}

/// A single run's readings are used without a copy.
#[derive(Clone, Debug)]
enum Figures {
    One(Arc<Measurement>),
    Several(Several),
}

/// Figures over several repeats, and the index of each row in each repeat.
#[derive(Clone, Debug, Default)]
struct Several {
    columns: BTreeMap<String, Vec<Option<Figure>>>,
    measurements: Vec<Arc<Measurement>>,
    /// By repeat, then by row.
    indices: Vec<Vec<Option<usize>>>,
}

impl Figures {
    fn column(&self, metric: &str) -> Option<Column<'_>> {
        match self {
            Self::One(measurement) => {
                measurement.column(metric).map(|column| Column::One(measurement, column))
            }
            Self::Several(several) => several.columns.get_key_value(metric).map(|(metric, figures)| {
                let Several { measurements, indices, .. } = several;
                Column::Several(figures, RepeatReadings { metric, measurements, indices })
            }),
        }
    }
}

impl Aggregate {
    /// Combines all runs of one revision and cell. `runs` holds them with their indices in the
    /// comparison. New labels are added to `labels`, the cell's.
    pub fn new(runs: &[(usize, &Run)], labels: &mut Names) -> Self {
        let (passed, failed): (Vec<_>, Vec<_>) = runs.iter().partition(|(_, run)| run.trouble().is_none());
        let (availability, used) = if passed.is_empty() {
            // The run that got furthest shows most.
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
        let Combined { keys, unsteady, figures } = combine(&measurements, labels);
        Self {
            availability,
            runs: used.iter().map(|(index, _)| *index).collect(),
            failed: failed.iter().map(|(index, _)| *index).collect(),
            rounds: rounds(&used),
            is_single_threaded: used.iter().all(|(_, run)| is_single_threaded(run)),
            keys,
            is_added: false,
            unmeasured: failed.iter().filter(|(_, run)| run.lacks_figures()).count(),
            is_over_limit: failed.iter().any(|(_, run)| run.record.outcome.status == Status::OverLimit),
            sources: sources.into_iter().map(|(metric, sources)| (metric, sources.join(" / "))).collect(),
            absent,
            unsteady,
            figures,
        }
    }

    /// Whether a test that the revision itself lacks ran here, and did not pass.
    pub(crate) fn fails_as_added(&self) -> bool {
        self.is_added && self.unmeasured > 0
    }

    /// Returns one metric's figures; `None` if no run has any.
    pub fn column(&self, metric: &str) -> Option<Column<'_>> {
        self.figures.column(metric)
    }

    /// Returns where a checkpoint is in the source, in the first repeat that has it:
    /// `src/lib.rs:10`.
    pub fn place(&self, checkpoint: usize) -> Option<&str> {
        match &self.figures {
            Figures::One(measurement) => measurement.place(checkpoint),
            Figures::Several(several) => {
                let repeats = several.measurements.iter().zip(&several.indices);
                let mut places = repeats.filter_map(|(measurement, indices)| {
                    measurement.place(indices.get(checkpoint).copied().flatten()?)
                });
                places.next()
            }
        }
    }

    /// Returns the source of a metric's figures.
    pub fn source(&self, metric: &str) -> Option<&str> {
        said_of(&self.sources, metric).map(String::as_str)
    }

    /// Returns why a metric is unavailable.
    pub fn why_absent(&self, metric: &str) -> Option<&str> {
        said_of(&self.absent, metric).map(String::as_str)
    }

    /// Whether a metric ended before the test did, in any run. What was read before is about a part of the test
    /// only: `heap.live` of a test that ends the process is known at its beginning, where it is 0.
    pub fn has_lost(&self, metric: &str) -> bool {
        let Some(column) = self.column(metric).filter(|_| self.why_absent(metric).is_some()) else {
            return false;
        };
        let points = self.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point);
        let mut points = points.map(|(at, _)| at);
        let Some(end) = points.next_back() else { return false };
        column.readings(end).any(|reading| reading.is_none())
            && points.chain([end]).any(|at| column.figure(at).is_some())
    }

    /// Returns the metrics that have figures.
    pub fn metrics(&self) -> Vec<&str> {
        match &self.figures {
            Figures::One(measurement) => measurement.metrics().iter().map(|name| &**name).collect(),
            Figures::Several(several) => several.columns.keys().map(String::as_str).collect(),
        }
    }
}

/// One metric's figures on one side.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Of one run: the measurement, and the metric's column there.
    One(&'a Measurement, usize),
    /// Of several runs.
    Several(&'a [Option<Figure>], RepeatReadings<'a>),
}

/// The readings of each repeat, from which a column's figures are made.
#[derive(Clone, Copy, Debug)]
pub struct RepeatReadings<'a> {
    metric: &'a str,
    measurements: &'a [Arc<Measurement>],
    indices: &'a [Vec<Option<usize>>],
}

impl Column<'_> {
    /// Returns the figure at a checkpoint.
    pub fn figure(&self, checkpoint: usize) -> Option<Figure> {
        match self {
            Self::One(measurement, column) => measurement.reading(*column, checkpoint).map(Figure::of_one),
            Self::Several(figures, _) => figures.get(checkpoint).copied().flatten(),
        }
    }

    /// Returns each repeat's reading at a checkpoint, in the order of the repeats; `None` for a
    /// repeat without one.
    pub fn readings(&self, checkpoint: usize) -> impl Iterator<Item = Option<i64>> + '_ {
        let (one, several) = match self {
            Self::One(measurement, column) => (Some(measurement.reading(*column, checkpoint)), None),
            Self::Several(_, repeated) => (None, Some(repeated)),
        };
        let of_several = several.into_iter().flat_map(move |repeated| {
            let each = repeated.measurements.iter().zip(repeated.indices);
            each.map(move |(measurement, indices)| {
                let at = indices.get(checkpoint).copied().flatten()?;
                measurement.reading(measurement.column(repeated.metric)?, at)
            })
        });
        one.into_iter().chain(of_several)
    }

    /// Returns the readings at a checkpoint, of the repeats that have one.
    pub fn samples(&self, checkpoint: usize) -> Vec<i64> {
        self.readings(checkpoint).flatten().collect()
    }
}

/// Returns the repeats of runs, if each got the random numbers of its round.
fn rounds(runs: &[(usize, &Run)]) -> Vec<u32> {
    runs.iter().map(|(_, run)| run.round()).collect::<Option<_>>().unwrap_or_default()
}

fn is_single_threaded(run: &Run) -> bool {
    run.measurement.causes.is_some_and(|causes| causes.has_threads == Some(false))
}

struct Combined {
    keys: Vec<Key>,
    unsteady: usize,
    figures: Figures,
}

fn combine(measurements: &[&Arc<Measurement>], labels: &mut Names) -> Combined {
    let each: Vec<Vec<Key>> = measurements.iter().map(|measurement| keys(measurement, labels)).collect();
    match (measurements, &each[..]) {
        ([], _) | (_, []) => {
            Combined { keys: Vec::new(), unsteady: 0, figures: Figures::Several(Several::default()) }
        }
        ([measurement], [keys]) => {
            Combined { keys: keys.clone(), unsteady: 0, figures: Figures::One(Arc::clone(measurement)) }
        }
        _ => {
            let aligned = AlignedRuns::new(&each);
            let unsteady = (0..aligned.keys.len())
                .filter(|&row| aligned.keys[row].kind != Kind::Call)
                .filter(|&row| aligned.indices.iter().any(|indices| indices[row].is_none()))
                .count();
            let columns = columns(measurements, &aligned);
            let measurements = measurements.iter().map(|measurement| Arc::clone(measurement)).collect();
            let figures = Figures::Several(Several { columns, measurements, indices: aligned.indices });
            Combined { keys: aligned.keys, unsteady, figures }
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

/// The checkpoints of all repeats in one order, and their index in each repeat.
struct AlignedRuns {
    keys: Vec<Key>,
    /// By repeat, then by row.
    indices: Vec<Vec<Option<usize>>>,
}

impl AlignedRuns {
    fn new(repeats: &[Vec<Key>]) -> Self {
        let mut aligned =
            Self { keys: repeats[0].clone(), indices: vec![(0..repeats[0].len()).map(Some).collect()] };
        for repeat in &repeats[1..] {
            aligned.add(repeat);
        }
        aligned
    }

    fn add(&mut self, repeat: &[Key]) {
        let rows = match_checkpoints(&self.keys, repeat, Renames::Never);
        if rows.len() > self.keys.len() {
            let key = |row: &Match| {
                row.baseline.map_or_else(|| repeat[row.candidate.unwrap_or(0)], |old| self.keys[old])
            };
            self.keys = rows.iter().map(key).collect();
            for indices in &mut self.indices {
                *indices = rows.iter().map(|row| row.baseline.and_then(|old| indices[old])).collect();
            }
        }
        self.indices.push(rows.iter().map(|row| row.candidate).collect());
    }
}

fn columns(
    measurements: &[&Arc<Measurement>],
    aligned: &AlignedRuns,
) -> BTreeMap<String, Vec<Option<Figure>>> {
    let mut columns = BTreeMap::new();
    let mut readings = Vec::with_capacity(measurements.len());
    for metric in measurements.iter().flat_map(|measurement| measurement.metrics()) {
        if columns.contains_key(&**metric) {
            continue;
        }
        let sources: Vec<_> = measurements.iter().map(|measurement| measurement.column(metric)).collect();
        let figures = (0..aligned.keys.len()).map(|row| {
            readings.clear();
            for ((measurement, column), indices) in measurements.iter().zip(&sources).zip(&aligned.indices) {
                readings.extend(
                    column.zip(indices[row]).and_then(|(column, at)| measurement.reading(column, at)),
                );
            }
            Figure::from_readings(&mut readings)
        });
        columns.insert(metric.to_string(), figures.collect());
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_rounds_down_below_zero_too() {
        let median =
            |readings: &[i64]| Figure::from_readings(&mut readings.to_vec()).map(|figure| figure.value);
        assert_eq!(median(&[3, 1, 2]), Some(2));
        assert_eq!(median(&[1, 2]), Some(1));
        assert_eq!(median(&[-1, -2]), Some(-2));
        assert_eq!(median(&[i64::MAX, i64::MAX - 1]), Some(i64::MAX - 1));
        assert_eq!(median(&[]), None);
    }
}
