//! Finds the cargo workspace that the user means.

use anyhow::Context;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item, Value};

use crate::git::links::{self, Linked};
use crate::git::repository::{Lookup, Repository};
use memprof_plan::resolved::Revision;
use memprof_support::advice::Advice;
use memprof_support::process::{Command, shell_quoted};
use memprof_support::process_error::ProcessError;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// A cargo workspace, by paths relative to the repository's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceFolder {
    /// The folder of the workspace's manifest. Empty for the root.
    pub workspace: Utf8PathBuf,
    /// The manifest that the user named, if any.
    pub manifest_path: Option<String>,
    /// The member whose manifest this is. Cargo then builds only this member.
    pub package: Option<String>,
}

/// A missing manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoManifest {
    /// The manifest that the user named.
    #[error("no manifest '{path}' in the repository {repository}, nor in the refs")]
    Named {
        /// Relative to the root, if it is in the repository.
        path: String,
        /// The repository's root.
        repository: Utf8PathBuf,
        /// Other manifests, as the user can name them, the least deep first.
        elsewhere: Vec<String>,
    },
    /// The nearest manifest above the current folder.
    #[error("no Cargo.toml in {start} or above it in the repository, nor in the refs")]
    Nearest {
        /// Where the search began.
        start: Utf8PathBuf,
        /// Other manifests, the least deep first.
        elsewhere: Vec<String>,
    },
}

/// How many manifests the advice names.
const MOST_CHOICES: usize = 6;

impl Advice for NoManifest {
    fn help(&self) -> Option<String> {
        let (Self::Named { elsewhere, .. } | Self::Nearest { elsewhere, .. }) = self;
        if elsewhere.is_empty() {
            return Some("is this a Rust repository?".to_owned());
        }
        let choice = |path: &String| format!("--manifest-path {}", shell_quoted(path.as_ref()));
        let mut choices: Vec<String> = elsewhere.iter().take(MOST_CHOICES).map(choice).collect();
        let more = elsewhere.len() - choices.len();
        choices.extend((more > 0).then(|| format!("one of {more} more")));
        Some(format!("choose one: {}", choices.join(", or ")))
    }
}

/// Returns the workspace of the manifest that the user named, relative to the current folder, or
/// else of the nearest manifest above it. What is not on the disk is looked for in the revisions: a
/// bare repository has no files, and a clone may have none checked out.
pub fn find(
    repository: &Repository,
    named: Option<&str>,
    revisions: &[Revision],
) -> anyhow::Result<WorkspaceFolder> {
    if let Some(found) = on_disk(repository, named)? {
        return Ok(found);
    }
    let commits = commits(repository, revisions)?;
    for commit in &commits {
        let tree = ManifestTree { repository, commit };
        if let Some(found) = tree.find(named)? {
            return Ok(found);
        }
    }
    let elsewhere = match commits.first() {
        Some(commit) => manifests(repository, commit)?,
        None => Vec::new(),
    };
    Err(missing(repository, named, elsewhere).advised())
}

/// Returns the folder of the workspace that a package of a commit belongs to. It is the package's own if
/// there is no other.
pub fn of_package(repository: &Repository, commit: &str, folder: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let tree = ManifestTree { repository, commit };
    let manifest = folder.join("Cargo.toml");
    let Some(document) = tree.read(&manifest)? else { return Ok(folder.to_owned()) };
    let workspace = tree.workspace(&manifest, &document)?;
    Ok(workspace.parent().unwrap_or(Utf8Path::new("")).to_owned())
}

fn on_disk(repository: &Repository, named: Option<&str>) -> anyhow::Result<Option<WorkspaceFolder>> {
    if repository.is_bare() {
        return Ok(None);
    }
    let root = repository.root();
    let manifest = if let Some(named) = named {
        repository.start().join(named).canonicalize_utf8().ok().filter(|path| path.is_file())
    } else {
        let above = repository.start().ancestors().take_while(|folder| folder.starts_with(root));
        above.map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file())
    };
    let Some(manifest) = manifest.filter(|manifest| manifest.starts_with(root)) else { return Ok(None) };
    let workspace = workspace_manifest(&manifest)?;
    // A workspace around the repository is not in the checkout.
    let manifest_of_all = if workspace.starts_with(root) { &workspace } else { &manifest };
    let folder = manifest_of_all.parent().context("a manifest has a folder")?.strip_prefix(root)?;
    let relative = manifest.strip_prefix(root)?.to_string();
    let package = if *manifest_of_all == manifest {
        None
    } else {
        package_name(&parsed(&followed::read(&manifest)?, &manifest)?)
    };
    let workspace = folder.to_owned();
    Ok(Some(WorkspaceFolder { workspace, manifest_path: named.map(|_| relative), package }))
}

/// Returns the commits to search: those of the revisions, or else `HEAD`.
fn commits(repository: &Repository, revisions: &[Revision]) -> anyhow::Result<Vec<String>> {
    if !revisions.is_empty() {
        return Ok(revisions.iter().map(|revision| revision.commit.clone()).collect());
    }
    Ok(match repository.look_up("HEAD")? {
        Lookup::Commit(head) => vec![head],
        Lookup::Ambiguous(_) | Lookup::NotACommit(_) | Lookup::Missing => Vec::new(),
    })
}

/// The manifests of a commit.
struct ManifestTree<'a> {
    repository: &'a Repository,
    commit: &'a str,
}

impl ManifestTree<'_> {
    fn find(&self, named: Option<&str>) -> anyhow::Result<Option<WorkspaceFolder>> {
        let Some(manifest) = self.manifest(named)? else { return Ok(None) };
        let document = self.read(&manifest)?.with_context(|| format!("{manifest} is there"))?;
        let workspace = self.workspace(&manifest, &document)?;
        let package = if workspace == manifest { None } else { package_name(&document) };
        let folder = workspace.parent().unwrap_or(Utf8Path::new("")).to_owned();
        let manifest_path = named.map(|_| manifest.into_string());
        Ok(Some(WorkspaceFolder { workspace: folder, manifest_path, package }))
    }

    /// Returns the path of the manifest that is meant. A bare repository has no folders, so that
    /// every path begins at its root.
    fn manifest(&self, named: Option<&str>) -> anyhow::Result<Option<Utf8PathBuf>> {
        let root = self.repository.root();
        let start = if self.repository.is_bare() { root } else { self.repository.start() };
        let Ok(inside) = start.strip_prefix(root) else { return Ok(None) };
        let candidates: Vec<Utf8PathBuf> = match named {
            Some(named) => {
                let path = start.join(named);
                // Names from a commit are relative, and so is one that begins at the root.
                let path = path.strip_prefix(root).unwrap_or(&path);
                normal(path).into_iter().collect()
            }
            None => inside.ancestors().map(|folder| folder.join("Cargo.toml")).collect(),
        };
        for path in candidates {
            if self.read(&path)?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns the manifest of the workspace, by cargo's rules: `package.workspace`, or else the
    /// nearest manifest above that has a `[workspace]` and does not exclude this one.
    fn workspace(&self, manifest: &Utf8Path, document: &DocumentMut) -> anyhow::Result<Utf8PathBuf> {
        let folder = manifest.parent().unwrap_or(Utf8Path::new(""));
        if document.contains_key("workspace") {
            return Ok(manifest.to_owned());
        }
        let named = package_of(document).and_then(|package| package.get("workspace")).and_then(Item::as_str);
        if let Some(named) = named {
            let path = normal(&folder.join(named).join("Cargo.toml"));
            return path
                .with_context(|| format!("package.workspace of {manifest} leads out of the repository"));
        }
        for above in folder.ancestors().skip(1) {
            let path = above.join("Cargo.toml");
            let Some(document) = self.read(&path)? else { continue };
            let Some(workspace) = document.get("workspace") else { continue };
            let excluded = workspace.get("exclude").and_then(Item::as_array);
            let leaves_out = |entry: &Value| {
                entry
                    .as_str()
                    .and_then(|entry| normal(&above.join(entry)))
                    .is_some_and(|out| folder.starts_with(out))
            };
            if !excluded.is_some_and(|entries| entries.iter().any(leaves_out)) {
                return Ok(path);
            }
        }
        Ok(manifest.to_owned())
    }

    fn read(&self, path: &Utf8Path) -> anyhow::Result<Option<DocumentMut>> {
        match links::show(self.repository, self.commit, path.as_str())? {
            Linked::File(text) | Linked::Link(text) => Ok(Some(parsed(&text, path)?)),
            Linked::LeadsOutside(_) | Linked::Absent => Ok(None),
        }
    }
}

/// Resolves `.` and `..`; `None` if the path leaves the root.
fn normal(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut normal = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::Normal(name) => normal.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if normal.pop() => {}
            Utf8Component::ParentDir | Utf8Component::RootDir | Utf8Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

fn parsed(text: &[u8], path: &Utf8Path) -> anyhow::Result<DocumentMut> {
    String::from_utf8_lossy(text).parse().with_context(|| format!("{path} is not TOML"))
}

/// Returns the table `[package]` of a manifest. Old ones call it `[project]`.
pub(crate) fn package_of(manifest: &DocumentMut) -> Option<&Item> {
    manifest.get("package").or_else(|| manifest.get("project"))
}

/// Returns the name of a manifest's package.
pub(crate) fn package_name(manifest: &DocumentMut) -> Option<String> {
    let name = package_of(manifest)?.get("name");
    name.and_then(Item::as_str).map(str::to_owned)
}

/// Whether this is a workspace's own manifest. Cargo looks for no other one then.
fn is_workspace(manifest: &Utf8Path) -> bool {
    let text = followed::text(manifest).ok();
    let document = text.and_then(|text| text.parse::<DocumentMut>().ok());
    document.is_some_and(|document| {
        let has_other = package_of(&document).is_some_and(|package| package.get("workspace").is_some());
        document.contains_key("workspace") && !has_other
    })
}

/// Returns the workspace's manifest, which depends on `package.workspace`, `members` and `exclude`.
/// Cargo is asked, unless the answer is plain.
fn workspace_manifest(manifest: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    if is_workspace(manifest) {
        return manifest.canonicalize_utf8().context("the workspace's manifest");
    }
    // Cargo tells its subcommands its own path. That is not rustup's proxy, which reads the
    // toolchain file and may begin a download. The root folder has no toolchain file. Cargo's own
    // configuration may have `[unstable]` keys without which it cannot read the manifest.
    let (cargo, folder) = match std::env::var_os("CARGO") {
        Some(cargo) => (cargo, manifest.parent().context("a manifest has a folder")?),
        None => ("cargo".into(), Utf8Path::new("/")),
    };
    let located = Command::new(cargo)
        .args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"])
        .arg(manifest)
        .current_dir(folder)
        .run();
    match located {
        Ok(located) => {
            Utf8PathBuf::from(located.text()).canonicalize_utf8().context("the workspace's manifest")
        }
        Err(ProcessError::Failed { status, stderr, .. }) if status.code().is_some() => {
            let reason = stderr.trim().trim_start_matches("error: ");
            Err(UserError::new(format!("cargo cannot read the workspace: {reason}"))
                .help(format!("see the same with: cargo metadata --no-deps --manifest-path {manifest}"))
                .into())
        }
        Err(error) => Err(anyhow::Error::new(error).context("could not find the cargo workspace")),
    }
}

/// `elsewhere` is relative to the repository's root.
fn missing(repository: &Repository, named: Option<&str>, mut elsewhere: Vec<String>) -> NoManifest {
    let (root, start) = (repository.root(), repository.start());
    if start != root && !repository.is_bare() {
        for path in &mut elsewhere {
            *path = root.join(&path).into_string();
        }
    }
    match named {
        Some(path) => {
            let path = Utf8Path::new(path);
            let path = path.strip_prefix(root).unwrap_or(path).to_string();
            NoManifest::Named { path, repository: root.to_owned(), elsewhere }
        }
        None => NoManifest::Nearest { start: start.to_owned(), elsewhere },
    }
}

/// Returns the manifests of a commit, the least deep first.
fn manifests(repository: &Repository, commit: &str) -> anyhow::Result<Vec<String>> {
    let mut paths = repository.files(commit, "")?;
    paths.retain(|path| Utf8Path::new(path).file_name() == Some("Cargo.toml"));
    paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_manifest_names_its_package_below_project() {
        let name = |text: &str| package_name(&text.parse().unwrap());
        assert_eq!(name("[project]\nname = 'old'").as_deref(), Some("old"));
        assert_eq!(name("[package]\nname = 'new'").as_deref(), Some("new"));
        assert_eq!(name("[workspace]\nmembers = []"), None);
    }
}
