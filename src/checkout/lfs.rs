//! Files that are kept by Git LFS: git's own filter gets them, and what it left as a pointer is found.
//!
//! git-lfs writes to the configuration of the repository that it runs in (`lfs.repositoryformatversion`, how it authenticated)
//! and keeps downloads there. It is therefore given a repository of our own, which includes the user's configuration and
//! takes objects that the user already has from theirs.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::program::nul_separated;
use crate::git::repository::{LFS_POINTER, Repository};
use crate::support::process::{Command, shell_quoted};

/// How git-lfs is called for one repository.
#[derive(Clone, Debug)]
pub struct Lfs {
    /// Its own repository; `None` if the user has a filter that is not git-lfs.
    folder: Option<Utf8PathBuf>,
    /// Why git-lfs cannot be called.
    unavailable: Option<String>,
}

impl Lfs {
    /// Makes git-lfs's own repository in this folder if it is not there.
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
            let init = ["init", "--quiet", "--bare", "--template=", "--object-format", format];
            repository.git().args(init).arg(folder).run()?;
        }
        // Later lines win: the user's settings first, then what describes this repository and not theirs.
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
        fs_err::write(folder.join("config"), text)?;
        fs_err::create_dir_all(folder.join("objects/info"))?;
        fs_err::write(folder.join("objects/info/alternates"), format!("{}\n", common.join("objects")))?;
        Ok(Self { folder: Some(folder.to_owned()), unavailable: None })
    }

    /// The command with the filter set for it, whether the user has run `git lfs install` (with `--skip-smudge`, even) or not.
    pub fn applied_to(&self, command: Command) -> Command {
        let Some(folder) = &self.folder else { return command };
        // The filter is started at the checkout's root.
        let environment = format!("env GIT_DIR={} GIT_WORK_TREE=.", shell_quoted(folder.as_os_str()));
        command
            .args(["-c", &format!("filter.lfs.process={environment} git-lfs filter-process")])
            .args(["-c", &format!("filter.lfs.smudge={environment} git-lfs smudge -- %f")])
            .args(["-c", &format!("filter.lfs.clean={environment} git-lfs clean -- %f")])
            .args(["-c", "filter.lfs.required=true"])
    }

    /// Why git-lfs could not be called, if it could not.
    pub fn why_unavailable(&self) -> Option<String> {
        self.unavailable.clone()
    }

    /// The files of the checkout that should be had from Git LFS, and are still its pointers.
    pub fn pointers_left(&self, git: &Command, root: &Utf8Path) -> anyhow::Result<Vec<String>> {
        let listed = git.clone().args(["ls-files", "-z", "--", ":(top,attr:filter=lfs)"]).run()?;
        let mut files = nul_separated(&listed.stdout);
        files.retain(|file| is_pointer(&root.join(file)));
        Ok(files)
    }
}

fn is_pointer(path: &Utf8Path) -> bool {
    let mut start = Vec::new();
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let length = LFS_POINTER.len() as u64;
    is_file
        && std::fs::File::open(path).is_ok_and(|file| file.take(length).read_to_end(&mut start).is_ok())
        && start == LFS_POINTER
}

/// The files that git names when a filter called `lfs` fails: `fatal: a.bin: smudge filter lfs failed`.
pub fn files_in_message(message: &str) -> Option<Vec<String>> {
    let named = |line: &str| {
        let (file, _) = line.split_once(": smudge filter lfs failed")?;
        Some(
            ["fatal: ", "error: "].iter().find_map(|kind| file.strip_prefix(kind)).unwrap_or(file).to_owned(),
        )
    };
    let files: Vec<_> = message.lines().filter_map(named).collect();
    (!files.is_empty()).then_some(files)
}

/// The first three of a list of files, and how many more there are.
pub fn quoted_list(files: &[String]) -> String {
    let shown: Vec<_> = files.iter().take(3).map(|file| format!("'{file}'")).collect();
    match files.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A value for git's configuration files.
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
