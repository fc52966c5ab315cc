//! Measures single commits of a plan, one after the other, and keeps what is known of them. Nothing is measured twice: a
//! survey that is opened again on the same folder knows what the one before it had measured.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::bisect::observations::{self, Knowledge, Known, Rule};
use crate::bisect::record::{Effort, SearchRecord};
use crate::build::attempts::Build;
use crate::build::builder::Builder;
use crate::build::failure::BuildFailure;
use crate::compare::evaluation;
use crate::gpu::watch::DeviceWatch;
use crate::plan::cells::{self, CellStatus, PlannedCell};
use crate::plan::listing::ListedRevision;
use crate::plan::repeat::Repeat;
use crate::plan::request::Ignored;
use crate::plan::resolved::{CellId, Plan};
use crate::results::outcome::Status;
use crate::results::run_folder::RunFolder;
use crate::results::stored::{self, Run};
use crate::run::runner::{Completion, Runner, write_whole};
use crate::run::session::{self, Interrupted, Session};
use crate::support::event::{Event, Sink};
use crate::support::user_error::UserError;
use crate::verdict::limits::{self, Limits};
use crate::verdict::significance::{Noise, Thresholds};

/// The commits of a plan under measurement.
pub struct Survey<'a> {
    session: &'a Session<'a>,
    plan: &'a Plan,
    folder: &'a RunFolder,
    notes: &'a BuildNotes<'a>,
    builder: Builder<'a>,
    /// By commit; what is not known here yet is a failure that is never looked at.
    builds: Vec<Build>,
    is_built: Vec<bool>,
    facts: BTreeMap<String, Value>,
    gpu: Option<BTreeMap<&'static str, String>>,
    devices: DeviceWatch<'a>,
    /// Where the first end's figures come from, which the others' must come from too.
    source: Source,
    /// What was asked, and what it took.
    pub record: SearchRecord,
    /// What is known of each commit.
    pub known: Knowledge,
    /// Why a commit was skipped.
    pub reasons: BTreeMap<usize, String>,
}

/// Where the figures of the first commit that has any come from.
enum Source {
    NotKnownYet,
    Is(Option<String>),
}

/// Passes events on, and notes whether cargo had something to build.
pub struct BuildNotes<'a> {
    sink: &'a dyn Sink,
    built: Cell<bool>,
}

/// Why an end of the range cannot be searched from: it has no figure.
#[derive(Debug, thiserror::Error)]
#[error("{end} has no figure: {reason}")]
pub struct EndWithoutFigure {
    /// What the user wrote for it, and the first digits of its hash.
    pub end: String,
    /// Why not.
    pub reason: String,
    /// What may help, if something in particular.
    pub hints: Vec<String>,
}

/// A figure that varies is run so often at most, before its commit counts as one that cannot be told.
const MOST_RUNS: u32 = 10;

/// How often the ends are run: twice the same figure says that it is exact.
const RUNS_OF_ENDS: u32 = 2;

impl<'a> BuildNotes<'a> {
    /// Passes on to this sink.
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

impl<'a> Survey<'a> {
    /// Opens the folder of a search, new or cut off. The caller holds the lock.
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
        let commits = plan.revisions.len();
        let facts = match fs_err::read(folder.builds()) {
            Ok(text) => serde_json::from_slice(&text).context("builds.json")?,
            Err(_) => BTreeMap::new(),
        };
        let mut survey = Self {
            session,
            plan,
            folder,
            notes,
            builder,
            builds: std::iter::repeat_with(|| Build::Failed(BuildFailure::default())).take(commits).collect(),
            is_built: vec![false; commits],
            facts,
            gpu: None,
            devices,
            source: Source::NotKnownYet,
            record,
            known: Knowledge::of_nothing(commits),
            reasons: BTreeMap::new(),
        };
        if survey.record.cell.is_some() {
            // The first end's source is what the others' are held against.
            let good = survey.record.lineage.good;
            survey.learn(good)?;
            for commit in (0..commits).filter(|commit| *commit != good) {
                survey.learn(commit)?;
            }
        }
        Ok(survey)
    }

    /// Builds and measures both ends, and finds the one test that both have.
    pub fn measure_ends(&mut self) -> anyhow::Result<()> {
        let (good, bad) = (self.record.lineage.good, self.record.lineage.bad);
        let least = usize::try_from(self.record.least_runs.max(RUNS_OF_ENDS)).unwrap_or(usize::MAX);
        let is_done = |end: usize| match self.known.of(end) {
            Some(Known::Samples(samples)) => samples.len() >= least,
            Some(Known::Skipped) => true,
            None => false,
        };
        if is_done(good) && is_done(bad) {
            return self.check_ends();
        }
        let mut efforts = Vec::new();
        for commit in [good, bad] {
            let begun = Instant::now();
            self.build(commit)?;
            let seconds = begun.elapsed().as_secs_f64();
            efforts.push(Effort { commit, seconds, built: self.notes.built.get() });
        }
        let failures: Vec<&BuildFailure> =
            [good, bad].iter().filter_map(|&end| self.builds[end].failure()).collect();
        if failures.len() == 2
            && let Some(user_error) = BuildFailure::of_all(&failures)
        {
            return Err(user_error.into());
        }
        for end in [good, bad] {
            if let Some(failure) = self.builds[end].failure() {
                let log = self.folder.build_log(self.plan, end);
                let reason =
                    format!("it does not build: {}\nthe whole log: {log}", failure.first_errors.trim());
                let hints = failure.hints.clone();
                return Err(EndWithoutFigure { hints, ..self.without_figure(end, reason) }.into());
            }
        }
        let cells = self.common_cells()?;
        self.record.cell = cells.first().cloned();
        let begun = Instant::now();
        self.run(&cells, self.record.least_runs.max(RUNS_OF_ENDS))?;
        let of_each = begun.elapsed().as_secs_f64() / 2.0;
        for effort in efforts {
            self.note(Effort { seconds: effort.seconds + of_each, ..effort })?;
        }
        for end in [good, bad] {
            self.learn(end)?;
        }
        self.check_ends()
    }

    fn check_ends(&self) -> anyhow::Result<()> {
        let (good, bad) = (self.record.lineage.good, self.record.lineage.bad);
        let mut unknown = Vec::new();
        for end in [good, bad] {
            let runs = self.runs(end)?;
            let passed = runs.iter().find(|run| run.trouble().is_none());
            unknown.extend(passed.and_then(|run| self.record.wanted.unknown_checkpoint(run)));
        }
        if unknown.len() == 2 {
            // Neither has it: that is a mistake in its name.
            return Err(unknown.remove(0).into());
        }
        for end in [good, bad] {
            if let Some(reason) = self.reasons.get(&end) {
                return Err(self.without_figure(end, reason.clone()).into());
            }
        }
        Ok(())
    }

    fn without_figure(&self, end: usize, reason: String) -> EndWithoutFigure {
        let revision = &self.plan.revisions[end];
        let short = revision.short();
        let named = if revision.name == short { short } else { format!("{} ({short})", revision.name) };
        EndWithoutFigure { end: named, reason, hints: Vec::new() }
    }

    /// The cell of both ends. The search goes by one figure, so there must be one.
    fn common_cells(&self) -> anyhow::Result<Vec<PlannedCell>> {
        let ends = [self.record.lineage.good, self.record.lineage.bad];
        let tests = ends.map(|end| session::listed(&self.builds[end]));
        let listed: Vec<ListedRevision<'_>> = ends
            .iter()
            .zip(&tests)
            .map(|(&end, tests)| ListedRevision {
                revision: &self.plan.revisions[end],
                tests: tests.as_deref(),
            })
            .collect();
        let planned = cells::cells(&self.plan.request, &listed)?.cells;
        let runs = |index: usize, cell: &CellId| {
            planned
                .iter()
                .any(|one| one.revision == index && one.status == CellStatus::Run && is_same(&one.cell, cell))
        };
        let mut common: Vec<&CellId> = Vec::new();
        for one in &planned {
            if runs(0, &one.cell) && runs(1, &one.cell) && !common.iter().any(|cell| is_same(cell, &one.cell))
            {
                common.push(&one.cell);
            }
        }
        let command = self.record.task.command();
        let cell = match common[..] {
            [cell] => cell.clone(),
            [] => {
                let of = |index: usize| {
                    let of_end = planned.iter().find(|one| runs(index, &one.cell));
                    of_end.map_or("none".to_owned(), |one| one.cell.test.to_string())
                };
                let (good, bad) = (&self.record.good, &self.record.bad);
                let message = format!("{good} and {bad} have no test in common");
                let help = format!(
                    "{good} has {}, {bad} has {}; --overlay brings a test along for every commit",
                    of(0),
                    of(1)
                );
                return Err(UserError::new(message).help(help).into());
            }
            _ => {
                let mut names: Vec<String> =
                    common.iter().take(8).map(|cell| format!("{} ({})", cell.title, cell.test)).collect();
                names.extend((common.len() > 8).then(|| "…".to_owned()));
                let message = format!("{command} goes by one test, and {} are selected", common.len());
                return Err(UserError::new(message)
                    .help(format!("narrow it with -k, --exact or --param: {}", names.join(", ")))
                    .into());
            }
        };
        let of_end = |(index, &end): (usize, &usize)| {
            let planned =
                planned.iter().find(|one| one.revision == index && is_same(&one.cell, &cell)).cloned();
            // The titles of the two ends may differ in what else was selected with them.
            planned.map(|planned| PlannedCell { revision: end, cell: cell.clone(), ..planned })
        };
        Ok(ends.iter().enumerate().filter_map(of_end).collect())
    }

    /// By what a change is told from noise.
    pub fn rule(&self) -> anyhow::Result<Rule> {
        let record = &self.record;
        let metric = &record.wanted.metric;
        let title =
            record.cell.as_ref().map(|planned| format!("{} {}", planned.cell.test, planned.cell.title));
        let limits = Limits::new(&self.plan.request.judging)?;
        let limits = limits.of(&title.unwrap_or_default(), metric);
        let of_matrix = limits.at(record.wanted.checkpoint.as_deref().unwrap_or_default()).growth;
        let thresholds = match &record.threshold {
            Some(threshold) => Thresholds::both(threshold),
            None => of_matrix.unwrap_or_else(|| observations::usual_thresholds(metric)),
        };
        let floor = match &self.source {
            Source::Is(Some(source)) => evaluation::bound_of(source).unwrap_or_default(),
            Source::Is(None) | Source::NotKnownYet => 0,
        };
        let noise = Noise { floor, known: None, provable: limits::is_counted(metric) };
        let most_runs = usize::try_from(record.least_runs.max(MOST_RUNS)).unwrap_or(usize::MAX);
        Ok(Rule { thresholds, noise, most_runs })
    }

    /// Measures a commit of which nothing is known.
    pub fn measure(&mut self, commit: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.build(commit)?;
        let planned = self.planned(commit)?;
        self.run(&[planned], self.record.least_runs)?;
        let built = self.notes.built.get();
        self.note(Effort { commit, seconds: begun.elapsed().as_secs_f64(), built })?;
        self.learn(commit)
    }

    /// Runs a commit once more.
    pub fn repeat(&mut self, commit: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        let runs = u32::try_from(self.runs(commit)?.len()).unwrap_or(u32::MAX);
        if !self.is_built[commit] {
            self.build(commit)?;
        }
        let planned = self.planned(commit)?;
        self.run(&[planned], runs + 1)?;
        if let Some(effort) = self.record.efforts.iter_mut().find(|effort| effort.commit == commit) {
            effort.seconds += begun.elapsed().as_secs_f64();
        }
        self.save()?;
        self.learn(commit)
    }

    fn build(&mut self, commit: usize) -> anyhow::Result<()> {
        if self.session.interrupt.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        self.builds[commit] = self.builder.build(commit)?;
        self.is_built[commit] = true;
        let facts = session::facts(self.plan, &self.builds[commit]);
        self.facts.insert(commit.to_string(), facts);
        write_whole(&self.folder.builds(), &serde_json::to_vec_pretty(&self.facts)?)
    }

    /// The cell of a commit that is built: the ends' own, if the commit has the test.
    fn planned(&self, commit: usize) -> anyhow::Result<PlannedCell> {
        let cell = self.record.cell.as_ref().context("the test is known before a commit is measured")?;
        let runs_ignored =
            self.plan.request.tests.iter().any(|entry| entry.selection.ignored != Ignored::Skip);
        let tests = session::listed(&self.builds[commit]);
        let own = tests.as_ref().map(|tests| tests.iter().find(|test| test.id == cell.cell.test));
        let status = match own {
            None => CellStatus::BuildFailed,
            Some(None) => CellStatus::NotInThisRef,
            Some(Some(test)) if test.ignored && !runs_ignored => CellStatus::Ignored,
            Some(Some(_)) => CellStatus::Run,
        };
        Ok(PlannedCell { revision: commit, status, ..cell.clone() })
    }

    /// Runs cells until each has so many runs.
    fn run(&mut self, cells: &[PlannedCell], runs: u32) -> anyhow::Result<()> {
        let cells: Vec<PlannedCell> =
            cells.iter().map(|cell| PlannedCell { repeat: Repeat::Times(runs), ..cell.clone() }).collect();
        if self.gpu.is_none() {
            self.gpu = Some(session::gpu_variables(|| self.builder.injection_library()));
        }
        let runner = Runner {
            plan: self.plan,
            folder: self.folder,
            builds: &self.builds,
            cells: &cells,
            devices: &self.devices,
            gpu: self.gpu.as_ref().context("it was just looked for")?,
            sink: self.notes,
            interrupt: self.session.interrupt,
        };
        match runner.run(&mut self.builder)? {
            Completion::Finished => Ok(()),
            Completion::Interrupted => Err(Interrupted.into()),
        }
    }

    fn runs(&self, commit: usize) -> anyhow::Result<Vec<Run>> {
        match &self.record.cell {
            Some(planned) => stored::runs_of(self.folder, self.plan, commit, &planned.cell),
            None => Ok(Vec::new()),
        }
    }

    /// Reads what a commit's runs left.
    fn learn(&mut self, commit: usize) -> anyhow::Result<()> {
        let runs = self.runs(commit)?;
        let mut samples = Vec::new();
        let mut reason = None;
        for run in &runs {
            match self.record.wanted.of(run) {
                Ok(reading) => {
                    if let Source::NotKnownYet = self.source {
                        self.source = Source::Is(reading.source.clone());
                    }
                    match &self.source {
                        Source::Is(expected) if *expected != reading.source => {
                            let name = |source: &Option<String>| source.clone().unwrap_or_default();
                            let (own, others) = (name(&reading.source), name(expected));
                            reason = Some(format!("its figure comes from '{own}', not from '{others}'"));
                        }
                        _ => samples.push(reading.value),
                    }
                }
                Err(problem) => reason = reason.or(Some(explained(run, &problem))),
            }
        }
        if !samples.is_empty() {
            self.reasons.remove(&commit);
            self.known.learn(commit, Known::Samples(samples));
        } else if let Some(reason) = reason {
            self.reasons.insert(commit, reason);
            self.known.learn(commit, Known::Skipped);
        }
        Ok(())
    }

    fn note(&mut self, effort: Effort) -> anyhow::Result<()> {
        self.record.efforts.retain(|known| known.commit != effort.commit);
        self.record.efforts.push(effort);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        write_whole(&self.folder.search(), &serde_json::to_vec_pretty(&self.record)?)
    }
}

/// Why a run has no figure, in a line.
fn explained(run: &Run, problem: &str) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let message = run.record.outcome.message.as_deref().map(first_line);
    match run.record.outcome.status {
        Status::NotInThisRef => "it has no such test".to_owned(),
        Status::Ignored => "the test is ignored here".to_owned(),
        Status::BuildFailed => {
            message.map_or_else(|| "does not build".to_owned(), |error| format!("does not build: {error}"))
        }
        _ => first_line(problem),
    }
}

/// Whether it is the same test with the same parameters; the name in the report may depend on what else was selected.
fn is_same(one: &CellId, other: &CellId) -> bool {
    one.test == other.test && one.params == other.params
}
