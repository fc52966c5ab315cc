//! Tracing in a build: the edited functions of the checkout, and edited copies of registry crates.
//! Builds whose dependencies use the crate `memprof` have their own target folder.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;

use crate::cargo::lockfile::{self, Lockfile};
use crate::git::links::{self, Linked};
use crate::inject::checkout_edits;
use crate::job::{Inputs, Job};
use crate::memory_crate;
use crate::shim;
use crate::trace::crates;
use crate::trace::dependency_copies::{self, EditedCopy, LockedCrate};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::request::{OverlayMode, TraceRequest};
use memprof_support::user_error::UserError;

/// Returns the traced functions of the checkout's own crates.
pub fn traced(job: &Job<'_>, metadata: &Metadata, dropped: &Dropped) -> anyhow::Result<Tracing> {
    if job.inputs.patterns.is_empty() {
        return Ok(Tracing::default());
    }
    search(job, metadata, &job.inputs.patterns, dropped)
}

/// Returns the paths of all functions in the current checkout.
pub fn all_functions(job: &Job<'_>) -> anyhow::Result<Vec<String>> {
    let metadata = checkout_edits::metadata(job.toolchain, &job.inputs.workspace().join("Cargo.toml"))?;
    let all = TraceRequest { functions: vec!["**".to_owned()], ..TraceRequest::default() };
    let found = search(job, &metadata, &Patterns::of(&all)?, &Dropped::new())?;
    Ok(found.facts.functions.into_iter().map(|function| function.path).collect())
}

fn search(
    job: &Job<'_>,
    metadata: &Metadata,
    patterns: &Patterns,
    dropped: &Dropped,
) -> anyhow::Result<Tracing> {
    let checkout = &job.inputs.checkout;
    Ok(instrument::find(&Search {
        crates: &crates::own_crates(metadata, checkout, job.toolchain)?,
        patterns,
        base: checkout,
        prefix: Utf8Path::new(""),
        dropped,
        shim_hash: &shim::source_hash(),
    }))
}

/// Returns cargo's target folder for the revision.
pub fn target_folder(job: &Job<'_>) -> anyhow::Result<Utf8PathBuf> {
    let cache = job.inputs.cache;
    Ok(if has_memory_crate(job)? {
        // These crates are compiled against the shim, and cargo does not see when it changes.
        cache.target_of_traced(&format!("memprof-{}", shim::source_hash()))
    } else {
        cache.target()
    })
}

/// Whether crates outside the workspace use the crate `memprof`, which the shim replaces.
pub fn has_memory_crate(job: &Job<'_>) -> anyhow::Result<bool> {
    let Some(lock) = lock_text(job)? else { return Ok(false) };
    let inputs = job.inputs;
    let manifest = inputs.plan.workspace.join("Cargo.toml");
    let manifest = match links::show(inputs.repository, &job.revision().commit, manifest.as_str())? {
        Linked::File(text) | Linked::Link(text) => text,
        Linked::LeadsOutside(_) | Linked::Absent => Vec::new(),
    };
    let is_external = !inputs.overlay_of(OverlayMode::External).is_empty();
    let (lock, manifest) = (String::from_utf8_lossy(&lock), String::from_utf8_lossy(&manifest));
    Ok(memory_crate::is_used_outside(&lock, &manifest, is_external))
}

/// Makes edited copies of the registry crates that patterns name.
pub fn copies(job: &Job<'_>, manifest: &Utf8Path) -> anyhow::Result<Vec<EditedCopy>> {
    let inputs = job.inputs;
    let place = dependency_copies::CopyPlan {
        folder: &inputs.cache.copies(&edits(inputs)),
        manifest,
        offline: inputs.plan.request.build.offline,
        shim_hash: &shim::source_hash(),
    };
    let crates = traced_dependencies(job)?;
    let edits = dependency_copies::Edits {
        patterns: &inputs.patterns,
        checkpoints: &registry_checkpoints(job)?.into_iter().cloned().collect::<Vec<_>>(),
    };
    crates.iter().map(|one| dependency_copies::copy(one, &place, &edits, job.toolchain)).collect()
}

/// Returns the checkpoints in crates of the registry: those whose path begins with the name of a
/// crate in the lock file, and with nothing that the revision has itself.
///
/// # Errors
/// Such a checkpoint is for one ref only. Cargo cannot tell the edited crates of refs apart.
pub fn registry_checkpoints<'a>(job: &Job<'a>) -> anyhow::Result<Vec<&'a CheckpointAt>> {
    let mut found = Vec::new();
    for one in job.checkpoints() {
        let name = one.file.split('/').next().unwrap_or_default();
        let in_repository = job.inputs.repository.tree_entry(&job.revision().commit, name)?.is_some();
        if in_repository
            || name == one.file
            || locked(job, &BTreeSet::from([name.replace('-', "_").as_str()]))?.is_empty()
        {
            continue;
        }
        if let Some(revision) = &one.revision {
            let all = CheckpointAt { revision: None, ..one.clone() };
            return Err(UserError::new(format!(
                "--checkpoint-at {one}: a crate of the registry cannot differ by ref"
            ))
            .help(format!("leave out {revision}: --checkpoint-at {all}"))
            .into());
        }
        found.push(one);
    }
    Ok(found)
}

/// Returns the registry crates that patterns and checkpoints name, in the versions of the revision's
/// lock file.
fn traced_dependencies(job: &Job<'_>) -> anyhow::Result<Vec<LockedCrate>> {
    let checkpoints = registry_checkpoints(job)?;
    let first = |one: &&CheckpointAt| one.file.split('/').next().unwrap_or_default().replace('-', "_");
    let of_checkpoints: Vec<String> = checkpoints.iter().map(first).collect();
    let mut names = job.inputs.patterns.crate_names();
    names.extend(of_checkpoints.iter().map(String::as_str));
    locked(job, &names)
}

/// Returns the registry crates of these names, in the versions of the revision's lock file.
fn locked(job: &Job<'_>, names: &BTreeSet<&str>) -> anyhow::Result<Vec<LockedCrate>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let lock = lock_text(job)?.unwrap_or_default();
    Ok(dependency_copies::named_in(&String::from_utf8_lossy(&lock), names))
}

/// Returns the revision's lock file, its own or the one that it gets.
fn lock_text(job: &Job<'_>) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(side) = job.side() {
        return Ok(Some(side.lockfile.clone()));
    }
    let committed = lockfile::committed_text(job.inputs.plan, job.index, job.inputs.repository)?;
    Ok(committed.or_else(|| match job.lockfile {
        Lockfile::Given(text) => Some(text.clone()),
        Lockfile::NotNeeded | Lockfile::ToGenerate { .. } => None,
    }))
}

/// Returns a name for the edits of traced registry crates. It depends on the target, because with
/// `--target`, crates for build scripts and procedural macros are not edited.
fn edits(inputs: &Inputs<'_>) -> String {
    let target = inputs.plan.request.build.target.as_deref().unwrap_or_default();
    let mut edits = inputs.patterns.texts();
    edits.extend(inputs.plan.request.checkpoints_at.iter().map(|one| format!("checkpoint {one}")));
    let text = format!("{}\n{target}\n{}", shim::source_hash(), edits.join("\n"));
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}
