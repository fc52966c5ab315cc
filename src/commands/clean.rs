//! `clean`: removes what the tool keeps for a repository, the unpacked archives, or the programs made
//! from notebooks.

use std::io::{self, IsTerminal, Write};

use camino::{Utf8Path, Utf8PathBuf};

use crate::arguments::setup::CleanArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs::{repository, runs};
use crate::notebook::place::made_repositories;
use memprof_build::checkout::cache;
use memprof_build::git::repository::Repository;
use memprof_run::saved_baselines;
use memprof_run::session::Session;
use memprof_support::bytes::Bytes;
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};
use memprof_support::process::shell_quoted;
use memprof_support::user_error::UserError;

/// Removes the repository's cache and runs; with `--archives` the unpacked archives, with `--notebooks`
/// the programs made from notebooks.
pub fn clean(context: CommandContext<'_>, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
    if arguments.archives {
        return clean_archives(context, arguments);
    }
    if arguments.notebooks {
        return clean_notebooks(context, arguments);
    }
    let repository = repository()?;
    let session = Session::open(&repository, context.console, context.interrupt)?;
    let lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
    let runs = runs(&repository, arguments.workspace.manifest_path.as_deref()).ok();
    let baselines = runs.as_deref().map(saved_baselines::names).unwrap_or_default();
    if !arguments.baseline.is_empty() {
        return clean_baselines(context, arguments, runs.as_deref(), &baselines);
    }
    let is_kept = !baselines.is_empty() && !arguments.baselines;
    let of_runs = match &runs {
        Some(runs) if is_kept => all_but_baselines(runs),
        runs => runs.iter().cloned().collect(),
    };
    let folders: Vec<Utf8PathBuf> = [session.cache.folder().to_owned()]
        .into_iter()
        .chain(of_runs.iter().cloned())
        .filter(|folder| folder.exists())
        .collect();
    let kept = if is_kept {
        format!("kept saved baselines: {} (to remove them too: --baselines)\n", baselines.join(", "))
    } else {
        String::new()
    };
    if arguments.dry_run {
        return context.print(&format!("would remove:\n{}{kept}", with_sizes(&folders)));
    }
    if !is_agreed(arguments, &folders)? {
        return context.print("nothing was removed\n");
    }
    let bytes = session.cache.clean(&repository, lock, &of_runs)?;
    let latest = runs.map(|runs| runs.join("latest"));
    if let Some(latest) = latest.filter(|latest| latest.is_symlink()) {
        fs_err::remove_file(latest)?;
    }
    context.print(&format!("{}{kept}", removed(bytes)))
}

/// Returns the folders of runs, without that of the saved baselines.
fn all_but_baselines(runs: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = runs.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let folders = folders.map(camino::Utf8DirEntry::into_path);
    folders.filter(|folder| *folder != saved_baselines::folder(runs)).collect()
}

/// Removes the saved baselines that the user named.
fn clean_baselines(
    context: CommandContext<'_>,
    arguments: &CleanArguments,
    runs: Option<&Utf8Path>,
    known: &[String],
) -> anyhow::Result<ExitCode> {
    let mut folders = Vec::new();
    for name in &arguments.baseline {
        let Some(runs) = runs.filter(|_| known.contains(name)) else {
            let all = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(UserError::new(format!("no saved baseline '{name}'"))
                .help(format!("saved baselines: {all}"))
                .into());
        };
        folders.push(saved_baselines::folder(runs).join(name));
    }
    if arguments.dry_run {
        return context.print(&format!("would remove:\n{}", with_sizes(&folders)));
    }
    if !is_agreed(arguments, &folders)? {
        return context.print("nothing was removed\n");
    }
    let bytes = folders.iter().map(|folder| cache::bytes_on_disk(folder)).sum();
    for folder in folders {
        fs_err::remove_dir_all(folder)?;
    }
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

fn clean_notebooks(context: CommandContext<'_>, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
    let all = made_repositories(&cache::home()?);
    let mut repositories = Vec::new();
    for entry in all.read_dir_utf8().into_iter().flatten() {
        repositories.push(Repository::discover(entry?.path())?);
    }
    let mut sessions = Vec::new();
    for repository in &repositories {
        sessions.push((repository, Session::open(repository, context.console, context.interrupt)?));
    }
    let caches = sessions.iter().map(|(_, session)| session.cache.folder().to_owned());
    let folders: Vec<Utf8PathBuf> =
        std::iter::once(all.clone()).chain(caches).filter(|one| one.exists()).collect();
    if arguments.dry_run {
        return context.print(&format!("would remove:\n{}", with_sizes(&folders)));
    }
    if !is_agreed(arguments, &folders)? {
        return context.print("nothing was removed\n");
    }
    let mut bytes = 0;
    for (repository, session) in sessions {
        let lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
        bytes += session.cache.clean(repository, lock, &[])?;
    }
    if all.exists() {
        bytes += cache::bytes_on_disk(&all);
        fs_err::remove_dir_all(&all)?;
    }
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
        return Err(UserError::new(format!(
            "without a terminal, clean needs --yes to remove\n{}",
            list.trim_end()
        ))
        .help(agreeing(arguments))
        .into());
    }
    write!(io::stderr(), "This removes:\n{list}Continue? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Returns the command that removes the same without asking.
fn agreeing(arguments: &CleanArguments) -> String {
    let CleanArguments { archives, notebooks, baselines, baseline, workspace, .. } = arguments;
    let mut words = vec!["cargo memprof clean".to_owned()];
    for (is_given, flag) in [(archives, "--archives"), (notebooks, "--notebooks"), (baselines, "--baselines")]
    {
        words.extend(is_given.then(|| flag.to_owned()));
    }
    words.extend(baseline.iter().map(|name| format!("--baseline {}", shell_quoted(name.as_ref()))));
    let manifest = workspace.manifest_path.iter();
    words.extend(manifest.map(|path| format!("--manifest-path {}", shell_quoted(path.as_ref()))));
    words.push("--yes".to_owned());
    words.join(" ")
}

fn removed(bytes: u64) -> String {
    format!("removed {} ({bytes} bytes)\n", Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::workspace::WorkspaceArguments;

    #[test]
    fn the_advised_command_removes_no_more_than_was_asked_for() {
        assert_eq!(agreeing(&CleanArguments::default()), "cargo memprof clean --yes");
        let archives = CleanArguments { archives: true, ..CleanArguments::default() };
        assert_eq!(agreeing(&archives), "cargo memprof clean --archives --yes");
        let old = CleanArguments {
            baseline: vec!["old".to_owned(), "older".to_owned()],
            workspace: WorkspaceArguments { manifest_path: Some("a b/Cargo.toml".into()) },
            ..CleanArguments::default()
        };
        let advised =
            "cargo memprof clean --baseline old --baseline older --manifest-path 'a b/Cargo.toml' --yes";
        assert_eq!(agreeing(&old), advised);
        let all = CleanArguments { baselines: true, ..CleanArguments::default() };
        assert_eq!(agreeing(&all), "cargo memprof clean --baselines --yes");
    }
}
