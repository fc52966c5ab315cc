//! The files that differ between two commits, with renamed files as pairs.

use crate::git::program::nul_separated;
use crate::git::repository::Repository;
use memprof_plan::changed_file::ChangedFile;

/// Returns the files that differ between two commits, in git's order.
pub fn changed_files(repository: &Repository, before: &str, after: &str) -> anyhow::Result<Vec<ChangedFile>> {
    let listed = |renames| {
        let diff = ["--no-optional-locks", "diff-tree", "-r", "-z", renames, "--name-status", before, after];
        repository.git().args(diff).run()
    };
    // A partial clone may lack the contents that `-M` compares, for example those that the checkouts
    // leave out. Files that are equal are known by their hashes.
    let listed = listed("-M").or_else(|_| listed("-M100%"))?;
    let listed = nul_separated(&listed.stdout);
    let mut words = listed.into_iter();
    let mut files = Vec::new();
    while let (Some(status), Some(path)) = (words.next(), words.next()) {
        let path = Some(path);
        files.push(match status.chars().next() {
            Some('A') => ChangedFile { old: None, new: path },
            Some('D') => ChangedFile { old: path, new: None },
            Some('R') => ChangedFile { old: path, new: words.next() },
            // A copy is a new file.
            Some('C') => ChangedFile { old: None, new: words.next() },
            _ => ChangedFile { old: path.clone(), new: path },
        });
    }
    Ok(files)
}
