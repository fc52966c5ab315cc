//! Fetches a ref that only the remote has, and writes nothing but a ref below `refs/memprof/`.

use crate::git::repository::{Lookup, Repository};
use memprof_support::advice::Advice;
use memprof_support::process_error::ProcessError;

/// Where the tool's own refs are. `clean` deletes all of them.
pub(crate) const OUR_REFS: &str = "refs/memprof/";

/// Where the tool's refs to the revisions of the latest run are, named by commit.
pub(crate) const KEPT_REFS: &str = "refs/memprof/kept/commit-";

/// A fetch that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not fetch '{name}' ({remote_ref}) from {remote}: {}", .git.message())]
pub(crate) struct FetchError {
    /// What the user wrote.
    pub name: String,
    /// The remote's name or URL.
    pub remote: String,
    /// The ref at the remote.
    pub remote_ref: String,
    /// What git said. Messages omit its long command line: `git fetch REMOTE REF` does the same by
    /// hand.
    pub git: ProcessError,
    /// The ref and commit that an earlier run fetched. The tool does not use it by itself, because
    /// the remote's ref may have moved.
    pub kept: Option<(String, String)>,
}

impl Advice for FetchError {
    fn help(&self) -> Option<String> {
        if let Some((local, commit)) = &self.kept {
            let short = commit.get(..7).unwrap_or(commit);
            return Some(format!(
                "an earlier run fetched {short}, which may be out of date; write {local} to use it"
            ));
        }
        self.is_missing_there().then(|| {
            format!(
                "{} has no {}; write pr/NUMBER for GitHub and Gitea, mr/NUMBER for GitLab, and choose the remote with --remote",
                self.remote, self.remote_ref
            )
        })
    }
}

impl FetchError {
    /// Whether the remote answered that it has no such ref.
    pub(crate) fn is_missing_there(&self) -> bool {
        self.git.stderr().contains("couldn't find remote ref")
    }
}

/// Fetches one ref, and returns its current commit at the remote.
///
/// The user's refs, `FETCH_HEAD`, configuration and reflogs do not change, regardless of
/// `remote.*.fetch`, `fetch.prune` and `tagOpt`.
pub(crate) fn fetch(
    repository: &Repository,
    remote: &str,
    name: &str,
    remote_ref: &str,
) -> anyhow::Result<String> {
    let local = local_name(remote, remote_ref);
    let command = repository
        .git()
        // Newer git would create or move `refs/remotes/<remote>/HEAD`.
        .args(["-c", &format!("remote.{remote}.followRemoteHEAD=never")])
        .args(["-c", "fetch.writeCommitGraph=false"])
        .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-prune"])
        .args(["--no-recurse-submodules", "--no-auto-maintenance"])
        // Without this, git also updates the refs that `remote.<remote>.fetch` maps this one to.
        .arg("--refmap=")
        .args(["--end-of-options", remote, &format!("+{remote_ref}:{local}")]);
    if let Err(git) = command.run() {
        let kept = match repository.look_up(&local)? {
            Lookup::Commit(commit) => Some((local, commit)),
            Lookup::Ambiguous(_) | Lookup::NotACommit(_) | Lookup::Missing => None,
        };
        let (name, remote, remote_ref) = (name.to_owned(), remote.to_owned(), remote_ref.to_owned());
        return Err(FetchError { name, remote, remote_ref, git, kept }.advised());
    }
    match repository.look_up(&local)? {
        Lookup::Commit(commit) => Ok(commit),
        other => anyhow::bail!("{remote_ref} of {remote} was fetched, but is not a commit: {other:?}"),
    }
}

/// Returns the local name of a fetched ref: `refs/memprof/upstream/pull/7/head` for
/// `refs/pull/7/head` of `upstream`. It repeats the remote's path, so that no ref takes the place
/// of another one's folder, as `pr/7` and `pr/7/merge` would. `HEAD` would take that of `heads` where case does not count.
fn local_name(remote: &str, remote_ref: &str) -> String {
    let path = match remote_ref.strip_prefix("refs/") {
        Some(path) => path,
        None if remote_ref == "HEAD" => "default/HEAD",
        None => remote_ref,
    };
    let plain = remote.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
    if plain && !["worktree", "kept"].contains(&remote) {
        format!("{OUR_REFS}{remote}/{path}")
    } else {
        // A URL may have characters that a ref's name must not have, and other names could clash.
        format!("{OUR_REFS}remote-{}/{path}", &blake3::hash(remote.as_bytes()).to_hex()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::local_name;

    #[test]
    fn a_fetched_ref_has_a_place_below_the_tools_own_refs() {
        assert_eq!(local_name("upstream", "refs/pull/7/head"), "refs/memprof/upstream/pull/7/head");
        assert_eq!(local_name("upstream", "refs/pull/7/merge"), "refs/memprof/upstream/pull/7/merge");
        let url = local_name("https://example.com/a..b.git", "refs/pull/7/head");
        assert!(url.starts_with("refs/memprof/remote-") && url.ends_with("/pull/7/head"), "{url}");
        assert_ne!(url, local_name("https://example.com/c.git", "refs/pull/7/head"));
    }
}
