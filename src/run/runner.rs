//! The loop over cells: each run is a process of its own, one at a time, and its outcome is written as it ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::attempts::Build;
use crate::build::provenance::Executable;
use crate::build::store::Entry;
use crate::build::test_listing::in_cargos_place;
use crate::build::test_tree::TestTree;
use crate::compare::from_results::compare;
use crate::compare::repeats;
use crate::gpu::devices::CudaDevice;
use crate::gpu::neighbours::Interference;
use crate::gpu::visible_devices;
use crate::gpu::watch::DeviceWatch;
use crate::plan::cells::{CellStatus, PlannedCell};
use crate::plan::repeat::Repeat;
use crate::plan::request::TraceRequest;
use crate::plan::resolved::{CellId, Plan, TestId};
use crate::results::outcome::{self, Outcome, RunRecord, Status};
use crate::results::run_folder::{RunFolder, file};
use crate::results::stored;
use crate::run::classify::{self, Evidence};
use crate::run::process_group;
use crate::support::event::{Event, Sink};
use crate::support::process::Command;

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Every cell has its outcomes.
    Finished,
    /// The user stopped it; the outcomes so far are kept.
    Interrupted,
}

/// What the loop needs.
pub struct Runner<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Where outcomes go.
    pub folder: &'a RunFolder,
    /// The build of each revision.
    pub builds: &'a [Build],
    /// What is to run.
    pub cells: &'a [PlannedCell],
    /// What counts GPU memory in the test processes, as variables; empty where there is no GPU.
    pub gpu: &'a BTreeMap<&'static str, String>,
    /// The devices that runs may use.
    pub devices: &'a DeviceWatch<'a>,
    /// Where events go.
    pub sink: &'a dyn Sink,
    /// Raised by Ctrl-C.
    pub interrupt: &'a AtomicBool,
}

/// One run that is still to be done.
struct Pending<'a> {
    planned: &'a PlannedCell,
    repeat: u32,
}

impl Runner<'_> {
    /// Runs what has no outcome yet.
    ///
    /// Repeats are rounds over all cells, and every other round takes the revisions in reverse (A B, B A, …): a drift of the
    /// machine then meets both sides, and the checkout is switched once a round and revision. Where cells repeat as often as
    /// needed, the verdicts so far say which runs are to follow.
    pub fn run(&self, stage: &mut dyn TestTree) -> anyhow::Result<Completion> {
        for planned in self.cells {
            self.record_what_does_not_run(planned)?;
        }
        let mut proven = HashSet::new();
        let mut wanted: Vec<u32> = (self.cells.iter())
            .map(|planned| match planned.repeat {
                Repeat::Auto => 1,
                Repeat::Times(times) => times,
            })
            .collect();
        let mut done = 0;
        loop {
            let pending = self.pending(&wanted);
            let _locks = self.devices.lock(&self.places(&pending)?)?;
            if self.run_all(stage, &pending, done, &mut proven)? == Completion::Interrupted {
                return Ok(Completion::Interrupted);
            }
            done += pending.len();
            if !self.look(&mut wanted)? {
                return Ok(Completion::Finished);
            }
        }
    }

    /// Raises how often cells are wanted where the verdicts so far are not clear; whether there is any such cell.
    fn look(&self, wanted: &mut [u32]) -> anyhow::Result<bool> {
        let is_adaptive =
            |planned: &PlannedCell| planned.repeat == Repeat::Auto && planned.status == CellStatus::Run;
        let open: HashSet<&CellId> =
            self.cells.iter().filter(|planned| is_adaptive(planned)).map(|planned| &planned.cell).collect();
        if open.is_empty() {
            return Ok(false);
        }
        let comparison = compare(&stored::read_some(self.folder, |record| open.contains(&record.cell))?);
        let needed = repeats::wanted(&comparison);
        let mut is_raised = false;
        for (planned, wanted) in self.cells.iter().zip(wanted) {
            let more = needed.get(&(&planned.cell, planned.revision)).copied().unwrap_or(0);
            if is_adaptive(planned) && more > *wanted {
                (*wanted, is_raised) = (more, true);
            }
        }
        Ok(is_raised)
    }

    fn run_all(
        &self,
        stage: &mut dyn TestTree,
        pending: &[Pending<'_>],
        done: usize,
        proven: &mut HashSet<Utf8PathBuf>,
    ) -> anyhow::Result<Completion> {
        let total = done + pending.len();
        for (index, pending) in pending.iter().enumerate() {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(Completion::Interrupted);
            }
            let name = self.plan.revisions[pending.planned.revision].name.clone();
            let test = pending.planned.cell.title.clone();
            let index = done + index + 1;
            self.sink.emit(Event::RunStarted { test: test.clone(), name: name.clone(), index, total });
            let Some(outcome) = self.run_one(stage, pending, proven)? else {
                return Ok(Completion::Interrupted);
            };
            let took = Duration::from_nanos(outcome.wall_nanoseconds.unwrap_or_default());
            let ok = outcome.status.is_ok();
            let outcome = outcome.status.to_string();
            self.sink.emit(Event::RunFinished { test, name, index, total, outcome, ok, took });
        }
        Ok(Completion::Finished)
    }

    /// The runs that have no outcome yet, where each cell is wanted so often.
    fn pending(&self, wanted: &[u32]) -> Vec<Pending<'_>> {
        let runs = || {
            let cells = self.cells.iter().zip(wanted);
            cells.filter(|(planned, _)| planned.status == CellStatus::Run)
        };
        let rounds = runs().map(|(_, wanted)| *wanted).max().unwrap_or_default();
        let mut pending = Vec::new();
        for repeat in 0..rounds {
            let mut revisions: Vec<usize> = (0..self.plan.revisions.len()).collect();
            if repeat % 2 == 1 {
                revisions.reverse();
            }
            for revision in revisions {
                let of_round =
                    runs().filter(|(planned, wanted)| planned.revision == revision && **wanted > repeat);
                pending.extend(
                    of_round
                        .map(|(planned, _)| planned)
                        .filter(|planned| !self.run_folder(planned, repeat).join(file::OUTCOME).exists())
                        .map(|planned| Pending { planned, repeat }),
                );
            }
        }
        pending
    }

    fn run_folder(&self, planned: &PlannedCell, repeat: u32) -> Utf8PathBuf {
        self.folder.cell(self.plan, planned.revision, &planned.cell, repeat)
    }

    fn record_what_does_not_run(&self, planned: &PlannedCell) -> anyhow::Result<()> {
        let (status, message) = match planned.status {
            CellStatus::Run => return Ok(()),
            CellStatus::Ignored => (Status::Ignored, None),
            CellStatus::NotInThisRef => (Status::NotInThisRef, None),
            CellStatus::BuildFailed => {
                let message = match &self.builds[planned.revision] {
                    Build::Failed(failure) => failure.first_errors.lines().next().map(ToOwned::to_owned),
                    Build::Done(_) => None,
                };
                (Status::BuildFailed, message)
            }
        };
        let outcome = Outcome { status, message, wall_nanoseconds: None };
        self.record(&RunRecord {
            version: outcome::VERSION,
            revision: planned.revision,
            cell: planned.cell.clone(),
            repeat: 0,
            outcome,
            build: None,
            marks: Vec::new(),
            withdrawn: BTreeMap::new(),
            devices: None,
        })
    }

    /// Every place that one of the runs can see.
    fn places(&self, pending: &[Pending<'_>]) -> anyhow::Result<BTreeSet<CudaDevice>> {
        let mut all = BTreeSet::new();
        for pending in pending {
            let (_, executable) = self.executable(pending.planned)?;
            all.extend(self.devices_of(pending.planned, executable)?.places);
        }
        Ok(all)
    }

    fn executable(&self, planned: &PlannedCell) -> anyhow::Result<(&Entry, &Executable)> {
        let entry = self.builds[planned.revision].entry().context("a cell without a build is not run")?;
        let executable = executable_of(entry, &planned.cell.test)
            .with_context(|| format!("the build has no test {}", planned.cell.test))?;
        Ok((entry, executable))
    }

    fn devices_of(&self, planned: &PlannedCell, executable: &Executable) -> anyhow::Result<CellDevices> {
        if let Some(names) = &planned.devices {
            let places = self.devices.given(names)?;
            return Ok(CellDevices { given: Some(visible_devices::value(&places)), places });
        }
        let variable = |name: &str| {
            let set = planned.env.get(name).or_else(|| executable.environment.get(name));
            set.cloned().or_else(|| std::env::var(name).ok())
        };
        Ok(CellDevices { given: None, places: self.devices.visible(variable) })
    }

    fn record(&self, record: &RunRecord) -> anyhow::Result<()> {
        let folder = self.folder.cell(self.plan, record.revision, &record.cell, record.repeat);
        fs_err::create_dir_all(&folder)?;
        write_whole(&folder.join(file::OUTCOME), &serde_json::to_vec_pretty(record)?)
    }

    /// `None` if it was interrupted: it then counts as not run.
    fn run_one(
        &self,
        stage: &mut dyn TestTree,
        pending: &Pending<'_>,
        proven: &mut HashSet<Utf8PathBuf>,
    ) -> anyhow::Result<Option<Outcome>> {
        let planned = pending.planned;
        let (entry, executable) = self.executable(planned)?;
        let devices = self.devices_of(planned, executable)?;
        stage.bring_to(planned.revision, entry)?;
        let path = entry.folder.join(&executable.file);
        if !proven.contains(&path) {
            entry.verified(executable)?;
            proven.insert(path.clone());
        }
        let folder = self.run_folder(planned, pending.repeat);
        if folder.exists() {
            // A run that was cut off left a part of its log.
            fs_err::remove_dir_all(&folder)?;
        }
        fs_err::create_dir_all(&folder)?;
        let folder = folder.canonicalize_utf8()?;
        let on_request = Some(self.plan.request.on_request.join(",")).filter(|metrics| !metrics.is_empty());
        let trace = trace_variables(&self.plan.request.trace);
        let log = folder.join(file::LOG);
        let command = command(entry, executable, planned, &trace, &log)
            .envs(self.gpu)
            .envs(on_request.map(|metrics| ("MEMPROF_METRICS", metrics)));
        let command = match &devices.given {
            Some(value) => command.env(visible_devices::VISIBLE, value),
            None => command,
        };
        let given = devices.given.is_some();
        let uuids = given.then(|| devices.places.iter().map(|place| place.uuid.clone()).collect());
        let stdout = fs_err::File::create(folder.join(file::STDOUT))?.into_parts().0;
        let stderr = fs_err::File::create(folder.join(file::STDERR))?.into_parts().0;
        let limit = planned.timeout_seconds.map(Duration::from_secs);
        let kills_before = classify::kernel_kills();
        let before = self.devices.before(devices.places);
        let fate = process_group::run(&command, stdout, stderr, limit, self.interrupt)?;
        let evidence = Evidence {
            folder: &folder,
            key: &entry.provenance.key,
            harness: executable.harness,
            limit_seconds: planned.timeout_seconds.unwrap_or_default(),
            killed_by_kernel: classify::kernel_kills() > kills_before,
        };
        let Some(outcome) = classify::outcome(&fate, &evidence)? else { return Ok(None) };
        let passed = outcome.status.is_ok();
        let Interference { marks, withdrawn } =
            self.devices.after(before, &folder.join(file::LOG), passed)?;
        self.record(&RunRecord {
            version: outcome::VERSION,
            revision: planned.revision,
            cell: planned.cell.clone(),
            repeat: pending.repeat,
            outcome: outcome.clone(),
            build: Some(entry.provenance.key.clone()),
            marks,
            withdrawn,
            devices: uuids,
        })?;
        Ok(Some(outcome))
    }
}

/// The devices of a cell's runs.
struct CellDevices {
    /// What `CUDA_VISIBLE_DEVICES` is set to, if the cell was given devices.
    given: Option<String>,
    /// What its runs can see, so or so.
    places: Vec<CudaDevice>,
}

fn executable_of<'a>(entry: &'a Entry, test: &TestId) -> Option<&'a Executable> {
    entry.provenance.executables.iter().find(|executable| {
        executable.package == test.package && executable.binary == test.binary && executable.kind == test.kind
    })
}

/// What traced functions are told; nothing where there are none.
fn trace_variables(request: &TraceRequest) -> BTreeMap<&'static str, String> {
    if request.is_empty() {
        return BTreeMap::new();
    }
    let mut variables = BTreeMap::from([("MEMPROF_TRACE_EVENTS", request.max_events.to_string())]);
    if !request.columns.is_empty() {
        let columns: Vec<&str> = request.columns.iter().map(|column| column.as_str()).collect();
        variables.insert("MEMPROF_TRACE_COLUMNS", columns.join(","));
    }
    variables
}

/// `EXE --exact NAME --nocapture --test-threads=1` as cargo would run it, with the log's place.
fn command(
    entry: &Entry,
    executable: &Executable,
    planned: &PlannedCell,
    trace: &BTreeMap<&str, String>,
    log: &Utf8Path,
) -> Command {
    let path = entry.folder.join(&executable.file);
    let runner = &entry.provenance.runner;
    let mut command = in_cargos_place(&path, runner, &executable.directory, &executable.environment);
    if executable.harness {
        let name = planned.cell.test.name.as_str();
        command = command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        let ignored = executable.tests.iter().any(|test| test.name == name && test.ignored);
        command = command.args(ignored.then_some("--include-ignored"));
    }
    let inherited = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let command = inherited.filter(|name| name.starts_with("MEMPROF_LOG")).fold(command, Command::env_remove);
    let shim: BTreeMap<&str, &str> = [("MEMPROF_LOG", log.as_str())]
        .into_iter()
        .chain(trace.iter().map(|(name, value)| (*name, value.as_str())))
        .chain(executable.heap_absent.as_deref().map(|reason| ("MEMPROF_HEAP_ABSENT", reason)))
        .collect();
    // A backtrace, also one that a `should_panic` test catches, keeps tens of MiB of symbols on the heap.
    let configured = executable.environment.contains_key("RUST_BACKTRACE");
    let command = if configured { command } else { command.env("RUST_BACKTRACE", "0") };
    // With a terminal's name libtest reads that terminal's description, which would make the figures depend on where the tool
    // was started.
    command.env_remove("TERM").envs(&planned.env).envs(shim)
}

/// Writes a file that is there whole or not at all.
pub fn write_whole(path: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_file_name(format!("{}.partial", path.file_name().unwrap_or_default()));
    fs_err::write(&partial, content)?;
    fs_err::rename(partial, path)?;
    Ok(())
}
