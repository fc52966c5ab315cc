//! Files in Git LFS: lets git's filter fetch them, and finds files that are still pointers.
//!
//! git-lfs writes to the configuration of the repository that it runs in
//! (`lfs.repositoryformatversion`, how it authenticated), and keeps downloads there. So it gets a
//! repository of the tool, which includes the user's configuration and borrows objects from the
//! user's repository.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::program::{Place, nul_separated};
use crate::git::repository::{LFS_POINTER, Repository};
use memprof_support::counted::some;
use memprof_support::process::{Command, shell_quoted};
use memprof_support::regular_file;
use memprof_support::regular_file::followed;

/// How to call git-lfs for one repository.
#[derive(Clone, Debug)]
pub(crate) struct Lfs {
    /// The repository for git-lfs. `None` if git-lfs is missing, or if the user has another filter.
    folder: Option<Utf8PathBuf>,
    /// Why git-lfs cannot be called.
    unavailable: Option<String>,
}

impl Lfs {
    /// Creates the repository for git-lfs in this folder, if necessary.
    pub fn open(folder: &Utf8Path, repository: &Repository) -> anyhow::Result<Self> {
        let configured = repository.git().args(["config", "--get", "filter.lfs.process"]).capture()?.text();
        if !configured.is_empty() && !configured.starts_with("git-lfs") && !configured.starts_with("git lfs")
        {
            return Ok(Self { folder: None, unavailable: None });
        }
        if !repository.git().args(["lfs", "version"]).capture()?.status.success() {
            return Ok(Self { folder: None, unavailable: Some("git-lfs is not installed".to_owned()) });
        }
        let common = repository.common_directory();
        let format = repository.git().args(["rev-parse", "--show-object-format"]).capture()?.text();
        let format = if format.is_empty() { "sha1" } else { &format };
        if !folder.join("HEAD").exists() {
            fs_err::create_dir_all(folder)?;
            let init = ["init", "--quiet", "--bare", "--template=", "--object-format", format];
            repository.git_at(Place { git_directory: folder, work_tree: None }).args(init).run()?;
        }
        // Later lines win: the user's settings come first, then those of this repository.
        let text = format!(
            "[include]\n\tpath = {}\n[core]\n\trepositoryformatversion = {}\n\tbare = false\n{}[lfs]\n\trepositoryformatversion = 0\n",
            config_quoted(common.join("config").as_str()),
            u8::from(format != "sha1"),
            if format == "sha1" {
                String::new()
            } else {
                format!("[extensions]\n\tobjectFormat = {format}\n")
            },
        );
        regular_file::write(&folder.join("config"), text.as_bytes())?;
        fs_err::create_dir_all(folder.join("objects/info"))?;
        fs_err::write(folder.join("objects/info/alternates"), format!("{}\n", common.join("objects")))?;
        Ok(Self { folder: Some(folder.to_owned()), unavailable: None })
    }

    /// Returns the command with git-lfs's filter, regardless of whether the user has run `git lfs
    /// install` (or with `--skip-smudge`).
    pub(crate) fn applied_to(&self, command: Command) -> Command {
        let Some(folder) = &self.folder else { return command };
        // Git starts the filter at the checkout's root.
        let environment = format!("env GIT_DIR={} GIT_WORK_TREE=.", shell_quoted(folder.as_os_str()));
        command
            .args(["-c", &format!("filter.lfs.process={environment} git-lfs filter-process")])
            .args(["-c", &format!("filter.lfs.smudge={environment} git-lfs smudge -- %f")])
            .args(["-c", &format!("filter.lfs.clean={environment} git-lfs clean -- %f")])
            .args(["-c", "filter.lfs.required=true"])
    }

    /// Returns why git-lfs cannot be called; `None` if it can.
    pub fn why_unavailable(&self) -> Option<String> {
        self.unavailable.clone()
    }
}

/// Returns the files of a checkout that should come from Git LFS but are still pointers.
pub(crate) fn pointers_left(git: &Command, root: &Utf8Path) -> anyhow::Result<Vec<String>> {
    let listed = git.clone().args(["ls-files", "-z", "--", ":(top,attr:filter=lfs)"]).run()?;
    let mut files = nul_separated(&listed.stdout);
    files.retain(|file| is_pointer(&root.join(file)));
    Ok(files)
}

fn is_pointer(path: &Utf8Path) -> bool {
    let mut start = Vec::new();
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let length = LFS_POINTER.len() as u64;
    is_file
        && followed::open(path).is_ok_and(|file| file.take(length).read_to_end(&mut start).is_ok())
        && start == LFS_POINTER
}

/// Returns the files in git's message about a failed filter: `fatal: a.bin: smudge filter lfs
/// failed`.
pub(crate) fn files_in_message(message: &str) -> Option<Vec<String>> {
    let named = |line: &str| {
        let (file, _) = line.split_once(": smudge filter lfs failed")?;
        Some(
            ["fatal: ", "error: "].iter().find_map(|kind| file.strip_prefix(kind)).unwrap_or(file).to_owned(),
        )
    };
    let files: Vec<_> = message.lines().filter_map(named).collect();
    (!files.is_empty()).then_some(files)
}

/// Returns the first three files of a list, and how many more there are.
pub(crate) fn quoted_list(files: &[String]) -> String {
    some(&files.iter().map(|file| format!("'{file}'")).collect::<Vec<_>>(), 3)
}

/// Quotes a value for git's configuration files.
fn config_quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_from_gits_message() {
        let message = "batch response: Post \"http://x\": refused\nError downloading a b.bin\nfatal: a b.bin: smudge filter lfs failed\n";
        assert_eq!(files_in_message(message).unwrap(), ["a b.bin"]);
        assert_eq!(files_in_message("fatal: something else"), None);
    }

    #[test]
    fn a_long_list_is_cut() {
        let files: Vec<_> = (0..5).map(|number| format!("f{number}")).collect();
        assert_eq!(quoted_list(&files[..1]), "'f0'");
        assert_eq!(quoted_list(&files), "'f0', 'f1', 'f2' and 2 more");
    }
}
