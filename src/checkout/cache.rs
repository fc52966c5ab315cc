//! The cache folder: what is kept between runs, one folder a repository.
//!
//! ```text
//! $CARGO_MEMPROF_HOME, or the platform's cache folder + cargo-memprof/
//!   ripgrep-1f0c83ab5d20e671/     name of the repository, hash of its git directory's path
//!     repository                  that path, for people who look
//!     lock                        held by the run that uses the rest
//!     worktree/                   the one checkout        injected.json   what was written into it
//!     target/                     cargo's target folder   store/          finished executables
//!     wrapper/  adapters/         the compiler wrapper, and adapters for the frameworks that it met
//!     lockfiles/                  lock files made for revisions that have none
//!     lfs.git/                    Git LFS's own settings and downloads
//!     last-build/                 the logs of `cargo memprof build`
//!   archives/                     unpacked archives, by hash, and their lock
//!   shim/                         compiled shims, by hash of source, toolchain and target; all repositories share them
//! ```
//!
//! `clean` removes the folder of its repository and leaves `archives/` and `shim/`. Both can be deleted while no run is
//! going on; the tool makes them again.

use std::collections::HashSet;

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use etcetera::BaseStrategy;
use walkdir::WalkDir;

use crate::checkout::registry;
use crate::git::fetch::OUR_REFS;
use crate::git::repository::Repository;
use crate::support::file_lock::Lock;

/// The variable that says where the cache is.
pub const HOME_VARIABLE: &str = "CARGO_MEMPROF_HOME";

/// One repository's folder in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Utf8PathBuf,
}

/// The folder of all caches: `$CARGO_MEMPROF_HOME`, else the platform's cache folder + `cargo-memprof`.
pub fn home() -> anyhow::Result<Utf8PathBuf> {
    if let Some(home) = std::env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()) {
        let home = Utf8PathBuf::from_path_buf(home.into());
        let home =
            home.map_err(|home| anyhow::anyhow!("{HOME_VARIABLE} ({}) is not UTF-8", home.display()))?;
        return Ok(camino::absolute_utf8(&home)?);
    }
    let strategy = etcetera::choose_base_strategy()
        .with_context(|| format!("no home folder for the cache; set {HOME_VARIABLE}"))?;
    let platform = Utf8PathBuf::from_path_buf(strategy.cache_dir());
    let platform =
        platform.map_err(|path| anyhow::anyhow!("the cache folder {} is not UTF-8", path.display()))?;
    Ok(platform.join("cargo-memprof"))
}

/// The folder below `home` to which archives are unpacked, one folder an archive.
pub fn archives(home: &Utf8Path) -> Utf8PathBuf {
    home.join("archives")
}

impl Cache {
    /// The folder of this repository below `home`, made if it is not there.
    ///
    /// Refuses a home inside the repository, or below a cargo workspace: cargo would take the checkout for a member of it
    /// ("believes it's in a workspace when it's not").
    pub fn open(home: &Utf8Path, repository: &Repository) -> anyhow::Result<Self> {
        let home = resolved(&camino::absolute_utf8(home)?)?;
        let help = format!("set {HOME_VARIABLE} to a folder outside of it");
        for inside in [repository.root(), repository.common_directory()] {
            ensure!(
                !home.starts_with(inside),
                "the cache {home} lies inside the repository {inside}; {help}"
            );
        }
        ensure!(
            !repository.root().starts_with(&home),
            "{} is a checkout that this tool made for itself; run it in your own",
            repository.root()
        );
        if let Some(manifest) = workspace_above(&home)? {
            bail!("the cache {home} lies below the cargo workspace {manifest}; {help}");
        }
        let common = repository.common_directory();
        let hash = blake3::hash(common.as_str().as_bytes()).to_hex();
        let folder = home.join(format!("{}-{}", repository_name(common), &hash[..16]));
        fs_err::create_dir_all(&folder)?;
        fs_err::write(folder.join("repository"), format!("{common}\n"))?;
        Ok(Self { folder })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// The file that a run locks.
    pub fn lock(&self) -> Utf8PathBuf {
        self.folder.join("lock")
    }

    /// The one checkout.
    pub fn worktree(&self) -> Utf8PathBuf {
        self.folder.join("worktree")
    }

    /// The record of what was written into the checkout.
    pub fn injected(&self) -> Utf8PathBuf {
        self.folder.join("injected.json")
    }

    /// Cargo's target folder for every build in the checkout.
    pub fn target(&self) -> Utf8PathBuf {
        self.folder.join("target")
    }

    /// The same where crates of the registry are traced, of which cargo does not know. `what` names the edits.
    pub fn target_of_traced(&self, what: &str) -> Utf8PathBuf {
        self.folder.join(format!("target-traced-{what}"))
    }

    /// Edited copies of crates of the registry.
    pub fn copies(&self, what: &str) -> Utf8PathBuf {
        self.folder.join("traced").join(what)
    }

    /// Finished executables.
    pub fn store(&self) -> Utf8PathBuf {
        self.folder.join("store")
    }

    /// The compiler wrapper.
    pub fn wrapper(&self) -> Utf8PathBuf {
        self.folder.join("wrapper")
    }

    /// Compiled shims, which the repositories below one home share.
    pub fn shims(&self) -> Utf8PathBuf {
        self.folder.with_file_name("shim")
    }

    /// Compiled adapters for the frameworks that this repository uses.
    pub fn adapters(&self) -> Utf8PathBuf {
        self.folder.join("adapters")
    }

    /// Lock files made for revisions that have none.
    pub fn lockfiles(&self) -> Utf8PathBuf {
        self.folder.join("lockfiles")
    }

    /// Git LFS's own settings and downloads.
    pub fn lfs(&self) -> Utf8PathBuf {
        self.folder.join("lfs.git")
    }

    /// Removes everything that the tool keeps for this repository: this folder, its entry under `.git/worktrees`, the refs
    /// under `refs/memprof/`, and the folder of runs if one is given. Returns the bytes that this freed on the disk; the
    /// objects that the refs held go when git next collects garbage.
    pub fn clean(self, repository: &Repository, lock: Lock, runs: Option<&Utf8Path>) -> anyhow::Result<u64> {
        let entries = registry::registered(repository, &self.worktree())?;
        let folders = entries.iter().map(Utf8PathBuf::as_path).chain(runs);
        let mut bytes = 0;
        for folder in folders.chain([self.folder.as_path()]) {
            bytes += bytes_on_disk(folder);
            match fs_err::remove_dir_all(folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        registry::remove_empty_registry(repository)?;
        let references = repository.references()?;
        let ours = references.iter().filter(|name| name.starts_with(OUR_REFS));
        let deletions: String = ours.flat_map(|name| ["delete ", name, "\n"]).collect();
        if !deletions.is_empty() {
            repository.git().args(["update-ref", "--no-deref", "--stdin"]).input(deletions).run()?;
        }
        // Git leaves this folder, empty. In a reftable repository there is none.
        let _ = std::fs::remove_dir(repository.common_directory().join(OUR_REFS));
        drop(lock);
        Ok(bytes)
    }
}

/// The folder's name as people know it: `ripgrep` of `ripgrep/.git` and of `ripgrep.git`.
fn repository_name(common_directory: &Utf8Path) -> String {
    let named = match common_directory.file_name() {
        Some(".git") => common_directory.parent().and_then(Utf8Path::file_name),
        name => name.map(|name| name.strip_suffix(".git").unwrap_or(name)),
    };
    // Build scripts and linkers meet this path; those that do not quote must not fail here.
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '-' }
    };
    named.unwrap_or("repository").chars().take(60).map(plain).collect()
}

/// The path with the part of it that exists made canonical.
fn resolved(path: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let existing =
        path.ancestors().find(|ancestor| ancestor.exists()).context("the root folder is missing")?;
    let rest = path.strip_prefix(existing)?;
    let canonical = existing.canonicalize_utf8()?;
    Ok(if rest.as_str().is_empty() { canonical } else { canonical.join(rest) })
}

/// The manifest of a cargo workspace in this folder or above it.
fn workspace_above(folder: &Utf8Path) -> anyhow::Result<Option<Utf8PathBuf>> {
    for manifest in folder.ancestors().map(|ancestor| ancestor.join("Cargo.toml")) {
        if !manifest.is_file() {
            continue;
        }
        let text = fs_err::read_to_string(&manifest)?;
        // Cargo reads every manifest above a package: one that it cannot parse stops it as well.
        let is_workspace = text
            .parse::<toml_edit::DocumentMut>()
            .map_or(true, |document| document.contains_key("workspace"));
        if is_workspace {
            return Ok(Some(manifest));
        }
    }
    Ok(None)
}

/// Bytes that removing the folder frees: allocated blocks, a file with several names once. Zero if it does not exist.
pub fn bytes_on_disk(folder: &Utf8Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut seen = HashSet::new();
    WalkDir::new(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(|metadata| metadata.nlink() == 1 || seen.insert((metadata.dev(), metadata.ino())))
        // The unit of `st_blocks` is 512 bytes whatever the file system's block size is (stat(2)).
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_after_its_folder() {
        assert_eq!(repository_name("/src/ripgrep/.git".into()), "ripgrep");
        assert_eq!(repository_name("/srv/ripgrep.git".into()), "ripgrep");
        assert_eq!(repository_name("/srv/my répo x/.git".into()), "my-r-po-x");
        assert_eq!(repository_name("/".into()), "repository");
    }

    #[test]
    fn a_workspace_above_is_found_and_a_plain_package_is_not_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let deep = folder.join("a/b");
        fs_err::create_dir_all(&deep).unwrap();
        fs_err::write(folder.join("a/Cargo.toml"), "[package]\nname = 'a'\n").unwrap();
        assert_eq!(workspace_above(&deep).unwrap(), None);
        fs_err::write(folder.join("Cargo.toml"), "[workspace]\n").unwrap();
        assert_eq!(workspace_above(&deep).unwrap(), Some(folder.join("Cargo.toml")));
    }

    #[test]
    fn a_hard_link_frees_its_bytes_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let empty = bytes_on_disk(folder);
        fs_err::write(folder.join("one"), vec![1; 100_000]).unwrap();
        let once = bytes_on_disk(folder);
        assert!(once - empty >= 100_000);
        fs_err::hard_link(folder.join("one"), folder.join("two")).unwrap();
        assert_eq!(bytes_on_disk(folder), once);
        assert_eq!(bytes_on_disk(&folder.join("missing")), 0);
    }
}
