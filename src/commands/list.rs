//! `list`: the tests that would run, per ref.

use std::fmt::Write as _;

use crate::arguments::build::ListArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs::repository;
use crate::request::asked::Asked;
use crate::request::refs::RefsNeeded;
use memprof_build::attempts::Build;
use memprof_build::git::resolve::resolve_any;
use memprof_build::inject::overlay_packages;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::resolved::Plan;
use memprof_run::session::Session;
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::WhenHeld;
use memprof_support::labels;

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
    let folder = RunFolder(memprof_support::paths::utf8(scratch.path().to_owned())?);
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
