//! The report of a finished search.

use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;

use crate::arguments::why::WhyArguments;
use crate::kept_runs::search_record;
use crate::output::destinations::Output;
use crate::output::present::{proof_in, proof_report, search_report};
use crate::terminal::console::Console;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_judge::why::chosen::Why;
use memprof_report::bisect::headline::Searched;
use memprof_report::options::Format;
use memprof_run::bisect::linear_search::StepKind;
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_run::bisect::parts::record::{BASELINE, CANDIDATE};
use memprof_run::bisect::record::{SearchRecord, Task};
use memprof_run::bisect::report_builder::compared_steps;
use memprof_run::bisect::report_data::{SearchReport, SearchResult};
use memprof_run::bisect::step_comparison::{ComparedStep, StepPair};
use memprof_support::exit_code::ExitCode;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

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
    let command = record.task.command();
    refuse_formats(command, outputs)?;
    if !folder.found().exists() {
        let id = folder.0.file_name().unwrap_or_default();
        return Err(UserError::new(format!("this {command} is not finished"))
            .help(format!("to continue it: cargo memprof {command} --resume {id}"))
            .into());
    }
    if let Task::Prove(_) = record.task {
        let report: ProofReport = sealed::read(&folder.found())?;
        let ends = if why.groups_sites() { Some(both_ends(folder, &record, why)?) } else { None };
        proof_report(console, &report, ends.as_ref(), outputs)?;
        return Ok(exit_code_of_proof(&report));
    }
    let reports: Vec<SearchReport> = sealed::read(&folder.found())?;
    let plan = stored::read_plan(folder)?;
    let inquiry = Some(why.inquiry()).filter(|_| why.why != Some(Why::Never));
    let mut steps = Vec::new();
    for (index, (report, planned)) in reports.iter().zip(&record.cells).enumerate() {
        let mut of_test = compared_steps(report, &plan, folder, (index, &planned.cell), inquiry.as_ref())?;
        for explanations in of_test.iter_mut().filter_map(|step| step.why.as_mut()) {
            Arc::make_mut(explanations).frames = why.shown_frames();
        }
        steps.push(of_test);
    }
    let searched: Vec<Searched<'_>> =
        reports.iter().zip(&steps).map(|(report, steps)| Searched { report, steps }).collect();
    search_report(console, &searched, proof_in(folder)?.as_ref(), outputs, why.is_about_sites())?;
    Ok(reports.iter().map(exit_code).fold(ExitCode::Success, ExitCode::worst))
}

/// Compares the two ends of a proof, with the call sites of the difference.
fn both_ends(folder: &RunFolder, record: &SearchRecord, why: &WhyArguments) -> anyhow::Result<ComparedStep> {
    let plan = stored::read_plan(folder)?;
    let cell = &record.cells.first().context("no test was chosen")?.cell;
    let threshold = record.threshold.as_ref();
    let pair = StepPair::of_commits([BASELINE, CANDIDATE], 0, &record.query, threshold, &plan, folder);
    let mut step = pair.compare(&plan, folder, cell, Some((&record.query, &why.inquiry())))?;
    if let Some(explanations) = &mut step.why {
        Arc::make_mut(explanations).frames = why.shown_frames();
    }
    Ok(step)
}

/// # Errors
///
/// A format that the command has no report in.
pub fn refuse_formats(command: &str, outputs: &[Output]) -> Result<(), UserError> {
    let mut known = vec![Format::Table, Format::Markdown, Format::Html, Format::Csv, Format::Json];
    if command == "prove" {
        known.extend([Format::Sarif, Format::Junit]);
    }
    let Some(other) = outputs.iter().find(|output| !known.contains(&output.format)) else { return Ok(()) };
    // A search does not pass or fail a test, and has a row per commit.
    let name = match other.format {
        Format::Junit => "JUnit".to_owned(),
        format => format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
    };
    Err(UserError::new(format!("{command} has no {name} report"))
        .help("choose --format json or --format markdown"))
}

fn exit_code_of_proof(report: &ProofReport) -> ExitCode {
    match report.result {
        SearchResult::Same => ExitCode::NothingFound,
        SearchResult::Unclear => ExitCode::Inconclusive,
        SearchResult::Found if report.open.is_empty() => ExitCode::Success,
        SearchResult::Found => ExitCode::Incomplete,
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
        None if report.unclear > 0 => ExitCode::Inconclusive,
        None => ExitCode::Success,
    }
}
