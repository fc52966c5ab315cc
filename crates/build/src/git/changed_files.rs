//! The files that differ between two commits, with renamed files as pairs.

use crate::git::program::nul_separated;
use crate::git::repository::Repository;
use memprof_plan::changed_file::ChangedFile;
use memprof_support::process::Command;

/// A file that differs, as git lists it.
pub(crate) struct Listed {
    /// Its paths.
    pub file: ChangedFile,
    /// Its mode on both sides: `100644`; `000000` if a side lacks it.
    pub modes: [String; 2],
    /// The hash of its content on both sides.
    pub hashes: [String; 2],
}

/// Returns the files that differ between two commits, in git's order. A submodule counts as a file.
pub fn changed_files(repository: &Repository, before: &str, after: &str) -> anyhow::Result<Vec<ChangedFile>> {
    Ok(listed(&repository.git(), before, after)?.into_iter().map(|one| one.file).collect())
}

/// Returns what differs between two trees of a repository, in git's order.
pub(crate) fn listed(git: &Command, before: &str, after: &str) -> anyhow::Result<Vec<Listed>> {
    let listed = |renames| {
        let diff = ["--no-optional-locks", "diff-tree", "-r", "-z", renames, "--raw", before, after];
        git.clone().args(diff).run()
    };
    // A partial clone may lack the contents that `-M` compares, for example those that the checkouts
    // leave out. Files that are equal are known by their hashes.
    let listed = listed("-M").or_else(|_| listed("-M100%"))?;
    let listed = nul_separated(&listed.stdout);
    let mut words = listed.into_iter();
    let mut files = Vec::new();
    // `:100644 100644 HASH HASH M`, and a path, or two of a renamed file.
    while let (Some(facts), Some(path)) = (words.next(), words.next()) {
        let mut facts = facts.trim_start_matches(':').split(' ').map(str::to_owned);
        let mut fact = || facts.next().unwrap_or_default();
        let modes = [fact(), fact()];
        let hashes = [fact(), fact()];
        let path = Some(path);
        let file = match fact().chars().next() {
            Some('A') => ChangedFile { old: None, new: path },
            Some('D') => ChangedFile { old: path, new: None },
            Some('R') => ChangedFile { old: path, new: words.next() },
            // A copy is a new file.
            Some('C') => ChangedFile { old: None, new: words.next() },
            _ => ChangedFile { old: path.clone(), new: path },
        };
        files.push(Listed { file, modes, hashes });
    }
    Ok(files)
}
