//! Keeps the source files that differ from the baseline's in the run's folder. The report can then
//! say which call sites the diff touches, on any machine.

use camino::Utf8Path;

use memprof_build::git::changed_files::changed_files;
use memprof_build::git::repository::Repository;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::stored::{StoredChanges, StoredFile};
use memprof_plan::changed_file::ChangedFile;
use memprof_plan::resolved::Plan;
use memprof_support::sealed;

/// A file of more bytes is kept without its text.
const LARGEST: usize = 2 << 20;
/// The texts of a candidate have at most this many bytes together.
const MOST: usize = 32 << 20;
/// Memory is allocated in these files. Manifests and lock files say which dependencies changed.
const SOURCES: [&str; 10] = ["rs", "c", "h", "cc", "cpp", "cxx", "hpp", "cu", "cuh", "inc"];

/// Writes `changes.json`. It says of each candidate which source files differ, or why this is not
/// known.
pub(crate) fn keep(repository: &Repository, plan: &Plan, folder: &RunFolder) -> anyhow::Result<()> {
    let mut changes = StoredChanges::default();
    let baseline = &plan.revisions[plan.baseline];
    for (index, candidate) in plan.revisions.iter().enumerate().filter(|(index, _)| *index != plan.baseline) {
        let commits = [baseline.commit.as_str(), &candidate.commit];
        let files = if candidate.tree == baseline.tree {
            Ok(Vec::new())
        } else {
            changed_files(repository, commits[0], commits[1])
                .map(|files| with_texts(repository, commits, files))
        };
        changes.of.insert(index, files.map_err(|error| format!("{error:#}")));
    }
    sealed::write(&folder.changes(), &changes)
}

fn with_texts(repository: &Repository, commits: [&str; 2], changed: Vec<ChangedFile>) -> Vec<StoredFile> {
    let mut left = MOST;
    let is_source = |path: &&String| {
        let path = Utf8Path::new(path);
        let is_manifest = path.file_name().is_some_and(|name| ["Cargo.toml", "Cargo.lock"].contains(&name));
        is_manifest || path.extension().is_some_and(|extension| SOURCES.contains(&extension))
    };
    let mut files = Vec::new();
    for ChangedFile { old, new } in changed {
        let paths = [old, new];
        if !paths.iter().flatten().any(|path| is_source(&path)) {
            continue;
        }
        let mut texts = [None, None];
        for side in 0..2 {
            let Some(path) = &paths[side] else { continue };
            // Without a text, such as a symbolic link's, all of the file counts as changed.
            let text = repository.show(commits[side], path).ok().flatten();
            let text = text.filter(|text| text.len() <= LARGEST.min(left));
            texts[side] = text.and_then(|text| String::from_utf8(text).ok());
            left -= texts[side].as_ref().map_or(0, String::len);
        }
        files.push(StoredFile { paths, texts });
    }
    files
}
