//! The one figure that a search reads from each run: a metric at a checkpoint, or of the whole
//! test.

use serde::{Deserialize, Serialize};

use memprof_judge::compare::matching::Key;
use memprof_judge::compare::whole_test;
use memprof_judge::results::measurement::{Checkpoint, Kind, Measurement, said_of};
use memprof_judge::results::stored::Run;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// Which figure to read from a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricQuery {
    pub metric: String,
    /// The checkpoint, named as in the report: `parsed`, `parsed #2`, `decoder (scope)`. `None`
    /// means the whole test.
    pub checkpoint: Option<String>,
}

/// A metric's figure, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricValue {
    /// The figure, in the metric's unit.
    pub value: i64,
    /// Where the figure comes from. Figures from different sources are never compared.
    pub source: Option<String>,
}

impl MetricQuery {
    /// Returns the figure of a run that passed, or why there is none.
    ///
    /// For a whole test, this is the greatest peak, the sum of counts between checkpoints, or for
    /// all other metrics the figure at the last checkpoint.
    pub fn read(&self, run: &Run) -> Result<MetricValue, String> {
        if let Some(trouble) = run.trouble() {
            let message = run.record.outcome.message.as_deref().filter(|message| !message.is_empty());
            return Err(message.map_or_else(|| trouble.clone(), |message| format!("{trouble}: {message}")));
        }
        let measurement = &*run.measurement;
        let absent = || match said_of(&measurement.absent, &self.metric) {
            Some(reason) => format!("no {}: {reason}", self.metric),
            None => format!("no {}", self.metric),
        };
        let column = measurement.column(&self.metric).ok_or_else(absent)?;
        let value = match &self.checkpoint {
            Some(wanted) => {
                let index = labels(measurement).position(|label| label == *wanted);
                let index = index.ok_or_else(|| format!("no checkpoint '{wanted}'"))?;
                measurement.reading(column, index).ok_or_else(absent)?
            }
            None => self.of_whole_test(measurement, column).ok_or_else(absent)?,
        };
        let source = said_of(&measurement.sources, &self.metric).cloned();
        Ok(MetricValue { value, source })
    }

    fn of_whole_test(&self, measurement: &Measurement, column: usize) -> Option<i64> {
        let checkpoints = measurement.checkpoints().iter().enumerate();
        let points = checkpoints.filter(|(_, checkpoint)| checkpoint.kind == Kind::Point);
        let readings: Vec<_> = points.map(|(index, _)| measurement.reading(column, index)).collect();
        // One that ended before the test has no figure of the whole test.
        let has_ended = matches!(readings[..], [.., None]);
        if has_ended && said_of(&measurement.absent, &self.metric).is_some() {
            return None;
        }
        whole_test::figure(&self.metric, readings.into_iter().flatten())
    }

    /// Returns the error for a run that has no such checkpoint. It lists the run's checkpoints.
    pub(crate) fn unknown_checkpoint(&self, run: &Run) -> Option<UserError> {
        let wanted = self.checkpoint.as_ref()?;
        let existing: Vec<String> = labels(&run.measurement).collect();
        if existing.contains(wanted) {
            return None;
        }
        let mut named: Vec<&str> = existing.iter().map(String::as_str).collect();
        named.truncate(12);
        let help = suggest::did_you_mean(wanted, existing.iter().map(String::as_str))
            .unwrap_or_else(|| format!("checkpoints: {}", named.join(", ")));
        Some(UserError::new(format!("{} has no checkpoint '{wanted}'", run.record.cell.title)).help(help))
    }

    /// `heap.peak at 'parsed'`.
    pub fn described(&self) -> String {
        match &self.checkpoint {
            Some(checkpoint) => format!("{} at '{checkpoint}'", self.metric),
            None => self.metric.clone(),
        }
    }
}

/// Returns the names of a run's checkpoints, as the report shows them.
fn labels(measurement: &Measurement) -> impl Iterator<Item = String> + '_ {
    let key = |checkpoint: &Checkpoint| Key {
        label: checkpoint.label,
        occurrence: checkpoint.occurrence,
        kind: checkpoint.kind,
    };
    measurement.checkpoints().iter().map(move |checkpoint| key(checkpoint).shown(measurement.labels()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use memprof_judge::results::outcome::{self, Outcome, RunRecord, Status};
    use memprof_plan::request::TargetKind;
    use memprof_plan::resolved::{CellId, TestId};

    fn run(status: Status) -> Run {
        let mut measurement = Measurement::default();
        measurement.ended = true;
        let figures = |peak, live, count| [("heap.peak", peak), ("heap.live", live), ("heap.count", count)];
        measurement.push("start", 1, Kind::Point, 1, figures(5, 1, 10));
        measurement.push("row", 1, Kind::Point, 2, figures(70, 2, 20));
        measurement.push("row", 2, Kind::Point, 3, figures(60, 3, 30));
        measurement.push("row", 1, Kind::Scope, 4, figures(900, 900, 900));
        measurement.push("done", 1, Kind::Point, 5, figures(6, 4, 40));
        measurement.order();
        measurement.sources.insert("heap.peak".into(), "allocator".into());
        measurement.absent.insert("cpu.pss".into(), "not readable".into());
        let test =
            TestId { package: "p".into(), binary: "b".into(), kind: TargetKind::Lib, name: "t".into() };
        let record = RunRecord {
            version: outcome::VERSION,
            revision: 0,
            cell: CellId { test, params: Vec::new(), title: "t".into(), program: None },
            repeat: 0,
            outcome: Outcome { status, message: Some("it broke".into()), wall_nanoseconds: None },
            build: None,
            marks: Vec::new(),
            files: std::collections::BTreeMap::new(),
            devices: None,
            withdrawn: BTreeMap::new(),
        };
        Run { record, measurement: Arc::new(measurement), unreadable: None, folder: "r".into() }
    }

    fn read(metric: &str, checkpoint: Option<&str>) -> Result<i64, String> {
        let query = MetricQuery { metric: metric.into(), checkpoint: checkpoint.map(str::to_owned) };
        query.read(&run(Status::Ok)).map(|value| value.value)
    }

    #[test]
    fn a_whole_test_has_its_greatest_peak_the_sum_of_its_counts_and_the_memory_live_at_its_end() {
        assert_eq!(read("heap.peak", None), Ok(70));
        assert_eq!(read("heap.count", None), Ok(100));
        assert_eq!(read("heap.live", None), Ok(4));
    }

    #[test]
    fn a_checkpoint_is_named_as_the_report_names_it() {
        assert_eq!(read("heap.peak", Some("row")), Ok(70));
        assert_eq!(read("heap.peak", Some("row #2")), Ok(60));
        assert_eq!(read("heap.peak", Some("row (scope)")), Ok(900));
        assert_eq!(read("heap.peak", Some("rows")), Err("no checkpoint 'rows'".into()));
        let query = MetricQuery { metric: "heap.peak".into(), checkpoint: Some("rows".into()) };
        let user_error = query.unknown_checkpoint(&run(Status::Ok)).unwrap();
        assert_eq!(user_error.help.as_deref(), Some("did you mean 'row'?"));
    }

    #[test]
    fn a_metric_that_ended_before_the_test_has_no_figure_of_the_whole_test() {
        let mut run = run(Status::Ok);
        let mut measurement = Measurement::default();
        measurement.ended = true;
        measurement.push("start", 1, Kind::Point, 1, [("heap.live", 0), ("heap.peak", 0)]);
        measurement.push("done", 1, Kind::Point, 2, [("heap.peak", 9)]);
        measurement.order();
        measurement.absent.insert("heap.live".into(), "the test left the process".into());
        run.measurement = Arc::new(measurement);
        let read = |metric: &str, checkpoint: Option<&str>| {
            let query = MetricQuery { metric: metric.into(), checkpoint: checkpoint.map(str::to_owned) };
            query.read(&run).map(|value| value.value)
        };
        assert_eq!(read("heap.live", None), Err("no heap.live: the test left the process".into()));
        assert_eq!(read("heap.live", Some("start")), Ok(0));
        assert_eq!(read("heap.peak", None), Ok(9));
    }

    #[test]
    fn a_missing_figure_has_a_reason() {
        assert_eq!(read("cpu.pss", None), Err("no cpu.pss: not readable".into()));
        assert_eq!(read("gpu.0.peak", None), Err("no gpu.0.peak".into()));
        let query = MetricQuery { metric: "heap.peak".into(), checkpoint: None };
        assert_eq!(
            query.read(&run(Status::Failed { exit_code: 101 })),
            Err("failed (exit code 101): it broke".into())
        );
    }
}
