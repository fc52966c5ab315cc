//! Continuing an interrupted search.

use camino::Utf8Path;

use crate::arguments::search::MeasuringArguments;
use crate::kept_runs::{runs, search_record};
use crate::request::continued;
use crate::request::secrets::SecretSources;
use crate::search::plan::{SearchPlan, overlay_hashes};
use memprof_build::git::repository::Repository;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_run::bisect::record::SearchRecord;
use memprof_run::same_machine;
use memprof_run::session;
use memprof_run::stored_plan::{self, Restoration};
use memprof_support::continuation;
use memprof_support::user_error::UserError;

/// Finds a search by its id, its folder, or `latest`, the newest search of this command.
///
/// # Errors
///
/// A run of another command, another machine, other variables, and an overlay that has changed since.
pub fn resumed(
    name: &str,
    command: &str,
    measuring: &MeasuringArguments,
    repository: &Repository,
) -> anyhow::Result<(SearchPlan, RunFolder)> {
    let runs = runs(repository, measuring.build.manifest_path.as_deref())?;
    let (folder, record) = if name == "latest" {
        let newest = newest(&runs, command)?;
        newest.ok_or_else(|| {
            UserError::new(format!("no {command} to continue in {runs}")).help(
                "an interrupt in the first moment leaves nothing; run the same command without --resume",
            )
        })?
    } else {
        let folder = session::find_run(&runs, repository.start(), name)?;
        let record = search_record(&folder)?;
        let actual = record.as_ref().map_or("run", |record| record.task.command());
        match record.filter(|_| actual == command) {
            Some(record) => (folder, record),
            None => {
                return Err(UserError::new(format!("{name} is a {actual}, not a {command}"))
                    .help(format!("to continue it: cargo memprof {actual} --resume {name}"))
                    .into());
            }
        }
    };
    let mut plan = stored::read_plan(&folder)?;
    same_machine::expect(&folder, &plan)?;
    continuation::begin(&plan.id);
    let sources = SecretSources {
        environment: &measuring.environment,
        config: &measuring.build.config,
        arguments: &measuring.build.arg,
        matrix: measuring.matrix.as_deref(),
        repository,
    };
    let given = sources.restore(&mut plan)?;
    continued::refuse_other_values(command, &measuring.environment, &measuring.build.config, &plan)?;
    let mut record = record;
    for cell in &mut record.cells {
        let mut restoration = Restoration::of_run(&given);
        restoration.variables(&mut cell.env);
        restoration.finish()?;
        stored_plan::restore_arguments(cell, &plan.request);
    }
    if overlay_hashes(&plan, repository)? != record.overlay {
        let message = format!(
            "the overlay has changed since this {command} started, so new results are not comparable"
        );
        return Err(UserError::new(message)
            .help(format!("start again: cargo memprof {}", record.arguments.join(" ")))
            .into());
    }
    Ok((SearchPlan { search: record, plan }, folder))
}

fn newest(runs: &Utf8Path, command: &str) -> anyhow::Result<Option<(RunFolder, SearchRecord)>> {
    for id in session::kept_runs(runs).iter().rev() {
        let folder = RunFolder(runs.join(id));
        if let Some(record) = search_record(&folder)?.filter(|record| record.task.command() == command) {
            return Ok(Some((folder, record)));
        }
    }
    Ok(None)
}
