//! The demo's git repository, made from `fixtures/demo`: a clone on `main`, a branch that saves
//! memory, and a pull request that wastes it, which only the remote has.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::demo::fixture;

/// The repository, and the flags for a comparison in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoRepository {
    /// The clone's working tree.
    pub path: PathBuf,
    /// For `--refs`; the first is the baseline.
    pub refs: Vec<String>,
    /// For `--overlay`, relative to `path`.
    pub overlay: String,
    /// For `-k`.
    pub filter: String,
}

/// Creates the repository, its remote and the overlay's folder in `directory`, which should be
/// empty.
///
/// It ignores the user's git configuration, hooks and templates, and the commits have the same
/// hashes everywhere.
pub fn create(directory: &Path) -> anyhow::Result<DemoRepository> {
    fs_err::create_dir_all(directory)?;
    let path = directory.join("minisearch");
    make_remote(directory)?;
    // A local clone would link to all objects of the remote, also those of the pull request.
    git(directory, &["clone", "--quiet", "--no-local", "--template=", "origin.git", "minisearch"])?;
    git(&path, &["branch", "--quiet", "compact-postings", "origin/compact-postings"])?;
    fixture::write(&fixture::DEMO, "overlay", &directory.join("overlay"))?;
    Ok(DemoRepository {
        path,
        refs: ["main", "compact-postings", "pr/7"].map(String::from).to_vec(),
        overlay: "../overlay/tests/stages.rs=tests/stages.rs".to_owned(),
        filter: "stages or finds".to_owned(),
    })
}

/// Commits in a third repository, so that the clone has to fetch the pull request's commit.
fn make_remote(directory: &Path) -> anyhow::Result<()> {
    let author = tempfile::Builder::new().prefix("author-").tempdir_in(directory)?;
    let author = author.path();
    git(directory, &["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "origin.git"])?;
    git(author, &["init", "--quiet", "--template=", "--initial-branch=main"])?;
    commit(author, "main", "A small full-text index")?;
    git(author, &["switch", "--quiet", "--create", "compact-postings"])?;
    commit(author, "compact-postings", "Store postings as differences of variable length")?;
    git(author, &["switch", "--quiet", "--create", "snippets", "main"])?;
    commit(author, "pr-7", "Show a snippet with each hit")?;
    git(
        author,
        &["push", "--quiet", "../origin.git", "main", "compact-postings", "snippets:refs/pull/7/head"],
    )
}

fn commit(repository: &Path, folder: &str, subject: &str) -> anyhow::Result<()> {
    fixture::write(&fixture::DEMO, folder, repository)?;
    git(repository, &["add", "--all"])?;
    git(repository, &["commit", "--quiet", "--message", subject])
}

/// Runs git without the user's configuration, and without variables of a git hook that may have
/// started this program.
fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    const DATE: &str = "2025-03-02T10:15:00+00:00";
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    let output = command
        .args(arguments)
        .current_dir(directory)
        // The folder is a repository, or gets one. Git must not find another one above it.
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap_or(directory))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "A. Author")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_AUTHOR_DATE", DATE)
        .env("GIT_COMMITTER_NAME", "A. Author")
        .env("GIT_COMMITTER_EMAIL", "author@example.com")
        .env("GIT_COMMITTER_DATE", DATE)
        .output()
        .context("could not start `git`")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`git {}` failed with {}:\n{}", arguments.join(" "), output.status, stderr.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").args(arguments).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_clone_is_clean_on_main_and_has_the_branch() {
        let directory = tempfile::tempdir().unwrap();
        let demo = create(directory.path()).unwrap();
        assert_eq!(output(&demo.path, &["status", "--porcelain", "--branch"]), "## main...origin/main\n");
        assert_eq!(
            output(&demo.path, &["for-each-ref", "--format=%(refname)"]),
            "refs/heads/compact-postings\nrefs/heads/main\nrefs/remotes/origin/HEAD\n\
             refs/remotes/origin/compact-postings\nrefs/remotes/origin/main\n",
        );
        assert!(demo.path.join("../overlay/tests/stages.rs").is_file());
        assert!(demo.path.join("Cargo.lock").is_file());
    }

    #[test]
    fn only_the_remote_has_the_pull_request_which_can_be_fetched() {
        let directory = tempfile::tempdir().unwrap();
        let demo = create(directory.path()).unwrap();
        let listed = output(&demo.path, &["ls-remote", "origin", "refs/pull/*"]);
        let (commit, name) = listed.trim_end().split_once('\t').unwrap();
        assert_eq!(name, "refs/pull/7/head");
        let known =
            Command::new("git").args(["cat-file", "-e", commit]).current_dir(&demo.path).output().unwrap();
        assert!(!known.status.success(), "the clone already has the pull request's commit");
        output(&demo.path, &["fetch", "--quiet", "origin", "refs/pull/7/head"]);
        assert_eq!(
            output(&demo.path, &["diff", "--name-only", "main", commit]),
            "src/builder.rs\nsrc/index.rs\nsrc/postings.rs\ntests/snippet.rs\n",
        );
    }

    #[test]
    fn two_demos_have_the_same_commits() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = directories.each_ref().map(|directory| {
            create(directory.path()).unwrap();
            output(&directory.path().join("origin.git"), &["for-each-ref"])
        });
        assert_eq!(first.lines().count(), 3);
        assert_eq!(first, second);
    }
}
