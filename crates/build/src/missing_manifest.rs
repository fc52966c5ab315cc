//! Revisions that lack the manifest of the workspace: its folder was moved, or was added later.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;

use crate::failure::{BuildFailure, Fault};
use crate::git::repository::{Repository, SUBMODULE, SYMBOLIC_LINK};
use crate::inject::patch::Patch;
use memprof_plan::resolved::Plan;

/// Returns the indices of the revisions of a plan that lack it.
pub(crate) fn revisions(
    plan: &Plan,
    repository: &Repository,
    patches: &[Patch],
) -> anyhow::Result<BTreeSet<usize>> {
    let mut lacking = BTreeSet::new();
    for index in 0..plan.revisions.len() {
        lacking.extend(path(plan, index, repository, patches)?.map(|_| index));
    }
    Ok(lacking)
}

/// Returns why a revision cannot be built, if it lacks the manifest.
pub(crate) fn failure(
    plan: &Plan,
    index: usize,
    repository: &Repository,
    patches: &[Patch],
) -> anyhow::Result<Option<BuildFailure>> {
    let path = path(plan, index, repository, patches)?;
    Ok(path.map(|path| {
        let first_errors = format!("{} has no {path}", plan.revisions[index].name);
        BuildFailure { first_errors, fault: Fault::Request, ..BuildFailure::default() }
    }))
}

/// Returns the path of the manifest if a revision lacks it, and no patch adds it.
fn path(
    plan: &Plan,
    index: usize,
    repository: &Repository,
    patches: &[Patch],
) -> anyhow::Result<Option<Utf8PathBuf>> {
    let manifest = plan.workspace.join("Cargo.toml");
    if patches.iter().any(|patch| patch.paths().contains(&manifest)) {
        return Ok(None);
    }
    let commit = &plan.revisions[index].commit;
    for path in manifest.ancestors().filter(|path| !path.as_str().is_empty()) {
        if let Some((mode, _)) = repository.tree_entry(commit, path.as_str())? {
            // Behind a link or a submodule, only the checkout knows.
            let is_there = path == manifest || [SYMBOLIC_LINK, SUBMODULE].contains(&mode);
            return Ok((!is_there).then_some(manifest));
        }
    }
    Ok(Some(manifest))
}
