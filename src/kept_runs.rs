//! The current repository and its earlier runs: finding a run by its id, its folder, or `latest`.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;
use memprof_build::git::workspace_folder;
use memprof_judge::results::run_folder::RunFolder;
use memprof_run::bisect::record::{self, SearchRecord};
use memprof_run::session::{find_run, runs_folder};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// The folder for runs of archives, in the current folder, because an archive has no target folder.
pub const ARCHIVE_RUNS: &str = "memprof-runs";

/// Returns the user's current folder.
pub fn current_directory() -> anyhow::Result<Utf8PathBuf> {
    let current = std::env::current_dir().context("the current folder no longer exists")?;
    memprof_support::paths::utf8(current)
}

/// Opens the repository around the current folder.
pub fn repository() -> anyhow::Result<Repository> {
    Repository::discover(&current_directory()?)
}

/// Returns the folder of a workspace's runs.
pub fn runs(repository: &Repository, manifest: Option<&Utf8Path>) -> anyhow::Result<Utf8PathBuf> {
    if repository.is_bare() {
        // All its workspaces share one folder.
        return runs_folder(repository, Utf8Path::new(""));
    }
    let place = workspace_folder::find(repository, manifest.map(Utf8Path::as_str), &[])?;
    runs_folder(repository, &place.workspace)
}

/// Returns the folder of the workspace's runs, or of archives' runs if there is no repository here.
pub fn runs_of_archives(manifest: Option<&Utf8Path>) -> anyhow::Result<Utf8PathBuf> {
    match repository() {
        Ok(repository) => runs(&repository, manifest),
        // Archives run without a repository.
        Err(_) => Ok(current_directory()?.join(ARCHIVE_RUNS)),
    }
}

/// Finds a run. A run's folder needs no repository around it, because users copy runs between
/// machines.
pub fn find(name: &str, manifest: Option<&Utf8Path>) -> anyhow::Result<RunFolder> {
    let start = current_directory()?;
    let direct = RunFolder(start.join(name));
    if direct.plan().exists() {
        return Ok(direct);
    }
    match repository() {
        Ok(repository) => find_run(&runs(&repository, manifest)?, &start, name),
        // Runs of archives need no repository either.
        Err(error) => match start.join(ARCHIVE_RUNS) {
            of_archives if of_archives.is_dir() => find_run(&of_archives, &start, name),
            _ if name == "latest" => Err(error),
            _ => Err(UserError::new(format!(
                "no run '{name}' found: {} is no run's folder, and {error:#}",
                direct.0
            ))
            .help("name the folder of a run, or go to the repository that has the run")
            .into()),
        },
    }
}

/// Reads the record of a search from its folder. `None` for another kind of run.
pub fn search_record(folder: &RunFolder) -> anyhow::Result<Option<SearchRecord>> {
    if !folder.search().exists() {
        return Ok(None);
    }
    let record: SearchRecord = sealed::read_format(&folder.search(), record::VERSION)?;
    anyhow::ensure!(
        record.version == record::VERSION,
        "{}: format {} is of an older cargo-memprof; run the search again: cargo memprof {}",
        folder.search(),
        record.version,
        record.arguments.join(" ")
    );
    Ok(Some(record))
}

/// Refuses a bisect or a history, whose hundreds of revisions are only partly measured.
pub fn refuse_search(folder: &RunFolder) -> anyhow::Result<()> {
    let Some(record) = search_record(folder)? else { return Ok(()) };
    let (command, name) = (record.task.command(), folder.0.file_name().unwrap_or_default());
    Err(UserError::new(format!("{name} is a {command}"))
        .help(format!(
            "to continue it: cargo memprof {command} --resume {name}\n\
             to show it: cargo memprof report {name}"
        ))
        .into())
}
