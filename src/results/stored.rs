//! Reads a run's folder: the plan, the environment, and every finished run with its measurement.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plan::resolved::{self, CellId, Plan};
use crate::results::comparability::IncomparableMetrics;
use crate::results::measurement::Measurement;
use crate::results::outcome::{self, RunRecord};
use crate::results::run_folder::{RunFolder, file};
use crate::results::shim_log;
use crate::results::trace_facts::TraceFacts;
use crate::verdict::limits::Limits;

/// The content of a run's folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was planned.
    pub plan: Plan,
    /// `environment.json`, or `null` if there is none.
    pub environment: Value,
    /// The facts about each revision's build, by its index in the plan.
    pub builds: Builds,
    /// Which functions were traced, by revision.
    pub traces: BTreeMap<usize, TraceFacts>,
    /// The finished runs, ordered by test, parameters, revision and repeat.
    pub runs: Vec<Run>,
    /// Notes about the whole, for the report.
    pub notes: Vec<String>,
    /// The metrics that cannot be compared with the baseline's, by revision.
    pub apart: BTreeMap<usize, Vec<IncomparableMetrics>>,
}

/// Toolchain, profile and other facts about builds, as text, by revision.
pub type Builds = BTreeMap<usize, BTreeMap<String, String>>;

/// One finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which run it was, and its outcome.
    pub record: RunRecord,
    /// What it logged. Empty if there is no readable log.
    pub measurement: Arc<Measurement>,
    /// Why its log cannot be read.
    pub unreadable: Option<String>,
    /// Its folder, relative to the folder of all runs.
    pub folder: Utf8PathBuf,
}

impl Run {
    /// Returns why the figures of this run cannot be compared; `None` if they can.
    pub fn trouble(&self) -> Option<String> {
        let outcome = &self.record.outcome;
        if !outcome.status.is_ok() {
            return Some(outcome.status.to_string());
        }
        if let Some(problem) = &self.unreadable {
            return Some(format!("its log cannot be read: {problem}"));
        }
        if self.measurement.checkpoints().is_empty() {
            return Some("passed, but logged no checkpoint".to_owned());
        }
        // A lost checkpoint would be reported as removed. Every orderly exit writes the last line.
        (!self.measurement.ended).then(|| {
            "passed, but its log has no end, so checkpoints may be lost; did it call _exit or exec?"
                .to_owned()
        })
    }
}

/// Reads a run's folder. Unfinished runs have no outcome and are left out.
///
/// # Errors
/// The plan or an outcome cannot be read. A log that cannot be read is part of the results.
pub fn read(folder: &RunFolder) -> anyhow::Result<Results> {
    read_some(folder, |_| true)
}

/// Reads a run's folder, but only the runs that `wanted` accepts.
pub fn read_some(folder: &RunFolder, wanted: impl Fn(&RunRecord) -> bool) -> anyhow::Result<Results> {
    let plan: Plan = read_json(&folder.plan())?;
    ensure!(
        plan.version <= resolved::VERSION,
        "{}: format {} is newer than this cargo-memprof reads ({}); update cargo-memprof",
        folder.plan(),
        plan.version,
        resolved::VERSION
    );
    Limits::new(&plan.request.judging).with_context(|| folder.plan().to_string())?;
    ensure!(
        plan.baseline < plan.revisions.len(),
        "{}: the baseline is not among the revisions",
        folder.plan()
    );
    let environment = environment_of(folder)?;
    let builds = builds_of(folder)?;
    let traces = if folder.trace().exists() { read_json(&folder.trace())? } else { BTreeMap::new() };
    let mut records = records(folder, &folder.cells(), &plan)?;
    records.retain(|(record, _)| wanted(record));
    let runs = read_logs(folder, records);
    let mut results =
        Results { plan, environment, builds, traces, runs, notes: Vec::new(), apart: BTreeMap::new() };
    results.sort();
    Ok(results)
}

/// Returns the finished runs of one cell at one revision.
pub fn runs_of(folder: &RunFolder, plan: &Plan, revision: usize, cell: &CellId) -> anyhow::Result<Vec<Run>> {
    let first = folder.cell(plan, revision, cell, 0);
    let records = records(folder, first.parent().unwrap_or(&first), plan)?;
    let mut runs = read_logs(folder, records);
    runs.sort_by_key(|run| run.record.repeat);
    Ok(runs)
}

/// Returns `environment.json`; `null` if there is none.
pub fn environment_of(folder: &RunFolder) -> anyhow::Result<Value> {
    read_optional(&folder.environment())
}

/// Returns the facts about the builds of revisions that were built.
pub fn builds_of(folder: &RunFolder) -> anyhow::Result<Builds> {
    Ok(builds(read_optional(&folder.builds())?))
}

impl Results {
    /// Sorts the runs by test, parameters, revision and repeat.
    pub(crate) fn sort(&mut self) {
        self.runs.sort_by(|a, b| {
            let repeat = |run: &Run| (run.record.revision, run.record.repeat);
            compare_cells(&a.record.cell, &b.record.cell)
                .then_with(|| repeat(a).cmp(&repeat(b)))
                .then_with(|| a.folder.cmp(&b.folder))
        });
    }
}

fn read_json<T: DeserializeOwned>(path: &Utf8Path) -> anyhow::Result<T> {
    let text = fs_err::read(path)?;
    serde_json::from_slice(&text).with_context(|| format!("cannot read {path}"))
}

fn read_optional(path: &Utf8Path) -> anyhow::Result<Value> {
    if path.exists() { read_json(path) } else { Ok(Value::Null) }
}

/// Reads `builds.json`. Entries of another shape are left out.
fn builds(value: Value) -> Builds {
    let Value::Object(revisions) = value else { return Builds::new() };
    let entries = revisions.into_iter().filter_map(|(revision, facts)| {
        let Value::Object(facts) = facts else { return None };
        let facts = facts.into_iter().filter_map(|(key, fact)| match fact {
            Value::Null => None,
            Value::String(text) => Some((key, text)),
            other => Some((key, other.to_string())),
        });
        Some((revision.parse().ok()?, facts.collect()))
    });
    entries.collect()
}

fn records(
    folder: &RunFolder,
    below: &Utf8Path,
    plan: &Plan,
) -> anyhow::Result<Vec<(RunRecord, Utf8PathBuf)>> {
    let mut records = Vec::new();
    if !below.exists() {
        return Ok(records);
    }
    for entry in walkdir::WalkDir::new(below).sort_by_file_name() {
        let entry = entry?;
        if entry.file_name() != file::OUTCOME || !entry.file_type().is_file() {
            continue;
        }
        let path = Utf8Path::from_path(entry.path()).context("a run's path is not UTF-8")?;
        let record: RunRecord = read_json(path)?;
        if record.version > outcome::VERSION {
            bail!(
                "{path}: format {} is newer than this cargo-memprof reads ({}); update cargo-memprof",
                record.version,
                outcome::VERSION
            );
        }
        ensure!(
            record.revision < plan.revisions.len(),
            "{path}: revision {} is not in the plan",
            record.revision
        );
        let home = path.parent().expect("a file has a folder");
        records.push((record, home.strip_prefix(&folder.0).unwrap_or(home).to_owned()));
    }
    Ok(records)
}

/// Reads the logs on all processors.
fn read_logs(folder: &RunFolder, records: Vec<(RunRecord, Utf8PathBuf)>) -> Vec<Run> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut read = Vec::new();
        loop {
            let index = next.fetch_add(1, Memory::Relaxed);
            let Some((_, home)) = records.get(index) else { return read };
            read.push((index, read_log(&folder.0.join(home).join(file::LOG))));
        }
    };
    let mut logs: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..processors.min(records.len())).map(|_| scope.spawn(work)).collect();
        let mut read = work();
        for other in others {
            read.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        read
    });
    logs.sort_by_key(|(index, _)| *index);
    records
        .into_iter()
        .zip(logs)
        .map(|((record, folder), (_, log))| {
            let (measurement, unreadable) = match log {
                Ok(mut measurement) => {
                    for (metric, reason) in &record.withdrawn {
                        measurement.withdraw(metric, reason);
                    }
                    (measurement, None)
                }
                Err(problem) => (Measurement::default(), Some(problem)),
            };
            Run { record, measurement: Arc::new(measurement), unreadable, folder }
        })
        .collect()
}

fn read_log(path: &Utf8Path) -> Result<Measurement, String> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        // A process that did not start, or did not reach its first checkpoint, leaves no log.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Measurement::default()),
        Err(error) => return Err(format!("{path}: {error}")),
    };
    // Opening a pipe would wait for its writer.
    if !found.is_file() {
        return Err(format!("{path} is not a file"));
    }
    if found.len() > shim_log::MOST_OF_LOG {
        return Err(shim_log::too_large(path.as_str(), 1).to_string());
    }
    let log = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
    shim_log::read(BufReader::with_capacity(1 << 18, log), path.as_str()).map_err(|error| error.to_string())
}

/// Compares by test, then by parameters. Numbers compare by value and come before text: `batch=4`
/// comes before `batch=16`.
fn compare_cells(a: &CellId, b: &CellId) -> Ordering {
    let parameter = |(a_name, a_value): &(String, String), (b_name, b_value): &(String, String)| {
        let by_value = match (a_value.parse::<i64>(), b_value.parse::<i64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a_value.cmp(b_value),
        };
        a_name.cmp(b_name).then(by_value)
    };
    let parameters = || {
        let pairs = a.params.iter().zip(&b.params);
        let first_difference = pairs.map(|(a, b)| parameter(a, b)).find(|order| order.is_ne());
        first_difference.unwrap_or_else(|| a.params.len().cmp(&b.params.len()))
    };
    a.test.cmp(&b.test).then_with(parameters).then_with(|| a.cmp(b))
}
