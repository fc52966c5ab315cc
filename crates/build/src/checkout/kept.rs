//! Refs that keep a run's revisions from git's garbage collection: a branch may be rewritten while
//! it is measured. They stay until the next run begins, so that `--resume` finds the revisions too.

use crate::git::fetch::KEPT_REFS;
use crate::git::repository::Repository;
use memprof_plan::resolved::Revision;

/// Keeps these revisions, in addition to those that are kept already. With a revision, git keeps
/// its whole history.
pub fn keep(repository: &Repository, revisions: &[Revision]) -> anyhow::Result<()> {
    let kept = kept(repository)?;
    let mut names: Vec<String> =
        revisions.iter().map(|revision| format!("{KEPT_REFS}{}", revision.commit)).collect();
    names.sort();
    names.dedup();
    let new = names.iter().filter(|name| !kept.contains(name));
    change(repository, new.flat_map(|name| ["update ", name, " ", &name[KEPT_REFS.len()..], "\n"]).collect())
}

/// Removes the refs of earlier runs. The caller holds the lock, so no run needs them.
pub fn forget(repository: &Repository) -> anyhow::Result<()> {
    let kept = kept(repository)?;
    change(repository, kept.iter().flat_map(|name| ["delete ", name, "\n"]).collect())
}

fn kept(repository: &Repository) -> anyhow::Result<Vec<String>> {
    let mut names = repository.references()?;
    names.retain(|name| name.starts_with(KEPT_REFS));
    Ok(names)
}

fn change(repository: &Repository, changes: String) -> anyhow::Result<()> {
    if !changes.is_empty() {
        repository.git().args(["update-ref", "--no-deref", "--stdin"]).input(changes).run()?;
    }
    Ok(())
}
