//! What a comparison without refs compares: the current work with where it forked from the default
//! branch.

use crate::git::repository::{Lookup, Repository};
use crate::git::resolve_error::ResolveError;
use crate::git::working_tree::without_target_folders;
use memprof_plan::request::MERGE_BASE;
use memprof_plan::request::RefRequest;
use memprof_support::advice::Advice;
use memprof_support::user_error::UserError;

/// Refs that the user did not have to name, and why these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsualRefs {
    /// The refs; the first one is the baseline.
    pub refs: Vec<RefRequest>,
    /// What is compared, in words: `the working tree with its merge base with main`.
    pub reason: String,
}

/// Names of default branches, if the repository does not say which one it is.
const USUAL_NAMES: [&str; 3] = ["main", "master", "trunk"];

/// Returns the default branch as a ref of this repository: `origin/main`, else a local branch.
/// `None` if there is no such branch.
pub fn default_branch(repository: &Repository) -> anyhow::Result<Option<String>> {
    let mut remotes = repository.remotes()?;
    remotes.sort_by_key(|remote| ["upstream", "origin"].iter().position(|name| remote == name).unwrap_or(2));
    for remote in &remotes {
        if let Some(named) = default_branch_of(repository, remote)? {
            return Ok(Some(named));
        }
    }
    let configured = repository.git().args(["config", "--get", "init.defaultBranch"]).capture()?;
    let configured = configured.status.success().then(|| configured.text());
    let names = || USUAL_NAMES.into_iter().chain(configured.as_deref());
    let of_remotes = remotes.iter().flat_map(|remote| names().map(move |name| format!("{remote}/{name}")));
    let candidates: Vec<String> = of_remotes.chain(names().map(str::to_owned)).collect();
    let references = repository.references()?;
    Ok(candidates.into_iter().find(|name| {
        references.iter().any(|full| {
            full.strip_prefix("refs/heads/").or_else(|| full.strip_prefix("refs/remotes/")) == Some(name)
        })
    }))
}

/// Returns the default branch of this remote, `origin/main`, if the repository says which one it is.
fn default_branch_of(repository: &Repository, remote: &str) -> anyhow::Result<Option<String>> {
    let head = format!("refs/remotes/{remote}/HEAD");
    let named = repository.git().args(["symbolic-ref", "--quiet", "--short", &head]).capture()?;
    let is_there = named.status.success() && repository.look_up(&named.text())? != Lookup::Missing;
    Ok(is_there.then(|| named.text()))
}

/// Returns the remote that pull requests come from: `upstream`, else `origin`, else the only one.
pub(crate) fn default_remote(repository: &Repository) -> anyhow::Result<Option<String>> {
    let mut remotes = repository.remotes()?;
    let known = ["upstream", "origin"].iter().find(|name| remotes.iter().any(|remote| remote == *name));
    Ok(match known {
        Some(name) => Some((*name).to_owned()),
        None if remotes.len() == 1 => remotes.pop(),
        None => None,
    })
}

/// Returns the remote that pull requests come from, if only some of its branches are fetched, as after
/// `git clone --single-branch` or `--depth`.
pub(crate) fn narrow_remote(repository: &Repository) -> anyhow::Result<Option<String>> {
    let Some(remote) = default_remote(repository)? else { return Ok(None) };
    let key = format!("remote.{remote}.fetch");
    let refspecs = repository.git().args(["config", "--get-all", &key]).capture()?;
    let is_narrow = refspecs.status.success() && !refspecs.text().contains('*');
    Ok(is_narrow.then_some(remote))
}

/// Returns the branch that pull requests are compared with: the default branch of the remote that they come
/// from, which the user may have named. It is `origin/HEAD` if the repository does not say which one that is.
/// `None` if there is neither a remote nor a default branch.
pub fn base_of_pull_requests(repository: &Repository, named: Option<&str>) -> anyhow::Result<Option<String>> {
    let remotes = repository.remotes()?;
    let named = named.map(str::to_owned).filter(|named| remotes.contains(named));
    let Some(remote) = named.or(default_remote(repository)?) else { return default_branch(repository) };
    let known = default_branch_of(repository, &remote)?;
    Ok(Some(known.unwrap_or_else(|| format!("{remote}/HEAD"))))
}

/// Chooses the refs of a comparison without refs. On a branch, the work is compared with its merge
/// base with the default branch. On the default branch, uncommitted changes are compared with
/// `HEAD`, or else `HEAD` with its parent.
///
/// # Errors
///
/// A repository without a commit, a shallow clone that lacks the baseline, and errors of git.
pub fn usual(repository: &Repository) -> anyhow::Result<UsualRefs> {
    let head = commit(repository, "HEAD")?.ok_or_else(|| {
        UserError::new("'HEAD' has no commit yet").help("to measure the working tree: cargo memprof .")
    })?;
    let branch = repository.git().args(["symbolic-ref", "--quiet", "--short", "HEAD"]).capture()?;
    let branch = branch.status.success().then(|| branch.text());
    let is_dirty = repository.has_checkout()? && has_changes(repository)?;
    let work = if is_dirty { "." } else { "HEAD" };
    let work_in_words = match (&branch, is_dirty) {
        (_, true) => "the working tree".to_owned(),
        (Some(branch), false) => branch.clone(),
        (None, false) => "HEAD".to_owned(),
    };
    if let Some(default) = default_branch(repository)? {
        let is_on_it = branch.as_ref().is_some_and(|branch| {
            default == *branch || default.strip_suffix(branch).is_some_and(|remote| remote.ends_with('/'))
        });
        let base = match commit(repository, &default)? {
            Some(tip) if !is_on_it => {
                let base = repository.merge_base(&[&tip, &head])?;
                if base.is_none() && repository.is_shallow() {
                    let names = vec![default, "HEAD".to_owned()];
                    return Err(ResolveError::NoMergeBase { names, shallow: true }.advised());
                }
                base
            }
            _ => None,
        };
        if base.is_some_and(|base| base != head) {
            let refs = vec![merge_base(&default, "HEAD"), one(work)];
            return Ok(UsualRefs {
                refs,
                reason: format!("{work_in_words} with its merge base with {default}"),
            });
        }
    }
    if is_dirty {
        return Ok(UsualRefs {
            refs: vec![one("HEAD"), one(work)],
            reason: format!("{work_in_words} with HEAD"),
        });
    }
    if commit(repository, "HEAD~1")?.is_none() {
        if repository.is_shallow() {
            let [spec, name, oldest] = ["HEAD~1", "HEAD", "HEAD"].map(str::to_owned);
            return Err(ResolveError::BeyondHistory { spec, name, oldest, shallow: true }.advised());
        }
        return Ok(UsualRefs { refs: vec![one("HEAD")], reason: "HEAD, the only commit".to_owned() });
    }
    let reason = format!("the last commit of {work_in_words} with the one before");
    Ok(UsualRefs { refs: vec![one("HEAD~1"), one("HEAD")], reason })
}

/// Returns the ref of the merge base of two refs, under its usual name.
pub fn merge_base(one: &str, other: &str) -> RefRequest {
    let spec = format!("{one}...{other}");
    RefRequest { spec, name: Some(MERGE_BASE.to_owned()), ..RefRequest::default() }
}

fn one(spec: &str) -> RefRequest {
    RefRequest { spec: spec.to_owned(), ..RefRequest::default() }
}

fn commit(repository: &Repository, spec: &str) -> anyhow::Result<Option<String>> {
    Ok(match repository.look_up(spec)? {
        Lookup::Commit(hash) => Some(hash),
        Lookup::Ambiguous(_) | Lookup::NotACommit(_) | Lookup::Missing => None,
    })
}

/// Whether the working tree differs from `HEAD`, with untracked files.
fn has_changes(repository: &Repository) -> anyhow::Result<bool> {
    let status =
        ["--no-optional-locks", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
    let listed = repository.git().args(status).run()?.stdout;
    let items = listed.split_inclusive(|byte| *byte == 0);
    // None if a tracked file changed.
    match items.map(|item| item.strip_prefix(b"?? ")).collect() {
        Some(untracked) => Ok(!without_target_folders(repository, untracked)?.is_empty()),
        None => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::git::program::searching_git;

    struct Place {
        _folder: tempfile::TempDir,
        root: camino::Utf8PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
            let place = Self { _folder: folder, root };
            place.git(&["init", "-q", "-b", "main"]);
            place.commit("one");
            place
        }

        fn git(&self, arguments: &[&str]) {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
            searching_git(&self.root).args(identity).args(arguments).run().unwrap();
        }

        fn commit(&self, name: &str) {
            fs_err::write(self.root.join(name), name).unwrap();
            self.git(&["add", "."]);
            self.git(&["commit", "-q", "-m", name]);
        }

        /// The refs' specs and the reason, in one line.
        fn usual(&self) -> String {
            let usual = usual(&Repository::discover(&self.root).unwrap()).unwrap();
            let specs: Vec<_> = usual.refs.iter().map(|one| one.spec.as_str()).collect();
            format!("{}: {}", specs.join(" "), usual.reason)
        }
    }

    #[test]
    fn on_the_default_branch_the_newest_change_is_compared() {
        let place = Place::new();
        assert_eq!(place.usual(), "HEAD: HEAD, the only commit");
        place.commit("two");
        assert_eq!(place.usual(), "HEAD~1 HEAD: the last commit of main with the one before");
        fs_err::create_dir(place.root.join("target")).unwrap();
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag created by cargo.\n";
        fs_err::write(place.root.join("target/CACHEDIR.TAG"), tag).unwrap();
        assert_eq!(place.usual(), "HEAD~1 HEAD: the last commit of main with the one before");
        fs_err::write(place.root.join("new"), "x").unwrap();
        assert_eq!(place.usual(), "HEAD .: the working tree with HEAD");
    }

    #[test]
    fn a_branch_is_compared_with_its_merge_base() {
        let place = Place::new();
        place.git(&["switch", "-q", "-c", "feature"]);
        place.commit("two");
        assert_eq!(place.usual(), "main...HEAD HEAD: feature with its merge base with main");
        fs_err::write(place.root.join("two"), "changed").unwrap();
        assert_eq!(place.usual(), "main...HEAD .: the working tree with its merge base with main");
        place.git(&["checkout", "-q", "--", "two"]);
        place.git(&["switch", "-q", "--detach"]);
        assert_eq!(place.usual(), "main...HEAD HEAD: HEAD with its merge base with main");
    }

    #[test]
    fn the_remote_says_which_branch_is_the_default() {
        let upstream = Place::new();
        upstream.git(&["branch", "-m", "stable"]);
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().join("clone");
        searching_git(&upstream.root).args(["clone", "-q", ".", root.as_str()]).run().unwrap();
        let clone = Place { _folder: folder, root };
        let repository = Repository::discover(&clone.root).unwrap();
        assert_eq!(default_branch(&repository).unwrap().as_deref(), Some("origin/stable"));
        clone.commit("two");
        assert_eq!(clone.usual(), "HEAD~1 HEAD: the last commit of stable with the one before");
        clone.git(&["switch", "-q", "-c", "feature"]);
        assert_eq!(
            clone.usual(),
            "origin/stable...HEAD HEAD: feature with its merge base with origin/stable"
        );
    }
}
