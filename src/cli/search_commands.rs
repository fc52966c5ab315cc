//! `bisect` and `history`: commits are measured as the search wants them, until it has its answer.

use std::time::Duration;

use anyhow::Context;

use crate::bisect::commit_runner::{BuildNotes, EndWithoutFigure, Survey};
use crate::bisect::history;
use crate::bisect::linear_search::{Left, StepKind, Wanted, halvings};
use crate::bisect::merge_search::{Merges, Question};
use crate::bisect::record::{SearchRecord, Task};
use crate::bisect::report_builder::{Findings, Outcome, comparisons};
use crate::bisect::report_data::{SearchReport, SearchResult};
use crate::cli::commands::{Commands, repository};
use crate::cli::outputs::{Output, outputs};
use crate::cli::search_arguments::{BisectArguments, HistoryArguments, MeasuringArguments};
use crate::cli::search_plan::{self, SearchPlan};
use crate::git::repository::Repository;
use crate::gpu::watch::DeviceWatch;
use crate::plan::metric::Unit;
use crate::report::bisect::search::{Searched, step_line};
use crate::report::options::Format;
use crate::results::run_folder::RunFolder;
use crate::run::runner::write_whole;
use crate::run::session::{self, Session, read_plan, runs_folder};
use crate::support::counted::counted;
use crate::support::elapsed::shown;
use crate::support::event::{Event, Sink};
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::WhenHeld;
use crate::support::user_error::UserError;

impl Commands<'_> {
    pub(crate) fn bisect(&self, arguments: &BisectArguments) -> anyhow::Result<ExitCode> {
        self.search("bisect", &arguments.measuring, |repository| {
            search_plan::bisection(arguments, repository, self.console)
        })
    }

    pub(crate) fn history(&self, arguments: &HistoryArguments) -> anyhow::Result<ExitCode> {
        self.search("history", &arguments.measuring, |repository| {
            search_plan::history(arguments, repository, self.console)
        })
    }

    fn search(
        &self,
        command: &str,
        measuring: &MeasuringArguments,
        plan: impl FnOnce(&Repository) -> anyhow::Result<SearchPlan>,
    ) -> anyhow::Result<ExitCode> {
        let outputs = outputs(&measuring.format, &measuring.output)?;
        if outputs.iter().any(|output| output.format == Format::Junit) {
            // There is no test that a search could be said to have passed.
            return Err(UserError::new("a search has no JUnit report")
                .help("--format json and csv are whole")
                .into());
        }
        let repository = repository()?;
        let (search, folder, runs) = if let Some(name) = &measuring.resume {
            let (search, folder) = search_plan::resumed(name, command, measuring, &repository)?;
            (search, folder, None)
        } else {
            let search = plan(&repository)?;
            if measuring.dry_run {
                return self.print_json(&search);
            }
            let runs = runs_folder(&repository, &search.plan.workspace)?;
            let folder = search_plan::create_folder(&runs, &search)?;
            (search, folder, Some(runs))
        };
        let done = self.searched(&repository, search, &folder, measuring.no_wait);
        match done {
            Ok(()) => self.present_search(&folder, &outputs),
            Err(error) => {
                if let Some(runs) = runs.filter(|_| error.is::<UserError>() && !folder.cells().exists()) {
                    // A mistake in what was asked: `latest` must go on to mean the last run that measured something.
                    session::discard(&runs, &folder)?;
                }
                match error.downcast_ref::<EndWithoutFigure>() {
                    Some(end) => {
                        let usual =
                            "take another commit for this end; --overlay brings along a test that it lacks";
                        let help = if end.hints.is_empty() { usual.to_owned() } else { end.hints.join("\n") };
                        self.console.complain(&UserError::new(end.to_string()).help(help));
                        Ok(ExitCode::Incomplete)
                    }
                    None => Err(error),
                }
            }
        }
    }

    /// Measures until there is an answer, which is then in the folder.
    fn searched(
        &self,
        repository: &Repository,
        search: SearchPlan,
        folder: &RunFolder,
        no_wait: bool,
    ) -> anyhow::Result<()> {
        let SearchPlan { search: record, plan } = search;
        let session = Session::open(repository, self.console, self.interrupt)?;
        let lock = session.lock(no_wait)?;
        let notes = BuildNotes::on(self.console);
        let is_resumed = !record.efforts.is_empty();
        self.console.emit(Event::SearchBegan { text: announcement(&record) });
        let task = record.task.clone();
        let lineage = record.lineage.clone();
        let when_held = if no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
        let devices = DeviceWatch::open(when_held, self.console, self.interrupt);
        devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
        let mut survey = Survey::open(&session, &plan, folder, record, &notes, devices)?;
        survey.measure_ends()?;
        let rule = survey.rule()?;
        let mut untold = if is_resumed { Vec::new() } else { vec![lineage.good, lineage.bad] };
        let outcome = loop {
            let wanted = match &task {
                Task::Bisect { find, merges } => {
                    let question = Question { lineage: &lineage, find: *find, merges: *merges, rule: &rule };
                    question.answer(&survey.known).map(|found| Outcome::of_bisection(found, &survey))
                }
                Task::History { commits, .. } => history::steps(&lineage, commits, &survey.known, &rule)
                    .map(|changes| Outcome::of_history(commits, &changes, &survey)),
            };
            let findings = Findings { survey: &survey, plan: &plan, repository };
            match wanted {
                Ok(outcome) => {
                    self.tell(&findings, &mut untold, Left::default());
                    break outcome;
                }
                Err(Wanted::Measure(commit, left)) => {
                    self.tell(&findings, &mut untold, left);
                    survey.measure(commit)?;
                    untold.push(commit);
                }
                // Told with the figure that the repeats lead to.
                Err(Wanted::Repeat(commit)) => survey.repeat(commit)?,
            }
        };
        let report = Findings { survey: &survey, plan: &plan, repository }.report(&outcome, &rule)?;
        drop((survey, lock));
        write_whole(&folder.found(), &serde_json::to_vec_pretty(&report)?)
    }

    /// Says what was measured since it was last said, and what is left.
    fn tell(&self, findings: &Findings<'_>, untold: &mut Vec<usize>, left: Left) {
        let record = &findings.survey.record;
        let done = record.efforts.len();
        let last = untold.len().saturating_sub(1);
        for (index, commit) in untold.drain(..).enumerate() {
            let told = findings.told(commit);
            let number = done - (last - index).min(done);
            let line = step_line(&told, unit(record));
            let rest = if index == last { what_is_left(record, left) } else { String::new() };
            let text = format!("[{number}/{}] {line}{rest}", done + left.steps);
            self.console.emit(Event::SearchStep { text, measured: told.value.is_some() });
        }
    }

    /// Shows what a search has found.
    pub(crate) fn present_search(&self, folder: &RunFolder, outputs: &[Output]) -> anyhow::Result<ExitCode> {
        let record = search_plan::read_record(folder)?.context("it is a search's folder")?;
        if !folder.found().exists() {
            let command = record.task.command();
            return Err(UserError::new(format!("this {command} is not at its end"))
                .help(format!("cargo memprof {command} --resume goes on"))
                .into());
        }
        let text = fs_err::read(folder.found())?;
        let report: SearchReport =
            serde_json::from_slice(&text).with_context(|| format!("cannot read {}", folder.found()))?;
        let plan = read_plan(folder)?;
        let cell = record.cell.as_ref().context("a search at its end knows its test")?;
        let comparisons = comparisons(&report, &plan, folder, &cell.cell)?;
        self.render_search(Searched { report: &report, comparisons: &comparisons }, outputs)?;
        Ok(exit_code(&report))
    }
}

fn unit(record: &SearchRecord) -> Unit {
    Unit::of(&record.wanted.metric)
}

/// ` · 31 commits left, about 2 min`.
fn what_is_left(record: &SearchRecord, left: Left) -> String {
    if left.commits == 0 {
        return String::new();
    }
    let time = time_left(record, left.steps).map_or(String::new(), |time| format!(", about {}", shown(time)));
    format!(" · {} left{time}", counted(left.commits, "commit"))
}

/// What a commit took so far, for each that is left. Builds that were in the store say nothing of those that are not.
fn time_left(record: &SearchRecord, steps: usize) -> Option<Duration> {
    let built = record.efforts.iter().filter(|effort| effort.built);
    let seconds: Vec<f64> = built.map(|effort| effort.seconds).collect();
    // The first build compiles the dependencies too.
    let usual = if seconds.len() > 1 { &seconds[1..] } else { &seconds[..] };
    let count = u32::try_from(usual.len()).ok().filter(|count| *count > 0)?;
    let steps = u32::try_from(steps).ok()?;
    Duration::try_from_secs_f64(usual.iter().sum::<f64>() / f64::from(count) * f64::from(steps)).ok()
}

/// How many commits, and how many of them will be measured.
fn announcement(record: &SearchRecord) -> String {
    let lineage = &record.lineage;
    let range = format!("from {} to {}", record.good, record.bad);
    let all = lineage.commits();
    let before = match record.efforts.len() {
        0 => String::new(),
        count => format!(", {count} were measured before"),
    };
    match &record.task {
        Task::Bisect { find, merges } => {
            let way = lineage.suspects(lineage.good, lineage.bad).len().saturating_sub(1);
            let commits = match (way == all, merges, record.paths.is_empty()) {
                (true, ..) => counted(all, "commit"),
                (_, _, false) => format!("{} of {} that touch the paths", counted(way, "commit"), all),
                (_, Merges::Name, _) => format!("{} of {all} by first parents", counted(way, "commit")),
                (_, Merges::Enter, _) => {
                    format!("{} of {all}, then the branches they merged,", counted(way, "commit"))
                }
            };
            let steps = halvings(way);
            let which = match find {
                crate::bisect::linear_search::Find::All => "the ends and, for each change,",
                _ => "the ends and",
            };
            format!("{commits} {range}: {which} about {steps} to measure{before}")
        }
        Task::History { commits, .. } => {
            format!("{} {range}: {} to measure{before}", counted(all, "commit"), commits.len())
        }
    }
}

fn exit_code(report: &SearchReport) -> ExitCode {
    match report.result {
        Some(SearchResult::Same) => ExitCode::NothingFound,
        Some(SearchResult::Unclear) => ExitCode::Inconclusive,
        Some(SearchResult::Found) => {
            let is_range = report
                .steps
                .iter()
                .any(|step| matches!(step.kind, StepKind::Skipped | StepKind::OutsidePaths));
            if is_range { ExitCode::Incomplete } else { ExitCode::Success }
        }
        None if report.effort.skipped > 0 => ExitCode::Incomplete,
        None => ExitCode::Success,
    }
}
