//! `clean`: removes what the tool keeps for a repository, or the unpacked archives.

use std::io::{self, IsTerminal, Write};

use camino::Utf8PathBuf;

use crate::checkout::cache;
use crate::cli::arguments::setup::CleanArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::kept_runs::{repository, runs};
use crate::run::session::Session;
use crate::support::bytes::Bytes;
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::{Lock, LockFile, WhenHeld};
use crate::support::user_error::UserError;

/// Removes the repository's cache and runs, or with `--archives` the unpacked archives.
pub fn clean(context: CommandContext<'_>, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
    if arguments.archives {
        return clean_archives(context, arguments);
    }
    let repository = repository()?;
    let session = Session::open(&repository, context.console, context.interrupt)?;
    let lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
    let runs = runs(&repository, arguments.workspace.manifest_path.as_deref()).ok();
    let folders = [Some(session.cache.folder().to_owned()), runs.clone()];
    let folders: Vec<Utf8PathBuf> = folders.into_iter().flatten().filter(|folder| folder.exists()).collect();
    if arguments.dry_run {
        return context.print(&format!("would remove:\n{}", with_sizes(&folders)));
    }
    if !is_agreed(arguments, &folders)? {
        return context.print("nothing was removed\n");
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
    if !is_agreed(arguments, std::slice::from_ref(&archives))? {
        return context.print("nothing was removed\n");
    }
    let when_held = WhenHeld::of_no_wait(arguments.no_wait);
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

/// Returns a line for each folder: its size and its path.
fn with_sizes(folders: &[Utf8PathBuf]) -> String {
    let line = |folder: &Utf8PathBuf| format!("{} {folder}", Bytes(cache::bytes_on_disk(folder)));
    folders.iter().map(line).map(|line| line + "\n").collect()
}

/// Shows what would be removed, and asks whether to remove it. With `--yes`, does neither.
///
/// # Errors
/// There is no terminal, so nobody can answer.
fn is_agreed(arguments: &CleanArguments, folders: &[Utf8PathBuf]) -> anyhow::Result<bool> {
    if arguments.yes {
        return Ok(true);
    }
    let list = with_sizes(folders);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let archives = if arguments.archives { " --archives" } else { "" };
        return Err(UserError::new(format!(
            "without a terminal, clean needs --yes to remove\n{}",
            list.trim_end()
        ))
        .help(format!("cargo memprof clean{archives} --yes"))
        .into());
    }
    write!(io::stderr(), "This removes:\n{list}Continue? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn removed(bytes: u64) -> String {
    format!("removed {} ({bytes} bytes)\n", Bytes(bytes))
}
