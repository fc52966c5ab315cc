//! What `init` can learn of a repository without building it.

use camino::Utf8Path;

use crate::cargo::toolchain::Toolchain;
use crate::cli::init::Facts;
use crate::git::repository::Repository;
use crate::git::workspace_folder;
use crate::inject::checkout_edits;

/// Branches, remotes, packages. What cannot be learnt is left empty.
pub fn facts(repository: &Repository, manifest: Option<&Utf8Path>) -> anyhow::Result<Facts> {
    let references = repository.references()?;
    let branches: Vec<String> = references
        .iter()
        .filter_map(|name| name.strip_prefix("refs/heads/"))
        .map(ToOwned::to_owned)
        .collect();
    let symbolic = |name: &str| {
        let answer = repository.git().args(["symbolic-ref", "--quiet", "--short", name]).run();
        answer.ok().map(|answer| answer.text())
    };
    let default_branch = symbolic("refs/remotes/origin/HEAD")
        .map(|name| name.trim_start_matches("origin/").to_owned())
        .filter(|name| branches.contains(name));
    let place = workspace_folder::find(repository, manifest.map(Utf8Path::as_str), &[])?;
    let workspace = repository.root().join(&place.workspace);
    let toolchain = Toolchain { pinned: None, directory: workspace.clone(), version: String::new() };
    let packages = checkout_edits::metadata(&toolchain, &workspace.join("Cargo.toml"))
        .map(|metadata| metadata.packages.iter().map(|package| package.name.to_string()).collect())
        .unwrap_or_default();
    let lock = place.workspace.join("Cargo.lock");
    let has_lockfile = repository.show("HEAD", lock.as_str()).ok().flatten().is_some();
    Ok(Facts {
        default_branch,
        current_branch: symbolic("HEAD"),
        branches,
        remotes: repository.remotes()?,
        packages,
        tests: Vec::new(),
        has_lockfile,
    })
}
