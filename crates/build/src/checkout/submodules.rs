//! Checks out submodules, one level of nesting after the other.
//!
//! `git submodule init` would write their URLs to the configuration that the user's repository
//! shares with its worktrees. Instead, the command line makes them active, and `update` reads the
//! URLs from the user's configuration, or else from `.gitmodules`. Git's own rules decide which
//! URLs are allowed (`protocol.*`). A submodule that git cannot fetch is left out: many builds do not
//! need it.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::conversion::Conversion;
use crate::checkout::declared_submodules::{Declared, Refusal, declared, first_link};
use crate::checkout::error::CheckoutError;
use crate::checkout::missing_submodules::MissingSubmodules;
use crate::checkout::removal::remove_whatever_is_at;
use crate::git::program::{Place, nul_separated};
use crate::git::repository::Repository;
use memprof_support::advice::Advice;
use memprof_support::process::Command;
use memprof_support::process_error::ProcessError;
use memprof_support::regular_file;

/// A repository in the checkout whose submodules are checked out: the checkout itself, or one of
/// its submodules.
pub(crate) struct Level<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// The revision's name, for messages.
    pub revision: &'a str,
    /// The path of this level from the checkout's root; empty for the checkout itself.
    pub inside: Utf8PathBuf,
    /// The git directory. The submodules' own ones are in its folder `modules`.
    pub git_directory: Utf8PathBuf,
    /// The files.
    pub work_tree: Utf8PathBuf,
    /// The user's git directories for this level, which may have clones of the submodules.
    pub users: Vec<Utf8PathBuf>,
    /// How git converts files when it writes them.
    pub conversion: &'a Conversion,
    /// Takes the submodules that cannot be fetched.
    pub missing: &'a MissingSubmodules,
}

/// A submodule of the revision that is checked out.
struct Submodule {
    name: String,
    path: String,
    /// The commit that the revision records.
    commit: String,
}

impl Level<'_> {
    /// Checks out the submodules of what is in the work tree, recursively and in place.
    pub fn check_out(&self) -> anyhow::Result<()> {
        let list = self.work_tree.join(".gitmodules");
        if !list.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Ok(());
        }
        let declared = declared(&self.git(), &self.work_tree)?.map_err(|refusal| self.refused(refusal))?;
        let mut submodules = Vec::new();
        for submodule in self.wanted(&declared)? {
            let path = self.inside.join(&submodule.path);
            if self.missing.is_known(self.revision, &path, &submodule.commit) {
                self.empty(&submodule.path)?;
            } else {
                self.make_room(&submodule)?;
                self.seed(&submodule.name)?;
                submodules.push(submodule);
            }
        }
        self.fetch(submodules)?.iter().try_for_each(|submodule| self.finish(submodule))
    }

    /// Lets git fetch and check out these submodules. Returns those that it could check out.
    fn fetch(&self, submodules: Vec<Submodule>) -> anyhow::Result<Vec<Submodule>> {
        if submodules.is_empty() || self.update(&submodules).is_ok() {
            return Ok(submodules);
        }
        // One submodule may keep the others from being updated.
        let mut fetched = Vec::new();
        for submodule in submodules {
            match self.update(std::slice::from_ref(&submodule)) {
                Ok(()) => fetched.push(submodule),
                Err(error @ ProcessError::Failed { .. }) => {
                    self.empty(&submodule.path)?;
                    let path = self.inside.join(&submodule.path);
                    self.missing.add(self.revision, path, submodule.commit, error.stderr());
                }
                Err(error) => return Err(error).context("could not check out the submodules"),
            }
        }
        Ok(fetched)
    }

    fn update(&self, submodules: &[Submodule]) -> Result<(), ProcessError> {
        self.git()
            .args(["-c", "submodule.active=.", "--literal-pathspecs"])
            // Another way of updating, such as `merge`, could leave another commit than the
            // recorded one.
            .args(["submodule", "--quiet", "update", "--checkout", "--force", "--"])
            .args(submodules.iter().map(|submodule| &submodule.path))
            .run()
            .map(drop)
    }

    /// Makes the folder of a submodule empty, as git does for one that is not initialised. It may
    /// hold the files of another revision.
    fn empty(&self, path: &str) -> anyhow::Result<()> {
        let folder = self.work_tree.join(path);
        remove_whatever_is_at(&folder)?;
        fs_err::create_dir_all(&folder)?;
        Ok(())
    }

    fn git(&self) -> Command {
        let work_tree = Some(self.work_tree.as_path());
        self.repository.git_at(Place { git_directory: &self.git_directory, work_tree })
    }

    fn git_of(&self, name: &str) -> Utf8PathBuf {
        self.git_directory.join("modules").join(name)
    }

    fn refused(&self, refusal: Refusal) -> anyhow::Error {
        CheckoutError::Submodule {
            revision: self.revision.to_owned(),
            file: self.inside.join(".gitmodules").to_string(),
            name: refusal.name,
            reason: refusal.reason,
            help: refusal.help,
        }
        .advised()
    }

    /// Returns the submodules that the revision has, without those that are never updated
    /// (`submodule.NAME.update = none`), and those that the user excluded.
    fn wanted(&self, declared: &BTreeMap<String, Declared>) -> anyhow::Result<Vec<Submodule>> {
        let by_path: HashMap<&str, &String> = declared
            .iter()
            .filter_map(|(name, submodule)| Some((submodule.path.as_deref()?.trim_end_matches('/'), name)))
            .collect();
        let updates = ["config", "-z", "--get-regexp", r"^submodule\..*\.update$"];
        let configured = nul_separated(&self.git().args(updates).capture()?.stdout);
        let ways: HashMap<&str, &str> =
            configured.iter().filter_map(|entry| entry.split_once('\n')).collect();
        let excluded = self.excluded_folders()?;
        let mut found = Vec::new();
        for entry in nul_separated(&self.git().args(["ls-files", "-t", "--stage", "-z"]).run()?.stdout) {
            // `TAG 160000 HASH STAGE<tab>PATH` is a submodule. A sparse pattern gives it the tag S.
            let Some((facts, path)) = entry.split_once('\t') else { continue };
            let Some((tag, facts)) = facts.split_once(' ') else { continue };
            let Some(commit) = facts.strip_prefix("160000 ").and_then(|rest| rest.split(' ').next()) else {
                continue;
            };
            let Some(name) = by_path.get(path).map(|name| (*name).clone()) else { continue };
            if let Some(link) = first_link(&self.work_tree, path.as_ref()) {
                return Err(self.refused(Refusal::linked(&name, &link)));
            }
            if tag == "S" || excluded.iter().any(|folder| folder == path) {
                self.empty(path)?;
                continue;
            }
            let of_user = ways.get(format!("submodule.{name}.update").as_str()).copied();
            if of_user.or(declared[&name].update.as_deref()) != Some("none") {
                found.push(Submodule { name, path: path.to_owned(), commit: commit.to_owned() });
            }
        }
        Ok(found)
    }

    /// Returns the sparse patterns that name one folder (`vendor/lib/`). Git takes a submodule for a
    /// file there, and such a pattern does not match a file.
    fn excluded_folders(&self) -> anyhow::Result<Vec<String>> {
        let patterns = self.git_directory.join("info/sparse-checkout");
        if !patterns.is_file() {
            return Ok(Vec::new());
        }
        let text = regular_file::text(&patterns)?;
        let folder = |line: &str| Some(line.strip_prefix('!')?.strip_suffix('/')?.to_owned());
        let folders = text.lines().filter_map(folder);
        Ok(folders.map(|folder| folder.strip_prefix('/').map_or(folder.clone(), str::to_owned)).collect())
    }

    /// Removes what would lead git elsewhere: links and other submodules' repositories on the way
    /// to this one's, and a folder whose `.git` is not this submodule's. Tests and other revisions
    /// leave such things behind.
    fn make_room(&self, submodule: &Submodule) -> anyhow::Result<()> {
        let modules = self.git_directory.join("modules");
        let ours = modules.join(&submodule.name);
        let mut above: Vec<&Utf8Path> =
            ours.ancestors().skip(1).take_while(|folder| folder.starts_with(&modules)).collect();
        // From the outside, so that no link is followed.
        above.reverse();
        for folder in above {
            let is_folder = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            if !is_folder || is_git_directory(folder) {
                remove_whatever_is_at(folder)?;
            }
        }
        if ours.is_symlink() || !is_git_directory(&ours) {
            remove_whatever_is_at(&ours)?;
        }
        // A killed git leaves its locks behind, and this process holds the cache's lock.
        for lock in ["index.lock", "HEAD.lock", "config.lock"] {
            regular_file::remove_file_if_there(ours.join(lock))?;
        }
        let folder = self.work_tree.join(&submodule.path);
        let link = folder.join(".git");
        if link.symlink_metadata().is_ok() && !links_to(&link, &ours) {
            remove_whatever_is_at(&folder)?;
        }
        Ok(())
    }

    /// Creates our repository of a submodule that the user has already cloned. It borrows the
    /// user's objects and knows the user's refs. So nothing is downloaded twice, and unpushed
    /// commits can be checked out.
    fn seed(&self, name: &str) -> anyhow::Result<()> {
        let Some(users) = self.users_clone(name) else { return Ok(()) };
        let ours = self.git_of(name);
        // Without a work tree of its own, git would look for the one in its configuration.
        let git = |directory: &Utf8Path| {
            let place = Place { git_directory: directory, work_tree: Some(directory) };
            self.repository.git_at(place)
        };
        if !ours.join("HEAD").exists() {
            let url = git(&users).args(["config", "--get", "remote.origin.url"]).capture()?.text();
            if url.is_empty() {
                return Ok(());
            }
            let format = git(&users).args(["rev-parse", "--show-object-format"]).run()?.text();
            fs_err::create_dir_all(&ours)?;
            let init = ["init", "--quiet", "--bare", "--template=", "--object-format", &format];
            self.repository.git_at(Place { git_directory: &ours, work_tree: None }).args(init).run()?;
            git(&ours).args(["config", "core.bare", "false"]).run()?;
            git(&ours).args(["config", "remote.origin.url", &url]).run()?;
            git(&ours)
                .args(["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"])
                .run()?;
            fs_err::create_dir_all(ours.join("objects/info"))?;
            fs_err::write(ours.join("objects/info/alternates"), format!("{}\n", users.join("objects")))?;
        }
        // The objects are already here, so this only reads refs.
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"];
        git(&ours)
            .args(["-c", "protocol.file.allow=always"])
            .args(quiet)
            .args(["--no-recurse-submodules", "--end-of-options", users.as_str()])
            .args(["+HEAD:refs/user/HEAD", "+refs/*:refs/user/refs/*"])
            .run()?;
        Ok(())
    }

    /// Returns the git directory of the user's clone of a submodule.
    fn users_clone(&self, name: &str) -> Option<Utf8PathBuf> {
        let is_clone = |directory: &&Utf8PathBuf| {
            let modules = directory.join("modules");
            let clone = modules.join(name);
            // Nothing that lies inside another repository is one.
            let mut above = clone.ancestors().skip(1).take_while(|folder| folder.starts_with(&modules));
            is_git_directory(&clone) && !above.any(is_git_directory)
        };
        Some(self.users.iter().find(is_clone)?.join("modules").join(name))
    }

    /// Verifies the commit of a submodule, removes other files, and checks out its submodules.
    fn finish(&self, submodule: &Submodule) -> anyhow::Result<()> {
        let level = Level {
            repository: self.repository,
            revision: self.revision,
            inside: self.inside.join(&submodule.path),
            git_directory: self.git_of(&submodule.name),
            work_tree: self.work_tree.join(&submodule.path),
            users: self.users.iter().map(|users| users.join("modules").join(&submodule.name)).collect(),
            conversion: self.conversion,
            missing: self.missing,
        };
        let head = level.git().args(["rev-parse", "--verify", "--quiet", "HEAD"]).capture()?.text();
        if head != submodule.commit || !links_to(&level.work_tree.join(".git"), &level.git_directory) {
            return Err(self.refused(Refusal::elsewhere(&submodule.name, &head, &submodule.commit)));
        }
        let (git, directory) = (level.git(), &level.git_directory);
        if self.conversion.forget_files_if_changed(&git, directory, &submodule.commit)? {
            self.update(std::slice::from_ref(submodule)).context("could not check out a submodule")?;
        }
        git.args(["clean", "-ffdq"]).run()?;
        level.check_out()
    }
}

fn is_git_directory(folder: &Utf8Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir()
}

/// Whether this `.git` is a file that names the git directory.
fn links_to(link: &Utf8Path, git_directory: &Utf8Path) -> bool {
    if !link.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(text) = regular_file::text(link) else { return false };
    let (Some(target), Some(folder)) = (text.trim_end().strip_prefix("gitdir: "), link.parent()) else {
        return false;
    };
    match (folder.join(target).canonicalize_utf8(), git_directory.canonicalize_utf8()) {
        (Ok(target), Ok(wanted)) => target == wanted,
        _ => false,
    }
}
