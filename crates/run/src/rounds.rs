//! Runs the cells in rounds over the revisions, until every cell has the outcomes that it needs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Mutex;

use camino::{Utf8Path, Utf8PathBuf};

use crate::estimate::TimeLeft;
use crate::executables::ProvenExecutables;
use crate::finished::FinishedRuns;
use crate::log_end;
use crate::one_run::new_record;
use crate::open_files;
use crate::runner::{Completion, Interrupted, Pending, Progress, Runner};
use crate::same_builds;
use crate::stretch::Stretch;
use memprof_build::attempts::Build;
use memprof_build::test_tree::TestTree;
use memprof_gpu::devices::CudaDevice;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::repeats;
use memprof_judge::results::outcome::{Outcome, RunRecord, Status};
use memprof_judge::results::run_folder::file;
use memprof_judge::results::stored;
use memprof_judge::verdict::significance::{ENOUGH, LOOKS};
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::jobs::Jobs;
use memprof_plan::repeat::Repeat;
use memprof_plan::resolved::CellId;
use memprof_support::counted::{counted, grouped};
use memprof_support::event::{Event, Sink};
use memprof_support::free_memory;
use memprof_support::regular_file;
use memprof_support::sealed;

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
    pub fn rounds(&self, tree: &mut dyn TestTree) -> anyhow::Result<Completion> {
        let executables = Mutex::new(ProvenExecutables::default());
        let mut progress = self.begin()?;
        let mut wanted = self.first_wanted();
        self.warn_of_alone(&progress);
        self.warn_of_files(&progress);
        loop {
            let pending = self.pending(&wanted, &progress);
            progress.total += pending.len();
            for one in &pending {
                let cell = &one.planned.cell;
                let beside = if progress.alone.contains(cell) { 1 } else { progress.jobs };
                progress.time_left.add(cell, &self.conditions.past, beside);
            }
            progress.time_left.expect(self.likely_later(&wanted, &progress));
            self.conditions.devices.hold(&self.places(&pending)?)?;
            let (is_in_turn, mut is_complete) = (progress.jobs == 1, true);
            let place = |one: &Pending<'_>| (one.repeat, one.planned.revision);
            for runs in pending.chunk_by(|one, next| place(one) == place(next)) {
                let stretch = Stretch::new(self, tree, runs, &executables, &mut progress);
                is_complete = if is_in_turn { stretch.in_turn()? } else { stretch.side_by_side()? };
                if !is_complete {
                    break;
                }
            }
            self.refuse_changed(&mut progress)?;
            if !is_complete {
                return Ok(Completion::Interrupted(self.interrupted(&wanted, &progress)?));
            }
            let is_raised = self.raise_repeats(&mut wanted)?;
            free_memory::give_back();
            if !is_raised {
                if progress.done > 0 {
                    self.conditions.sink.emit(Event::AllRunsFinished { total: progress.done });
                }
                return Ok(Completion::Finished);
            }
        }
    }

    /// Returns the cells of which a run is missing, as far as the runs so far decide that.
    pub(super) fn open_cells(&self) -> anyhow::Result<HashSet<CellId>> {
        let progress = self.begin()?;
        let mut wanted = self.first_wanted();
        self.raise_repeats(&mut wanted)?;
        let pending = self.pending(&wanted, &progress);
        Ok(pending.into_iter().map(|pending| pending.planned.cell.clone()).collect())
    }

    /// How often each cell runs before the first look at its figures.
    fn first_wanted(&self) -> Vec<u32> {
        let times = |planned: &PlannedCell| match planned.repeat {
            Repeat::Auto => 1,
            Repeat::Times(times) => times,
        };
        self.cells.iter().map(times).collect()
    }

    /// Returns how many more runs each cell is likely to get after these. Before the first look at the
    /// figures, nobody knows. Most cells that go on get as many as a test of significance needs.
    fn likely_later(&self, wanted: &[u32], progress: &Progress<'_>) -> HashMap<&CellId, u32> {
        let usual = LOOKS.into_iter().find(|runs| *runs >= ENOUGH).unwrap_or_default();
        let mut later = HashMap::new();
        for (planned, &wanted) in self.cells.iter().zip(wanted) {
            let goes_on = planned.repeat == Repeat::Auto
                && planned.status == CellStatus::Run
                && wanted > 1
                && !progress.finished.has(&self.run_folder(planned, wanted - 1));
            if goes_on {
                *later.entry(&planned.cell).or_default() += usual.saturating_sub(wanted);
            }
        }
        later
    }

    /// Warns if fewer tests run at once than the user asked for, for lack of open files.
    fn warn_of_files(&self, progress: &Progress<'_>) {
        let Jobs::Number(asked) = self.plan.request.settings.jobs else { return };
        let (limit, is_followed) = (open_files::limit(), self.conditions.follow.output);
        let most = open_files::most_tests(limit, is_followed);
        if progress.jobs == most && asked as usize > most {
            let limit = grouped(i128::from(limit.unwrap_or_default()));
            let message = format!(
                "{} at once instead of {asked}: a process may have {limit} files open here",
                counted(most, "test")
            );
            let help = Some(format!("for all {asked}: ulimit -n {}", open_files::needed(asked, is_followed)));
            self.conditions.sink.emit(Event::Warning { message, help });
        }
    }

    /// Warns if all tests run alone although several at once were asked for.
    fn warn_of_alone(&self, progress: &Progress<'_>) {
        let mut of_runs = self.cells.iter().filter(|planned| planned.status == CellStatus::Run);
        let is_asked = self.plan.request.settings.jobs != Jobs::Exact;
        if is_asked && progress.jobs > 1 && of_runs.all(|planned| progress.alone.contains(&planned.cell)) {
            let metric = self.plan.request.alone_for.as_deref().unwrap_or("time");
            let message = format!(
                "tests run one at a time: {metric} is shown or judged, and depends on the tests beside"
            );
            let help = Some(format!("for several at once, do without {metric}"));
            self.conditions.sink.emit(Event::Warning { message, help });
        }
    }

    /// Returns the titles that tests of several targets have.
    fn namesakes(&self) -> HashSet<&str> {
        let mut tests = HashMap::new();
        let cells = self.cells.iter().map(|planned| &planned.cell);
        cells
            .filter(|cell| *tests.entry(&*cell.title).or_insert(&cell.test) != &cell.test)
            .map(|cell| &*cell.title)
            .collect()
    }

    /// Records the cells that do not run, and finds the runs that an earlier session finished.
    fn begin(&self) -> anyhow::Result<Progress<'_>> {
        let mut progress = Progress {
            jobs: self.jobs(),
            done: 0,
            total: 0,
            finished: FinishedRuns::default(),
            cut_off: Vec::new(),
            apart: HashSet::new(),
            has_warned_of_changes: false,
            threaded: HashMap::new(),
            alone: self.alone()?,
            time_left: TimeLeft::new(self.conditions.delay.length()),
            namesakes: self.namesakes(),
        };
        let mut rebuilt: BTreeMap<usize, usize> = BTreeMap::new();
        // Those of a saved baseline are among them.
        let cells = self.folder.cells().read_dir_utf8().into_iter().flatten();
        let revisions = cells.map(|folder| Ok(folder?.into_path())).collect::<std::io::Result<Vec<_>>>()?;
        for planned in self.cells {
            let first = self.run_folder(planned, 0);
            let of_cell = first.parent().unwrap_or(&first);
            forget_damaged(of_cell, self.conditions.sink)?;
            self.record_if_not_run(planned)?;
            if planned.status == CellStatus::Run {
                forget_not_run(&first)?;
                if let Some(entry) = self.builds[planned.revision].entry() {
                    *rebuilt.entry(planned.revision).or_default() +=
                        same_builds::forget_others(of_cell, &entry.provenance.key)?;
                }
            }
            for entry in of_cell.read_dir_utf8().into_iter().flatten() {
                let folder = entry?.into_path();
                if folder.join(file::OUTCOME).exists() {
                    progress.finished.add(&folder);
                }
            }
            let earlier = revisions.iter().filter_map(|revision| Some(revision.join(of_cell.file_name()?)));
            if self.is_exact() && earlier.map(|cell| cell.join("0")).any(|run| has_threads(&run)) {
                // Beside others, it would only run to be repeated alone.
                progress.apart.insert(planned.cell.clone());
            }
        }
        for (revision, runs) in rebuilt.into_iter().filter(|(_, runs)| *runs > 0) {
            let name = &self.plan.revisions[revision].name;
            let runs = counted(runs, "finished run");
            let message = format!("{name} has another build than before, so {runs} will be repeated");
            let help = "figures of two builds are not compared; a toolchain, an overlay, a folder of --with or \
                        a variable has changed";
            self.conditions.sink.emit(Event::Warning { message, help: Some(help.to_owned()) });
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

    /// Returns how far an interrupted session got. Records the tests that were interrupted, for the
    /// report: they run again when the session continues.
    fn interrupted(&self, wanted: &[u32], progress: &Progress<'_>) -> anyhow::Result<Interrupted> {
        for record in &progress.cut_off {
            self.record(record)?;
        }
        let of_runs = self.cells.iter().zip(wanted).filter(|(planned, _)| planned.status == CellStatus::Run);
        let planned: usize = of_runs.map(|(_, wanted)| *wanted as usize).sum();
        Ok(Interrupted {
            finished: planned.saturating_sub(self.pending(wanted, progress).len()),
            planned,
            is_cut_off: !progress.cut_off.is_empty(),
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
}

/// Whether several threads allocated in a finished run.
fn has_threads(run: &Utf8Path) -> bool {
    log_end::allocating_threads(&run.join(file::LOG)).is_some_and(|threads| threads > 1)
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
