//! `clean`: removes what the tool keeps for a repository, or the unpacked archives.

use crate::checkout::cache;
use crate::cli::arguments::setup::CleanArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::kept_runs::{repository, runs};
use crate::run::session::Session;
use crate::support::bytes::Bytes;
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::{Lock, LockFile, WhenHeld};

/// Removes the repository's cache and runs, or with `--archives` the unpacked archives.
pub fn clean(context: CommandContext<'_>, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
    if arguments.archives {
        return clean_archives(context, arguments);
    }
    let repository = repository()?;
    let session = Session::open(&repository, context.console, context.interrupt)?;
    let lock = session.lock(arguments.no_wait)?;
    let runs = runs(&repository, arguments.workspace.manifest_path.as_deref()).ok();
    if arguments.dry_run {
        let folders = [Some(session.cache.folder().to_owned()), runs];
        let folders = folders.iter().flatten().filter(|folder| folder.exists());
        let lines = folders.map(|folder| format!("{} {folder}\n", Bytes(cache::bytes_on_disk(folder))));
        return context.print(&format!("would remove:\n{}", lines.collect::<String>()));
    }
    let bytes = session.cache.clean(&repository, lock, runs.as_deref())?;
    context.print(&removed(bytes))
}

fn clean_archives(context: CommandContext<'_>, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
    let archives = cache::archives(&cache::home()?);
    let bytes = cache::unpacked_archives(&archives).iter().map(|folder| cache::bytes_on_disk(folder)).sum();
    if arguments.dry_run {
        return context.print(&format!("would remove:\n{} {archives}\n", Bytes(bytes)));
    }
    let when_held = if arguments.no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
    let lock_file = LockFile::of_folder(archives.join("lock"));
    let lock = Lock::acquire(&lock_file, when_held, context.interrupt, context.console)?;
    for folder in cache::unpacked_archives(&archives) {
        fs_err::remove_dir_all(folder)?;
    }
    fs_err::remove_file(archives.join("lock"))?;
    // Fails if it also holds something of the user's, which stays.
    let _ = std::fs::remove_dir(&archives);
    drop(lock);
    context.print(&removed(bytes))
}

fn removed(bytes: u64) -> String {
    format!("removed {} ({bytes} bytes)\n", Bytes(bytes))
}
