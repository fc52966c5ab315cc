//! Checks out submodules.
//!
//! `git submodule init` would write their URLs to the configuration that the user's repository
//! shares with its worktrees. Instead, the command line makes them active, and `update` reads the
//! URLs from the user's configuration, or else from `.gitmodules`.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::program::nul_separated;
use crate::git::repository::Repository;

/// Checks out the submodules of the revision that is in the worktree, recursively and in place.
pub fn check_out(
    repository: &Repository,
    worktree: &Utf8Path,
    git_directory: &Utf8Path,
) -> anyhow::Result<()> {
    if !worktree.join(".gitmodules").is_file() {
        return Ok(());
    }
    for name in names(repository, worktree)? {
        seed(repository, git_directory, &name)?;
    }
    let git = || repository.git_in(worktree).args(["-c", "submodule.active=."]);
    git()
        .args(["submodule", "--quiet", "update", "--force", "--recursive"])
        .run()
        .context("could not check out the submodules")?;
    git().args(["submodule", "--quiet", "foreach", "--recursive", "git clean -ffdq"]).run()?;
    Ok(())
}

/// Returns the names of the submodules in `.gitmodules` that are safe as a path below `modules/`.
/// Git itself refuses the others.
fn names(repository: &Repository, worktree: &Utf8Path) -> anyhow::Result<Vec<String>> {
    let list =
        ["config", "--file", ".gitmodules", "-z", "--name-only", "--get-regexp", r"^submodule\..*\.path$"];
    let listed = repository.git_in(worktree).args(list).capture()?;
    let names = nul_separated(&listed.stdout)
        .into_iter()
        .filter_map(|key| Some(key.strip_prefix("submodule.")?.strip_suffix(".path")?.to_owned()));
    Ok(names.filter(|name| !name.split(['/', '\\']).any(|part| part == "..")).collect())
}

/// Creates our repository of a submodule that the user has already cloned. It borrows the user's
/// objects and knows the user's refs. So nothing is downloaded twice, and unpushed commits can be
/// checked out.
fn seed(repository: &Repository, git_directory: &Utf8Path, name: &str) -> anyhow::Result<()> {
    let users = [repository.git_directory(), repository.common_directory()]
        .map(|directory| directory.join("modules").join(name))
        .into_iter()
        .find(|directory| directory.join("objects").is_dir());
    let Some(users) = users else { return Ok(()) };
    let ours: Utf8PathBuf = git_directory.join("modules").join(name);
    let git = |directory: &Utf8Path| repository.git_in(directory);
    if !ours.join("HEAD").exists() {
        let url = git(&users).args(["config", "--get", "remote.origin.url"]).capture()?.text();
        if url.is_empty() {
            return Ok(());
        }
        let format = git(&users).args(["rev-parse", "--show-object-format"]).run()?.text();
        fs_err::create_dir_all(&ours)?;
        let init = ["init", "--quiet", "--bare", "--template=", "--object-format", &format];
        git(&ours).args(init).arg(&ours).run()?;
        git(&ours).args(["config", "core.bare", "false"]).run()?;
        git(&ours).args(["config", "remote.origin.url", &url]).run()?;
        git(&ours).args(["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]).run()?;
        fs_err::create_dir_all(ours.join("objects/info"))?;
        fs_err::write(ours.join("objects/info/alternates"), format!("{}\n", users.join("objects")))?;
    }
    // The objects are already here, so this only reads refs.
    git(&ours)
        .args(["-c", "protocol.file.allow=always", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
        .args(["--no-auto-maintenance", "--no-recurse-submodules", "--end-of-options", users.as_str()])
        .args(["+HEAD:refs/user/HEAD", "+refs/*:refs/user/refs/*"])
        .run()?;
    Ok(())
}
