//! The cache folder: what is kept between runs, in one folder for each repository.
//!
//! ```text
//! $CARGO_MEMPROF_HOME, or the platform's cache folder + cargo-memprof/
//!   ripgrep-1f0c83ab5d20e671/     the repository's name, and a hash of its git directory's path
//!     repository                  that path, for people
//!     lock                        held by the run that uses this folder
//!     worktree/                   the checkout            injected.json   files written into it
//!     target/                     cargo's target folder   store/          finished executables
//!     wrapper/  adapters/         the compiler wrapper, and adapters for the repository's frameworks
//!     lockfiles/                  lock files for revisions that have none
//!     checks/                     which changes of a revision compile
//!     lfs.git/                    settings and downloads of Git LFS
//!     sources.json                what cargo compiled last    clock   a file with the present time
//!     known-files.json            hashes of executables that did not change since they were read
//!     last-build/                 the logs of `cargo memprof build`
//!     entry/  baseline/           what git knows of the checkout, and the figures of a push, for the next CI job
//!   archives/                     unpacked archives by their hashes, and their lock
//!   shim/                         compiled shims by hash, shared by all repositories
//!   program/                      copies of this program by hash, linked from `wrapper/`, and their hashes
//!   salt                          keys the hashes that stand for secrets
//! ```
//!
//! `clean` removes the folder of its repository and leaves `salt`, `archives/`, `shim/` and `program/`.
//! Without the salt, a run that needs secrets cannot be continued. The others can be deleted while no
//! run is going on; the tool makes them again.

use std::collections::HashSet;
use std::time::SystemTime;

use anyhow::Context;
use camino::{Utf8DirEntry, Utf8Path, Utf8PathBuf};
use etcetera::BaseStrategy;
use walkdir::WalkDir;

use crate::checkout::registry;
use crate::checkout::removal::remove_whatever_is_at;
use crate::git::fetch::OUR_REFS;
use crate::git::repository::{Repository, enclosing};
use memprof_support::file_lock::Lock;
use memprof_support::process::shell_quoted;
use memprof_support::redaction;
use memprof_support::regular_file;
use memprof_support::regular_file::followed;
use memprof_support::stamp::file_id;
use memprof_support::user_error::UserError;

/// The variable that sets where the cache is.
pub const HOME_VARIABLE: &str = "CARGO_MEMPROF_HOME";

/// One repository's folder in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Utf8PathBuf,
}

/// Returns the folder of all caches: `$CARGO_MEMPROF_HOME`, else `cargo-memprof` in the platform's
/// cache folder.
pub fn home() -> anyhow::Result<Utf8PathBuf> {
    if let Some(home) = std::env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()) {
        let home = Utf8PathBuf::from_path_buf(home.into());
        let home =
            home.map_err(|home| anyhow::anyhow!("{HOME_VARIABLE} ({}) is not UTF-8", home.display()))?;
        return Ok(camino::absolute_utf8(&home)?);
    }
    usual_home()
}

/// Returns `cargo-memprof` in the platform's cache folder.
fn usual_home() -> anyhow::Result<Utf8PathBuf> {
    let strategy = etcetera::choose_base_strategy()
        .with_context(|| format!("found no home folder for the cache; set {HOME_VARIABLE}"))?;
    let platform = Utf8PathBuf::from_path_buf(strategy.cache_dir());
    let platform =
        platform.map_err(|path| anyhow::anyhow!("the cache folder {} is not UTF-8", path.display()))?;
    Ok(platform.join("cargo-memprof"))
}

/// Keeps the salt of this process for later ones, or takes that of an earlier one.
pub fn keep_salt(home: &Utf8Path) -> anyhow::Result<()> {
    let salt = redaction::of_process().salt().clone();
    redaction::use_salt(salt.keep(home)?);
    Ok(())
}

/// Returns the folder below `home` for unpacked archives. Each archive has a folder in it.
pub fn archives(home: &Utf8Path) -> Utf8PathBuf {
    home.join("archives")
}

/// Returns the folders of unpacked archives. `home` may be a folder of the user's, with an
/// `archives` of their own, so nothing else in it counts.
pub fn unpacked_archives(archives: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = archives.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<Utf8PathBuf> = entries.map(Utf8DirEntry::into_path).filter(is_unpacked).collect();
    folders.sort();
    folders
}

/// Removes what interrupted runs left of archives that they unpacked. The caller has the archives'
/// lock, so nobody unpacks now.
pub fn remove_partial_archives(archives: &Utf8Path) -> anyhow::Result<()> {
    let all = unpacked_archives(archives).into_iter();
    for partial in all.filter(|folder| folder.extension() == Some("partial")) {
        remove_whatever_is_at(&partial)?;
    }
    Ok(())
}

/// Whether a folder is named by an archive's hash, as `archive::file` does.
fn is_unpacked(folder: &Utf8PathBuf) -> bool {
    let name = folder.file_name().unwrap_or_default();
    let hash = name.strip_suffix(".partial").unwrap_or(name);
    let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash && folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

impl Cache {
    /// Opens this repository's folder below `home`, and creates it if necessary.
    ///
    /// # Errors
    /// `home` is at a place where git or cargo would mix up the checkout with something else, it
    /// contains the repository, or it cannot be written.
    pub fn open(home: &Utf8Path, repository: &Repository) -> anyhow::Result<Self> {
        let home = resolved(&camino::absolute_utf8(home)?)?;
        for inside in [repository.root(), repository.common_directory()] {
            if home.starts_with(inside) {
                return Err(refused(&home, &format!("is inside the repository {inside}")).into());
            }
        }
        if repository.root().starts_with(&home) {
            return Err(contains_repository(&home, repository.root()).into());
        }
        check_place(&home)?;
        let common = repository.common_directory();
        let folder = home.join(folder_name(repository));
        if let Ok(target) = folder.read_link_utf8() {
            // Everything below would be written and removed there.
            let message = format!("the cache folder {folder} is a symlink to {target}");
            let help = format!("remove the link: rm {}", shell_quoted(folder.as_ref()));
            return Err(UserError::new(message).help(help).into());
        }
        let made = std::fs::create_dir_all(&folder)
            .and_then(|()| note_repository(&folder.join("repository"), &format!("{common}\n")));
        if let Err(error) = made {
            return Err(UserError::new(format!("the cache folder {home} cannot be written: {error}"))
                .help(format!("make it writable, or {}", way_out(&home)))
                .into());
        }
        keep_salt(&home)?;
        Ok(Self { folder })
    }

    /// Returns the folder itself.
    pub fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Returns the file that a run locks.
    pub fn lock(&self) -> Utf8PathBuf {
        self.folder.join("lock")
    }

    /// Returns the checkout's folder.
    pub fn worktree(&self) -> Utf8PathBuf {
        self.folder.join("worktree")
    }

    /// Returns the record of the files that were written into the checkout.
    pub fn injected(&self) -> Utf8PathBuf {
        self.folder.join("injected.json")
    }

    /// Returns cargo's target folder for builds in the checkout.
    pub fn target(&self) -> Utf8PathBuf {
        self.folder.join("target")
    }

    /// Returns the record of what cargo compiled its artifacts from.
    pub fn sources(&self) -> Utf8PathBuf {
        self.folder.join("sources.json")
    }

    /// Returns cargo's target folder for builds whose dependencies are compiled against the shim,
    /// which cargo does not see. `what` names the shim.
    pub fn target_of_traced(&self, what: &str) -> Utf8PathBuf {
        self.folder.join(format!("target-traced-{what}"))
    }

    /// Returns the folder of copies of folders that take the place of a dependency.
    pub fn replacements(&self) -> Utf8PathBuf {
        self.folder.join("replacements")
    }

    /// Returns the folder of edited copies of crates outside of the repository.
    pub fn copies(&self, what: &str) -> Utf8PathBuf {
        self.folder.join("traced").join(what)
    }

    /// Returns the folder of finished executables.
    pub fn store(&self) -> Utf8PathBuf {
        self.folder.join("store")
    }

    /// Returns the file with hashes of files that were read before.
    pub fn known_files(&self) -> Utf8PathBuf {
        self.folder.join("known-files.json")
    }

    /// Returns the folder of the compiler wrapper.
    pub fn wrapper(&self) -> Utf8PathBuf {
        self.folder.join("wrapper")
    }

    /// Returns the folder of what cargo's runner notes about test executables.
    pub fn notes(&self) -> Utf8PathBuf {
        self.folder.join("notes")
    }

    /// Returns the folder of copies of this program, which all repositories below one home share.
    pub fn programs(&self) -> Utf8PathBuf {
        self.folder.with_file_name("program")
    }

    /// Returns the folder of compiled shims, which all repositories below one home share.
    pub(crate) fn shims(&self) -> Utf8PathBuf {
        self.folder.with_file_name("shim")
    }

    /// Returns the folder of compiled adapters for the frameworks of this repository.
    pub fn adapters(&self) -> Utf8PathBuf {
        self.folder.join("adapters")
    }

    /// Returns the folder of lock files for revisions that have none.
    pub fn lockfiles(&self) -> Utf8PathBuf {
        self.folder.join("lockfiles")
    }

    /// Returns the folder of what the compiler said of revisions with some of their files changed.
    pub fn checks(&self) -> Utf8PathBuf {
        self.folder.join("checks")
    }

    /// Returns the folder of settings and downloads of Git LFS.
    pub fn lfs(&self) -> Utf8PathBuf {
        self.folder.join("lfs.git")
    }

    /// Removes everything that the tool keeps for this repository: this folder, its entry below
    /// `.git/worktrees`, the refs below `refs/memprof/`, and the folder of runs if one is given.
    /// Returns the bytes that this frees on the disk, without the refs' objects, which git removes
    /// at its next garbage collection.
    pub fn clean(self, repository: &Repository, lock: Lock, runs: &[Utf8PathBuf]) -> anyhow::Result<u64> {
        let entries = registry::registered(repository, &self.worktree())?;
        let folders = entries.iter().chain(runs).map(Utf8PathBuf::as_path);
        let mut bytes = 0;
        for folder in folders.chain([self.folder.as_path()]) {
            bytes += bytes_on_disk(folder);
            remove_whatever_is_at(folder)?;
        }
        registry::remove_empty_registry(repository)?;
        let references = repository.references()?;
        let ours = references.iter().filter(|name| name.starts_with(OUR_REFS));
        let deletions: String = ours.flat_map(|name| ["delete ", name, "\n"]).collect();
        if !deletions.is_empty() {
            repository.git().args(["update-ref", "--no-deref", "--stdin"]).input(deletions).run()?;
        }
        // Git leaves this folder behind, empty. A reftable repository has none.
        let _ = std::fs::remove_dir(repository.common_directory().join(OUR_REFS));
        drop(lock);
        Ok(bytes)
    }
}

/// Notes which repository a folder is for. Most runs find it noted. The file's time says when the cache was opened last.
fn note_repository(path: &Utf8Path, text: &str) -> std::io::Result<()> {
    if regular_file::read(path).is_ok_and(|found| found == text.as_bytes()) {
        // Without it, target folders may be removed earlier, and are made again.
        _ = std::fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok(());
    }
    regular_file::write(path, text.as_bytes())
}

/// Refuses a home inside a git work tree or below a cargo workspace.
///
/// Programs in the checkout that search for a repository could find the outer one, and cargo would
/// take the checkout for a member of the workspace ("believes it's in a workspace when it's not").
///
/// # Errors
/// The home is at such a place.
pub fn check_place(home: &Utf8Path) -> anyhow::Result<()> {
    let home = resolved(&camino::absolute_utf8(home)?)?;
    if let Some(outer) = enclosing(&home) {
        return Err(refused(&home, &format!("is inside the git repository {outer}")).into());
    }
    if let Some(manifest) = workspace_above(&home)? {
        return Err(refused(&home, &format!("is below the cargo workspace {manifest}")).into());
    }
    Ok(())
}

fn refused(home: &Utf8Path, reason: &str) -> UserError {
    UserError::new(format!("the cache folder {home} {reason}")).help(way_out(home))
}

/// Returns how to choose another home than this one.
fn way_out(home: &Utf8Path) -> String {
    let usual = usual_home().ok().filter(|usual| usual != home && enclosing(usual).is_none());
    if let Some(usual) = usual {
        return format!("choose another folder: export {HOME_VARIABLE}={}", shell_quoted(usual.as_ref()));
    }
    // Everybody may write to /var/tmp, so `mkdir` must be the one that makes the folder.
    let folder = format!("/var/tmp/cargo-memprof-{}", rustix::process::getuid().as_raw());
    format!("choose another folder: mkdir -m 700 {folder} && export {HOME_VARIABLE}={folder}")
}

/// Returns the error for a repository inside of the home: one of the user, or our own checkout.
fn contains_repository(home: &Utf8Path, root: &Utf8Path) -> UserError {
    let parts: Vec<&str> = root
        .strip_prefix(home)
        .into_iter()
        .flat_map(Utf8Path::components)
        .map(|part| part.as_str())
        .collect();
    if let [folder, "worktree", ..] = parts[..]
        && let Ok(users) = followed::text(home.join(folder).join("repository"))
    {
        let users = users.trim_end();
        let users = users.strip_suffix("/.git").unwrap_or(users);
        return UserError::new(format!("{root} is a checkout that this tool made for itself"))
            .help(format!("run the command in your own checkout: cd {}", shell_quoted(users.as_ref())));
    }
    UserError::new(format!("the repository {root} is inside the cache folder {home}"))
        .help(format!("{}, or move the repository", way_out(home)))
}

/// Returns the name of a repository's folder among those of others: its own, and a hash of its git directory's path.
/// Linked worktrees share it.
pub fn folder_name(repository: &Repository) -> String {
    let common = repository.common_directory();
    let hash = blake3::hash(common.as_str().as_bytes()).to_hex();
    format!("{}-{}", repository_name(common), &hash[..16])
}

/// Returns the repository's name as people know it: `ripgrep` for `ripgrep/.git` and `ripgrep.git`.
fn repository_name(common_directory: &Utf8Path) -> String {
    let named = match common_directory.file_name() {
        Some(".git") => common_directory.parent().and_then(Utf8Path::file_name),
        name => name.map(|name| name.strip_suffix(".git").unwrap_or(name)),
    };
    // Build scripts and linkers use this path, and some of them do not quote.
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '-' }
    };
    named.unwrap_or("repository").chars().take(60).map(plain).collect()
}

/// Returns the path with its existing part made canonical.
fn resolved(path: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let existing =
        path.ancestors().find(|ancestor| ancestor.exists()).context("the root folder is missing")?;
    let rest = path.strip_prefix(existing)?;
    let canonical = existing.canonicalize_utf8()?;
    Ok(if rest.as_str().is_empty() { canonical } else { canonical.join(rest) })
}

/// Returns the manifest of a cargo workspace in this folder or above it.
fn workspace_above(folder: &Utf8Path) -> anyhow::Result<Option<Utf8PathBuf>> {
    for manifest in folder.ancestors().map(|ancestor| ancestor.join("Cargo.toml")) {
        if !manifest.is_file() {
            continue;
        }
        let text = followed::text(&manifest)?;
        // Cargo reads every manifest above a package, and fails at one that it cannot parse.
        let is_workspace = text
            .parse::<toml_edit::DocumentMut>()
            .map_or(true, |document| document.contains_key("workspace"));
        if is_workspace {
            return Ok(Some(manifest));
        }
    }
    Ok(None)
}

/// Returns the bytes that removing a folder frees: allocated blocks, and a file with several names
/// only once. Zero for a missing folder.
pub fn bytes_on_disk(folder: &Utf8Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut seen = HashSet::new();
    WalkDir::new(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(|metadata| metadata.nlink() == 1 || seen.insert(file_id(metadata)))
        // The unit of `st_blocks` is 512 bytes, regardless of the file system's block size
        // (stat(2)).
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
    fn each_opening_of_a_cache_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("repository");
        note_repository(&path, "/a/.git\n").unwrap();
        std::fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        note_repository(&path, "/a/.git\n").unwrap();
        assert_ne!(fs_err::metadata(&path).unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);
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
    fn only_unpacked_archives_are_the_tools_own() {
        let folder = tempfile::tempdir().unwrap();
        let archives = Utf8Path::from_path(folder.path()).unwrap();
        assert!(unpacked_archives(&archives.join("missing")).is_empty());
        let hash = "0123456789abcdef0123456789abcdef";
        for name in [hash, &format!("{hash}.partial"), "taxes-2025", "0123"] {
            fs_err::create_dir(archives.join(name)).unwrap();
        }
        fs_err::write(archives.join("f".repeat(32)), "a file").unwrap();
        assert_eq!(
            unpacked_archives(archives),
            [archives.join(hash), archives.join(format!("{hash}.partial"))]
        );
        remove_partial_archives(archives).unwrap();
        assert_eq!(unpacked_archives(archives), [archives.join(hash)]);
        assert!(archives.join("taxes-2025").exists());
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
