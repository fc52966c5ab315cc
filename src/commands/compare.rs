//! `compare`: two earlier runs against each other.

use crate::arguments::reports::CompareArguments;
use crate::commands::context::CommandContext;
use crate::commands::report::judge_by;
use crate::kept_runs;
use crate::output::destinations::outputs;
use crate::output::present::Presentation;
use memprof_judge::compare::from_results::{self, compare as compare_results};
use memprof_judge::results::stored;
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Compares two runs, and writes the report.
pub fn compare(context: CommandContext<'_>, arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let presentation = &arguments.presentation;
    let outputs = outputs(&presentation.format, &presentation.output)?;
    let manifest = arguments.workspace.manifest_path.as_deref();
    let or_refs = |error: anyhow::Error| match error.downcast::<UserError>() {
        Ok(user_error) => {
            let refs =
                format!("to compare revisions: cargo memprof {} {}", arguments.baseline, arguments.candidate);
            let help =
                user_error.help.as_ref().map_or_else(|| refs.clone(), |help| format!("{refs}\n{help}"));
            user_error.help(help).into()
        }
        Err(error) => error,
    };
    let read = |name: &str| {
        let folder = kept_runs::find(name, manifest).map_err(or_refs)?;
        kept_runs::refuse_search(&folder)?;
        stored::read(&folder)
    };
    let mut merged = from_results::merge(read(&arguments.baseline)?, read(&arguments.candidate)?);
    let metrics = &presentation.metrics();
    judge_by(&mut merged, &arguments.judging, metrics)?;
    Presentation { arguments: presentation, outputs: &outputs, metrics }.of_comparison(
        context.console,
        &compare_results(&merged),
        None,
    )
}
