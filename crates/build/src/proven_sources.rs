//! Lets cargo compile again what it would wrongly take for fresh, and compares what it built with the checkout.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use crate::cargo::messages::Messages;
use crate::freshness::{Check, SourceRecords};
use crate::git::program::nul_separated;
use crate::job::Job;
use crate::prepared_source::PreparedSource;
use crate::traced_sources;
use crate::unwatched_files::UnwatchedFiles;

/// Removes what a build must compile again although cargo does not see it. Returns the files that cargo does not look at.
pub(crate) fn remove_outdated(job: &Job<'_>, prepared: &PreparedSource) -> anyhow::Result<UnwatchedFiles> {
    let cache = job.inputs.cache;
    let mut records = SourceRecords::load(&cache.sources());
    let files = unwatched_files(job, prepared)?;
    if records.remove_outdated(&files, &traced_sources::target_folder(job)?, cache.folder())? {
        records.save(&cache.sources())?;
    }
    Ok(files)
}

/// Compares what cargo compiled or calls fresh with the checkout, and keeps records of it.
pub(crate) fn check(
    job: &Job<'_>,
    prepared: &PreparedSource,
    messages: &Messages,
    unwatched: &UnwatchedFiles,
) -> anyhow::Result<Check> {
    let path = job.inputs.cache.sources();
    let mut records = SourceRecords::load(&path);
    let workspace = prepared.manifest.parent().unwrap_or(&prepared.manifest);
    let check = records.check(messages, unwatched, workspace, &job.inputs.checkout)?;
    records.save(&path)?;
    Ok(check)
}

/// Returns the files of the checkout: those of the revision, with what was put into it.
fn unwatched_files(job: &Job<'_>, prepared: &PreparedSource) -> anyhow::Result<UnwatchedFiles> {
    let list = ["--no-optional-locks", "ls-tree", "-r", "-z", "--full-tree", &job.revision().tree];
    let listed = nul_separated(&job.inputs.repository.git().args(list).run()?.stdout);
    let entries = listed.iter().filter_map(|line| line.split_once('\t'));
    let mut files: BTreeMap<Utf8PathBuf, String> =
        entries.map(|(facts, path)| (path.into(), facts.to_owned())).collect();
    let injected = prepared.injection.iter().map(|(path, content)| (path, Some(content)));
    let changed = prepared.changes.iter().map(|(path, content)| (path, content.as_ref()));
    for (path, content) in injected.chain(changed) {
        match content {
            Some(content) => _ = files.insert(path.clone(), blake3::hash(content).to_hex().to_string()),
            None => _ = files.remove(path),
        }
    }
    Ok(UnwatchedFiles::from_files(&job.inputs.checkout, &files))
}
