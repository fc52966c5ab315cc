//! Reads a run's folder: the plan, the environment, and every finished run with its measurement.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::Arc;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::results::added_test::AddedTest;
use crate::results::build_facts::{self, BuildFacts, FailureFacts};
use crate::results::comparability::IncomparableMetrics;
use crate::results::file_seal::{self, Hashing};
use crate::results::kept_baseline::KeptBaseline;
use crate::results::log_file;
use crate::results::measurement::Measurement;
use crate::results::outcome::{self, RunRecord, Status};
use crate::results::run_folder::{RunFolder, file};
use crate::results::same_code::SameCode;
use crate::results::shim_log;
use crate::results::trace_facts::TraceFacts;
use crate::results::unfinished;
use crate::verdict::limits::Limits;
use memprof_plan::listing::NotMeasured;
use memprof_plan::resolved::{self, CellId, Plan};
use memprof_support::format_version;
use memprof_support::parallel;
use memprof_support::regular_file;
use memprof_support::sealed::{self, Opened, SealedError};
use memprof_support::user_error::UserError;

/// The content of a run's folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was planned.
    pub plan: Plan,
    /// `environment.json`, or `null` if there is none.
    pub environment: Value,
    /// The facts about each revision's build, by its index in the plan.
    pub builds: Builds,
    /// The executables that cannot be measured, by revision.
    pub not_measured: BTreeMap<usize, Vec<NotMeasured>>,
    /// The test files of other revisions that were put into a revision, by revision.
    pub added_tests: BTreeMap<usize, Vec<AddedTest>>,
    /// The revisions that did not build.
    pub failed_builds: BTreeMap<usize, FailedBuild>,
    /// Which functions were traced, by revision.
    pub traces: BTreeMap<usize, TraceFacts>,
    /// The finished runs, ordered by test, parameters, revision and repeat.
    pub runs: Vec<Run>,
    /// Notes about the whole, for the report.
    pub notes: Vec<String>,
    /// The tests that did not run because their code is the same at all revisions.
    pub same_code: Vec<SameCode>,
    /// Whether other tests may have no run: the run has not finished, or two runs are merged and one left tests out.
    pub lacks_tests: bool,
    /// The metrics that cannot be compared with the baseline's, by revision.
    pub apart: BTreeMap<usize, Vec<IncomparableMetrics>>,
    /// The name of the saved baseline that the baseline's figures are from.
    pub saved_baseline: Option<String>,
}

/// A revision that did not build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBuild {
    /// The first errors of the compiler or of cargo.
    pub errors: String,
    /// The whole log, relative to the run's folder, if it is there.
    pub log: Option<String>,
    /// Which lock file the build used, if the revision has committed none.
    pub lockfile: Option<String>,
}

impl FailedBuild {
    fn from_facts(facts: FailureFacts, folder: &RunFolder, log: &Utf8Path) -> Self {
        let log = log.exists().then(|| log.strip_prefix(&folder.0).unwrap_or(log).to_string());
        Self { errors: facts.build_failed, log, lockfile: facts.lockfile }
    }
}

/// The facts about builds, by revision.
pub type Builds = BTreeMap<usize, BuildFacts>;

/// One finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which run it was, and its outcome.
    pub record: RunRecord,
    /// What it logged. Empty if there is no readable log.
    pub measurement: Arc<Measurement>,
    /// Why its log cannot be read.
    pub unreadable: Option<String>,
    /// The folder, relative to the folder of all runs.
    pub folder: Utf8PathBuf,
}

impl Run {
    /// Whether the revision has the test, and no figures of this run.
    pub fn lacks_figures(&self) -> bool {
        let is_left_out = matches!(self.record.outcome.status, Status::NotInThisRef | Status::Ignored);
        !is_left_out && self.trouble().is_some()
    }

    /// Returns the round whose random numbers the run got; `None` if it got others. Runs of one round belong together.
    pub fn round(&self) -> Option<u32> {
        let causes = self.measurement.causes.filter(|causes| causes.has_same_numbers);
        causes.map(|_| self.record.repeat)
    }

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
/// The plan or an outcome cannot be read, or a finished run lacks outcomes. A log that cannot be read is part of the
/// results.
pub fn read(folder: &RunFolder) -> anyhow::Result<Results> {
    let mut results = read_some(folder, |_| true)?;
    let remark = unfinished::remark(folder)?;
    if remark.is_none() {
        unfinished::check(folder, results.runs.len())?;
    }
    results.lacks_tests = remark.is_some();
    results.plan.notes.extend(remark);
    Ok(results)
}

/// Reads the plan of a run.
pub fn read_plan(folder: &RunFolder) -> anyhow::Result<Plan> {
    sealed::read_format(&folder.plan(), resolved::VERSION)
}

/// Reads a run's folder, but only the runs that `wanted` accepts.
pub fn read_some(folder: &RunFolder, wanted: impl Fn(&RunRecord) -> bool) -> anyhow::Result<Results> {
    let plan = read_plan(folder)?;
    Limits::new(&plan.request.judging).with_context(|| folder.plan().to_string())?;
    if plan.baseline >= plan.revisions.len() {
        return Err(sealed::damaged(&folder.plan(), "the baseline is not among the revisions"));
    }
    let environment = environment_of(folder)?;
    let (mut builds, mut failed_builds) = (Builds::new(), BTreeMap::new());
    let (mut not_measured, mut added_tests) = (BTreeMap::new(), BTreeMap::new());
    let (mut notes, mut same_code) = (Vec::new(), Vec::new());
    for (revision, build) in build_facts::read(folder)? {
        not_measured.insert(revision, build.not_measured);
        if !build.added_tests.is_empty() {
            added_tests.insert(revision, build.added_tests);
        }
        notes.extend(build.notes);
        same_code.extend(build.same_code);
        match build.failure {
            None => drop(builds.insert(revision, build.facts)),
            Some(failure) if revision < plan.revisions.len() => {
                failed_builds.insert(
                    revision,
                    FailedBuild::from_facts(failure, folder, &folder.build_log(&plan, revision)),
                );
            }
            Some(_) => {}
        }
    }
    let traces = if folder.trace().exists() { sealed::read(&folder.trace())? } else { BTreeMap::new() };
    let mut records = records(folder, &folder.cells(), &plan)?;
    records.retain(|(record, _)| wanted(record));
    let runs = read_logs(folder, records)?;
    let mut results = Results {
        plan,
        environment,
        builds,
        not_measured,
        added_tests,
        failed_builds,
        traces,
        runs,
        notes,
        same_code,
        lacks_tests: false,
        apart: BTreeMap::new(),
        saved_baseline: KeptBaseline::read(folder)?.map(|kept| kept.name),
    };
    results.sort();
    Ok(results)
}

/// Returns the finished runs of one cell at one revision.
pub fn runs_of(folder: &RunFolder, plan: &Plan, revision: usize, cell: &CellId) -> anyhow::Result<Vec<Run>> {
    let first = folder.cell(plan, revision, cell, 0);
    let records = records(folder, first.parent().unwrap_or(&first), plan)?;
    let mut runs = read_logs(folder, records)?;
    runs.sort_by_key(|run| run.record.repeat);
    Ok(runs)
}

/// Returns `environment.json`; `null` if there is none.
pub fn environment_of(folder: &RunFolder) -> anyhow::Result<Value> {
    read_optional(&folder.environment())
}

/// Returns the facts about the builds of revisions that were built.
pub fn builds_of(folder: &RunFolder) -> anyhow::Result<Builds> {
    let built = build_facts::read(folder)?.into_iter().filter(|(_, build)| build.failure.is_none());
    Ok(built.map(|(revision, build)| (revision, build.facts)).collect())
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

fn read_optional(path: &Utf8Path) -> anyhow::Result<Value> {
    if path.exists() { sealed::read(path) } else { Ok(Value::Null) }
}

fn records(
    folder: &RunFolder,
    below: &Utf8Path,
    plan: &Plan,
) -> anyhow::Result<Vec<(RunRecord, Utf8PathBuf)>> {
    if !below.exists() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in walkdir::WalkDir::new(below).sort_by_file_name() {
        let entry = entry?;
        if entry.file_name() == file::OUTCOME && entry.file_type().is_file() {
            let path = Utf8PathBuf::try_from(entry.into_path()).context("a run's path is not UTF-8")?;
            paths.push(path);
        }
    }
    let read = |path: &Utf8PathBuf| {
        let home = path.parent().expect("a file has a folder");
        let record = record(path)?;
        if record.revision >= plan.revisions.len() {
            return Err(sealed::damaged(path, format!("revision {} is not in the plan", record.revision)));
        }
        let own = folder.cell(plan, record.revision, &record.cell, record.repeat);
        if record.version > outcome::WITHOUT_SEALS && own != home {
            return Err(changed(path, "it belongs to another run"));
        }
        Ok((record, home.strip_prefix(&folder.0).unwrap_or(home).to_owned()))
    };
    parallel::map(&paths, usize::MAX, read).into_iter().collect()
}

/// Reads an outcome and checks its checksum.
fn record(path: &Utf8Path) -> anyhow::Result<RunRecord> {
    let Opened { json, is_sealed } = sealed::open(path).map_err(|error| match error {
        SealedError::Changed { .. } => changed(path, "its checksum is wrong"),
        error @ SealedError::Io { .. } => error.into(),
    })?;
    // A power failure leaves this.
    if !is_sealed && serde_json::from_slice::<IgnoredAny>(&json).is_err() {
        return Err(changed(path, "it is empty or incomplete"));
    }
    format_version::refuse_newer(&json, path, outcome::VERSION)?;
    let record: RunRecord = serde_json::from_slice(&json).map_err(|error| sealed::damaged(path, error))?;
    if record.version > outcome::WITHOUT_SEALS && !is_sealed {
        return Err(changed(path, "its checksum is missing"));
    }
    Ok(record)
}

/// Returns the error for a run's file that is not as it was when the run ended.
fn changed(path: &Utf8Path, reason: &str) -> anyhow::Error {
    let run = path.ancestors().map(|above| RunFolder(above.to_owned())).find(|run| run.plan().exists());
    let run = run.unwrap_or_else(|| RunFolder("RUN".into()));
    UserError::new(format!("{path} was changed after the run: {reason}"))
        .help(unfinished::measure_again(&run))
        .into()
}

/// Checks the files of a finished run against the hashes in its outcome. Returns what is wrong.
pub fn damage(home: &Utf8Path) -> Option<String> {
    let record = match record(&home.join(file::OUTCOME)) {
        Ok(record) => record,
        Err(error) => return Some(format!("{error:#}")),
    };
    record.files.iter().find_map(|(name, seal)| {
        let path = home.join(name);
        let problem = match file_seal::read(&path) {
            Ok(Some(found)) if found == *seal => return None,
            Ok(Some(_)) => "it has another content".to_owned(),
            Ok(None) => "it is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(changed(&path, &problem).to_string())
    })
}

/// Removes the outcomes of damaged runs below a folder, so that these runs count as not done.
/// Returns what was wrong with each.
pub fn forget_damaged(below: &Utf8Path) -> anyhow::Result<Vec<String>> {
    let forget = |(home, problem): (Utf8PathBuf, String)| {
        regular_file::remove(&home.join(file::OUTCOME))?;
        Ok(problem)
    };
    damaged(below).map(forget).collect()
}

/// Returns the folders of the damaged runs below a folder, and what is wrong with each.
pub fn damaged(below: &Utf8Path) -> impl Iterator<Item = (Utf8PathBuf, String)> {
    let entries = walkdir::WalkDir::new(below).into_iter().filter_map(Result::ok);
    entries.filter(|entry| entry.file_name() == file::OUTCOME).filter_map(|entry| {
        let home = entry.path().parent().and_then(Utf8Path::from_path)?;
        Some((home.to_owned(), damage(home)?))
    })
}

/// Reads the logs on all processors.
fn read_logs(folder: &RunFolder, records: Vec<(RunRecord, Utf8PathBuf)>) -> anyhow::Result<Vec<Run>> {
    let logs = parallel::map(&records, usize::MAX, |(record, home)| read_log(&folder.0.join(home), record));
    records
        .into_iter()
        .zip(logs)
        .map(|((record, folder), log)| {
            let (measurement, unreadable) = match log? {
                Ok(mut measurement) => {
                    for (metric, reason) in &record.withdrawn {
                        measurement.withdraw(metric, reason);
                    }
                    (measurement, None)
                }
                Err(problem) => (Measurement::default(), Some(problem)),
            };
            Ok(Run { record, measurement: Arc::new(measurement), unreadable, folder })
        })
        .collect()
}

/// Reads the log of a run, or says why that is not possible.
///
/// # Errors
/// One of the run's files is not as it was when the run ended.
fn read_log(home: &Utf8Path, record: &RunRecord) -> anyhow::Result<Result<Measurement, String>> {
    for (name, seal) in record.files.iter().filter(|(name, _)| *name != file::LOG) {
        let path = home.join(name);
        if file_seal::read(&path).ok().flatten().as_ref() != Some(seal) {
            return Err(changed(&path, "it has another content, or is gone"));
        }
    }
    let path = home.join(file::LOG);
    let seal = record.files.get(file::LOG);
    let log = match regular_file::open(&path) {
        Ok(log) => log,
        Err(error) if seal.is_some() => return Err(changed(&path, &error.to_string())),
        // A process that did not start, or did not reach its first checkpoint, leaves no log.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Ok(Measurement::default()));
        }
        Err(error) => return Ok(Err(format!("{path}: {error}"))),
    };
    let length = log.metadata().map(|found| found.len()).unwrap_or_default();
    if length > log_file::MOST_OF_LOG {
        return Ok(Err(log_file::too_large(path.as_str(), 1).to_string()));
    }
    let mut log = BufReader::with_capacity(1 << 18, Hashing::new(log));
    let measurement = shim_log::read(&mut log, path.as_str()).map_err(|error| error.to_string());
    let mut hashing = log.into_inner();
    // After an error, there is more of it.
    hashing.drain().with_context(|| format!("cannot read {path}"))?;
    if seal.is_some_and(|seal| *seal != hashing.seal()) {
        return Err(changed(&path, "it has another content"));
    }
    Ok(measurement)
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
