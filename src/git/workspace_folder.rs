//! Finds the cargo workspace that the user means.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use crate::plan::resolved::Revision;
use crate::support::advice::Advice;
use crate::support::process::Command;

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
pub enum NoManifest {
    /// The manifest that the user named.
    #[error("no manifest '{path}' in the repository {repository}")]
    Named {
        /// As typed.
        path: String,
        /// The repository's root.
        repository: Utf8PathBuf,
    },
    /// The nearest manifest above the current folder.
    #[error("no Cargo.toml in {start} or above it in the repository")]
    Nearest {
        /// Where the search began.
        start: Utf8PathBuf,
        /// Other manifests, the least deep first.
        elsewhere: Vec<String>,
    },
}

impl Advice for NoManifest {
    fn help(&self) -> Option<String> {
        match self {
            Self::Named { .. } => None,
            Self::Nearest { elsewhere, .. } if elsewhere.is_empty() => {
                Some("is this a Rust repository?".to_owned())
            }
            Self::Nearest { elsewhere, .. } => {
                Some(format!("choose one with --manifest-path: {}", elsewhere.join(", ")))
            }
        }
    }
}

/// Returns the workspace of the manifest that the user named, relative to the current folder, or
/// else of the nearest manifest above it. A bare repository has the paths of its first revision.
pub fn find(
    repository: &Repository,
    named: Option<&str>,
    revisions: &[Revision],
) -> anyhow::Result<WorkspaceFolder> {
    let elsewhere = || manifests(repository, revisions);
    if repository.is_bare() {
        let path = named.unwrap_or("Cargo.toml");
        if !elsewhere()?.iter().any(|manifest| manifest == path) {
            return Err(missing(repository, named, elsewhere()?).advised());
        }
        let workspace = Utf8Path::new(path).parent().unwrap_or(Utf8Path::new("")).to_owned();
        return Ok(WorkspaceFolder { workspace, manifest_path: named.map(str::to_owned), package: None });
    }
    let root = repository.root();
    let manifest = if let Some(named) = named {
        repository.start().join(named).canonicalize_utf8().ok().filter(|path| path.is_file())
    } else {
        let above = repository.start().ancestors().take_while(|folder| folder.starts_with(root));
        above.map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file())
    };
    let Some(manifest) = manifest.filter(|manifest| manifest.starts_with(root)) else {
        return Err(missing(repository, named, elsewhere()?).advised());
    };
    let workspace = workspace_manifest(&manifest)?;
    // A workspace around the repository is not in the checkout.
    let manifest_of_all = if workspace.starts_with(root) { &workspace } else { &manifest };
    let folder = manifest_of_all.parent().context("a manifest has a folder")?.strip_prefix(root)?;
    let relative = manifest.strip_prefix(root)?.to_string();
    let package = if *manifest_of_all == manifest { None } else { package_name(&manifest)? };
    Ok(WorkspaceFolder { workspace: folder.to_owned(), manifest_path: named.map(|_| relative), package })
}

fn package_name(manifest: &Utf8Path) -> anyhow::Result<Option<String>> {
    let document: toml_edit::DocumentMut =
        fs_err::read_to_string(manifest)?.parse().with_context(|| format!("{manifest} is not TOML"))?;
    let name = document.get("package").and_then(|package| package.get("name"));
    Ok(name.and_then(toml_edit::Item::as_str).map(str::to_owned))
}

/// Asks cargo for the workspace's manifest, which depends on `package.workspace`, `members` and
/// `exclude`.
fn workspace_manifest(manifest: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    // Cargo tells its subcommands its own path. That is not rustup's proxy, which reads the
    // toolchain file and may begin a download. The root folder has no toolchain file.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let located = Command::new(cargo)
        .args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"])
        .arg(manifest)
        .current_dir("/")
        .run()
        .context("could not find the cargo workspace")?;
    Utf8PathBuf::from(located.text()).canonicalize_utf8().context("the workspace's manifest")
}

fn missing(repository: &Repository, named: Option<&str>, elsewhere: Vec<String>) -> NoManifest {
    match named {
        Some(path) => NoManifest::Named { path: path.to_owned(), repository: repository.root().to_owned() },
        None => NoManifest::Nearest {
            start: repository.start().to_owned(),
            elsewhere: elsewhere.into_iter().take(3).collect(),
        },
    }
}

/// Returns the manifests of the first revision, the least deep first.
fn manifests(repository: &Repository, revisions: &[Revision]) -> anyhow::Result<Vec<String>> {
    let Some(first) = revisions.first() else { return Ok(Vec::new()) };
    let mut paths = repository.files(&first.commit, "")?;
    paths.retain(|path| Utf8Path::new(path).file_name() == Some("Cargo.toml"));
    paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    Ok(paths)
}
