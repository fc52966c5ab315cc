//! Measures commits until the search has its answer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::arguments::courtesy::CourtesyTarget;
use crate::arguments::waiting::WaitingArguments;
use crate::commands::context::CommandContext;
use crate::commands::devices;
use crate::search::growing_plan::GrowingPlan;
use crate::search::plan::SearchPlan;
use crate::search::progress_lines::{announcement, unit, what_is_left};
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::chosen::Why;
use memprof_plan::resolved::Plan;
use memprof_report::bisect::headline::{step_line, tests_line, update_line};
use memprof_run::attribution::{self, Attribution};
use memprof_run::bisect::commit_runner::{BuildNotes, CommitRunner};
use memprof_run::bisect::history;
use memprof_run::bisect::linear_search::{NextMeasurement, Remaining};
use memprof_run::bisect::merge_search::{MergeSearch, Merges};
use memprof_run::bisect::observations::{ChangeRule, Observations};
use memprof_run::bisect::record::Task;
use memprof_run::bisect::report_builder::{ReportBuilder, SearchOutcome};
use memprof_run::bisect::report_data::{MeasuredCommit, SearchReport};
use memprof_run::bisect::step_comparison::StepPair;
use memprof_run::runner::Interrupted;
use memprof_run::session::Session;
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::sealed;

/// Returns what a search found out about one test.
///
/// # Errors
///
/// The measurement that is needed next.
fn answer(
    task: &Task,
    lineage: &Lineage,
    observations: &Observations,
    rule: &ChangeRule,
) -> Result<SearchOutcome, NextMeasurement> {
    match task {
        Task::Bisect { find, merges } => {
            let search = MergeSearch { lineage, goal: *find, merges: *merges, rule };
            let found = search.answer(observations)?;
            Ok(SearchOutcome::of_bisection(found, lineage, observations))
        }
        Task::History { commits, merges, .. } => {
            let changes = history::steps(lineage, commits, *merges, observations, rule)?;
            Ok(SearchOutcome::of_history(commits, &changes, lineage, *merges, observations))
        }
        // `prove` has an answer of its own.
        Task::Prove(_) => Ok(SearchOutcome::of_history(&[], &[], lineage, Merges::default(), observations)),
    }
}

/// What a search may use.
#[derive(Clone)]
pub struct Means<'a> {
    /// How long to wait for other runs.
    pub waiting: WaitingArguments,
    /// Whose GPU memory is set aside.
    pub courtesy: Option<&'a CourtesyTarget>,
    /// How tests run with call stacks.
    pub attribution: Attribution,
}

/// A search under way.
pub(super) struct SearchSession<'a> {
    pub(super) repository: &'a Repository,
    pub(super) folder: &'a RunFolder,
    pub(super) context: CommandContext<'a>,
    pub(super) attribution: Attribution,
}

impl SearchSession<'_> {
    /// Measures until there is an answer, and writes it into the folder. `restored` is the code for
    /// processes that were set aside meanwhile.
    pub(super) fn run(
        &self,
        search: SearchPlan,
        means: &Means<'_>,
        restored: &mut ExitCode,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let SearchPlan { search: record, plan } = search;
        let plans = match &record.task {
            Task::Prove(parts) => GrowingPlan::continued(plan, parts.variants.len().max(2)),
            Task::Bisect { .. } | Task::History { .. } => GrowingPlan::new(plan),
        };
        let plan = plans.newest();
        let CommandContext { console, interrupt } = self.context;
        let session = Session::open(self.repository, console, interrupt)?;
        let lock = session.lock(means.waiting.when_held())?;
        let notes = BuildNotes::on(console);
        console.emit(Event::SearchBegan { text: announcement(&record) });
        let (devices, mut courtesy) = devices::open(self.context, means.waiting, means.courtesy, plan)?;
        courtesy.take(plan, &devices)?;
        let runner = CommitRunner::open(&session, plan, self.folder, record, &notes, devices);
        let searched = runner.and_then(|runner| match runner.record.task.clone() {
            Task::Prove(parts) => self.prove(runner, &plans, parts, begun),
            Task::Bisect { .. } | Task::History { .. } => self.measure(runner, plan),
        });
        drop(lock);
        *restored = courtesy.put_back_in_turn(means.waiting);
        searched
    }

    fn measure(&self, mut runner: CommitRunner<'_>, plan: &Plan) -> anyhow::Result<()> {
        let is_resumed = !runner.record.efforts.is_empty();
        let task = runner.record.task.clone();
        let lineage = runner.record.lineage.clone();
        runner.measure_ends()?;
        let tests = 0..runner.tracks.len();
        let rules = tests.clone().map(|test| runner.rule(test)).collect::<anyhow::Result<Vec<_>>>()?;
        // Measured commits that no line shows yet.
        let mut pending = if is_resumed { Vec::new() } else { vec![lineage.good, lineage.bad] };
        let outcomes = loop {
            let of_test = |test: usize| {
                let answer = answer(&task, &lineage, &runner.tracks[test].observations, &rules[test]);
                answer.map_err(|next| (test, next))
            };
            match tests.clone().map(of_test).collect::<Result<Vec<_>, _>>() {
                Ok(outcomes) => {
                    self.show(&runner, plan, &mut pending, Remaining::default());
                    break outcomes;
                }
                Err((_, NextMeasurement::Measure(commit, left))) => {
                    self.show(&runner, plan, &mut pending, left);
                    runner.measure(commit)?;
                    pending.push(commit);
                }
                // The line comes when the repeats are done.
                Err((test, NextMeasurement::Repeat(commit))) => runner.repeat(commit, test)?,
            }
        };
        let of_test = |test: usize| self.builder(&runner, plan, test).report(&outcomes[test], &rules[test]);
        let reports = tests.map(of_test).collect::<anyhow::Result<Vec<_>>>()?;
        sealed::write(&self.folder.found(), &reports)?;
        self.explain(&reports, plan, &mut runner)
    }

    /// Runs the commits of each step once more with call stacks, unless an earlier session did.
    fn explain(
        &self,
        reports: &[SearchReport],
        plan: &Plan,
        runner: &mut CommitRunner<'_>,
    ) -> anyhow::Result<()> {
        if self.attribution.why == Why::Never {
            return Ok(());
        }
        let begin = Instant::now();
        let mut pairs = Vec::new();
        for (test, report) in reports.iter().enumerate() {
            pairs.extend(
                report.steps.iter().map(|step| StepPair::find(report, test, step, plan, self.folder)),
            );
        }
        let count = pairs.len();
        for (index, pair) in pairs.into_iter().enumerate() {
            let Some(pair) = pair.filter(|pair| !pair.is_explained()) else { continue };
            if index >= self.attribution.tests {
                let shown = counted(self.attribution.tests, "step");
                pair.leave_out(format!("call sites of {shown} only: --why-tests {count}"))?;
                continue;
            }
            let time = self.attribution.time.saturating_sub(begin.elapsed());
            let attribution = Attribution { tests: 1, time, ..self.attribution.clone() };
            match runner.explain(&pair, &attribution) {
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(_) if self.context.interrupt.load(Ordering::Relaxed) => {
                    return Err(Interrupted::of_call_stacks(0).into());
                }
                // The answer is complete without the call sites.
                Err(error) => self.context.console.emit(attribution::warning(&error)),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    pub(super) fn builder<'b>(
        &'b self,
        runner: &'b CommitRunner<'b>,
        plan: &'b Plan,
        test: usize,
    ) -> ReportBuilder<'b> {
        ReportBuilder { runner, test, plan, repository: self.repository }
    }

    /// Prints a line for each pending commit, and in the last one what is left.
    fn show(&self, runner: &CommitRunner<'_>, plan: &Plan, pending: &mut Vec<usize>, left: Remaining) {
        let record = &runner.record;
        let done = record.efforts.len();
        let last = pending.len().saturating_sub(1);
        for (index, commit) in pending.drain(..).enumerate() {
            let tests = 0..runner.tracks.len();
            let told: Vec<MeasuredCommit> =
                tests.map(|test| self.builder(runner, plan, test).progress(commit)).collect();
            let number = done - (last - index).min(done);
            let line = match &told[..] {
                [one] if record.lockfile.is_some() => {
                    update_line(one, &plan.revisions[commit].name, unit(record))
                }
                [one] => step_line(one, unit(record)),
                several => tests_line(several),
            };
            let rest = if index == last { what_is_left(record, left) } else { String::new() };
            let text = format!("[{number}/{}] {line}{rest}", done + left.steps);
            let measured = told.iter().any(|one| one.value.is_some());
            self.context.console.emit(Event::SearchStep { text, measured });
        }
    }
}
