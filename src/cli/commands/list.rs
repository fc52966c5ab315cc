//! `list`: the tests that would run, per ref.

use std::fmt::Write as _;

use crate::build::attempts::Build;
use crate::cli::arguments::build::ListArguments;
use crate::cli::arguments::presentation::PresentationArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::kept_runs::repository;
use crate::cli::request::asked::Asked;
use crate::cli::request::refs::RefsNeeded;
use crate::git::resolve::resolve_any;
use crate::inject::overlay_packages;
use crate::plan::cells::{CellStatus, PlannedCell};
use crate::plan::resolved::Plan;
use crate::results::run_folder::RunFolder;
use crate::run::session::Session;
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::WhenHeld;
use crate::support::labels;

/// Builds every revision, and prints its cells.
pub fn list(context: CommandContext<'_>, arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let repository = repository()?;
    let presentation = PresentationArguments::default();
    let asked = Asked::read(&arguments.request, &presentation, &repository, RefsNeeded::Any)?;
    let mut plan = resolve_any(&asked.request, &repository, context.console)?;
    overlay_packages::complete(&mut plan, &repository, context.console)?;
    let session = Session::open(&repository, context.console, context.interrupt)?;
    let lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
    let scratch = tempfile::tempdir()?;
    let folder = RunFolder(crate::support::paths::utf8(scratch.path().to_owned())?);
    let prepared = session.prepare(&plan, &folder)?;
    drop(lock);
    context.console.print(&labels::lines(&listing(&plan, &prepared.cells)?))?;
    let built = prepared.builds.iter().all(|build| matches!(build, Build::Done(_)));
    Ok(if built { ExitCode::Success } else { ExitCode::Incomplete })
}

fn listing(plan: &Plan, cells: &[PlannedCell]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (index, revision) in plan.revisions.iter().enumerate() {
        let cells = || cells.iter().filter(|planned| planned.revision == index);
        let count = cells().filter(|planned| planned.status == CellStatus::Run).count();
        writeln!(text, "{} ({}): {count} to run", revision.name, revision.short())?;
        for planned in cells() {
            let mark = match planned.status {
                CellStatus::Run => "",
                CellStatus::Ignored => "  (ignored)",
                CellStatus::NotInThisRef => "  (not in this ref)",
                CellStatus::NotMeasured => "  (not measured)",
                CellStatus::BuildFailed => "  (build failed)",
            };
            writeln!(text, "  {}{}{mark}", planned.cell.test, title(planned))?;
        }
    }
    Ok(text)
}

/// The cell's name in the report, if it is not the test's.
fn title(planned: &PlannedCell) -> String {
    let test = &planned.cell.test;
    let is_usual = planned.cell.title == test.name || planned.cell.title == test.to_string();
    if is_usual { String::new() } else { format!("  as {}", planned.cell.title) }
}
