//! The report of a finished search.

use std::sync::Arc;

use anyhow::Context;

use crate::bisect::linear_search::StepKind;
use crate::bisect::report_builder::compared_steps;
use crate::bisect::report_data::{SearchReport, SearchResult};
use crate::cli::arguments::why::WhyArguments;
use crate::cli::kept_runs::search_record;
use crate::cli::output::destinations::Output;
use crate::cli::output::present::search_report;
use crate::cli::terminal::console::Console;
use crate::report::bisect::search::Searched;
use crate::results::run_folder::RunFolder;
use crate::results::sealed;
use crate::run::session::read_plan;
use crate::support::exit_code::ExitCode;
use crate::support::user_error::UserError;
use crate::why::explanations::Why;

/// Reads what a search found, and writes the report.
///
/// # Errors
///
/// A search that was interrupted.
pub fn present_search(
    console: &Console,
    folder: &RunFolder,
    outputs: &[Output],
    why: &WhyArguments,
) -> anyhow::Result<ExitCode> {
    let record = search_record(folder)?.context("the folder has no search.json")?;
    if !folder.found().exists() {
        let command = record.task.command();
        return Err(UserError::new(format!("this {command} is not finished"))
            .help(format!("to continue it: cargo memprof {command} --resume"))
            .into());
    }
    let report: SearchReport = sealed::read(&folder.found())?;
    let plan = read_plan(folder)?;
    let cell = record.cell.as_ref().context("search.json has no test")?;
    let inquiry = Some(why.inquiry()).filter(|_| why.why != Some(Why::Never));
    let mut steps = compared_steps(&report, &plan, folder, &cell.cell, inquiry.as_ref())?;
    for explanations in steps.iter_mut().filter_map(|step| step.why.as_mut()) {
        Arc::make_mut(explanations).frames = why.shown_frames();
    }
    search_report(console, Searched { report: &report, steps: &steps }, outputs)?;
    Ok(exit_code(&report))
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
