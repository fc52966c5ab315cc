//! Why refs cannot be compared, and what the user can do about it.

use memprof_support::advice::Advice;

/// Why refs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Nothing has this name.
    #[error("no ref '{spec}' in this repository")]
    NoRef {
        /// What the user wrote.
        spec: String,
        /// Names that the user may mean, the most likely first.
        nearest: Vec<String>,
        /// The local branches.
        branches: Vec<String>,
        /// Whether the clone is shallow, which may be the reason.
        shallow: bool,
        /// The remote that the clone fetches only some branches of, which may be the reason.
        narrow: Option<String>,
    },
    /// The name exists, but its history is too short.
    #[error("no commit '{spec}': the history of '{name}' is shorter")]
    BeyondHistory {
        /// What the user wrote.
        spec: String,
        /// The part that exists: `HEAD` of `HEAD~9`.
        name: String,
        /// The oldest commit along first parents: `HEAD~4`.
        oldest: String,
        /// Whether the clone is shallow, which may be the reason.
        shallow: bool,
    },
    /// Several commits begin with these digits.
    #[error("'{spec}' is ambiguous: {} commits begin with it", .candidates.len())]
    Ambiguous {
        /// What the user wrote.
        spec: String,
        /// Hash and subject of each.
        candidates: Vec<String>,
    },
    /// Several remotes have different commits for the pull request.
    #[error("'{spec}' is ambiguous: it may be {}", .copies.join(" or "))]
    SeveralCopies {
        /// What the user wrote.
        spec: String,
        /// The local refs.
        copies: Vec<String>,
    },
    /// The name belongs to a tree or a file.
    #[error("'{spec}' is a {kind}, not a commit")]
    NotACommit {
        /// What the user wrote.
        spec: String,
        /// Git's word for what it is.
        kind: String,
    },
    /// The branch that is checked out has no commit.
    #[error("'{spec}' has no commit yet: the branch that is checked out is empty")]
    Unborn {
        /// What the user wrote.
        spec: String,
    },
    /// The ref must be fetched, but it is unclear from which remote.
    #[error("no remote to fetch '{spec}' from")]
    NoRemote {
        /// What the user wrote.
        spec: String,
        /// The repository's remotes.
        remotes: Vec<String>,
    },
    /// The remote that the user chose does not exist.
    #[error("no remote '{name}' in this repository")]
    UnknownRemote {
        /// What the user wrote.
        name: String,
        /// The repository's remotes.
        remotes: Vec<String>,
    },
    /// There are fewer than two refs.
    #[error("a comparison needs two refs, but {}", .only.as_ref().map_or("none was given".to_owned(), |only| format!("only '{only}' was given")))]
    TooFew {
        /// The only ref, if there is one.
        only: Option<String>,
    },
    /// The refs have no common ancestor.
    #[error("{} have no common ancestor", .names.join(" and "))]
    NoMergeBase {
        /// The refs.
        names: Vec<String>,
        /// Whether the clone is shallow, which may be the reason.
        shallow: bool,
    },
}

impl Advice for ResolveError {
    fn help(&self) -> Option<String> {
        let deepen = "this is a shallow clone; `git fetch --unshallow` fetches the rest of the history";
        match self {
            Self::BeyondHistory { shallow: true, .. } => Some(deepen.to_owned()),
            Self::BeyondHistory { oldest, .. } => Some(format!("the oldest commit is {oldest}")),
            Self::NoRef { spec, .. } if spec.contains("..") => {
                Some("a range is not a single commit; give two refs: --refs A,B".to_owned())
            }
            Self::NoRef { nearest, branches, shallow, narrow, .. } => {
                let fetch = narrow.as_deref().map(|remote| all_branches(remote, *shallow));
                let fetch = fetch.or_else(|| shallow.then(|| deepen.to_owned()));
                let mut shown: Vec<_> = branches.iter().take(6).map(String::as_str).collect();
                if branches.len() > shown.len() {
                    shown.push("…");
                }
                let shown = if shown.is_empty() {
                    String::new()
                } else {
                    format!("branches: {}; ", shown.join(", "))
                };
                let written = "write pr/NUMBER for a PR and . for the working tree";
                let names: Vec<_> = nearest.iter().map(|name| format!("'{name}'")).collect();
                let meant = format!("did you mean {}? ({shown}{written})", names.join(" or "));
                Some(match (names.is_empty(), fetch) {
                    (true, Some(fetch)) => fetch,
                    (true, None) => format!("{shown}{written}"),
                    (false, Some(fetch)) => format!("{meant}\n{fetch}"),
                    (false, None) => meant,
                })
            }
            Self::Ambiguous { candidates, .. } => Some(format!("it may be {}", candidates.join(", or "))),
            Self::SeveralCopies { .. } => {
                Some("choose the remote with --remote, or write one of these refs".to_owned())
            }
            Self::NotACommit { .. } => None,
            Self::Unborn { .. } => Some("make a commit first".to_owned()),
            Self::NoRemote { remotes, .. } | Self::UnknownRemote { remotes, .. } if remotes.is_empty() => {
                Some("this repository has no remote; give a URL: --remote URL".to_owned())
            }
            Self::NoRemote { remotes, .. } => {
                Some(format!("choose one with --remote: {}", remotes.join(", ")))
            }
            Self::UnknownRemote { remotes, .. } => Some(format!("remotes: {}", remotes.join(", "))),
            Self::TooFew { only } => {
                let only = only.as_deref().unwrap_or("main");
                Some(format!("add another: --refs {only},OTHER (or --baseline OTHER)"))
            }
            Self::NoMergeBase { shallow, .. } => shallow.then(|| deepen.to_owned()),
        }
    }
}

/// Returns how to fetch the branches of a remote that a clone leaves out.
fn all_branches(remote: &str, is_shallow: bool) -> String {
    let unshallow = if is_shallow { "--unshallow " } else { "" };
    format!(
        "this clone has only some branches of {remote}; \
         `git fetch {unshallow}{remote} '+refs/heads/*:refs/remotes/{remote}/*'` fetches all, \
         then write {remote}/BRANCH"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_that_does_not_exist_is_named() {
        let error = |remotes| ResolveError::UnknownRemote { name: "nosuch".to_owned(), remotes };
        let one = error(vec!["origin".to_owned()]);
        assert_eq!(one.to_string(), "no remote 'nosuch' in this repository");
        assert_eq!(one.help().unwrap(), "remotes: origin");
        assert!(error(Vec::new()).help().unwrap().contains("has no remote"));
    }

    #[test]
    fn help_names_what_may_have_been_meant() {
        let branches = vec!["main".to_owned(), "release-0.4".to_owned()];
        let nearest = vec!["main".to_owned()];
        let error =
            ResolveError::NoRef { spec: "mian".to_owned(), nearest, branches, shallow: false, narrow: None };
        assert_eq!(error.to_string(), "no ref 'mian' in this repository");
        assert_eq!(
            error.help().unwrap(),
            "did you mean 'main'? (branches: main, release-0.4; write pr/NUMBER for a PR and . for the working tree)"
        );
    }
}
