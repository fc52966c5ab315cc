//! `run --archive`: runs tests that another machine built and packed.

use camino::Utf8Path;

use crate::arguments::run::RunArguments;
use crate::commands::context::CommandContext;
use crate::commands::devices;
use crate::kept_runs::{ARCHIVE_RUNS, current_directory};
use crate::output::destinations::Output;
use crate::output::present::Presentation;
use crate::request::archived::{Archived, refuse_untyped};
use crate::request::explanation;
use memprof_build::checkout::cache;
use memprof_run::archive::extracted_tree::ExtractedTree;
use memprof_run::archive::file::Archive;
use memprof_run::archive::folder_of_run;
use memprof_run::conditions::Conditions;
use memprof_run::session::past_times;
use memprof_run::stored_plan;
use memprof_support::continuation;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::{Lock, LockFile};
use memprof_support::sealed;

/// Unpacks an archive, runs its tests, and reports them.
pub fn run_archive(
    context: CommandContext<'_>,
    file: &Utf8Path,
    arguments: &RunArguments,
    outputs: &[Output],
) -> anyhow::Result<ExitCode> {
    let CommandContext { console, interrupt } = context;
    let RunArguments { execution, presentation, .. } = arguments;
    let archive = Archive::open(file)?;
    let archives = cache::archives(&cache::home()?);
    let lock_file = LockFile::of_folder(archives.join("lock"));
    let lock = Lock::acquire(&lock_file, execution.waiting.when_held(), interrupt, console)?;
    cache::keep_salt(&cache::home()?)?;
    cache::remove_partial_archives(&archives)?;
    let unpacked = archive.unpack(&archives, console)?;
    let mut packed = Archived::read(&unpacked, arguments)?;
    refuse_untyped(&packed.plan, &presentation.why)?;
    if execution.dry_run {
        return context.print_plan(&packed.plan, &[], &packed.plan, outputs);
    }
    packed.apply(arguments)?;
    let tree = ExtractedTree::open(&unpacked, execution.waiting.when_held(), interrupt, console)?;
    let elsewhere = tree.elsewhere().map(|reason| note_on_paths(&unpacked.manifest.root, reason));
    let (devices, courtesy) =
        devices::open(context, execution.waiting, execution.courtesy.as_ref(), &packed.plan)?;
    let current = current_directory()?;
    let runs = current.join(ARCHIVE_RUNS);
    let named = execution.run_folder.as_deref();
    let folder = if let Some(name) = &execution.resume {
        let name = named.map_or(name.as_str(), Utf8Path::as_str);
        let (folder, plan) = folder_of_run::find(&unpacked, name, &runs, &current)?;
        packed.resume(plan, arguments)?;
        continuation::begin(&packed.plan.id);
        if packed.note(elsewhere.as_ref()) {
            sealed::write(&folder.plan(), &stored_plan::sealed(&packed.plan))?;
        }
        folder
    } else {
        packed.add_metrics(&presentation.metrics());
        packed.note(elsewhere.as_ref());
        let named = named.map(|folder| current.join(folder));
        folder_of_run::create(&unpacked, &mut packed.plan, &runs, named)?
    };
    let plan = &packed.plan;
    let attribution = explanation::attribution(&presentation.why, outputs);
    let mut prepared = packed.prepare(tree)?;
    if let Some(message) = elsewhere {
        warn_about_paths(console, message);
    }
    let mut conditions = Conditions::new(plan, past_times(&folder), devices, console, interrupt);
    conditions.follow = execution.follow();
    let ended = prepared.run(plan, &folder, &mut conditions, &attribution, vec![Box::new(courtesy)]);
    let is_built = prepared.is_built();
    drop((prepared, conditions, lock));
    let shown = presentation.metrics();
    let metrics = if shown.is_empty() { &unpacked.manifest.metrics } else { &shown };
    let presentation = Presentation { arguments: presentation, outputs, metrics };
    presentation.of_ended(console, &folder, ended, is_built)
}

/// Says that the archive's files are not at the paths that the tests have built in.
fn note_on_paths(built_in: &Utf8Path, reason: &str) -> String {
    format!(
        "the tests were built below {built_in}, and {reason}: a test that has this path built in, for example through \
         env!(\"CARGO_MANIFEST_DIR\"), does not find the archive's files there"
    )
}

fn warn_about_paths(sink: &dyn Sink, message: String) {
    sink.emit(Event::Warning {
        message,
        help: Some(format!(
            "on the build machine, set {} to a folder that no other machine has, such as /var/tmp/memprof-archives, \
             and build the archive again",
            cache::HOME_VARIABLE
        )),
    });
}
