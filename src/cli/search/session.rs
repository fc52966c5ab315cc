//! Measures commits until the search has its answer, and reports it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum;

use crate::bisect::commit_runner::{BuildNotes, CommitRunner, EndWithoutFigure};
use crate::bisect::history;
use crate::bisect::linear_search::{NextMeasurement, Remaining};
use crate::bisect::merge_search::MergeSearch;
use crate::bisect::record::Task;
use crate::bisect::report_builder::{ReportBuilder, SearchOutcome};
use crate::bisect::report_data::SearchReport;
use crate::bisect::step_comparison::StepPair;
use crate::cli::arguments::search::MeasuringArguments;
use crate::cli::arguments::why::WhyArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::kept_runs::repository;
use crate::cli::output::destinations::outputs;
use crate::cli::request::explanation;
use crate::cli::search::plan::{SearchPlan, create_folder};
use crate::cli::search::progress_lines::{announcement, unit, what_is_left};
use crate::cli::search::report::present_search;
use crate::cli::search::resume::resumed;
use crate::cli::terminal::console::Console;
use crate::git::repository::Repository;
use crate::gpu::watch::DeviceWatch;
use crate::plan::resolved::Plan;
use crate::report::bisect::search::step_line;
use crate::report::options::Format;
use crate::results::run_folder::RunFolder;
use crate::results::sealed;
use crate::run::attribution::{self, Attribution};
use crate::run::runner::Interrupted;
use crate::run::session::{self, Session, runs_folder};
use crate::support::counted::counted;
use crate::support::event::{Event, Sink};
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::WhenHeld;
use crate::support::user_error::UserError;
use crate::why::explanations::Why;

/// Starts the search that `plan` describes, or continues one, and reports the result.
pub fn search(
    command: &str,
    measuring: &MeasuringArguments,
    why: &WhyArguments,
    context: CommandContext<'_>,
    plan: impl FnOnce(&Repository) -> anyhow::Result<SearchPlan>,
) -> anyhow::Result<ExitCode> {
    let CommandContext { console, interrupt } = context;
    let outputs = outputs(&measuring.format, &measuring.output)?;
    let known = [Format::Table, Format::Markdown, Format::Html, Format::Csv, Format::Json];
    if let Some(other) = outputs.iter().find(|output| !known.contains(&output.format)) {
        // A search does not pass or fail a test, and has a row per commit.
        let name = match other.format {
            Format::Junit => "JUnit".to_owned(),
            format => {
                format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
            }
        };
        return Err(UserError::new(format!("{command} has no {name} report"))
            .help("choose --format json or --format csv")
            .into());
    }
    let repository = repository()?;
    let (search, folder, runs) = if let Some(name) = &measuring.resume {
        let (search, folder) = resumed(name, command, measuring, &repository)?;
        (search, folder, None)
    } else {
        let search = plan(&repository)?;
        if measuring.dry_run {
            return context.print_plan(&search.plan, &search.sealed());
        }
        let runs = runs_folder(&repository, &search.plan.workspace)?;
        let folder = create_folder(&runs, &search)?;
        (search, folder, Some(runs))
    };
    let attribution = explanation::of(why, &outputs, &search.plan);
    let session = SearchSession { repository: &repository, folder: &folder, console, interrupt, attribution };
    let Err(error) = session.run(search, measuring.no_wait) else {
        return present_search(console, &folder, &outputs, why);
    };
    if error.downcast_ref::<Interrupted>().is_some_and(|interrupted| interrupted.is_explaining) {
        // The answer is complete without the call sites.
        present_search(console, &folder, &outputs, why)?;
        return Err(error);
    }
    if let Some(runs) = runs.filter(|_| error.is::<UserError>() && !folder.cells().exists()) {
        // For example, -k matched no test. `latest` must still be the last run that measured
        // something.
        session::discard(&runs, &folder)?;
    }
    let end = error.downcast::<EndWithoutFigure>()?;
    console.show_error(&end_not_measured(&end));
    Ok(ExitCode::Incomplete)
}

fn end_not_measured(end: &EndWithoutFigure) -> UserError {
    let usual = "choose another commit for this end; if it lacks the test, add the test with --overlay";
    let help = if end.hints.is_empty() { usual.to_owned() } else { end.hints.join("\n") };
    UserError::new(end.to_string()).help(help)
}

/// A search under way.
struct SearchSession<'a> {
    repository: &'a Repository,
    folder: &'a RunFolder,
    console: &'a Console,
    interrupt: &'a AtomicBool,
    attribution: Attribution,
}

impl SearchSession<'_> {
    /// Measures until there is an answer, and writes it into the folder.
    fn run(&self, search: SearchPlan, no_wait: bool) -> anyhow::Result<()> {
        let SearchPlan { search: record, plan } = search;
        let session = Session::open(self.repository, self.console, self.interrupt)?;
        let lock = session.lock(no_wait)?;
        let notes = BuildNotes::on(self.console);
        let is_resumed = !record.efforts.is_empty();
        self.console.emit(Event::SearchBegan { text: announcement(&record) });
        let task = record.task.clone();
        let lineage = record.lineage.clone();
        let when_held = if no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
        let devices = DeviceWatch::open(when_held, self.console, self.interrupt);
        devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
        let mut runner = CommitRunner::open(&session, &plan, self.folder, record, &notes, devices)?;
        runner.measure_ends()?;
        let rule = runner.rule()?;
        // Measured commits that no line shows yet.
        let mut pending = if is_resumed { Vec::new() } else { vec![lineage.good, lineage.bad] };
        let outcome = loop {
            let answer = match &task {
                Task::Bisect { find, merges } => {
                    let search = MergeSearch { lineage: &lineage, goal: *find, merges: *merges, rule: &rule };
                    search
                        .answer(&runner.observations)
                        .map(|found| SearchOutcome::of_bisection(found, &runner))
                }
                Task::History { commits, .. } => {
                    history::steps(&lineage, commits, &runner.observations, &rule)
                        .map(|changes| SearchOutcome::of_history(commits, &changes, &runner))
                }
            };
            let builder = ReportBuilder { runner: &runner, plan: &plan, repository: self.repository };
            match answer {
                Ok(outcome) => {
                    self.show(&builder, &mut pending, Remaining::default());
                    break outcome;
                }
                Err(NextMeasurement::Measure(commit, left)) => {
                    self.show(&builder, &mut pending, left);
                    runner.measure(commit)?;
                    pending.push(commit);
                }
                // The line comes when the repeats are done.
                Err(NextMeasurement::Repeat(commit)) => runner.repeat(commit)?,
            }
        };
        let builder = ReportBuilder { runner: &runner, plan: &plan, repository: self.repository };
        let report = builder.report(&outcome, &rule)?;
        sealed::write(&self.folder.found(), &report)?;
        let explained = self.explain(&report, &plan, &mut runner);
        drop((runner, lock));
        explained
    }

    /// Runs the commits of each step once more with call stacks, unless an earlier session did.
    fn explain(
        &self,
        report: &SearchReport,
        plan: &Plan,
        runner: &mut CommitRunner<'_>,
    ) -> anyhow::Result<()> {
        if self.attribution.why == Why::Never {
            return Ok(());
        }
        let begin = Instant::now();
        for (index, step) in report.steps.iter().enumerate() {
            let Some(pair) = StepPair::of(report, step, plan, self.folder) else { continue };
            if pair.is_explained() {
                continue;
            }
            if index >= self.attribution.tests {
                let shown = counted(self.attribution.tests, "commit");
                pair.leave_out(format!("call sites of {shown} only: --why-tests {}", report.steps.len()))?;
                continue;
            }
            let time = self.attribution.time.saturating_sub(begin.elapsed());
            let attribution = Attribution { tests: 1, time, ..self.attribution };
            match runner.explain(&pair, attribution) {
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(_) if self.interrupt.load(Ordering::Relaxed) => {
                    return Err(Interrupted::of_call_stacks(0).into());
                }
                // The answer is complete without the call sites.
                Err(error) => self.console.emit(attribution::warning(&error)),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Prints a line for each pending commit, and in the last one what is left.
    fn show(&self, builder: &ReportBuilder<'_>, pending: &mut Vec<usize>, left: Remaining) {
        let record = &builder.runner.record;
        let done = record.efforts.len();
        let last = pending.len().saturating_sub(1);
        for (index, commit) in pending.drain(..).enumerate() {
            let told = builder.progress(commit);
            let number = done - (last - index).min(done);
            let line = step_line(&told, unit(record));
            let rest = if index == last { what_is_left(record, left) } else { String::new() };
            let text = format!("[{number}/{}] {line}{rest}", done + left.steps);
            self.console.emit(Event::SearchStep { text, measured: told.value.is_some() });
        }
    }
}
