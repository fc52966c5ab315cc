//! The git program, with everything off that could change the user's repository.

use camino::Utf8Path;

use memprof_support::process::Command;

/// Variables that hooks, aliases and scripts set for git. They would point our child processes to
/// another repository, or change what they do. `git rev-parse --local-env-vars` lists the first
/// ones. `GIT_CONFIG_PARAMETERS` and `GIT_CONFIG_COUNT` from that list are kept: they are the
/// user's configuration (`git -c … memprof`).
pub(crate) const INHERITED: [&str; 26] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_DEFAULT_REF_FORMAT",
    // With this variable, git-lfs silently leaves pointers in place of the files.
    "GIT_LFS_SKIP_SMUDGE",
    "GIT_EXTERNAL_DIFF",
];

/// Configuration that keeps git from running hooks, writing reflogs, packing, and starting daemons. And it
/// lets git sync refs and objects: it takes an object that a power failure emptied for one that is there,
/// and fails on such a ref.
const QUIET: [&str; 7] = [
    "core.fsync=committed",
    "core.hooksPath=/dev/null",
    "core.logAllRefUpdates=false",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
];

/// A git directory and its work tree. Git is told both, so it searches for neither: a search from a
/// checkout that lost its `.git` would end at a repository around the cache.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// `.git`, `.git/worktrees/NAME`, `.git/modules/NAME` or a bare repository.
    pub git_directory: &'a Utf8Path,
    /// The root of the files; `None` if the command needs none.
    pub work_tree: Option<&'a Utf8Path>,
}

/// Returns `git` in this place, started at the root of the files. Credentials, proxies, SSH
/// configuration and filters are the user's. Messages are in English, because this program reads
/// some of them.
pub(crate) fn git(place: Place<'_>) -> Command {
    let start = place.work_tree.unwrap_or(place.git_directory);
    let command = searching_git(start).env("GIT_DIR", place.git_directory);
    let command = match place.work_tree {
        Some(work_tree) => command.env("GIT_WORK_TREE", work_tree),
        None => command,
    };
    // For programs that git starts, such as filters. They search with the same variable.
    command.env("GIT_CEILING_DIRECTORIES", start.parent().unwrap_or(start))
}

/// Returns `git` that searches for a repository from this folder upwards. It is only for the user's
/// repository, and for those around folders of `--with`: git checks there whether the user trusts the
/// folder's owner.
pub(crate) fn searching_git(start: &Utf8Path) -> Command {
    let inherited = INHERITED.iter().fold(Command::new("git"), Command::env_remove);
    let quiet = QUIET.iter().fold(inherited, |command, setting| command.args(["-c", setting]));
    quiet.current_dir(start).env("LC_ALL", "C")
}

/// Returns the NUL-terminated items of `-z` output. Bytes that are not UTF-8 are replaced.
pub fn nul_separated(output: &[u8]) -> Vec<String> {
    let items = output.split(|byte| *byte == 0).filter(|item| !item.is_empty());
    items.map(|item| String::from_utf8_lossy(item).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_that_git_calls_local_is_removed_or_is_configuration() {
        let listed = Command::new("git").args(["rev-parse", "--local-env-vars"]).run().unwrap().text();
        let missed: Vec<_> = listed
            .lines()
            .filter(|name| !INHERITED.contains(name) && !name.starts_with("GIT_CONFIG_"))
            .collect();
        assert_eq!(missed, Vec::<&str>::new());
    }

    #[test]
    fn items_are_split_at_nul_bytes() {
        assert_eq!(nul_separated(b"a b\0c\nd\0"), ["a b", "c\nd"]);
        assert!(nul_separated(b"").is_empty());
    }
}
