//! Keeps the source files that differ from the baseline's in the run's folder. The report can then
//! say which call sites the diff touches, on any machine.

use camino::Utf8Path;

use crate::git::changed_files::{ChangedFile, changed_files};
use crate::git::repository::Repository;
use crate::plan::resolved::Plan;
use crate::results::run_folder::RunFolder;
use crate::results::sealed;
use crate::why::stored::{StoredChanges, StoredFile};

/// A file of more bytes is kept without its text.
const LARGEST: usize = 2 << 20;
/// The texts of a candidate have at most this many bytes together.
const MOST: usize = 32 << 20;

/// Writes `changes.json`, unless there is only one revision.
pub fn keep(repository: &Repository, plan: &Plan, folder: &RunFolder) -> anyhow::Result<()> {
    let mut changes = StoredChanges::default();
    let baseline = &plan.revisions[plan.baseline];
    for (index, candidate) in plan.revisions.iter().enumerate() {
        if index != plan.baseline && candidate.tree != baseline.tree {
            let files = changed_files(repository, &baseline.commit, &candidate.commit)?;
            let commits = [baseline.commit.as_str(), &candidate.commit];
            changes.of.insert(index, with_texts(repository, commits, files)?);
        }
    }
    if changes.of.is_empty() { Ok(()) } else { sealed::write(&folder.changes(), &changes) }
}

fn with_texts(
    repository: &Repository,
    commits: [&str; 2],
    changed: Vec<ChangedFile>,
) -> anyhow::Result<Vec<StoredFile>> {
    let mut left = MOST;
    let is_source = |path: &Option<String>| {
        path.as_ref().is_none_or(|path| Utf8Path::new(path).extension() == Some("rs"))
    };
    let mut files = Vec::new();
    for ChangedFile { old, new } in
        changed.into_iter().filter(|file| is_source(&file.old) && is_source(&file.new))
    {
        let paths = [old, new];
        let mut texts = [None, None];
        for side in 0..2 {
            let Some(path) = &paths[side] else { continue };
            let text = repository.show(commits[side], path)?.filter(|text| text.len() <= LARGEST.min(left));
            texts[side] = text.and_then(|text| String::from_utf8(text).ok());
            left -= texts[side].as_ref().map_or(0, String::len);
        }
        files.push(StoredFile { paths, texts });
    }
    Ok(files)
}
