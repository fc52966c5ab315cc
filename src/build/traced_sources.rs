//! Tracing in a build: the edited functions of the checkout, and edited copies of registry crates.
//! Builds with such copies have their own target folder.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;

use crate::build::job::{Inputs, Job};
use crate::build::shim;
use crate::cargo::lockfile::{self, Lockfile};
use crate::inject::checkout_edits;
use crate::plan::request::TraceRequest;
use crate::trace::crates;
use crate::trace::dependency_copies::{self, EditedCopy, LockedCrate};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};

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
    let is_plain = traced_dependencies(job)?.is_empty();
    Ok(if is_plain { cache.target() } else { cache.target_of_traced(&edits(job.inputs)) })
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
    crates.iter().map(|one| dependency_copies::copy(one, &place, &inputs.patterns, job.toolchain)).collect()
}

/// Returns the registry crates that patterns name, in the versions of the revision's lock file.
fn traced_dependencies(job: &Job<'_>) -> anyhow::Result<Vec<LockedCrate>> {
    let inputs = job.inputs;
    if inputs.patterns.crate_names().is_empty() {
        return Ok(Vec::new());
    }
    let committed = lockfile::committed_text(inputs.plan, job.index, inputs.repository)?;
    let lock = match (&committed, job.lockfile) {
        (Some(text), _) | (None, Lockfile::Given(text)) => text.as_slice(),
        _ => return Ok(Vec::new()),
    };
    Ok(dependency_copies::named_in(&String::from_utf8_lossy(lock), &inputs.patterns))
}

/// Returns a name for the edits of traced registry crates. It depends on the target, because with
/// `--target`, crates for build scripts and procedural macros are not edited.
fn edits(inputs: &Inputs<'_>) -> String {
    let target = inputs.plan.request.build.target.as_deref().unwrap_or_default();
    let text = format!("{}\n{target}\n{}", shim::source_hash(), inputs.patterns.texts().join("\n"));
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}
