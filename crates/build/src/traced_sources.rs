//! Tracing in a build: the edited functions of the checkout, and edited copies of crates outside of it.
//! Builds whose dependencies use the crate `memprof` have their own target folder.

use std::collections::BTreeSet;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;

use crate::cargo::configuration;
use crate::cargo::lockfile::{self, Lockfile};
use crate::cargo_call;
use crate::git::links::{self, Linked};
use crate::inject::checkout_edits;
use crate::job::{Inputs, Job};
use crate::memory_crate;
use crate::shim;
use crate::trace::crates;
use crate::trace::dependency_copies::{self, EditedCopy};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};
use crate::trace::outside_crates::{self, DependencyFolders, OutsideCrate};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::request::{OverlayMode, TraceRequest};
use memprof_support::paths;
use memprof_support::user_error::UserError;

/// Returns the traced functions of the checkout's own crates.
pub(crate) fn traced(job: &Job<'_>, metadata: &Metadata, dropped: &Dropped) -> anyhow::Result<Tracing> {
    if job.inputs.patterns.is_empty() {
        return Ok(Tracing::default());
    }
    search(job, metadata, &job.inputs.patterns, dropped)
}

/// Returns the paths of all functions in the current checkout.
pub(crate) fn all_functions(job: &Job<'_>) -> anyhow::Result<Vec<String>> {
    let workspace = job.inputs.workspace();
    let metadata = checkout_edits::metadata(job.toolchain, &workspace.join("Cargo.toml"), &workspace)?;
    let all = TraceRequest { functions: vec!["**".to_owned()], ..TraceRequest::default() };
    let found = search(job, &metadata, &Patterns::parse(&all)?, &Dropped::new())?;
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
        shim_hash: shim::source_hash(),
    }))
}

/// Returns cargo's target folder for the revision.
pub(crate) fn target_folder(job: &Job<'_>) -> anyhow::Result<Utf8PathBuf> {
    let cache = job.inputs.cache;
    Ok(if has_memory_crate(job)? {
        // Crates with `memprof` are compiled against the shim, and cargo does not see when the shim changes.
        cache.target_of_traced(&format!("memprof-{}", shim::source_hash()))
    } else {
        cache.target()
    })
}

/// Whether crates outside the workspace use the crate `memprof`, which the shim replaces.
pub(crate) fn has_memory_crate(job: &Job<'_>) -> anyhow::Result<bool> {
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

/// What patterns and checkpoints name outside of the repository.
pub(crate) struct NamedDependencies<'a> {
    crates: Vec<OutsideCrate>,
    /// The checkpoints in these crates.
    pub checkpoints: Vec<&'a CheckpointAt>,
}

impl<'a> NamedDependencies<'a> {
    /// Finds them in the lock file of the revision that is checked out. A checkpoint is in a crate if its
    /// path begins with the crate's name, and with nothing that the revision has itself.
    ///
    /// # Errors
    /// Such a checkpoint is for one ref only. Cargo cannot tell the edited crates of refs apart.
    pub fn find(job: &Job<'a>, manifest: &Utf8Path) -> anyhow::Result<Self> {
        let mut outside = Vec::new();
        for one in job.checkpoints() {
            let Some((name, _)) = one.file.split_once('/') else { continue };
            if job.inputs.repository.tree_entry(&job.revision().commit, name)?.is_none() {
                outside.push((one, name.replace('-', "_")));
            }
        }
        let mut names = job.inputs.patterns.crate_names();
        names.extend(outside.iter().map(|(_, name)| name.as_str()));
        let crates = outside_crates(job, manifest, &names)?;
        let is_found = |name: &str| crates.iter().any(|one| one.name.replace('-', "_") == name);
        outside.retain(|(_, name)| is_found(name));
        let checkpoints: Vec<_> = outside.into_iter().map(|(one, _)| one).collect();
        for one in &checkpoints {
            if let Some(revision) = &one.revision {
                let all = CheckpointAt { revision: None, ..(*one).clone() };
                return Err(UserError::new(format!(
                    "--checkpoint-at {one}: a crate outside of the repository cannot differ by ref"
                ))
                .help(format!("leave out {revision}: --checkpoint-at {all}"))
                .into());
            }
        }
        Ok(Self { crates, checkpoints })
    }

    /// Makes edited copies of the crates.
    pub fn copies(&self, job: &Job<'_>, manifest: &Utf8Path) -> anyhow::Result<Vec<EditedCopy>> {
        let inputs = job.inputs;
        let place = dependency_copies::CopyPlan {
            folder: &inputs.cache.copies(&edits(inputs)),
            manifest,
            offline: inputs.plan.request.build.settings.offline,
            shim_hash: shim::source_hash(),
        };
        let checkpoints: Vec<CheckpointAt> = self.checkpoints.iter().copied().cloned().collect();
        let edits = dependency_copies::Edits { patterns: &inputs.patterns, checkpoints: &checkpoints };
        self.crates.iter().map(|one| dependency_copies::copy(one, &place, &edits, job.toolchain)).collect()
    }
}

/// Returns the crates of these names outside of the repository, as in the revision's lock file.
fn outside_crates(
    job: &Job<'_>,
    manifest: &Utf8Path,
    names: &BTreeSet<&str>,
) -> anyhow::Result<Vec<OutsideCrate>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let lock = lock_text(job)?.unwrap_or_default();
    let has_folders = job.side().is_some_and(|side| !side.folders.is_empty() || !side.patches.is_empty());
    let locked = outside_crates::named_in(&String::from_utf8_lossy(&lock), names, has_folders);
    let home = configuration::home().context("found no home folder for cargo; set CARGO_HOME")?;
    let own = [Some(job.inputs.checkout.clone()), manifest.parent().map(Utf8Path::to_owned)];
    let folders = DependencyFolders {
        own: own.into_iter().flatten().collect(),
        of_git: paths::utf8(home)?.join("git/checkouts"),
        replacements: job.inputs.cache.replacements(),
    };
    outside_crates::found(locked, &folders, || {
        let target = job.target(&job.config()?)?;
        // A specification of its own is a file, which metadata does not take.
        let platform = target.as_deref().filter(|target| Utf8Path::new(target).extension() != Some("json"));
        let platform = platform.unwrap_or(job.toolchain.host());
        let metadata = ["metadata", "--format-version", "1", "--all-features", "--filter-platform", platform];
        let command = cargo_call::in_checkout(job, &job.options(), manifest, &metadata);
        let output = command.run()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("cannot read what `{command}` printed"))
    })
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

/// Returns a name for the edits of traced crates outside of the repository. It depends on the target, because with
/// `--target`, crates for build scripts and procedural macros are not edited.
fn edits(inputs: &Inputs<'_>) -> String {
    let target = inputs.plan.request.build.settings.target.as_deref().unwrap_or_default();
    let mut edits = inputs.patterns.texts();
    edits.extend(inputs.plan.request.checkpoints_at.iter().map(|one| format!("checkpoint {one}")));
    let text = format!("{}\n{target}\n{}", shim::source_hash(), edits.join("\n"));
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}
