//! Builds and measures single commits of a plan, one after the other, and keeps their observations.
//! Opening the same folder again restores them, so nothing is measured twice.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::attribution::{self, Attribution};
use crate::bisect::end_without_figure::EndWithoutFigure;
use crate::bisect::observations::{ChangeRule, Observation};
use crate::bisect::record::{Effort, SearchRecord, Task};
use crate::bisect::step_comparison::StepPair;
use crate::bisect::track::Track;
use crate::changed_sources;
use crate::conditions::Conditions;
use crate::estimate::PastTimes;
use crate::planned;
use crate::rounds;
use crate::runner::{Completion, Interrupted, Runner};
use crate::same_builds;
use crate::session::{self, Session};
use crate::stdin_files;
use memprof_build::attempts::Build;
use memprof_build::builder::Builder;
use memprof_build::checkout::size_limit;
use memprof_build::compile_check::{CheckedTarget, CompileCheck};
use memprof_build::failure::{self, BuildFailure};
use memprof_build::store::{self, Entry};
use memprof_build::test_tree::TestTree;
use memprof_gpu::watch::DeviceWatch;
use memprof_judge::compare::{evaluation, noise};
use memprof_judge::results::build_facts::{self, Fact, StoredBuild};
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::{self, Run};
use memprof_judge::verdict::limits::{self, Limits};
use memprof_judge::verdict::significance::{Noise, Thresholds};
use memprof_judge::why::chosen::Chosen;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::listing::DiscoveredTest;
use memprof_plan::metric;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::Ignored;
use memprof_plan::resolved::{CellId, Plan};
use memprof_plan::rule::NoiseFigure;
use memprof_support::continuation;
use memprof_support::event::{Event, Sink};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// Builds and measures the commits of a plan.
pub struct CommitRunner<'a> {
    pub(super) session: &'a Session<'a>,
    pub(super) plan: &'a Plan,
    folder: &'a RunFolder,
    pub(super) notes: &'a BuildNotes<'a>,
    builder: Builder<'a>,
    /// By commit. A commit that was not built yet holds an empty failure, which nothing reads.
    pub(super) builds: Vec<Build>,
    is_built: Vec<bool>,
    /// How many bytes the cache may take.
    limit: Option<u64>,
    stored: BTreeMap<usize, StoredBuild>,
    /// Whether the good commit was built in an earlier session, and not yet in this one.
    is_continued: bool,
    conditions: Conditions<'a>,
    /// What the user asked, and the time that each commit took.
    pub record: SearchRecord,
    /// What was observed of each test of the record. Empty before the ends are measured.
    pub tracks: Vec<Track>,
}

/// The checkout, for a plan that has only a step's two commits.
struct TreeOfPair<'a, 'b> {
    builder: &'a mut Builder<'b>,
    commits: [usize; 2],
}

impl TestTree for TreeOfPair<'_, '_> {
    fn bring_to(&mut self, revision: usize, entry: &Entry) -> anyhow::Result<()> {
        self.builder.bring_to(self.commits[revision], entry)
    }

    fn holds(&mut self, revision: usize, entry: &Entry, is_idle: bool) -> anyhow::Result<bool> {
        self.builder.holds(self.commits[revision], entry, is_idle)
    }

    fn injection_library(&mut self) -> Result<Utf8PathBuf, String> {
        self.builder.injection_library()
    }

    fn malloc_library(&mut self) -> Result<Utf8PathBuf, String> {
        self.builder.malloc_library()
    }
}

/// Passes events on, and notes whether cargo had to build the last revision.
pub struct BuildNotes<'a> {
    sink: &'a dyn Sink,
    built: Cell<bool>,
}

/// The maximum number of runs of a noisy commit, before its difference counts as unclear.
const MOST_RUNS: u32 = 10;

/// The minimum number of runs of each end. Two equal figures show that the metric is exact.
const RUNS_OF_ENDS: u32 = 2;

/// With some parts of a diff, a test may take so many times as long as at the ends, and so many seconds more.
const TIMES_OF_VARIANT: u64 = 10;
const SECONDS_OF_VARIANT: u64 = 10;

impl<'a> BuildNotes<'a> {
    /// Passes events on to this sink.
    pub fn on(sink: &'a dyn Sink) -> Self {
        Self { sink, built: Cell::new(false) }
    }
}

impl Sink for BuildNotes<'_> {
    fn emit(&self, event: Event) {
        match event {
            Event::BuildStarted { .. } => self.built.set(true),
            Event::BuildReused { .. } => self.built.set(false),
            _ => {}
        }
        self.sink.emit(event);
    }
}

impl<'a> CommitRunner<'a> {
    /// Opens the folder of a search, new or interrupted. The caller holds the lock.
    pub fn open(
        session: &'a Session<'a>,
        plan: &'a Plan,
        folder: &'a RunFolder,
        record: SearchRecord,
        notes: &'a BuildNotes<'a>,
        devices: DeviceWatch<'a>,
    ) -> anyhow::Result<Self> {
        let builder =
            Builder::new(plan, session.repository, &session.cache, folder, notes, session.interrupt)?;
        stdin_files::keep(folder, plan)?;
        let commits = plan.revisions.len();
        let stored = build_facts::read(folder)?;
        rounds::forget_damaged(&folder.cells(), notes)?;
        let mut runner = Self {
            session,
            plan,
            folder,
            notes,
            builder,
            builds: std::iter::repeat_with(|| Build::Failed(BuildFailure::default())).take(commits).collect(),
            is_built: vec![false; commits],
            limit: size_limit::limit()?,
            is_continued: stored.contains_key(&record.lineage.good),
            stored,
            conditions: Conditions::new(plan, PastTimes::default(), devices, notes, session.interrupt),
            record,
            tracks: Vec::new(),
        };
        runner.begin_tracks();
        // The good commit comes first: the other figures must have the same source as its own. A commit without an
        // effort was interrupted: it is measured again, with the runs that it has.
        let good = runner.record.lineage.good;
        let all = std::iter::once(good).chain((0..commits).filter(|commit| *commit != good));
        let efforts: BTreeSet<usize> = runner.record.efforts.iter().map(|effort| effort.commit).collect();
        for commit in all.filter(|commit| efforts.contains(commit)) {
            runner.read_runs(commit)?;
        }
        Ok(runner)
    }

    /// Takes further commits. The plan has those of the plan before, with the same indices.
    pub fn extend(&mut self, plan: &'a Plan) -> anyhow::Result<()> {
        let commits = plan.revisions.len();
        self.plan = plan;
        self.builder.extend(plan)?;
        self.builds.resize_with(commits, || Build::Failed(BuildFailure::default()));
        self.is_built.resize(commits, false);
        self.tracks.iter_mut().for_each(|track| track.grow(commits));
        Ok(())
    }

    /// Lets the compiler check the test's target at a commit with some changes.
    pub fn checking<T>(
        &mut self,
        commit: usize,
        check: impl FnOnce(&mut CompileCheck<'_, 'a>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let cell = &self.record.cells.first().context("no test was chosen")?.cell;
        let target = CheckedTarget {
            kind: cell.test.kind,
            name: cell.test.binary.clone(),
            is_program: cell.program.is_some(),
        };
        let checked = self.builder.checking(commit, target, check);
        if self.session.interrupt.load(Ordering::Relaxed) {
            return Err(Interrupted::default().into());
        }
        checked
    }

    fn begin_tracks(&mut self) {
        let commits = self.builds.len();
        self.tracks = self.record.cells.iter().map(|_| Track::new(commits)).collect();
    }

    /// Builds and measures both ends, and finds the tests that both have.
    ///
    /// # Errors
    ///
    /// One of the ends has no figure, or the selection matches no common test. A bisection follows
    /// exactly one.
    pub fn measure_ends(&mut self) -> anyhow::Result<()> {
        let ends = self.ends();
        let runs = self.record.least_runs.max(RUNS_OF_ENDS);
        let least = usize::try_from(runs).unwrap_or(usize::MAX);
        let is_done = |track: &Track, end: usize| match track.observations.get(end) {
            Some(Observation::Samples(samples)) => samples.len() >= least,
            Some(Observation::Skipped) => true,
            None => false,
        };
        let are_done = |track: &Track| ends.into_iter().all(|end| is_done(track, end));
        if !self.tracks.is_empty() && self.tracks.iter().all(are_done) {
            return self.check_ends();
        }
        let efforts = self.build_ends()?;
        let cells = self.common_cells()?;
        self.record.cells = cells.iter().filter(|cell| cell.revision == ends[0]).cloned().collect();
        self.begin_tracks();
        let begun = Instant::now();
        self.run(&cells, runs)?;
        let half = begun.elapsed().as_secs_f64() / 2.0;
        for effort in efforts {
            self.note(Effort { seconds: effort.seconds + half, ..effort })?;
        }
        for end in ends {
            self.read_runs(end)?;
        }
        self.check_ends()
    }

    /// The good commit and the bad one.
    pub(super) fn ends(&self) -> [usize; 2] {
        [self.record.lineage.good, self.record.lineage.bad]
    }

    /// Builds both ends, and returns the time that each took.
    fn build_ends(&mut self) -> anyhow::Result<Vec<Effort>> {
        let ends = self.ends();
        let mut efforts = Vec::new();
        for commit in ends {
            let begun = Instant::now();
            self.build(commit)?;
            let seconds = begun.elapsed().as_secs_f64();
            efforts.push(Effort { commit, seconds, built: self.notes.built.get() });
        }
        let failures: Vec<&BuildFailure> =
            ends.iter().filter_map(|&end| self.builds[end].failure()).collect();
        if failures.len() == ends.len()
            && let Some(user_error) = BuildFailure::of_all(&failures)
        {
            return Err(user_error.into());
        }
        for end in ends {
            if let Some(failure) = self.builds[end].failure() {
                let log = self.folder.build_log(self.plan, end);
                let reason =
                    format!("it does not build: {}\nthe whole log: {log}", failure.first_errors.trim());
                let hints = failure.hints.clone();
                return Err(EndWithoutFigure { hints, ..self.without_figure(end, reason) }.into());
            }
        }
        Ok(efforts)
    }

    /// # Errors
    ///
    /// No test has a figure at both ends. The error is the first test's.
    fn check_ends(&self) -> anyhow::Result<()> {
        let mut first = None;
        for test in 0..self.tracks.len() {
            match self.check_ends_of(test) {
                Ok(()) => return Ok(()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn check_ends_of(&self, test: usize) -> anyhow::Result<()> {
        let mut unknown = Vec::new();
        for end in self.ends() {
            let runs = self.runs(end, test)?;
            let passed = runs.iter().find(|run| run.trouble().is_none());
            unknown.extend(passed.and_then(|run| self.record.query.unknown_checkpoint(run)));
        }
        if unknown.len() == 2 {
            // Neither end has the checkpoint, so its name is probably misspelled.
            return Err(unknown.remove(0).into());
        }
        for end in self.ends() {
            if let Some(reason) = self.tracks[test].reasons.get(&end) {
                return Err(self.without_figure(end, reason.clone()).into());
            }
        }
        Ok(())
    }

    pub(super) fn without_figure(&self, end: usize, reason: String) -> EndWithoutFigure {
        let revision = &self.plan.revisions[end];
        let short = revision.short();
        let named = if revision.name == short { short } else { format!("{} ({short})", revision.name) };
        EndWithoutFigure { end: named, reason, hints: Vec::new() }
    }

    /// Returns the rule that tells a change of a test's figure from noise.
    pub fn rule(&self, test: usize) -> anyhow::Result<ChangeRule> {
        let record = &self.record;
        let metric = &record.query.metric;
        let cell = &record.cells[test].cell;
        let limits = Limits::new(&self.plan.request.judging)?;
        let limits = limits.for_metric(&format!("{} {}", cell.test, cell.title), metric);
        let of_matrix = limits.at(record.query.checkpoint.as_deref().unwrap_or_default()).growth;
        let thresholds = match &record.threshold {
            Some(threshold) => Thresholds::both(threshold),
            None => of_matrix.unwrap_or_else(|| limits::usual(metric)),
        };
        let source = self.tracks[test].source();
        let floor = source.and_then(evaluation::bound_of).unwrap_or_default();
        let figures = &self.plan.request.judging.noise;
        let known =
            |apart| noise::known_at(figures, cell, metric, source, record.query.checkpoint.as_deref(), apart);
        let provable = metric::known(metric).is_counted();
        let noise = Noise { floor, known: known(|one| one.spread), provable, ..Noise::default() };
        let most_runs = usize::try_from(record.least_runs.max(MOST_RUNS)).unwrap_or(usize::MAX);
        Ok(ChangeRule { thresholds, noise, known_of_rounds: known(NoiseFigure::of_rounds), most_runs })
    }

    /// Measures all tests of a commit for the first time.
    pub fn measure(&mut self, commit: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.build(commit)?;
        let planned: Vec<PlannedCell> =
            (0..self.tracks.len()).map(|test| self.planned(commit, test)).collect();
        self.run(&planned, self.record.least_runs)?;
        let built = self.notes.built.get();
        self.note(Effort { commit, seconds: begun.elapsed().as_secs_f64(), built })?;
        self.read_runs(commit)
    }

    /// Builds a commit, and returns its build.
    pub fn built(&mut self, commit: usize) -> anyhow::Result<Option<&Entry>> {
        self.build(commit)?;
        Ok(self.builds[commit].entry())
    }

    /// Notes why a commit that was built gets no figure.
    pub fn skip(&mut self, commit: usize, reason: &str) -> anyhow::Result<()> {
        self.tracks.iter_mut().for_each(|track| track.skip(commit, reason.to_owned()));
        self.note(Effort { commit, seconds: 0.0, built: self.notes.built.get() })
    }

    /// Runs one test of a commit once more.
    pub fn repeat(&mut self, commit: usize, test: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        let runs = u32::try_from(self.runs(commit, test)?.len()).unwrap_or(u32::MAX);
        self.build(commit)?;
        let planned = self.planned(commit, test);
        self.run(&[planned], runs + 1)?;
        if let Some(effort) = self.record.efforts.iter_mut().find(|effort| effort.commit == commit) {
            effort.seconds += begun.elapsed().as_secs_f64();
        }
        self.save()?;
        self.read_runs(commit)
    }

    fn build(&mut self, commit: usize) -> anyhow::Result<()> {
        self.build_together(&[commit])
    }

    /// Builds commits that are needed together, each once, unless the cache's limit has removed its build. Before the
    /// first build of a search that continues, the good commit shows whether commits still build as they did.
    fn build_together(&mut self, commits: &[usize]) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_continued) {
            self.build_now(self.record.lineage.good, commits)?;
        }
        for commit in commits {
            let is_there = |entry: &Entry| entry.folder.join(store::PROVENANCE).exists();
            if !self.is_built[*commit] || !self.builds[*commit].entry().is_none_or(is_there) {
                self.build_now(*commit, commits)?;
            }
        }
        Ok(())
    }

    fn build_now(&mut self, commit: usize, beside: &[usize]) -> anyhow::Result<()> {
        if self.session.interrupt.load(Ordering::Relaxed) {
            return Err(Interrupted::default().into());
        }
        self.builds[commit] = self.builder.build(commit)?;
        let stored = session::stored_build(&self.builds[commit]);
        if let Some(failure) = self.builds[commit].failure()
            && let Err(error) = self.check_failure(commit, failure)
        {
            if failure::may_last(&failure.first_errors).is_some() && !self.was_built(commit) {
                self.stored.insert(commit, stored);
                build_facts::write(self.folder, &self.stored)?;
            }
            return Err(error);
        }
        same_builds::check(self.plan, self.folder, commit, &stored.facts)?;
        if self.builds[commit].entry().is_some() {
            // What is measured from now on is compared with this build.
            self.builder.settle_lockfile();
        }
        self.is_built[commit] = true;
        self.stored.insert(commit, stored);
        build_facts::write(self.folder, &self.stored)?;
        self.limit_cache(commit, beside)
    }

    /// Checks that a failed build is the commit's fault, so that a search may skip it.
    ///
    /// # Errors
    ///
    /// The machine failed, for the first time or at an end; or the commit was built before.
    fn check_failure(&self, commit: usize, failure: &BuildFailure) -> anyhow::Result<()> {
        let name = &self.plan.revisions[commit].name;
        if let Some(error) = failure.of_machine() {
            let kind = error.kind();
            if self.ends().contains(&commit) || !self.ended_a_session(commit, kind) {
                return Err(error).with_context(|| format!("cannot build {name}"));
            }
            let message = format!("{name} is skipped: its build failed again for the same reason ({kind})");
            let help =
                Some("if the commit is not the cause, begin the search anew, without --resume".to_owned());
            self.notes.emit(Event::Warning { message, help });
        }
        if !self.was_built(commit) {
            return Ok(());
        }
        let (errors, log) = (failure.first_errors.trim(), self.folder.build_log(self.plan, commit));
        let message =
            format!("{name} was built before, and does not build now: {errors}\nthe whole log: {log}");
        let help = continuation::advice("to continue once it builds again");
        Err(UserError::new(message).help(help).into())
    }

    fn was_built(&self, commit: usize) -> bool {
        self.stored.get(&commit).is_some_and(|stored| stored.facts.get(Fact::Key).is_some())
    }

    /// Whether a failure of this kind ended an earlier session at this commit.
    fn ended_a_session(&self, commit: usize, kind: ErrorKind) -> bool {
        let failure = self.stored.get(&commit).and_then(|stored| stored.failure.as_ref());
        failure.and_then(|failure| failure::may_last(&failure.build_failed)) == Some(kind)
    }

    /// Keeps the cache below its limit after a commit was built. The ends are needed again and again, and the build of
    /// another commit with the same sources is not made again for this one.
    fn limit_cache(&self, commit: usize, beside: &[usize]) -> anyhow::Result<()> {
        let folder = |commit: usize| Some(self.builds[commit].entry()?.folder.as_path());
        let Some(own) = folder(commit) else { return Ok(()) };
        size_limit::note_use(own);
        let Some(limit) = self.limit.filter(|_| self.notes.built.get()) else { return Ok(()) };
        let is_of_another = |commit: &usize| {
            let entry = self.builds[*commit].entry();
            entry.is_some_and(|entry| entry.provenance.key_inputs.tree != self.plan.revisions[*commit].tree)
        };
        let of_others = (0..self.builds.len()).filter(is_of_another);
        let in_use = self.ends().into_iter().chain(beside.iter().copied()).chain([commit]).chain(of_others);
        let in_use: Vec<_> = in_use.filter_map(folder).collect();
        let interrupt = self.session.interrupt;
        size_limit::shrink(&self.session.cache, &[own], &in_use, limit, interrupt, self.notes)?;
        Ok(())
    }

    /// Returns the cell to run at a built commit: the ends' own, if the commit has the test.
    fn planned(&self, commit: usize, test: usize) -> PlannedCell {
        let cell = &self.record.cells[test];
        let runs_ignored =
            self.plan.request.tests.iter().any(|entry| entry.selection.ignored != Ignored::Skip);
        let tests = planned::listed(&self.builds[commit]);
        let own = tests.as_ref().map(|tests| tests.iter().find(|test| is_of(test, &cell.cell)));
        let not_measured = self.builds[commit].not_measured();
        let status = match own {
            None => CellStatus::BuildFailed,
            Some(None) if not_measured.iter().any(|one| one.may_have(&cell.cell.test)) => {
                CellStatus::NotMeasured
            }
            Some(None) => CellStatus::NotInThisRef,
            Some(Some(test)) if test.ignored && !runs_ignored => CellStatus::Ignored,
            Some(Some(_)) => CellStatus::Run,
        };
        let timeout_seconds = cell.timeout_seconds.or_else(|| self.limit_of_variant(commit, test));
        PlannedCell { revision: commit, status, timeout_seconds, ..cell.clone() }
    }

    /// How long a test may take with some parts of a diff, without a limit of the user's: such code may never
    /// end.
    fn limit_of_variant(&self, commit: usize, test: usize) -> Option<u64> {
        if !matches!(self.record.task, Task::Prove(_)) || self.ends().contains(&commit) {
            return None;
        }
        let runs = self.ends().into_iter().filter_map(|end| self.runs(end, test).ok()).flatten();
        let longest = runs.filter_map(|run| run.record.outcome.wall_nanoseconds).max()?;
        Some(SECONDS_OF_VARIANT + longest.div_ceil(1_000_000_000) * TIMES_OF_VARIANT)
    }

    /// Runs the two commits of a step once more with call stacks.
    pub fn explain(&mut self, pair: &StepPair, attribution: &Attribution) -> anyhow::Result<()> {
        self.build_together(&pair.commits)?;
        let mut cells = Vec::new();
        for (revision, commit) in pair.commits.into_iter().enumerate() {
            cells.push(PlannedCell { revision, ..self.planned(commit, pair.test) });
        }
        fs_err::create_dir_all(&pair.folder.0)?;
        let builds = pair.commits.map(|commit| self.builds[commit].clone());
        let built = (&self.builder, &builds.each_ref().map(Build::entry)[..]);
        changed_sources::keep(self.session.repository, &pair.plan, built, &pair.folder)?;
        let cell = cells[1].cell.clone();
        let row = match &attribution.owners {
            Some(_) => pair.compare(self.plan, self.folder, &cell, None)?.heap_row(),
            None => None,
        };
        let chosen = [Chosen { cell, candidate: 1, is_alone: false, row }];
        self.conditions.count_memory(&self.plan.request, &mut self.builder);
        let runner = Runner::new(&pair.plan, &pair.folder, &builds, &cells, &self.conditions);
        let mut tree = TreeOfPair { builder: &mut self.builder, commits: pair.commits };
        let recorded = attribution::record(&runner, &mut tree, attribution, &chosen);
        self.conditions.devices.release();
        match recorded {
            Completion::Finished => Ok(()),
            Completion::Interrupted(_) => Err(Interrupted::of_call_stacks(self.count_runs()).into()),
        }
    }

    /// The number of commits of the plan.
    pub fn commits(&self) -> usize {
        self.builds.len()
    }

    /// The number of runs of all commits.
    fn count_runs(&self) -> usize {
        self.tracks.iter().map(|track| track.observations.count_runs()).sum()
    }

    /// Runs cells until each of them has this many runs.
    fn run(&mut self, cells: &[PlannedCell], runs: u32) -> anyhow::Result<()> {
        let cells: Vec<PlannedCell> =
            cells.iter().map(|cell| PlannedCell { repeat: Repeat::Times(runs), ..cell.clone() }).collect();
        self.conditions.count_memory(&self.plan.request, &mut self.builder);
        let runner = Runner::new(self.plan, self.folder, &self.builds, &cells, &self.conditions);
        let ran = runner.rounds(&mut self.builder);
        // Others may use the devices while the next commit is built.
        self.conditions.devices.release();
        match ran? {
            Completion::Finished => Ok(()),
            Completion::Interrupted(interrupted) => Err(interrupted.into()),
        }
    }

    fn runs(&self, commit: usize, test: usize) -> anyhow::Result<Vec<Run>> {
        stored::runs_of(self.folder, self.plan, commit, &self.record.cells[test].cell)
    }

    /// Reads the figures of a commit's runs, or the reasons why it has none.
    fn read_runs(&mut self, commit: usize) -> anyhow::Result<()> {
        for test in 0..self.tracks.len() {
            let runs = self.runs(commit, test)?;
            self.tracks[test].read(commit, &runs, &self.record.query);
        }
        Ok(())
    }

    fn note(&mut self, effort: Effort) -> anyhow::Result<()> {
        self.record.efforts.retain(|known| known.commit != effort.commit);
        self.record.efforts.push(effort);
        self.save()
    }

    /// Stores what the user asked, and how far the search is.
    pub fn save(&self) -> anyhow::Result<()> {
        sealed::write(&self.folder.search(), &self.record.sealed())
    }
}

/// Whether a cell runs this test or program.
fn is_of(test: &DiscoveredTest, cell: &CellId) -> bool {
    test.id == cell.test && test.is_program == cell.program.is_some()
}
