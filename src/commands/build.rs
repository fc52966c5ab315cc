//! `build`: builds every revision, and on request packs an archive for another machine.

use std::fmt::Write as _;

use crate::arguments::build::BuildCommandArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs::repository;
use crate::request::asked::Asked;
use crate::request::pairs;
use crate::request::refs::RefsNeeded;
use memprof_build::attempts::Build;
use memprof_build::git::resolve::resolve_any;
use memprof_build::inject::hidden_changes;
use memprof_build::inject::overlay_packages;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::grouping::GroupBy;
use memprof_plan::resolved::Plan;
use memprof_run::archive::contents::ArchiveContents;
use memprof_run::session::{Session, runs_folder, times_in};
use memprof_support::bytes::Bytes;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::WhenHeld;
use memprof_support::output_file::Target;

/// Builds every revision, prints where the executables are, and packs them on request.
pub fn build(context: CommandContext<'_>, arguments: &BuildCommandArguments) -> anyhow::Result<ExitCode> {
    let repository = repository()?;
    let presentation = PresentationArguments::default();
    let archive = arguments.archive.as_deref();
    // Check the file now, and not after an hour of building.
    archive.map(Target::find).transpose()?;
    let mut asked = Asked::read(&arguments.request, &presentation, &repository, RefsNeeded::Any)?;
    // Later runs of these builds may select other tests.
    asked.request.builds_all = true;
    asked.request.typed_names = arguments.why_by.is_some_and(GroupBy::needs_typed_names);
    let mut plan = resolve_any(&asked.request, &repository, context.console)?;
    overlay_packages::complete(&mut plan, &repository, context.console)?;
    hidden_changes::note(&mut plan, &repository, context.console)?;
    pairs::check(&arguments.request, &mut plan)?;
    // The machine that runs the archive may have the libraries that this one lacks.
    let without_libraries = |event: Event| match event {
        Event::AbsentLibraries { .. } => {}
        event => context.console.emit(event),
    };
    let sink: &dyn Sink = if archive.is_some() { &without_libraries } else { context.console };
    let session = Session::open(&repository, sink, context.interrupt)?;
    let _lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
    let folder = empty_log_folder(&session)?;
    let mut prepared = session.prepare(&plan, &folder)?;
    let mut text = listing(&plan, &prepared.builds)?;
    let built = prepared.builds.iter().filter(|build| build.entry().is_some()).count();
    if let Some(file) = archive.filter(|_| built > 0) {
        let times = times_in(&runs_folder(&repository, &plan.workspace)?, None);
        let contents = ArchiveContents {
            plan: &plan,
            repository: &repository,
            folder: &folder,
            data: &arguments.data,
            metrics: &asked.metrics,
            times: &times,
        };
        let written = contents.write(file, &mut prepared)?;
        writeln!(text, "wrote {file}: {}, blake3 {}", Bytes(written.bytes), written.hash)?;
    }
    context.console.print(&text)?;
    let is_complete = |build: &Build| build.entry().is_some() && build.not_measured().is_empty();
    let is_complete = prepared.builds.iter().all(is_complete);
    Ok(if is_complete { ExitCode::Success } else { ExitCode::Incomplete })
}

/// Builds without a run have no run folder. Their logs are kept until the next `build`.
fn empty_log_folder(session: &Session<'_>) -> anyhow::Result<RunFolder> {
    let folder = RunFolder(session.cache.folder().join("last-build"));
    if folder.0.exists() {
        fs_err::remove_dir_all(&folder.0)?;
    }
    fs_err::create_dir_all(&folder.0)?;
    Ok(folder)
}

fn listing(plan: &Plan, builds: &[Build]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (revision, build) in plan.revisions.iter().zip(builds) {
        let Build::Done(entry) = build else {
            writeln!(text, "{} ({}): build failed", revision.name, revision.short())?;
            continue;
        };
        writeln!(text, "{} ({}): {}", revision.name, revision.short(), entry.provenance.key)?;
        for executable in &entry.provenance.executables {
            let path = entry.folder.join(&executable.file);
            writeln!(text, "  {}::{}  {path}", executable.package, executable.binary)?;
        }
        for executable in build.not_measured() {
            writeln!(text, "  not measured: {executable}: {}", executable.reason)?;
        }
    }
    Ok(text)
}
