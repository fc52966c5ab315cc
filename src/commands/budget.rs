//! `budget`: records a run's figures as limits.

use crate::arguments::budget::{BudgetArguments, BudgetCommand, BudgetWriteArguments};
use crate::commands::context::CommandContext;
use crate::kept_runs;
use memprof_judge::compare::budget::{self, Margin};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::stored;
use memprof_plan::metric::derived;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::output_file;
use memprof_support::user_error::UserError;

/// Writes a budget.
pub fn budget(context: CommandContext<'_>, arguments: &BudgetArguments) -> anyhow::Result<ExitCode> {
    let BudgetCommand::Write(arguments) = &arguments.command;
    let folder = kept_runs::find(&arguments.run, arguments.workspace.manifest_path.as_deref())?;
    kept_runs::refuse_search(&folder)?;
    let mut results = stored::read(&folder)?;
    results.plan.request.derived.extend(derived(arguments.metrics.iter().map(String::as_str)));
    // A budget holds for each test alone.
    results.plan.request.settings.pairs.clear();
    let comparison = compare(&results);
    let revision = chosen(&comparison, arguments)?;
    let margin = arguments.margin.map_or(Margin::Usual, Margin::Percent);
    let text = budget::text(&comparison, revision, &arguments.metrics, margin)?;
    output_file::write(&arguments.file, text.as_bytes())?;
    context.console.emit(Event::Exported { path: arguments.file.to_string() });
    if let Some(message) = budget::without_limits(&comparison, revision) {
        let help = Some("write the budget again when they pass".to_owned());
        context.console.emit(Event::Warning { message, help });
    }
    Ok(ExitCode::Success)
}

/// Returns the revision whose figures are recorded.
fn chosen(comparison: &Comparison, arguments: &BudgetWriteArguments) -> Result<usize, UserError> {
    let revisions = &comparison.revisions;
    let names = || revisions.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = &arguments.reference {
        let found = revisions.iter().position(|one| one.name == *name || one.spec == *name);
        return found.ok_or_else(|| {
            UserError::new(format!("the run has no ref '{name}'")).help(format!("it has {}", names()))
        });
    }
    let candidates: Vec<usize> = comparison.candidates().collect();
    match candidates.as_slice() {
        [] => Ok(comparison.baseline),
        [only] => Ok(*only),
        [first, ..] => Err(UserError::new(format!("the run has several refs: {}", names()))
            .help(format!("choose one: cargo memprof budget write --ref {}", revisions[*first].name))),
    }
}
