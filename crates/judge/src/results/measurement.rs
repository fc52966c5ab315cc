//! What one run measured: its checkpoints in order, and a column of readings for each metric.
//! Labels and metric names are interned, and readings are in plain vectors, because a run may log a
//! million checkpoints.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::layer_record::LayerRecord;
use crate::results::tensor_record::TensorRecord;
use crate::results::trace_record::TraceRecord;
use memprof_plan::metric_family::{family_of_scope, level_and_peak};

/// The content of one run's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measurement {
    /// The build that contains the shim, as 64 hexadecimal digits. Absent if the shim did not know
    /// it.
    pub build: Option<String>,
    /// The shim's version.
    pub shim: Option<String>,
    /// The source of each metric's figures.
    pub sources: BTreeMap<String, String>,
    /// Why a metric could not be read.
    pub absent: BTreeMap<String, String>,
    /// What may make its figures vary from run to run; `None` if the log does not say.
    pub causes: Option<Causes>,
    /// The clock on the wall when the log's own clock began, in nanoseconds since 1970.
    pub began: Option<u64>,
    /// Whether the process logged its end.
    pub ended: bool,
    /// Oddities of the log: torn lines, lines of other processes, gaps in the sequence.
    pub notes: Vec<String>,
    /// The calls and lines of traced functions.
    pub trace: TraceRecord,
    /// The named tensors, and the figures of memory pools.
    pub tensors: TensorRecord,
    /// The forward passes, layer by layer.
    pub layers: LayerRecord,
    labels: Names,
    places: Names,
    metrics: Names,
    checkpoints: Vec<Checkpoint>,
    readings: Vec<Vec<i64>>,
}

/// What a process did that may make its figures vary from run to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Whether its random numbers were those of every other process of this test and round.
    pub has_same_numbers: bool,
    /// How often it asked for random numbers, apart from the keys of hash maps.
    pub random_numbers: u64,
    /// How often threads asked for the keys of their hash maps.
    pub hash_keys: u64,
    /// Whether several threads allocated during the test's body; `None` if unknown.
    pub has_threads: Option<bool>,
}

/// Interned texts: each text once, by index.
pub type Names = IndexSet<Box<str>, FxBuildHasher>;

/// A named point of a run. Its readings are in the measurement's columns, at its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Index of the label.
    pub label: u32,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// A point, a piece of code, or a call.
    pub kind: Kind,
    /// Index of the place in the source; `None` for the shim's own checkpoints.
    place: Option<u32>,
    /// The position of a scope among others.
    pub nesting: Nesting,
    /// The sequence number in the log.
    pub sequence: u64,
    /// When it was logged, in nanoseconds of the log's clock; a scope or a call, when it ended.
    pub nanoseconds: u64,
}

/// Where a scope ended. It contained the deeper scopes of its thread that ended just before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nesting {
    /// The thread, numbered in the order in which threads first logged.
    pub thread: u32,
    /// The number of scopes that were open around it on that thread.
    pub depth: u32,
}

/// What a checkpoint's figures describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The state at a point.
    Point,
    /// The change over a scope. It may be negative.
    Scope,
    /// The change over a call of a traced function. It gets no verdict.
    Call,
}

/// Marks a missing reading in a column. The log's parser refuses it as a value.
pub(crate) const NO_READING: i64 = i64::MIN;

/// Looks a metric up in a map of sources or reasons. A scope's figures, such as `heap.consumed`, are
/// computed from its family's peak, and the log names only that.
pub fn said_of<'a>(map: &'a BTreeMap<String, String>, metric: &str) -> Option<&'a String> {
    map.get(metric).or_else(|| {
        let [_, peak] = level_and_peak(family_of_scope(metric)?)?;
        map.get(&peak)
    })
}

/// Returns the index of a text, and adds a new text.
///
/// # Panics
/// There are more than 2³² different texts, which no memory can hold.
pub(crate) fn intern(names: &mut Names, text: &str) -> u32 {
    let index = names.get_index_of(text).unwrap_or_else(|| names.insert_full(text.into()).0);
    u32::try_from(index).expect("fewer than 2^32 names")
}

impl Measurement {
    /// Adds a checkpoint and its readings by metric name, in the order of the log's lines.
    pub fn push<'a>(
        &mut self,
        label: &str,
        occurrence: u32,
        kind: Kind,
        sequence: u64,
        readings: impl IntoIterator<Item = (&'a str, i64)>,
    ) {
        let label = intern(&mut self.labels, label);
        let row = self.checkpoints.len();
        let (place, nesting, nanoseconds) = (None, Nesting::default(), 0);
        self.checkpoints.push(Checkpoint { label, occurrence, kind, place, nesting, sequence, nanoseconds });
        for (position, (metric, value)) in readings.into_iter().enumerate() {
            // Nearly all lines name the same metrics in the same order, so the position is tried
            // before the hash.
            let column = match self.metrics.get_index(position) {
                Some(name) if **name == *metric => position,
                _ => intern(&mut self.metrics, metric) as usize,
            };
            if column == self.readings.len() {
                self.readings.push(Vec::new());
            }
            let values = &mut self.readings[column];
            values.resize(row, NO_READING);
            values.push(value);
        }
    }

    /// Sets where the checkpoint that was added last is in the source: `src/lib.rs:10`.
    pub fn locate(&mut self, place: &str) {
        let place = intern(&mut self.places, place);
        if let Some(last) = self.checkpoints.last_mut() {
            last.place = Some(place);
        }
    }

    /// Sets when the checkpoint that was added last was logged.
    pub fn timed(&mut self, nanoseconds: u64) {
        if let Some(last) = self.checkpoints.last_mut() {
            last.nanoseconds = nanoseconds;
        }
    }

    /// Sets the position among other scopes of the scope that was added last.
    pub(crate) fn nest(&mut self, nesting: Nesting) {
        if let Some(last) = self.checkpoints.last_mut() {
            last.nesting = nesting;
        }
    }

    /// Completes the columns, and sorts the checkpoints by sequence number. Threads may write their
    /// lines in another order.
    pub fn order(&mut self) {
        let count = self.checkpoints.len();
        for values in &mut self.readings {
            values.resize(count, NO_READING);
        }
        if self.checkpoints.is_sorted_by_key(|checkpoint| checkpoint.sequence) {
            return;
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&index| self.checkpoints[index].sequence);
        self.checkpoints = order.iter().map(|&index| self.checkpoints[index]).collect();
        for values in &mut self.readings {
            *values = order.iter().map(|&index| values[index]).collect();
        }
    }

    /// Makes a metric absent, for a reason that the process itself could not know. Does nothing if
    /// the metric has no readings.
    pub(crate) fn withdraw(&mut self, metric: &str, reason: &str) {
        let Some((column, _)) = self.metrics.shift_remove_full(metric) else { return };
        self.readings.remove(column);
        self.sources.remove(metric);
        self.absent.insert(metric.to_owned(), reason.to_owned());
    }

    /// Adds a metric that no line of the log has, by checkpoint.
    pub(crate) fn add_column(&mut self, metric: &str, values: &[Option<i64>], source: &str) {
        if intern(&mut self.metrics, metric) as usize == self.readings.len() {
            self.readings.push(values.iter().map(|value| value.unwrap_or(NO_READING)).collect());
            self.sources.insert(metric.to_owned(), source.to_owned());
        }
    }

    /// Returns the checkpoints, in order.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Returns the labels that checkpoints refer to.
    pub fn labels(&self) -> &Names {
        &self.labels
    }

    /// Returns the metrics that have readings, by column.
    pub fn metrics(&self) -> &Names {
        &self.metrics
    }

    /// Returns the label of a checkpoint of this measurement.
    pub fn label(&self, checkpoint: &Checkpoint) -> &str {
        &self.labels[checkpoint.label as usize]
    }

    /// Returns where a checkpoint is in the source: `src/lib.rs:10`. The shim's own have no place.
    pub fn place(&self, checkpoint: usize) -> Option<&str> {
        let place = self.checkpoints.get(checkpoint)?.place?;
        Some(&self.places[place as usize])
    }

    /// Returns a reading, by the metric's column and the checkpoint's index.
    pub fn reading(&self, column: usize, checkpoint: usize) -> Option<i64> {
        let value = *self.readings.get(column)?.get(checkpoint)?;
        (value != NO_READING).then_some(value)
    }

    /// Returns the column of a metric.
    pub fn column(&self, metric: &str) -> Option<usize> {
        self.metrics.get_index_of(metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_a_scope_has_the_source_of_its_peak() {
        let names = ["heap.peak", "pool.x.in_use_peak", "pool.x.reserved_peak", "gpu.0.pool.reserved_peak"];
        let map = names.map(|name| (name.to_owned(), format!("of {name}"))).into();
        let said = |metric: &str| said_of(&map, metric).map(String::as_str);
        assert_eq!(said("heap.consumed"), Some("of heap.peak"));
        assert_eq!(said("pool.x.peaked"), Some("of pool.x.in_use_peak"));
        assert_eq!(said("pool.x.reserved.used"), Some("of pool.x.reserved_peak"));
        assert_eq!(said("gpu.0.pool.reserved.consumed"), Some("of gpu.0.pool.reserved_peak"));
        assert_eq!(said("pool.x.reserved").or(said("pool.y.used")), None);
    }

    #[test]
    fn a_metric_that_comes_and_goes_has_no_reading_in_between() {
        let mut measurement = Measurement::default();
        measurement.push("a", 1, Kind::Point, 1, [("heap.live", 1)]);
        measurement.push("b", 1, Kind::Point, 2, [("time", 5), ("heap.live", 2)]);
        measurement.push("c", 1, Kind::Point, 3, [("time", 6)]);
        measurement.order();
        let column = |metric| {
            let column = measurement.column(metric).unwrap();
            (0..3).map(|index| measurement.reading(column, index)).collect::<Vec<_>>()
        };
        assert_eq!(column("heap.live"), [Some(1), Some(2), None]);
        assert_eq!(column("time"), [None, Some(5), Some(6)]);
    }

    #[test]
    fn a_metric_that_is_withdrawn_is_absent_and_the_others_keep_their_readings() {
        let mut measurement = Measurement::default();
        measurement.push("a", 1, Kind::Point, 1, [("x", 1), ("gpu.0.device", 2), ("y", 3)]);
        measurement.sources.insert("gpu.0.device".to_owned(), "NVML".to_owned());
        measurement.withdraw("gpu.0.device", "process 7 was on GPU 0 too");
        measurement.withdraw("gpu.1.device", "it was never there");
        assert_eq!(measurement.column("gpu.0.device"), None);
        let reading = |metric| measurement.reading(measurement.column(metric).unwrap(), 0);
        assert_eq!((reading("x"), reading("y")), (Some(1), Some(3)));
        assert!(measurement.sources.is_empty() && measurement.absent.len() == 1);
        assert_eq!(measurement.absent["gpu.0.device"], "process 7 was on GPU 0 too");
    }

    #[test]
    fn a_scopes_figures_have_the_source_of_what_they_are_made_of() {
        let sources = BTreeMap::from([("heap.peak".to_owned(), "allocator".to_owned())]);
        assert_eq!(said_of(&sources, "heap.consumed").unwrap(), "allocator");
        assert_eq!(said_of(&sources, "heap.live"), None);
        assert_eq!(said_of(&sources, "cpu.used"), None);
    }

    #[test]
    fn checkpoints_written_out_of_order_are_put_in_the_order_of_their_numbers() {
        let mut measurement = Measurement::default();
        measurement.push("late", 1, Kind::Point, 7, [("time", 70)]);
        measurement.push("early", 1, Kind::Point, 3, [("time", 30)]);
        measurement.order();
        let labels: Vec<&str> =
            measurement.checkpoints().iter().map(|checkpoint| measurement.label(checkpoint)).collect();
        assert_eq!(labels, ["early", "late"]);
        assert_eq!((measurement.reading(0, 0), measurement.reading(0, 1)), (Some(30), Some(70)));
    }
}
