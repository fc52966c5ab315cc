//! Checks out submodules, one level of nesting after the other.
//!
//! `git submodule init` would write their URLs to the configuration that the user's repository
//! shares with its worktrees. Instead, the command line makes them active, and `update` reads the
//! URLs from the user's configuration, or else from `.gitmodules`. Git's own rules decide which
//! URLs are allowed (`protocol.*`).

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::declared_submodules::{Declared, Refusal, declared, first_link};
use crate::checkout::error::CheckoutError;
use crate::checkout::removal::{remove_file_if_there, remove_whatever_is_at};
use crate::git::program::{Place, nul_separated};
use crate::git::repository::Repository;
use crate::support::advice::Advice;
use crate::support::process::Command;

/// A repository in the checkout whose submodules are checked out: the checkout itself, or one of
/// its submodules.
pub struct Level<'a> {
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
        let submodules = self.wanted(&declared)?;
        if submodules.is_empty() {
            return Ok(());
        }
        for submodule in &submodules {
            self.make_room(submodule)?;
            self.seed(&submodule.name)?;
        }
        self.git()
            .args(["-c", "submodule.active=.", "--literal-pathspecs"])
            // Another way of updating, such as `merge`, could leave another commit than the
            // recorded one.
            .args(["submodule", "--quiet", "update", "--checkout", "--force", "--"])
            .args(submodules.iter().map(|submodule| &submodule.path))
            .run()
            .context("could not check out the submodules")?;
        submodules.iter().try_for_each(|submodule| self.finish(submodule))
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
    /// (`submodule.NAME.update = none`).
    fn wanted(&self, declared: &BTreeMap<String, Declared>) -> anyhow::Result<Vec<Submodule>> {
        let by_path: HashMap<&str, &String> = declared
            .iter()
            .filter_map(|(name, submodule)| Some((submodule.path.as_deref()?.trim_end_matches('/'), name)))
            .collect();
        let updates = ["config", "-z", "--get-regexp", r"^submodule\..*\.update$"];
        let configured = nul_separated(&self.git().args(updates).capture()?.stdout);
        let ways: HashMap<&str, &str> =
            configured.iter().filter_map(|entry| entry.split_once('\n')).collect();
        let mut found = Vec::new();
        for entry in nul_separated(&self.git().args(["ls-files", "--stage", "-z"]).run()?.stdout) {
            // `160000 HASH STAGE<tab>PATH` is a submodule.
            let Some((facts, path)) = entry.split_once('\t') else { continue };
            let Some(commit) = facts.strip_prefix("160000 ").and_then(|rest| rest.split(' ').next()) else {
                continue;
            };
            let Some(name) = by_path.get(path).map(|name| (*name).clone()) else { continue };
            if let Some(link) = first_link(&self.work_tree, path.as_ref()) {
                return Err(self.refused(Refusal::linked(&name, &link)));
            }
            let of_user = ways.get(format!("submodule.{name}.update").as_str()).copied();
            if of_user.or(declared[&name].update.as_deref()) != Some("none") {
                found.push(Submodule { name, path: path.to_owned(), commit: commit.to_owned() });
            }
        }
        Ok(found)
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
            remove_file_if_there(&ours.join(lock))?;
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
        };
        let head = level.git().args(["rev-parse", "--verify", "--quiet", "HEAD"]).capture()?.text();
        if head != submodule.commit || !links_to(&level.work_tree.join(".git"), &level.git_directory) {
            return Err(self.refused(Refusal::elsewhere(&submodule.name, &head, &submodule.commit)));
        }
        level.git().args(["clean", "-ffdq"]).run()?;
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
    let Ok(text) = fs_err::read_to_string(link) else { return false };
    let (Some(target), Some(folder)) = (text.trim_end().strip_prefix("gitdir: "), link.parent()) else {
        return false;
    };
    match (folder.join(target).canonicalize_utf8(), git_directory.canonicalize_utf8()) {
        (Ok(target), Ok(wanted)) => target == wanted,
        _ => false,
    }
}
