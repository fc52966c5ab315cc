//! Why a revision could not be checked out, and what the user can do about it.

use crate::checkout::lfs::quoted_list;
use memprof_support::advice::Advice;
use memprof_support::process::shell_quoted;
use memprof_support::process_error::ProcessError;

/// Why a revision could not be checked out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckoutError {
    /// A partial clone lacks contents, and its remote does not deliver them.
    #[error("{revision} lacks the contents of {}", quoted_list(.files))]
    MissingContents {
        revision: String,
        /// Paths of the files.
        files: Vec<String>,
        /// The commit, whose contents git can fetch from the remote.
        commit: String,
        /// The remote that promised the contents.
        remote: String,
        /// What git said.
        source: ProcessError,
    },
    /// Files kept by Git LFS are still pointers after the checkout.
    #[error("{revision} has only Git LFS pointers for {}{}", quoted_list(.files), because(.reason))]
    LfsPointers {
        revision: String,
        /// Paths of the files.
        files: Vec<String>,
        /// Git LFS's message, or that it is not installed. Empty if there is no message.
        reason: String,
    },
    /// A filter of the user failed, and git wrote the files without it.
    #[error("git wrote files of {revision} without a filter that failed: {message}")]
    Filter {
        revision: String,
        /// What git said.
        message: String,
    },
    /// The revision changes a program that a filter of the user would run from the checkout.
    #[error("{revision} changes {program}, which the setting {key} would run at the checkout")]
    OwnProgram {
        revision: String,
        /// The setting's name.
        key: String,
        /// The program's path from the checkout's root.
        program: String,
        /// The path of the user's own copy.
        users: String,
    },
    /// The revision has a submodule that the tool does not check out.
    #[error("{file} of {revision} names the submodule {name:?}, {reason}")]
    Submodule {
        revision: String,
        /// The path of the `.gitmodules` that names it.
        file: String,
        /// The submodule's name.
        name: String,
        /// What is wrong with it: `whose name is an absolute path`.
        reason: String,
        /// What to do about it.
        help: String,
    },
    /// Git failed for another reason.
    #[error("could not check out {revision}")]
    Git {
        revision: String,
        /// What git said.
        source: ProcessError,
    },
}

impl Advice for CheckoutError {
    fn help(&self) -> Option<String> {
        let files = match self {
            Self::MissingContents { files, .. } | Self::LfsPointers { files, .. } => files,
            Self::OwnProgram { key, program, users, .. } => {
                return Some(format!(
                    "to always run your own copy, write {users} instead of {program}: git config {key} COMMAND"
                ));
            }
            Self::Submodule { help, .. } => return Some(help.clone()),
            Self::Filter { .. } => {
                return Some(
                    "correct or remove the filter; to see all of them: git config --show-origin \
                     --get-regexp '^filter'"
                        .to_owned(),
                );
            }
            Self::Git { .. } => return None,
        };
        Some(match self {
            Self::MissingContents { commit, remote, .. } => format!(
                "to fetch {}: git rev-list --objects --no-object-names --missing=print -1 {commit} | \
                 sed -n 's/^?//p' | git fetch --no-tags --no-write-fetch-head --filter=blob:none --stdin {}\n\
                 or leave out what the tests do not need: {}",
                match files.len() {
                    1 => "it".to_owned(),
                    more => format!("all {more}"),
                },
                shell_quoted(remote.as_ref()),
                exclusions(files)
            ),
            _ => format!(
                "install git-lfs and check that `git lfs fetch` can reach the server, or leave them out: {}",
                exclusions(files)
            ),
        })
    }
}

/// Returns the flags that leave these files out. Of many files, it returns their folders.
fn exclusions(files: &[String]) -> String {
    const MOST: usize = 12;
    let mut patterns: Vec<String> = files.iter().map(|file| format!("/{file}")).collect();
    if patterns.len() > MOST {
        let folder =
            |file: &String| file.split_once('/').map_or(format!("/{file}"), |(top, _)| format!("/{top}/"));
        patterns = files.iter().map(folder).collect();
        patterns.dedup();
    }
    let flag = |pattern: &String| format!("--sparse-exclude {}", shell_quoted(pattern.as_ref()));
    let shown = patterns.iter().take(MOST).map(flag).collect::<Vec<_>>().join(" ");
    if patterns.len() > MOST { format!("{shown} …") } else { shown }
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
