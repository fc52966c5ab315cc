//! `merge`: one run of the runs of all shards.

use crate::arguments::reports::MergeArguments;
use crate::commands::context::CommandContext;
use crate::commands::report::judge_by;
use crate::kept_runs::{self, current_directory};
use crate::output::destinations::outputs;
use crate::output::present::Presentation;
use crate::request::judging::refuse_unchecked;
use memprof_build::git::resolve::run_id;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::Results;
use memprof_plan::resolved::Plan;
use memprof_run::merging::Shards;
use memprof_run::session::announce;
use memprof_support::exit_code::ExitCode;

/// Puts the shards together, and writes the report.
pub fn merge(context: CommandContext<'_>, arguments: &MergeArguments) -> anyhow::Result<ExitCode> {
    let presentation = &arguments.presentation;
    let outputs = outputs(&presentation.format, &presentation.output)?;
    let manifest = arguments.workspace.manifest_path.as_deref();
    let folders = arguments.runs.iter().map(|name| {
        let folder = kept_runs::find(name, manifest)?;
        kept_runs::refuse_search(&folder)?;
        Ok(folder)
    });
    let shards = Shards::open(folders.collect::<anyhow::Result<_>>()?)?;
    let mut plan = shards.plan();
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    if plan.request.settings.pairs.is_empty() {
        refuse_unchecked(&arguments.judging, plan.revisions.len())?;
    }
    let (folder, mut results) = write(&shards, &plan, arguments)?;
    let metrics = &presentation.metrics();
    judge_by(&mut results, &arguments.judging, metrics)?;
    Presentation { arguments: presentation, outputs: &outputs, metrics }.of_run(
        context.console,
        &results,
        &folder,
    )
}

/// Writes the whole run to a folder of its own.
fn write(shards: &Shards, plan: &Plan, arguments: &MergeArguments) -> anyhow::Result<(RunFolder, Results)> {
    if let Some(folder) = &arguments.run_folder {
        let folder = RunFolder(current_directory()?.join(folder));
        let results = shards.write(&folder, plan)?;
        return Ok((folder, results));
    }
    let runs = kept_runs::runs_of_archives(arguments.workspace.manifest_path.as_deref())?;
    let folder = RunFolder(runs.join(&plan.id));
    let results = shards.write(&folder, plan)?;
    announce(&runs, &plan.id)?;
    Ok((folder, results))
}
