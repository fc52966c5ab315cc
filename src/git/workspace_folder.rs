//! Where in the repository the cargo workspace is that the user means.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use crate::plan::resolved::Revision;
use crate::support::advice::Advice;
use crate::support::process::Command;

/// A place in the repository, relative to its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceFolder {
    /// The folder of the workspace's manifest; empty for the root.
    pub workspace: Utf8PathBuf,
    /// The manifest that the user named, if one was.
    pub manifest_path: Option<String>,
    /// The member of the workspace that this is the manifest of, as cargo then takes it for the one that is meant.
    pub package: Option<String>,
}

/// No manifest where one was looked for.
#[derive(Debug, thiserror::Error)]
pub enum NoManifest {
    /// The user named one.
    #[error("no manifest '{path}' in the repository {repository}")]
    Named {
        /// As typed.
        path: String,
        /// The repository's root.
        repository: Utf8PathBuf,
    },
    /// It was looked for.
    #[error("no Cargo.toml in {start} or above it in the repository")]
    Nearest {
        /// Where the search began.
        start: Utf8PathBuf,
        /// Manifests of the first revision, the least deep first.
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
                Some(format!("name one with --manifest-path: {}", elsewhere.join(", ")))
            }
        }
    }
}

/// The workspace of the manifest that the user named (relative to where the tool was started), else of the nearest one above
/// where it was started. In a bare repository, paths are those of the first revision.
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
    let folder = manifest_of_all.parent().context("a manifest lies in a folder")?.strip_prefix(root)?;
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

/// Cargo knows: `package.workspace`, `members` and `exclude` all have a say.
fn workspace_manifest(manifest: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    // Cargo names itself to its subcommands; that one is no rustup proxy, which would look at the toolchain file and may
    // begin to download. The root folder has none.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let located = Command::new(cargo)
        .args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"])
        .arg(manifest)
        .current_dir("/")
        .run()
        .context("the workspace could not be found")?;
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

/// The manifests of the first revision, the least deep first.
fn manifests(repository: &Repository, revisions: &[Revision]) -> anyhow::Result<Vec<String>> {
    let Some(first) = revisions.first() else { return Ok(Vec::new()) };
    let mut paths = repository.files(&first.commit, "")?;
    paths.retain(|path| Utf8Path::new(path).file_name() == Some("Cargo.toml"));
    paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    Ok(paths)
}
