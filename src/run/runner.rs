//! Runs the cells, each in its own process, one at a time. Writes each outcome when the run ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::attempts::Build;
use crate::build::provenance::Executable;
use crate::build::shim;
use crate::build::store::Entry;
use crate::build::test_listing::as_cargo_would_run;
use crate::build::test_tree::TestTree;
use crate::compare::from_results::compare;
use crate::compare::repeats;
use crate::gpu::devices::CudaDevice;
use crate::gpu::neighbours::Interference;
use crate::gpu::visible_devices;
use crate::gpu::watch::DeviceWatch;
use crate::plan::cells::{CellStatus, PlannedCell};
use crate::plan::repeat::Repeat;
use crate::plan::request::{Request, TraceRequest};
use crate::plan::resolved::{CellId, Plan, TestId};
use crate::results::log_checksum::LogKey;
use crate::results::outcome::{self, Outcome, RunRecord, Status};
use crate::results::run_folder::{RunFolder, file};
use crate::results::sealed;
use crate::results::stored;
use crate::run::classify::{self, Evidence};
use crate::run::delay::Delay;
use crate::run::estimate::{PastTimes, TimeLeft};
use crate::run::executables::ProvenExecutables;
use crate::run::finished::FinishedRuns;
use crate::run::follow::{Follow, Follower};
use crate::run::home::{self, RunHome};
use crate::run::malloc_variables;
use crate::run::process_group;
use crate::run::recording::Recording;
use crate::support::counted::counted;
use crate::support::event::{Event, Sink};
use crate::support::process::Command;
use crate::support::regular_file;

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Every cell has its outcomes.
    Finished,
    /// The user stopped it; the outcomes so far are kept.
    Interrupted(Interrupted),
}

/// The user interrupted the command. All finished measurements are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("interrupted{}", after(*finished, *planned, *is_explaining))]
pub struct Interrupted {
    /// How many runs have an outcome, of this session or an earlier one.
    pub finished: usize,
    /// How many runs were planned so far; 0 before the tests are known.
    pub planned: usize,
    /// Whether a test was interrupted that had not run before; what it logged is in the report.
    pub is_cut_off: bool,
    /// Whether the comparison is complete, and tests ran once more with call stacks.
    pub is_explaining: bool,
}

impl Interrupted {
    /// An interrupt while tests ran with call stacks, after all others.
    pub fn of_call_stacks(runs: usize) -> Self {
        Self { finished: runs, planned: runs, is_cut_off: false, is_explaining: true }
    }
}

fn after(finished: usize, planned: usize, is_explaining: bool) -> String {
    match planned {
        _ if is_explaining => " after all runs, while tests ran once more with call stacks".to_owned(),
        0 => String::new(),
        planned => format!(" after {finished} of {}", counted(planned, "run")),
    }
}

/// Runs the cells of a plan.
#[derive(Clone)]
pub struct Runner<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Where outcomes go.
    pub folder: &'a RunFolder,
    /// The build of each revision.
    pub builds: &'a [Build],
    /// The cells to run.
    pub cells: &'a [PlannedCell],
    /// Variables that make test processes count GPU memory, on a machine with a GPU, and the C
    /// library's allocator, if that was requested.
    pub counting: &'a BTreeMap<&'static str, String>,
    /// The devices that runs may use.
    pub devices: &'a DeviceWatch<'a>,
    /// The pause between two runs.
    pub delay: &'a Delay,
    /// How long tests took before.
    pub past: &'a PastTimes,
    /// Where events go.
    pub sink: &'a dyn Sink,
    /// Set by Ctrl-C.
    pub interrupt: &'a AtomicBool,
    /// What to show of a test while it runs.
    pub follow: Follow,
    /// How the processes record call stacks; `None` if they do not.
    pub recording: Option<Recording>,
}

/// What is known of the runs so far.
struct Progress<'a> {
    executables: ProvenExecutables,
    finished: FinishedRuns,
    time_left: TimeLeft<'a>,
    /// The first run of a cell, if the user interrupted it.
    cut_off: Option<RunRecord>,
}

/// A run that has no outcome yet.
struct Pending<'a> {
    planned: &'a PlannedCell,
    repeat: u32,
}

impl Runner<'_> {
    /// Runs every cell that has no outcome yet.
    ///
    /// Each repeat is a round over all cells. Every other round takes the revisions in reverse
    /// order (A B, B A, …), so that a drift of the machine affects both sides. The checkout
    /// switches once per round and revision. For cells with `repeat: auto`, the verdicts so far
    /// decide about further runs.
    ///
    /// # Errors
    ///
    /// A run cannot be started or recorded. A test that fails is an outcome, not an error.
    pub fn run(&self, tree: &mut dyn TestTree) -> anyhow::Result<Completion> {
        let mut progress = self.begin()?;
        let mut wanted: Vec<u32> = (self.cells.iter())
            .map(|planned| match planned.repeat {
                Repeat::Auto => 1,
                Repeat::Times(times) => times,
            })
            .collect();
        let mut done = 0;
        loop {
            let pending = self.pending(&wanted, &progress);
            for one in &pending {
                progress.time_left.add(&one.planned.cell, self.past);
            }
            self.devices.hold(&self.places(&pending)?)?;
            let is_interrupted = !self.run_all(tree, &pending, done, &mut progress)?;
            self.refuse_changed(&mut progress)?;
            if is_interrupted {
                return Ok(Completion::Interrupted(self.interrupted(&wanted, &progress)?));
            }
            done += pending.len();
            if !self.raise_repeats(&mut wanted)? {
                return Ok(Completion::Finished);
            }
        }
    }

    /// Records the cells that do not run, and finds the runs that an earlier session finished.
    fn begin(&self) -> anyhow::Result<Progress<'_>> {
        let mut progress = Progress {
            executables: ProvenExecutables::default(),
            finished: FinishedRuns::default(),
            cut_off: None,
            time_left: TimeLeft::new(self.delay.length()),
        };
        for planned in self.cells {
            let first = self.run_folder(planned, 0);
            let of_cell = first.parent().unwrap_or(&first);
            forget_damaged(of_cell, self.sink)?;
            self.record_if_not_run(planned)?;
            if planned.status == CellStatus::Run {
                forget_not_run(&first)?;
            }
            for entry in of_cell.read_dir_utf8().into_iter().flatten() {
                let folder = entry?.into_path();
                if folder.join(file::OUTCOME).exists() {
                    progress.finished.add(&folder);
                }
            }
        }
        Ok(progress)
    }

    /// Refuses the finished runs whose files have changed since: one test may have changed those of
    /// another. Removes outcomes that nobody recorded.
    fn refuse_changed(&self, progress: &mut Progress<'_>) -> anyhow::Result<()> {
        for planned in self.cells {
            let first = self.run_folder(planned, 0);
            let of_cell = first.parent().unwrap_or(&first);
            let planted = |folder: &Utf8PathBuf| folder.join(file::OUTCOME).symlink_metadata().is_ok();
            for entry in of_cell.read_dir_utf8().into_iter().flatten() {
                let folder = entry?.into_path();
                if planted(&folder) && !progress.finished.has(&folder) {
                    regular_file::remove(&folder.join(file::OUTCOME))?;
                }
            }
            for repeat in 0.. {
                let folder = self.run_folder(planned, repeat);
                if !progress.finished.has(&folder) {
                    break;
                }
                if !progress.finished.is_unchanged(&folder) {
                    let message = "another test changed the files of this run".to_owned();
                    let outcome =
                        Outcome { status: Status::Refused, message: Some(message), wall_nanoseconds: None };
                    self.record(&new_record(planned, repeat, outcome))?;
                    progress.finished.add(&folder);
                }
            }
        }
        Ok(())
    }

    /// Raises the number of runs of cells whose verdicts are not clear yet. Returns whether there
    /// are any.
    fn raise_repeats(&self, wanted: &mut [u32]) -> anyhow::Result<bool> {
        let is_adaptive =
            |planned: &PlannedCell| planned.repeat == Repeat::Auto && planned.status == CellStatus::Run;
        let open: HashSet<&CellId> =
            self.cells.iter().filter(|planned| is_adaptive(planned)).map(|planned| &planned.cell).collect();
        if open.is_empty() {
            return Ok(false);
        }
        let comparison = compare(&stored::read_some(self.folder, |record| open.contains(&record.cell))?);
        let needed = repeats::wanted(&comparison, self.folder.kept().exists());
        let mut is_raised = false;
        for (planned, wanted) in self.cells.iter().zip(wanted) {
            let more = needed.get(&(&planned.cell, planned.revision)).copied().unwrap_or(0);
            if is_adaptive(planned) && more > *wanted {
                (*wanted, is_raised) = (more, true);
            }
        }
        Ok(is_raised)
    }

    /// Runs these one after the other. Returns `false` if the user interrupted them.
    fn run_all(
        &self,
        tree: &mut dyn TestTree,
        pending: &[Pending<'_>],
        done: usize,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<bool> {
        let total = done + pending.len();
        for (index, pending) in pending.iter().enumerate() {
            self.delay.before_run(self.interrupt, self.sink);
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let name = self.plan.revisions[pending.planned.revision].name.clone();
            let test = pending.planned.cell.title.clone();
            let index = done + index + 1;
            let left = progress.time_left.left();
            self.sink.emit(Event::RunStarted { test: test.clone(), name: name.clone(), index, total, left });
            let Some(outcome) = self.run_one(tree, pending, progress)? else {
                return Ok(false);
            };
            let took = Duration::from_nanos(outcome.wall_nanoseconds.unwrap_or_default());
            progress.time_left.end(&pending.planned.cell, took);
            let ok = outcome.status.is_ok();
            let outcome = outcome.status.to_string();
            self.sink.emit(Event::RunFinished { test, name, index, total, outcome, ok, took });
        }
        Ok(true)
    }

    /// Returns how far an interrupted session got. Records the test that was interrupted, for the
    /// report: it runs again when the session continues.
    fn interrupted(&self, wanted: &[u32], progress: &Progress<'_>) -> anyhow::Result<Interrupted> {
        if let Some(record) = &progress.cut_off {
            self.record(record)?;
        }
        let of_runs = self.cells.iter().zip(wanted).filter(|(planned, _)| planned.status == CellStatus::Run);
        let planned: usize = of_runs.map(|(_, wanted)| *wanted as usize).sum();
        Ok(Interrupted {
            finished: planned.saturating_sub(self.pending(wanted, progress).len()),
            planned,
            is_cut_off: progress.cut_off.is_some(),
            is_explaining: false,
        })
    }

    /// Returns the runs that have no outcome yet, for this number of runs of each cell.
    fn pending(&self, wanted: &[u32], progress: &Progress<'_>) -> Vec<Pending<'_>> {
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
                        .filter(|planned| !progress.finished.has(&self.run_folder(planned, repeat)))
                        .map(|planned| Pending { planned, repeat }),
                );
            }
        }
        pending
    }

    fn run_folder(&self, planned: &PlannedCell, repeat: u32) -> Utf8PathBuf {
        self.folder.cell(self.plan, planned.revision, &planned.cell, repeat)
    }

    /// Records the outcome of a cell that does not run.
    fn record_if_not_run(&self, planned: &PlannedCell) -> anyhow::Result<()> {
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
            CellStatus::NotMeasured => {
                let executables = self.builds[planned.revision].not_measured();
                let executable = executables.iter().find(|one| one.may_have(&planned.cell.test));
                let message = executable.map(|executable| format!("{executable}: {}", executable.reason));
                (Status::NotMeasured, message)
            }
        };
        let outcome = Outcome { status, message, wall_nanoseconds: None };
        self.record(&new_record(planned, 0, outcome))
    }

    /// Returns every device that one of the runs can see.
    fn places(&self, pending: &[Pending<'_>]) -> anyhow::Result<BTreeSet<CudaDevice>> {
        let mut all = BTreeSet::new();
        for pending in pending {
            let (_, executable) = self.executable(pending.planned)?;
            all.extend(self.devices_of(pending.planned, executable)?.places);
        }
        Ok(all)
    }

    /// Returns the build and the executable of a cell.
    pub(crate) fn executable(&self, planned: &PlannedCell) -> anyhow::Result<(&Entry, &Executable)> {
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

    /// Writes an outcome, in the place of whatever is there.
    fn record(&self, record: &RunRecord) -> anyhow::Result<()> {
        let folder = self.folder.cell(self.plan, record.revision, &record.cell, record.repeat);
        home::restore(&self.folder.0, &folder)?;
        sealed::write(&folder.join(file::OUTCOME), record)
    }

    /// Runs a cell once. Returns `None` if it was interrupted; it then counts as not run, and its
    /// record is kept aside.
    fn run_one(
        &self,
        tree: &mut dyn TestTree,
        pending: &Pending<'_>,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<Option<Outcome>> {
        let planned = pending.planned;
        let (entry, executable) = self.executable(planned)?;
        tree.bring_to(planned.revision, entry)?;
        progress.executables.prove(entry, executable)?;
        let record = self.run_test(pending, entry, executable, &progress.executables)?;
        if record.outcome.status == Status::Interrupted {
            // Later repeats and call stacks would add nothing to the report.
            let is_first = pending.repeat == 0 && self.recording.is_none();
            progress.cut_off = is_first.then_some(record);
            return Ok(None);
        }
        self.record(&record)?;
        progress.finished.add(&self.run_folder(planned, pending.repeat));
        Ok(Some(record.outcome))
    }

    /// Runs a test whose files are in place, and returns its record.
    fn run_test(
        &self,
        pending: &Pending<'_>,
        entry: &Entry,
        executable: &Executable,
        executables: &ProvenExecutables,
    ) -> anyhow::Result<RunRecord> {
        let planned = pending.planned;
        let devices = self.devices_of(planned, executable)?;
        let (home, stdout, stderr) =
            RunHome::create(&self.folder.0, &self.run_folder(planned, pending.repeat))?;
        let key = LogKey::random();
        let log = home.path.join(file::LOG);
        let recording = match self.recording {
            Some(recording) => recording.variables(&entry.folder.join(&executable.file)),
            None => BTreeMap::new(),
        };
        let command = self
            .command(planned, entry, executable, &devices, &log)
            .envs(recording)
            .env("MEMPROF_LOG_KEY", key.as_str());
        let given = devices.given.is_some();
        let uuids = given.then(|| devices.places.iter().map(|place| place.uuid.clone()).collect());
        let limit = planned.timeout_seconds.map(Duration::from_secs);
        let kills_before = classify::kernel_kills();
        let before = self.devices.before(devices.places);
        let name = &self.plan.revisions[planned.revision].name;
        let mut follower = Follower::new(self.follow, &home.path, &planned.cell.title, name, self.sink);
        let process =
            process_group::run(&command, stdout, stderr, limit, self.interrupt, &mut || follower.look())?;
        follower.finish();
        // First, because redaction puts other files in the places of the test's outputs.
        let harm = home.harm().or_else(|| executables.harm(entry, executable));
        home.redact_outputs()?;
        let evidence = Evidence {
            folder: &home.path,
            key: &entry.provenance.key,
            log_key: &key,
            has_checksum: entry.provenance.key_inputs.shim == shim::source_hash(),
            harm,
            harness: executable.harness,
            limit_seconds: planned.timeout_seconds.unwrap_or_default(),
            killed_by_kernel: classify::kernel_kills() > kills_before,
        };
        let outcome = classify::outcome(&process, &evidence);
        let passed = outcome.status.is_ok();
        let Interference { mut marks, withdrawn } = self.devices.after(before, &log, passed)?;
        marks.extend(process.left.remark());
        Ok(RunRecord {
            build: Some(entry.provenance.key.clone()),
            marks,
            withdrawn,
            devices: uuids,
            files: classify::seals(&home.path),
            ..new_record(planned, pending.repeat, outcome)
        })
    }

    /// Returns the loader's variable that loads the library in front of the C library's allocator, if
    /// there is one.
    fn preload(&self, planned: &PlannedCell, executable: &Executable) -> Option<(&'static str, String)> {
        let library = self.counting.get(malloc_variables::LIBRARY)?;
        let name = malloc_variables::PRELOAD;
        let set = planned.env.get(name).or_else(|| executable.environment.get(name));
        let users = set.cloned().or_else(|| std::env::var(name).ok());
        Some((name, malloc_variables::preload(library, users.as_deref())))
    }

    /// Returns the command of a run, with all variables that the test process gets.
    fn command(
        &self,
        planned: &PlannedCell,
        entry: &Entry,
        executable: &Executable,
        devices: &CellDevices,
        log: &Utf8Path,
    ) -> Command {
        let request = &self.plan.request;
        let on_request = Some(request.on_request.join(",")).filter(|metrics| !metrics.is_empty());
        let command = test_command(entry, executable, planned, request, log)
            .envs(self.counting)
            .envs(self.preload(planned, executable))
            .envs(on_request.map(|metrics| ("MEMPROF_METRICS", metrics)));
        match &devices.given {
            Some(value) => command.env(visible_devices::VISIBLE, value),
            None => command,
        }
    }
}

/// Returns the record of a run that has nothing but an outcome.
fn new_record(planned: &PlannedCell, repeat: u32, outcome: Outcome) -> RunRecord {
    RunRecord {
        version: outcome::VERSION,
        revision: planned.revision,
        cell: planned.cell.clone(),
        repeat,
        outcome,
        build: None,
        marks: Vec::new(),
        withdrawn: BTreeMap::new(),
        devices: None,
        files: BTreeMap::new(),
    }
}

/// Removes an outcome that says why a cell did not run, such as a build that failed in an earlier
/// session. It runs now.
fn forget_not_run(run: &Utf8Path) -> anyhow::Result<()> {
    let path = run.join(file::OUTCOME);
    if path.exists() && !sealed::read::<RunRecord>(&path)?.outcome.status.is_of_a_run() {
        fs_err::remove_file(&path)?;
    }
    Ok(())
}

/// Removes the outcomes of runs below a folder whose files were changed, and warns of each. These
/// runs are then measured again.
pub fn forget_damaged(below: &Utf8Path, sink: &dyn Sink) -> anyhow::Result<()> {
    for problem in stored::forget_damaged(below)? {
        let help = Some("this run is measured again".to_owned());
        sink.emit(Event::Warning { message: problem, help });
    }
    Ok(())
}

/// The devices of a cell's runs.
struct CellDevices {
    /// The value for `CUDA_VISIBLE_DEVICES`, if the user gave the cell devices.
    given: Option<String>,
    /// The devices that its runs can see, either way.
    places: Vec<CudaDevice>,
}

fn executable_of<'a>(entry: &'a Entry, test: &TestId) -> Option<&'a Executable> {
    entry.provenance.executables.iter().find(|executable| {
        executable.package == test.package && executable.binary == test.binary && executable.kind == test.kind
    })
}

/// Returns the variables for tracing; none if nothing is traced.
fn trace_variables(request: &TraceRequest) -> BTreeMap<&'static str, String> {
    if request.is_empty() {
        return BTreeMap::new();
    }
    let mut variables = BTreeMap::from([("MEMPROF_TRACE_EVENTS", request.max_events.to_string())]);
    if request.every > 1 {
        variables.insert("MEMPROF_TRACE_EVERY", request.every.to_string());
    }
    if !request.columns.is_empty() {
        let columns: Vec<&str> = request.columns.iter().map(|column| column.as_str()).collect();
        variables.insert("MEMPROF_TRACE_COLUMNS", columns.join(","));
    }
    variables
}

/// Returns `EXE --exact NAME --nocapture --test-threads=1` as cargo would run it, with the log's
/// path.
fn test_command(
    entry: &Entry,
    executable: &Executable,
    planned: &PlannedCell,
    request: &Request,
    log: &Utf8Path,
) -> Command {
    let path = entry.folder.join(&executable.file);
    let runner = &entry.provenance.runner;
    let (directory, environment) = (&executable.directory, &executable.environment);
    let mut command = as_cargo_would_run(&path, runner, directory, environment, request.clean_env.as_ref());
    let trace = trace_variables(&request.trace);
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
        .chain(executable.harness.then_some(("MEMPROF_HARNESS_TEST", planned.cell.test.name.as_str())))
        .collect();
    // A backtrace keeps tens of MiB of symbols on the heap, even one that a `should_panic` test
    // catches.
    let configured = executable.environment.contains_key("RUST_BACKTRACE");
    let command = if configured { command } else { command.env("RUST_BACKTRACE", "0") };
    // With TERM set, libtest reads that terminal's description. The figures would then depend on
    // where the tool was started.
    command.env_remove("TERM").envs(&planned.env).envs(shim)
}
