//! `report`: shows an earlier run or search again.

use crate::cli::arguments::judging::JudgingArguments;
use crate::cli::arguments::reports::ReportArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::kept_runs;
use crate::cli::output::destinations::outputs;
use crate::cli::output::present::Presentation;
use crate::cli::request::judging::{add_judging, refuse_unchecked};
use crate::cli::search::report::present_search;
use crate::compare::noise;
use crate::plan::metric::derived;
use crate::results::stored::{self, Results};
use crate::support::exit_code::ExitCode;

/// Judges the run again, and writes the report.
pub fn report(context: CommandContext<'_>, arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let presentation = &arguments.presentation;
    let outputs = outputs(&presentation.format, &presentation.output)?;
    let folder = kept_runs::find(&arguments.run, arguments.workspace.manifest_path.as_deref())?;
    if folder.search().exists() {
        return present_search(context.console, &folder, &outputs, &presentation.why);
    }
    let mut results = stored::read(&folder)?;
    if results.plan.request.pairs.is_empty() {
        refuse_unchecked(&arguments.judging, results.plan.revisions.len())?;
    }
    judge_by(&mut results, &arguments.judging)?;
    let metrics = &presentation.metrics;
    results.plan.request.derived.extend(derived(metrics.iter().map(String::as_str)));
    Presentation { arguments: presentation, outputs: &outputs, metrics }.of_run(
        context.console,
        &results,
        &folder,
    )
}

/// Adds the rules of the flags to those of the run.
pub fn judge_by(results: &mut Results, flags: &JudgingArguments) -> anyhow::Result<()> {
    let judging = &mut results.plan.request.judging;
    add_judging(judging, flags);
    if let Some(file) = &flags.noise {
        judging.noise = noise::read(file)?;
    }
    Ok(())
}
