//! The runs of one revision and one round, which may run beside each other: what is done before and
//! after each of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::executables::ProvenExecutables;
use crate::follow::Follow;
use crate::home::{self, RunHome};
use crate::log_end;
use crate::one_run::OneRun;
use crate::open_files;
use crate::runner::{Pending, Progress, Runner};
use crate::schedule::{Needs, Schedule};
use crate::side_by_side::{self, Ending, Stage, Work};
use crate::test_command::TestCommand;
use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_build::test_tree::TestTree;
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::neighbours::Interference;
use memprof_gpu::watch::OccupancyBefore;
use memprof_judge::results::log_checksum::LogKey;
use memprof_judge::results::outcome::{Outcome, RunRecord, Status};
use memprof_judge::results::run_folder::file;
use memprof_judge::symbols::test_body::TestBody;
use memprof_judge::verdict::limits::Limits;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::jobs::Jobs;
use memprof_plan::metric::{self, Property};
use memprof_plan::resolved::CellId;
use memprof_support::counted::{counted, some};
use memprof_support::event::Event;
use memprof_support::regular_file;

/// A device of a pool on which no run can begin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{device}: {reason}")]
pub(crate) struct DeviceGone {
    pub device: CudaDevice,
    /// Why.
    pub reason: String,
}

impl Runner<'_> {
    /// Returns how many tests may run at once.
    pub(super) fn jobs(&self) -> usize {
        let request = &self.plan.request;
        let tests = || {
            let of_runs = self.cells.iter().filter(|planned| planned.status == CellStatus::Run);
            of_runs.map(|planned| &planned.cell).collect::<HashSet<_>>().len()
        };
        // With a pool, each cell has one device of it.
        let devices = match request.settings.device_pool {
            Some(_) => {
                self.cells.iter().filter_map(|cell| cell.devices.as_ref()).collect::<HashSet<_>>().len()
            }
            None => 1,
        };
        if self.recording.is_some() || tests() < 2 {
            return 1;
        }
        if self.is_exact() && self.conditions.follow != Follow::default() {
            // Whoever looks on reads one test after the other.
            return devices;
        }
        let jobs = request.settings.jobs.on(available_parallelism().map_or(1, NonZero::get)).max(devices);
        jobs.min(open_files::most_tests(open_files::limit(), self.conditions.follow.output))
    }

    /// Whether tests run beside others only if they allocate in one thread.
    pub(super) fn is_exact(&self) -> bool {
        self.plan.request.settings.jobs == Jobs::Exact
    }

    /// Returns the cells that run alone, because a figure of theirs that is shown or judged depends
    /// on the tests beside them.
    pub(super) fn alone(&self) -> anyhow::Result<HashSet<CellId>> {
        let request = &self.plan.request;
        let limits = Limits::new(&request.judging)?;
        let is_shown = request.alone_for.is_some() || !request.trace.is_empty();
        let is_judged = |cell: &CellId| {
            let test = format!("{} {}", cell.test, cell.title);
            self.of_neighbours().any(|metric| limits.for_metric(&test, metric).is_asked())
        };
        let cells = self.cells.iter().map(|planned| &planned.cell);
        Ok(cells.filter(|cell| is_shown || is_judged(cell)).cloned().collect())
    }

    /// Returns the metrics of the runs that depend on the tests beside them.
    fn of_neighbours(&self) -> impl Iterator<Item = &'static str> {
        let on_request = &self.plan.request.on_request;
        metric::with(Property::Alone).filter(|metric| {
            !metric::known(metric).is(Property::OnRequest) || on_request.iter().any(|one| one == metric)
        })
    }
}

/// So many runs with threads say that an executable's tests have threads.
const TRIED: u32 = 4;

/// Whether the logs of this executable's tests say how many threads of the test allocated.
fn tells_threads(executable: &Executable) -> bool {
    executable.heap_absent.is_none() && !matches!(executable.body, Some(TestBody::Unknown(_)))
}

/// The runs of one revision and one round.
pub(super) struct Stretch<'s, 't, 'r, 'p> {
    runner: &'s Runner<'r>,
    tree: &'t mut dyn TestTree,
    runs: &'s [Pending<'p>],
    executables: &'s Mutex<ProvenExecutables>,
    progress: &'t mut Progress<'p>,
    /// What was on the devices of the runs that are under way.
    before: HashMap<usize, (OccupancyBefore, Utf8PathBuf, Option<Vec<String>>)>,
    /// The runs that were under way since the checkout was last found unchanged.
    unchecked: Vec<usize>,
    /// When the checkout was last looked at, and how long that took.
    looked: (Instant, Duration),
    /// The runs that are repeated alone, with what became of them beside others.
    retried: HashMap<usize, String>,
    /// The outcomes of the runs that are being written.
    outcomes: HashMap<usize, Outcome>,
    last_end: Instant,
    /// The time of runs that are repeated, since the last that counts.
    repeated: Duration,
}

impl<'s, 't, 'r, 'p> Stretch<'s, 't, 'r, 'p> {
    pub(super) fn new(
        runner: &'s Runner<'r>,
        tree: &'t mut dyn TestTree,
        runs: &'s [Pending<'p>],
        executables: &'s Mutex<ProvenExecutables>,
        progress: &'t mut Progress<'p>,
    ) -> Self {
        Self {
            runner,
            tree,
            runs,
            executables,
            progress,
            before: HashMap::new(),
            unchecked: Vec::new(),
            looked: (Instant::now(), Duration::ZERO),
            retried: HashMap::new(),
            outcomes: HashMap::new(),
            last_end: Instant::now(),
            repeated: Duration::ZERO,
        }
    }

    /// Runs these one after the other, in this thread. Returns `false` if the user interrupted them.
    pub(super) fn in_turn(mut self) -> anyhow::Result<bool> {
        let (sink, interrupt) = (self.runner.conditions.sink, self.runner.conditions.interrupt);
        for run in 0..self.runs.len() {
            let begun = if interrupt.load(Ordering::Relaxed) { None } else { self.prepare(run, &[])? };
            let Some(one) = begun else { return Ok(false) };
            let record = one.perform(sink, interrupt)?;
            let Some(record) = self.ended(run, record)? else { return Ok(false) };
            home::record(&self.runner.folder.0, &self.run_folder(run), &record)?;
            self.finish(run, &record.outcome);
        }
        Ok(true)
    }

    /// Runs these beside each other where that changes no figure. Returns `false` if the user
    /// interrupted them.
    pub(super) fn side_by_side(mut self) -> anyhow::Result<bool> {
        let mut schedule = Schedule::new(self.progress.jobs, self.longest_first()?);
        let (interrupt, sink) = (self.runner.conditions.interrupt, self.runner.conditions.sink);
        side_by_side::run(&mut self, &mut schedule, interrupt, sink)
    }

    /// Returns the runs with what they need. Those that take longest start first, so that none of them
    /// is left at the end.
    fn longest_first(&self) -> anyhow::Result<Vec<(usize, Needs)>> {
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        let cell = |run: usize| &self.runs[run].planned.cell;
        let longest = |run: &usize| self.progress.time_left.expected(cell(*run)).unwrap_or(Duration::MAX);
        order.sort_by_key(|run| std::cmp::Reverse(longest(run)));
        let needs = |run: usize| {
            let planned = self.runs[run].planned;
            let (_, executable) = self.runner.executable(planned)?;
            let machine = self.is_alone(run)
                || self.progress.apart.contains(&planned.cell)
                || self.runner.is_exact() && !tells_threads(executable);
            let devices = self.runner.devices_of(planned, executable)?.places.into_iter().collect();
            Ok((run, Needs { machine, devices }))
        };
        order.into_iter().map(needs).collect()
    }

    /// Prepares a run. `None` if it can only start when nothing else runs, or if the user interrupts
    /// the pause before it.
    fn prepare(&mut self, run: usize, running: &[usize]) -> anyhow::Result<Option<OneRun<'s>>> {
        let runner = self.runner;
        let Pending { planned, repeat } = self.runs[run];
        runner.conditions.delay.before_run(runner.conditions.interrupt, runner.conditions.sink);
        if runner.conditions.interrupt.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (entry, executable) = runner.executable(planned)?;
        let name = runner.plan.revisions[planned.revision].name.as_str();
        // What is changed while a test runs would change under it.
        let is_idle = running.is_empty();
        if !is_idle
            && (self.is_threaded(run)?
                || running.iter().any(|other| self.is_threaded(*other).is_ok_and(|is| is)))
        {
            return Ok(None);
        }
        if is_idle {
            self.emit_start(planned, name, 0);
            runner.conditions.guarded.borrow_mut().restore()?;
            self.tree.bring_to(planned.revision, entry)?;
            self.unchecked.clear();
        } else if !self.holds(planned.revision, entry, running)? {
            return Ok(None);
        }
        let mut executables = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
        if !executables.prove(entry, executable, is_idle)? {
            return Ok(None);
        }
        drop(executables);
        if !is_idle {
            self.emit_start(planned, name, running.len());
        }
        self.unchecked.push(run);
        if is_idle {
            self.last_end = Instant::now();
        }
        let devices = runner.devices_of(planned, executable)?;
        self.check_devices(&devices.places)?;
        let home = RunHome::create(&runner.folder.0, &self.run_folder(run))?;
        let (key, log) = (LogKey::random(), home.0.path.join(file::LOG));
        let recording = match &runner.recording {
            Some(recording) => recording.variables(&entry.folder.join(&executable.file), &home.0.path),
            None => BTreeMap::new(),
        };
        let test = TestCommand {
            planned,
            entry,
            executable,
            request: &runner.plan.request,
            counting: runner.conditions.counting()?,
            devices: devices.given.as_deref(),
            repeat,
            log: &log,
            folder: runner.folder,
        };
        let temporary = test.temporary_folder(runner.conditions)?;
        let command = test.command(temporary.as_ref())?.envs(recording).env("MEMPROF_LOG_KEY", key.as_str());
        let given = devices.given.is_some();
        let uuids = given.then(|| devices.places.iter().map(|place| place.uuid.clone()).collect());
        self.before.insert(run, (runner.conditions.devices.before(devices.places), log, uuids));
        // What the test prints was shown before it recorded call stacks.
        let follow = if runner.recording.is_none() { runner.conditions.follow } else { Follow::default() };
        let executables = self.executables;
        let one = OneRun {
            planned,
            repeat,
            name,
            entry,
            executable,
            executables,
            home,
            temporary,
            key,
            command,
            follow,
        };
        Ok(Some(one))
    }

    /// Whether the checkout is unchanged beside the runs that are under way, as far as is known. Looking takes long in
    /// a large checkout, so at most a tenth of the time goes into it. Whoever ran since the last look stays unchecked.
    fn holds(&mut self, revision: usize, entry: &Entry, running: &[usize]) -> anyhow::Result<bool> {
        let (last, took) = self.looked;
        if last.elapsed() < took * 10 {
            return Ok(true);
        }
        let begin = Instant::now();
        let holds = self.tree.holds(revision, entry, false)?;
        self.looked = (Instant::now(), begin.elapsed());
        if holds {
            self.unchecked.retain(|one| running.contains(one));
        }
        Ok(holds)
    }

    /// Completes the record of a run that has ended. `None` if the user interrupted it.
    fn ended(&mut self, run: usize, record: RunRecord) -> anyhow::Result<Option<RunRecord>> {
        let record = self.completed(run, record)?;
        let Pending { planned, repeat } = self.runs[run];
        if record.outcome.status == Status::Interrupted {
            // Later repeats and call stacks would add nothing to the report.
            if repeat == 0 && self.runner.recording.is_none() {
                self.progress.cut_off.push(record);
            }
            return Ok(None);
        }
        if !record.outcome.status.is_ok() {
            let (_, executable) = self.runner.executable(planned)?;
            self.check_devices(&self.runner.devices_of(planned, executable)?.places)?;
        }
        Ok(Some(record))
    }

    /// Notes a run whose record was written.
    fn finish(&mut self, run: usize, outcome: &Outcome) {
        self.progress.finished.add(&self.run_folder(run));
        self.emit_end(self.runs[run].planned, outcome);
    }

    fn run_folder(&self, run: usize) -> Utf8PathBuf {
        let Pending { planned, repeat } = self.runs[run];
        self.runner.run_folder(planned, repeat)
    }
}

impl<'s> Stage<'s> for Stretch<'s, '_, '_, '_> {
    type Outcome = RunRecord;

    fn settle(&mut self) -> anyhow::Result<Vec<usize>> {
        let Some(first) = self.unchecked.first() else { return Ok(Vec::new()) };
        let planned = self.runs[*first].planned;
        let (entry, _) = self.runner.executable(planned)?;
        if self.tree.holds(planned.revision, entry, true)? {
            self.unchecked.clear();
            return Ok(Vec::new());
        }
        self.disturbed()
    }

    fn begin(&mut self, run: usize, running: &[usize]) -> anyhow::Result<Option<Work<'s, RunRecord>>> {
        let one = self.prepare(run, running)?;
        Ok(one.map(|one| -> Work<'s, RunRecord> { Box::new(move |sink, stop| one.perform(sink, stop)) }))
    }

    fn end(&mut self, run: usize, record: RunRecord, is_beside: bool) -> anyhow::Result<Ending<'s>> {
        let Some(record) = self.ended(run, record)? else { return Ok(Ending::Interrupted) };
        let status = &record.outcome.status;
        if is_beside && !status.is_ok() {
            // Perhaps because of the others: a port, a file, the machine's memory, the time limit.
            self.retried.insert(run, status.to_string());
            return Ok(self.again(run));
        }
        if is_beside && self.has_threads(run)? {
            self.progress.apart.insert(self.runs[run].planned.cell.clone());
            return Ok(self.again(run));
        }
        if let Some(beside) = self.retried.remove(&run).filter(|_| status.is_ok()) {
            self.keep_apart(self.runs[run].planned, &beside);
        }
        self.outcomes.insert(run, record.outcome.clone());
        let (root, folder) = (self.runner.folder.0.as_path(), self.run_folder(run));
        Ok(Ending::Done(Box::new(move || home::record(root, &folder, &record))))
    }

    fn kept(&mut self, run: usize) {
        if let Some(outcome) = self.outcomes.remove(&run) {
            self.finish(run, &outcome);
        }
    }
}

impl Stretch<'_, '_, '_, '_> {
    /// Refuses to begin a run, or to believe a failure, on a device of a pool that is lost or taken.
    fn check_devices(&self, devices: &[CudaDevice]) -> Result<(), DeviceGone> {
        let is_spread = self.runner.plan.request.settings.device_pool.is_some();
        let gone = |device: &CudaDevice| {
            let reason = self.runner.conditions.devices.trouble(device)?;
            Some(DeviceGone { device: device.clone(), reason })
        };
        devices.iter().filter(|_| is_spread).find_map(gone).map_or(Ok(()), Err)
    }

    /// Returns the name of a cell's test, with its target if another target has a test of that name.
    fn shown_title(&self, cell: &CellId) -> String {
        if !self.progress.namesakes.contains(&*cell.title) {
            cell.title.clone()
        } else if cell.title == cell.test.name {
            cell.test.to_string()
        } else {
            format!("{} {}", cell.test, cell.title)
        }
    }

    fn again(&mut self, run: usize) -> Ending<'static> {
        let planned = self.runs[run].planned;
        let test = self.shown_title(&planned.cell);
        let name = self.runner.plan.revisions[planned.revision].name.clone();
        self.runner.conditions.sink.emit(Event::RunRepeats { test, name });
        self.repeated += self.last_end.elapsed();
        self.last_end = Instant::now();
        Ending::Again
    }

    fn is_alone(&self, run: usize) -> bool {
        self.progress.alone.contains(&self.runs[run].planned.cell)
    }

    /// Whether a run that was beside others may have had other figures alone: several threads allocated. Counts
    /// it.
    fn has_threads(&mut self, run: usize) -> anyhow::Result<bool> {
        if !self.runner.is_exact() {
            return Ok(false);
        }
        let log = self.runner.folder.0.join(self.run_folder(run)).join(file::LOG);
        let has_threads = log_end::allocating_threads(&log).is_none_or(|threads| threads > 1);
        let executable = self.runner.executable(self.runs[run].planned)?.1.file.clone();
        let [runs, threaded] = self.progress.threaded.entry(executable).or_default();
        *runs += 1;
        *threaded += u32::from(has_threads);
        Ok(has_threads)
    }

    /// Whether most tests of this run's executable have threads, so that trying them beside others costs more
    /// than it saves.
    fn is_threaded(&self, run: usize) -> anyhow::Result<bool> {
        let executable = &self.runner.executable(self.runs[run].planned)?.1.file;
        let [runs, threaded] = self.progress.threaded.get(executable).copied().unwrap_or_default();
        Ok(threaded >= TRIED && threaded * 2 >= runs)
    }

    fn emit_start(&self, planned: &PlannedCell, name: &str, running: usize) {
        let (test, name) = (self.shown_title(&planned.cell), name.to_owned());
        let Progress { done, total, .. } = *self.progress;
        let (index, left) = (done + running + 1, self.progress.time_left.left());
        self.runner.conditions.sink.emit(Event::RunStarted { test, name, index, total, left });
    }

    fn emit_end(&mut self, planned: &PlannedCell, outcome: &Outcome) {
        self.progress.done += 1;
        let (index, total) = (self.progress.done, self.progress.total);
        let took = Duration::from_nanos(outcome.wall_nanoseconds.unwrap_or_default());
        self.progress.time_left.end(&planned.cell, took);
        let repeated = std::mem::take(&mut self.repeated);
        let busy = if self.progress.jobs > 1 { repeated + self.last_end.elapsed() } else { took };
        self.last_end = Instant::now();
        let name = self.runner.plan.revisions[planned.revision].name.clone();
        let (test, ok) = (self.shown_title(&planned.cell), outcome.status.is_ok());
        let outcome = outcome.status.to_string();
        self.runner.conditions.sink.emit(Event::RunFinished {
            test,
            name,
            index,
            total,
            outcome,
            ok,
            took,
            busy,
        });
    }

    /// Notes a test that passed alone after it had not passed beside others.
    fn keep_apart(&mut self, planned: &PlannedCell, beside: &str) {
        let name = &self.runner.plan.revisions[planned.revision].name;
        let message =
            format!("{} at {name} {beside} beside other tests, and passed alone", planned.cell.title);
        let help = Some("it runs alone from here on; to run all tests alone: --jobs 1".to_owned());
        self.runner.conditions.sink.emit(Event::Warning { message, help });
        self.progress.apart.insert(planned.cell.clone());
    }

    /// Removes the outcomes of runs that a changed checkout may have disturbed, and returns them.
    fn disturbed(&mut self) -> anyhow::Result<Vec<usize>> {
        let disturbed = std::mem::take(&mut self.unchecked);
        if let [only] = disturbed[..] {
            // The test ran alone, so it has changed the files.
            self.progress.apart.insert(self.runs[only].planned.cell.clone());
            return Ok(Vec::new());
        }
        if !std::mem::replace(&mut self.progress.has_warned_of_changes, true) {
            let tests = disturbed.iter().map(|run| self.runs[*run].planned.cell.title.as_str());
            let tests: Vec<&str> = tests.collect();
            let message = format!(
                "one of {} changed files of the checkout beside the others: {}",
                counted(tests.len(), "test"),
                some(&tests, 3)
            );
            let help = Some("they run again, one at a time, and so do others after this".to_owned());
            self.runner.conditions.sink.emit(Event::Warning { message, help });
        }
        let mut again = Vec::new();
        for run in disturbed {
            let folder = self.run_folder(run);
            // One that did not pass is repeated anyway.
            if self.progress.finished.remove(&folder) {
                regular_file::remove(&folder.join(file::OUTCOME))?;
                again.push(run);
                self.progress.done -= 1;
                let beside = if self.is_alone(run) { 1 } else { self.progress.jobs };
                self.progress.time_left.add(
                    &self.runs[run].planned.cell,
                    &self.runner.conditions.past,
                    beside,
                );
            }
        }
        Ok(again)
    }

    /// Completes a record with what other processes did to its figures.
    fn completed(&mut self, run: usize, mut record: RunRecord) -> anyhow::Result<RunRecord> {
        let before = self.before.remove(&run);
        let (before, log, devices) = before.context("a run that ends has begun")?;
        let Interference { mut marks, withdrawn } =
            self.runner.conditions.devices.after(before, &log, record.outcome.status.is_ok())?;
        marks.append(&mut record.marks);
        record.marks = marks;
        record.withdrawn = withdrawn;
        record.devices = devices;
        if self.progress.jobs > 1 && !self.is_alone(run) {
            let request = &self.runner.plan.request;
            let flag = match &request.settings.device_pool {
                Some(names) => format!("--devices {}", names.join(",")),
                None if self.runner.is_exact() => "--jobs 1 runs them one at a time".to_owned(),
                None => format!("--jobs {}", request.settings.jobs),
            };
            let reason = format!("tests ran beside each other ({flag})");
            let of_neighbours = self.runner.of_neighbours().map(|metric| (metric.to_owned(), reason.clone()));
            record.withdrawn.extend(of_neighbours);
        }
        Ok(record)
    }
}
