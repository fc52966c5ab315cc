//! Starts a search, or continues one, and reports the result.

use anyhow::Context;

use crate::arguments::search::MeasuringArguments;
use crate::arguments::why::WhyArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs::{repository, search_record};
use crate::output::destinations::outputs;
use crate::request::explanation;
use crate::search::of_change::{Change, or_warning};
use crate::search::plan::{SearchPlan, create_folder};
use crate::search::report::{present_search, refuse_formats};
use crate::search::resume::resumed;
use crate::search::session::{Means, SearchSession};
use memprof_build::git::repository::Repository;
use memprof_plan::resolved::Plan;
use memprof_run::bisect::end_without_figure::EndWithoutFigure;
use memprof_run::bisect::report_data::SearchReport;
use memprof_run::runner::Interrupted;
use memprof_run::session::{self, runs_folder};
use memprof_support::exit_code::ExitCode;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// What follows a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The report.
    Report,
    /// A proof of the commit that it found.
    Prove,
}

/// Starts the search that `plan` describes, or continues one, and reports the result.
pub fn search(
    command: &str,
    measuring: &MeasuringArguments,
    why: &WhyArguments,
    next: Next,
    context: CommandContext<'_>,
    plan: impl FnOnce(&Repository) -> anyhow::Result<SearchPlan>,
) -> anyhow::Result<ExitCode> {
    let console = context.console;
    let outputs = outputs(&measuring.format, &measuring.output)?;
    refuse_formats(command, &outputs)?;
    let repository = repository()?;
    let (search, folder) = if let Some(name) = &measuring.resume {
        let (mut search, folder) = resumed(name, command, measuring, &repository)?;
        search.search.proves |= next == Next::Prove;
        (search, folder)
    } else {
        let mut search = plan(&repository)?;
        search.search.proves = next == Next::Prove;
        search.plan.request.typed_names = why.shows_types();
        if measuring.dry_run {
            return context.print_plan(&search.plan, &[], &search.sealed(), &outputs);
        }
        let folder = create_folder(&runs_folder(&repository, &search.plan.workspace)?, &search)?;
        (search, folder)
    };
    let attribution = explanation::of_search(why, &outputs);
    let session =
        SearchSession { repository: &repository, folder: &folder, context, attribution: attribution.clone() };
    let means = Means { waiting: measuring.waiting, courtesy: measuring.courtesy.as_ref(), attribution };
    let mut restored = ExitCode::Success;
    let plan = search.plan.clone();
    let has_proof = search.search.proves;
    let Err(error) = session.run(search, &means, &mut restored) else {
        let proven = if has_proof { prove_found(&session, &plan, &means) } else { Ok(ExitCode::Success) };
        let code = present_search(console, &folder, &outputs, why)?.worst(restored);
        return proven.map(|proven| code.worst(proven));
    };
    if error.downcast_ref::<Interrupted>().is_some_and(|interrupted| interrupted.is_explaining) {
        // The answer is complete without the call sites.
        present_search(console, &folder, &outputs, why)?;
        return Err(error);
    }
    if measuring.resume.is_none() {
        session::discard_unmeasured(&folder, &error)?;
    }
    let end = error.downcast::<EndWithoutFigure>()?;
    console.show_error(&end_not_measured(&end));
    Ok(ExitCode::Incomplete)
}

/// Proves which parts of the commit that a bisect found make the difference.
fn prove_found(session: &SearchSession<'_>, plan: &Plan, means: &Means<'_>) -> anyhow::Result<ExitCode> {
    let mut record = search_record(session.folder)?.context("the folder has no search.json")?;
    if !record.proves {
        // A finished search was continued for the proof. After an interrupt, `--resume` goes on with it.
        record.proves = true;
        sealed::write(&session.folder.search(), &record.sealed())?;
    }
    let reports: Vec<SearchReport> = sealed::read(&session.folder.found())?;
    let found = reports.first().zip(record.cells.first());
    let change =
        found.and_then(|(report, cell)| Change::of_bisect(report, &cell.cell, plan, &record.arguments));
    let Some(change) = change else { return Ok(ExitCode::Success) };
    let SearchSession { repository, folder, context, .. } = session;
    let proven = change.prove(plan, folder, repository, *context, means);
    or_warning(proven, "--prove", context.console, context.interrupt)
}

fn end_not_measured(end: &EndWithoutFigure) -> UserError {
    let usual = "choose another commit for this end; if it lacks the test, add the test with --overlay";
    let help = if end.hints.is_empty() { usual.to_owned() } else { end.hints.join("\n") };
    UserError::new(end.to_string()).help(help)
}
