//! Submodules that git could not fetch. Their folders are empty, and builds may not need them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::process::shell_quoted;
use memprof_support::redaction;

/// A submodule that a revision has, and that git could not fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSubmodule {
    /// The path from the checkout's root.
    pub path: Utf8PathBuf,
    /// The names of the revisions that have it.
    pub revisions: Vec<String>,
    /// The commit that they record.
    commit: String,
    /// What git said.
    pub reason: String,
}

/// The submodules that could not be fetched so far. One that failed is not tried again: without a
/// network, each try takes long, and all checkouts of a revision must be the same.
#[derive(Debug, Default)]
pub struct MissingSubmodules {
    all: RefCell<Vec<MissingSubmodule>>,
    /// The paths that [`Self::take_new`] has returned.
    taken: RefCell<Vec<Utf8PathBuf>>,
}

impl MissingSubmodules {
    /// Whether this commit of a submodule could not be fetched. Notes the revision if so.
    pub fn is_known(&self, revision: &str, path: &Utf8Path, commit: &str) -> bool {
        let mut all = self.all.borrow_mut();
        let Some(known) = all.iter_mut().find(|one| one.path == path && one.commit == commit) else {
            return false;
        };
        if !known.revisions.iter().any(|name| name == revision) {
            known.revisions.push(revision.to_owned());
        }
        true
    }

    /// Notes a submodule that could not be fetched.
    pub fn add(&self, revision: &str, path: Utf8PathBuf, commit: String, stderr: &str) {
        let revisions = vec![revision.to_owned()];
        self.all.borrow_mut().push(MissingSubmodule { path, revisions, commit, reason: reason(stderr) });
    }

    /// Returns those of a revision that has been checked out.
    pub fn of_revision(&self, revision: &str) -> Vec<MissingSubmodule> {
        let all = self.all.borrow();
        let has = |one: &&MissingSubmodule| one.revisions.iter().any(|name| name == revision);
        all.iter().filter(has).cloned().collect()
    }

    /// Returns those of all revisions that have been checked out.
    pub fn all(&self) -> Vec<MissingSubmodule> {
        self.all.borrow().clone()
    }

    /// Returns those whose paths were not returned before, so that each is reported once.
    pub fn take_new(&self) -> Vec<MissingSubmodule> {
        let mut taken = self.taken.borrow_mut();
        let mut new = Vec::new();
        for one in self.all.borrow().iter() {
            if !taken.contains(&one.path) {
                taken.push(one.path.clone());
                new.push(one.clone());
            }
        }
        new
    }
}

impl MissingSubmodule {
    /// Returns the notes for reports: one for all submodules that the same revisions lack.
    pub fn notes(all: &[Self]) -> Vec<String> {
        // Revisions may lack other commits of one submodule.
        let mut paths: Vec<Self> = Vec::new();
        for one in all {
            match paths.iter_mut().find(|known| known.path == one.path && known.reason == one.reason) {
                Some(known) => known.revisions.extend_from_slice(&one.revisions),
                None => paths.push(one.clone()),
            }
        }
        let mut by_revisions: BTreeMap<&[String], Vec<&Self>> = BTreeMap::new();
        for one in &paths {
            by_revisions.entry(&one.revisions).or_default().push(one);
        }
        let note = |(revisions, lacked): (&[String], Vec<&Self>)| {
            let (first, others) = lacked.split_first()?;
            let verb = if revisions.len() == 1 { "lacks" } else { "lack" };
            let names = revisions.join(", ");
            let (path, reason) = (&first.path, redaction::text(&first.reason));
            Some(match others.len() {
                0 => format!("{names} {verb} the submodule {path}, which could not be fetched: {reason}"),
                more => format!(
                    "{names} {verb} {} submodules, which could not be fetched: {path} and {more} more: {reason}",
                    lacked.len()
                ),
            })
        };
        by_revisions.into_iter().filter_map(note).collect()
    }

    /// Returns the commands that provide it, or do without it.
    pub fn help(&self) -> String {
        let path = shell_quoted(self.path.as_ref());
        format!(
            "to fetch it into your clone: git submodule update --init --recursive -- {path}\n\
             to build without it: --sparse-exclude {path}"
        )
    }
}

/// Returns git's reason: its first fatal error that is not a consequence of another.
fn reason(stderr: &str) -> String {
    let fatal = stderr.lines().find_map(|line| line.trim().strip_prefix("fatal: "));
    fatal.or_else(|| stderr.lines().next_back()).unwrap_or("git gave no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_reported_once_and_each_commit_is_tried_once() {
        let missing = MissingSubmodules::default();
        let path = Utf8PathBuf::from("vendor/lib");
        let stderr = "Cloning into 'x'...\nfatal: unable to access 'https://x/': no host\nfatal: clone of 'x' failed\n";
        missing.add("old", path.clone(), "1".to_owned(), stderr);
        let new = missing.take_new();
        assert_eq!(new[0].reason, "unable to access 'https://x/': no host");
        assert!(new[0].help().contains("git submodule update --init --recursive -- vendor/lib"));
        assert!(missing.is_known("new", &path, "1"));
        assert!(!missing.is_known("newer", &path, "2"), "another commit may be there");
        assert_eq!(
            MissingSubmodule::notes(&missing.all()),
            [
                "old, new lack the submodule vendor/lib, which could not be fetched: unable to access 'https://x/': no host"
            ]
        );
        let all = MissingSubmodules::default();
        for path in ["vendor/one", "vendor/two", "vendor/three"] {
            all.add("old", path.into(), "1".to_owned(), stderr);
        }
        let together = "old lacks 3 submodules, which could not be fetched: vendor/one and 2 more: unable to access 'https://x/': no host";
        assert_eq!(MissingSubmodule::notes(&all.all()), [together]);
        missing.add("newest", path.clone(), "3".to_owned(), stderr);
        let commits = "old, new, newest lack the submodule vendor/lib, which could not be fetched: unable to access 'https://x/': no host";
        assert_eq!(MissingSubmodule::notes(&missing.all()), [commits]);
        missing.add("newer", path, "2".to_owned(), "");
        assert_eq!(missing.take_new(), []);
        assert_eq!(
            (
                missing.of_revision("new").len(),
                missing.of_revision("newer").len(),
                missing.of_revision("other").len()
            ),
            (1, 1, 0)
        );
        assert_eq!(missing.of_revision("newer")[0].reason, "git gave no reason");
    }
}
