//! `report`: shows an earlier run or search again.

use camino::Utf8Path;

use crate::arguments::judging::JudgingArguments;
use crate::arguments::reports::ReportArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs;
use crate::output::destinations::{Output, outputs};
use crate::output::present::Presentation;
use crate::request::judging::{add_judging, refuse_unchecked};
use crate::search::report::present_search;
use crate::terminal::console::Console;
use memprof_judge::compare::{budget, noise};
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::{self, Results};
use memprof_plan::metric::derived;
use memprof_report::options::{Format, Rows, View};
use memprof_run::session;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Judges the run again, and writes the report.
pub fn report(context: CommandContext<'_>, arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let presentation = &arguments.presentation;
    let mut outputs = outputs(&presentation.format, &presentation.output)?;
    let folder = kept_runs::find(&arguments.run, arguments.workspace.manifest_path.as_deref())?;
    let page = arguments.open.then(|| folder.page());
    if let Some(page) = &page {
        // Who looks at the page needs no table, unless it was asked for.
        if presentation.format.is_empty() {
            outputs.retain(|output| output.file.is_some());
        }
        outputs.push(Output { format: Format::Html, file: Some(page.clone()) });
    }
    let code = present(context, arguments, &folder, &outputs)?;
    if let Some(page) = &page {
        open_page(context.console, page);
    }
    Ok(code)
}

fn present(
    context: CommandContext<'_>,
    arguments: &ReportArguments,
    folder: &RunFolder,
    outputs: &[Output],
) -> anyhow::Result<ExitCode> {
    let mut presentation = arguments.presentation.clone();
    // The page that the browser opens stays on this machine, and may show the changed lines.
    presentation.with_source |= arguments.open && outputs.len() == 1;
    let presentation = &presentation;
    if let Some(record) = kept_runs::search_record(folder)? {
        refuse_judging(arguments, record.task.command(), folder)?;
        return present_search(context.console, folder, outputs, &presentation.why);
    }
    if presentation.why.is_about_sites() && !folder.why().tests().exists() {
        let message = "no test ran with call stacks, so there are no call sites to show".to_owned();
        let help = Some("to record all tests, run the comparison with --why always".to_owned());
        context.console.emit(Event::Warning { message, help });
    }
    let mut results = stored::read(folder)?;
    if results.plan.request.settings.pairs.is_empty() {
        refuse_unchecked(&arguments.judging, results.plan.revisions.len())?;
    }
    let metrics = &presentation.metrics();
    judge_by(&mut results, &arguments.judging, metrics)?;
    Presentation { arguments: presentation, outputs, metrics }.of_run(context.console, &results, folder)
}

/// Refuses flags that the report of a search has no use for. The exit code 0 would say that a limit is kept.
fn refuse_judging(
    ReportArguments { run, judging, presentation, .. }: &ReportArguments,
    command: &str,
    folder: &RunFolder,
) -> Result<(), UserError> {
    let flags = [
        ("--threshold", !judging.thresholds.is_empty()),
        ("--limit", !judging.limits.is_empty()),
        ("--leak", !judging.leaks.is_empty()),
        ("--allow", !judging.allow.is_empty()),
        ("--budget", judging.budget().is_some()),
        ("--noise", judging.noise.is_some()),
        ("--metrics", presentation.settings.metrics.is_some()),
        ("--all", presentation.all),
        ("--view", presentation.view != View::default()),
        ("--compact", presentation.compact),
        ("--rows", presentation.rows != Rows::default()),
        ("--only-changed", presentation.only_changed),
    ];
    let given: Vec<&str> = flags.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    if given.is_empty() {
        return Ok(());
    }
    let id = folder.0.file_name().unwrap_or_default();
    let runs = folder.0.parent().unwrap_or(&folder.0);
    let is_comparison = |id: &String| !RunFolder(runs.join(id)).search().exists();
    let newest = session::kept_runs(runs).into_iter().rev().find(is_comparison);
    // Only the repository's own runs are found by their ids.
    let named = |id: &str| if run.contains('/') { runs.join(id).into_string() } else { id.to_owned() };
    let newest = newest.map_or_else(String::new, |newest| {
        let newest = named(&newest);
        format!("for the newest comparison, with the same options: cargo memprof report {newest}\n")
    });
    let given = given.join(" and no ");
    Err(UserError::new(format!("{id} is a {command}, and its report takes no {given}"))
        .help(format!("{newest}to show this report: cargo memprof report {}", named(id))))
}

/// Opens a page in the user's browser. A machine without one has the file.
fn open_page(console: &Console, page: &Utf8Path) {
    console.emit(Event::Exported { path: page.to_string() });
    // The error has each launcher that was tried, in debug form.
    if open::that_detached(page).is_err() {
        let message = "no browser could be started".to_owned();
        console.emit(Event::Warning { message, help: Some(format!("open {page} yourself")) });
    }
}

/// Adds the rules of the flags to those of the run, and the metrics that they show.
pub fn judge_by(results: &mut Results, flags: &JudgingArguments, metrics: &[String]) -> anyhow::Result<()> {
    let request = &mut results.plan.request;
    request.derived.extend(derived(metrics.iter().map(String::as_str)));
    let judging = &mut request.judging;
    judging.asked.extend_from_slice(metrics);
    add_judging(judging, flags);
    if let Some(file) = &flags.noise {
        judging.noise = noise::read(file)?;
    }
    if let Some(file) = flags.budget() {
        judging.budget = Some(budget::read(&file, file.as_str())?);
    }
    Ok(())
}
