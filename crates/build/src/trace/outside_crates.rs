//! The crates outside of the repository that can be traced: of the registry, of git repositories, and
//! of folders that take the place of a dependency.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Metadata, Package};

use crate::trace::crates::{self, Crate};
use crate::trace::originals;
use memprof_plan::lock_differences::tables;
use memprof_support::user_error::UserError;

/// A crate outside of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutsideCrate {
    pub name: String,
    pub version: String,
    /// Where it comes from.
    pub source: CrateSource,
}

/// Where a crate outside of the repository comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CrateSource {
    /// The registry, with SHA-256 of the crate's archive.
    Registry {
        /// In hexadecimal digits.
        checksum: String,
    },
    /// A folder in which cargo compiles it.
    Folder {
        /// The git repository or folder around the package, as cargo or this tool copied it.
        around: Utf8PathBuf,
        library: Crate,
        /// The compiler's name for it, which may differ from the package's.
        library_name: String,
    },
}

impl OutsideCrate {
    /// Returns `NAME-VERSION`.
    pub fn title(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// A package of a lock file that may be outside of the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockedPackage {
    name: String,
    version: String,
    source: LockedSource,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LockedSource {
    Registry { checksum: String },
    Git,
    Path,
}

/// Returns the packages of a lock file with these names, which have `_` for each `-`. Those of a path
/// belong to the repository, unless `has_folders`.
pub(crate) fn named_in(lock: &str, names: &BTreeSet<&str>, has_folders: bool) -> Vec<LockedPackage> {
    if names.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<LockedPackage> = tables(lock.as_bytes())
        .iter()
        .filter_map(|package| {
            let text = |key: &str| package.get(key).and_then(|value| value.as_str()).map(str::to_owned);
            let name = text("name").filter(|name| names.contains(name.replace('-', "_").as_str()))?;
            let source = match text("source") {
                Some(source) if source.starts_with("registry+") || source.starts_with("sparse+") => {
                    LockedSource::Registry { checksum: text("checksum")? }
                }
                Some(source) => source.starts_with("git+").then_some(LockedSource::Git)?,
                None => has_folders.then_some(LockedSource::Path)?,
            };
            Some(LockedPackage { name, version: text("version")?, source })
        })
        .collect();
    found.sort();
    found
}

/// Where cargo and this tool keep the folders of dependencies.
pub(crate) struct DependencyFolders {
    /// Folders of the repository: the checkout, and the crate of an external overlay.
    pub own: Vec<Utf8PathBuf>,
    /// Cargo's checkouts of git repositories: `NAME-HASH/COMMIT`.
    pub of_git: Utf8PathBuf,
    /// This tool's copies of folders.
    pub replacements: Utf8PathBuf,
}

/// Finds packages of a lock file. Cargo is asked for its metadata only if one is not of the registry.
///
/// # Errors
/// A package of a git repository is not where cargo checks repositories out.
pub(crate) fn found(
    packages: Vec<LockedPackage>,
    folders: &DependencyFolders,
    metadata: impl FnOnce() -> anyhow::Result<Metadata>,
) -> anyhow::Result<Vec<OutsideCrate>> {
    let needs_cargo = packages.iter().any(|one| !matches!(one.source, LockedSource::Registry { .. }));
    let known = if needs_cargo { metadata()?.packages } else { Vec::new() };
    let mut crates = Vec::new();
    for LockedPackage { name, version, source } in packages {
        let is_git = source == LockedSource::Git;
        let source = match source {
            LockedSource::Registry { checksum } => Some(CrateSource::Registry { checksum }),
            LockedSource::Git | LockedSource::Path => {
                let is_meant = |one: &&Package| {
                    one.name.as_str() == name
                        && one.version.to_string() == version
                        && one.source.as_ref().is_some_and(|source| source.repr.starts_with("git+")) == is_git
                        && (is_git || one.source.is_none())
                };
                // One that is for another platform is not compiled.
                let package = known.iter().find(is_meant);
                package.map(|package| in_folder(package, is_git, folders)).transpose()?.flatten()
            }
        };
        crates.extend(source.map(|source| OutsideCrate { name, version, source }));
    }
    Ok(crates)
}

/// Returns the folder of a package; `None` if it belongs to the repository or has no library.
fn in_folder(
    package: &Package,
    is_git: bool,
    folders: &DependencyFolders,
) -> Result<Option<CrateSource>, UserError> {
    let Some(folder) = package.manifest_path.parent() else { return Ok(None) };
    if !is_git && folders.own.iter().any(|own| folder.starts_with(own)) {
        return Ok(None);
    }
    let below = |base: &Utf8Path, parts: usize| -> Option<Utf8PathBuf> {
        let inside = folder.strip_prefix(base).ok()?;
        let first: Utf8PathBuf = inside.components().take(parts).collect();
        (first.components().count() == parts).then(|| base.join(first))
    };
    let around = below(&folders.of_git, 2).or_else(|| below(&folders.replacements, 1));
    if is_git && around.is_none() {
        return Err(UserError::new(format!(
            "{} cannot be traced: it is in {folder}, and not in {}",
            package.name, folders.of_git
        ))
        .help(originals::VENDORED));
    }
    let found = crates::library(package);
    Ok(found.map(|(library, library_name)| CrateSource::Folder {
        around: around.unwrap_or_else(|| folder.to_owned()),
        // The package's name, as in the lock file. The library may have another name.
        library: Crate { name: package.name.replace('-', "_"), is_own: false, ..library },
        library_name,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::instrument::Patterns;
    use memprof_plan::request::TraceRequest;

    #[test]
    fn only_crates_outside_of_the_repository_that_are_named_are_copied() {
        let lock = r#"
version = 4

[[package]]
name = "itoa"
version = "1.0.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aa"

[[package]]
name = "own-crate"
version = "0.1.0"

[[package]]
name = "small-vec"
version = "1.2.3"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "bb"

[[package]]
name = "stock"
version = "0.3.0"
source = "git+https://example.org/stock?branch=main#0123456789012345678901234567890123456789"
"#;
        let named = |pattern: &str, has_folders: bool| -> Vec<String> {
            let request = TraceRequest { functions: vec![pattern.to_owned()], ..TraceRequest::default() };
            let patterns = Patterns::parse(&request).unwrap();
            let found = named_in(lock, &patterns.crate_names(), has_folders);
            found.iter().map(|one| format!("{}-{}", one.name, one.version)).collect()
        };
        assert_eq!(named("small_vec::**", false), ["small-vec-1.2.3"]);
        assert_eq!(named("stock::kept", false), ["stock-0.3.0"]);
        assert_eq!(named("own_crate::**", true), ["own-crate-0.1.0"], "of a folder");
        for pattern in ["**", "own_crate::**", "it*::**", "<A as B>::c"] {
            assert!(named(pattern, false).is_empty(), "{pattern}");
        }
    }
}
