//! Keeps the source files that differ from the baseline's in the run's folder. The report can then
//! say which call sites the diff touches, on any machine.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::linked_files::Links;
use memprof_build::builder::Builder;
use memprof_build::git::changed_files::changed_files;
use memprof_build::git::changed_submodules::ChangedSubmodules;
use memprof_build::git::repository::Repository;
use memprof_build::store::Entry;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::stored::{StoredChanges, StoredFile};
use memprof_plan::changed_file::ChangedFile;
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::sealed;

/// A file of more bytes is kept without its text.
const LARGEST: usize = 2 << 20;
/// The texts of a candidate have at most this many bytes together.
const MOST: usize = 32 << 20;
/// Compilers read these files. Manifests and lock files say which dependencies changed.
const SOURCES: [&str; 10] = ["rs", "c", "h", "cc", "cpp", "cxx", "hpp", "cu", "cuh", "inc"];

/// The files of a revision that the request adds or patches, as they were compiled.
type LaidFiles = BTreeMap<Utf8PathBuf, Vec<u8>>;

/// Reads a file of a side.
type Show<'a> = dyn Fn(usize, &str) -> Option<Vec<u8>> + 'a;

/// Writes `changes.json`. It says of each candidate which source files differ, or why this is not
/// known. A file that the request adds to a revision, or patches there, counts as it was compiled.
pub(crate) fn keep(
    repository: &Repository,
    plan: &Plan,
    (builder, builds): (&Builder<'_>, &[Option<&Entry>]),
    folder: &RunFolder,
) -> anyhow::Result<()> {
    let mut changes = StoredChanges::default();
    let baseline = &plan.revisions[plan.baseline];
    let laid = |index: usize| -> anyhow::Result<LaidFiles> {
        let Some(entry) = builds.get(index).copied().flatten() else { return Ok(LaidFiles::new()) };
        let files = entry.injection()?.into_iter();
        Ok(files.filter(|(path, _)| builder.is_laid(path)).collect())
    };
    let differing = |index: usize, candidate: &Revision| -> anyhow::Result<Vec<StoredFile>> {
        if candidate.tree == baseline.tree {
            return Ok(Vec::new());
        }
        let commits = [&*baseline.commit, &candidate.commit];
        let laid = [laid(plan.baseline)?, laid(index)?];
        let mut files = changed_files(repository, commits[0], commits[1])?;
        let mut submodules =
            ChangedSubmodules::between(repository, builder.git_directory(), commits[0], commits[1])?;
        files.append(&mut submodules.files);
        let show = |side: usize, path: &str| {
            let of_submodule = submodules.text(repository, side, path);
            // A symbolic link has no text.
            of_submodule.or_else(|| repository.show(commits[side], path).ok().flatten())
        };
        let unknown = submodules.unknown.iter().map(|folder| StoredFile::unknown(folder));
        let compiled = [plan.baseline, index].map(|index| builds.get(index).copied().flatten());
        let compiled = compiled.map(|entry| entry.map(|entry| &entry.provenance.compiled));
        let is_compiled =
            |path: &str| compiled.iter().flatten().any(|files| files.contains(Utf8Path::new(path)));
        let files = with_texts(files, &laid, &show, &is_compiled);
        let mut files: Vec<StoredFile> = files.into_iter().chain(unknown).collect();
        for (side, commit) in commits.iter().enumerate() {
            let links = Links::of(repository, commit)?;
            for StoredFile { paths, links: of_file, .. } in &mut files {
                of_file[side] = paths[side].iter().flat_map(|path| links.paths_to(path)).collect();
            }
        }
        Ok(files)
    };
    for (index, candidate) in plan.revisions.iter().enumerate().filter(|(index, _)| *index != plan.baseline) {
        changes.of.insert(index, differing(index, candidate).map_err(|error| format!("{error:#}")));
    }
    sealed::write(&folder.changes(), &changes)
}

/// Reads the sources that differ. `include!` takes files of any name.
fn with_texts(
    changed: Vec<ChangedFile>,
    laid: &[LaidFiles; 2],
    show: &Show<'_>,
    is_compiled: &dyn Fn(&str) -> bool,
) -> Vec<StoredFile> {
    let mut left = MOST;
    let mut files = Vec::new();
    for paths in changed.into_iter().flat_map(|file| compiled_paths(file, laid)) {
        if !paths.iter().flatten().any(|path| is_source(path) || is_compiled(path)) {
            continue;
        }
        let mut texts = [None, None];
        for side in 0..2 {
            let Some(path) = &paths[side] else { continue };
            let text = laid[side].get(Utf8Path::new(path)).cloned().or_else(|| show(side, path));
            // Without a text, it is not known what changed in the file.
            let text = text.filter(|text| text.len() <= LARGEST.min(left));
            texts[side] = text.and_then(|text| String::from_utf8(text).ok());
        }
        if paths[0] != paths[1] || texts[0].is_none() || texts[0] != texts[1] {
            left -= texts.iter().flatten().map(String::len).sum::<usize>().min(left);
            files.push(StoredFile { paths, texts, ..StoredFile::default() });
        }
    }
    files
}

fn is_source(path: &str) -> bool {
    let path = Utf8Path::new(path);
    let is_manifest = path.file_name().is_some_and(|name| ["Cargo.toml", "Cargo.lock"].contains(&name));
    is_manifest || path.extension().is_some_and(|extension| SOURCES.contains(&extension))
}

/// Returns the paths of a file on both sides, as they were compiled. A renamed file is two if a side also got one
/// with the other name.
fn compiled_paths(ChangedFile { old, new }: ChangedFile, laid: &[LaidFiles; 2]) -> Vec<[Option<String>; 2]> {
    let own = [old, new];
    let has = |side: usize, path: &String| {
        own[side].as_ref() == Some(path) || laid[side].contains_key(Utf8Path::new(path))
    };
    if let [Some(old), Some(new)] = &own
        && !has(0, new)
        && !has(1, old)
    {
        return vec![own];
    }
    let paths: BTreeSet<&String> = own.iter().flatten().collect();
    paths.into_iter().map(|path| [0, 1].map(|side| has(side, path).then(|| path.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored files of changes such as `old -> new`: their paths and texts, as far as they are known.
    fn stored(changed: &[&str], laid: [&[(&str, &str)]; 2]) -> Vec<String> {
        let path = |path: &str| (path != "-").then(|| path.to_owned());
        let file = |text: &&str| {
            let (old, new) = text.split_once(" -> ").unwrap();
            ChangedFile { old: path(old), new: path(new) }
        };
        let laid = laid.map(|files| {
            files.iter().map(|(path, text)| (Utf8PathBuf::from(*path), text.as_bytes().to_vec())).collect()
        });
        let show = |side: usize, path: &str| Some(format!("{path} of {side}").into_bytes());
        let is_compiled = |path: &str| path == "src/table.in";
        let files = with_texts(changed.iter().map(file).collect(), &laid, &show, &is_compiled);
        let shown = |StoredFile { paths, texts, .. }: StoredFile| {
            [0, 1].map(|side| match (&paths[side], &texts[side]) {
                (None, _) => "-".to_owned(),
                (Some(path), text) => format!("{path} ({})", text.as_deref().unwrap_or("?")),
            })
        };
        files.into_iter().map(|file| shown(file).join(" -> ")).collect()
    }

    #[test]
    fn a_file_counts_as_it_was_compiled() {
        assert_eq!(
            stored(&["src/a.rs -> src/a.rs", "a.md -> a.md"], [&[], &[]]),
            ["src/a.rs (src/a.rs of 0) -> src/a.rs (src/a.rs of 1)"]
        );
        assert_eq!(
            stored(&["src/table.in -> src/table.in", "src/other.in -> src/other.in"], [&[], &[]]),
            ["src/table.in (src/table.in of 0) -> src/table.in (src/table.in of 1)"],
            "`include!` takes a file of any name"
        );
        // A test file of one side that the other one got.
        let test = ("tests/t.rs", "test");
        assert!(stored(&["- -> tests/t.rs"], [&[test], &[test]]).is_empty());
        assert!(stored(&["tests/t.rs -> -"], [&[test], &[test]]).is_empty());
        assert_eq!(stored(&["- -> tests/t.rs"], [&[], &[]]), ["- -> tests/t.rs (tests/t.rs of 1)"]);
        // A patch changes both sides.
        let patched = [&[("src/a.rs", "+ old")][..], &[("src/a.rs", "+ new")]];
        assert_eq!(stored(&["src/a.rs -> src/a.rs"], patched), ["src/a.rs (+ old) -> src/a.rs (+ new)"]);
    }

    #[test]
    fn a_renamed_file_is_two_if_the_baseline_got_the_new_one() {
        let new = ("tests/new.rs", "new");
        assert_eq!(
            stored(&["tests/old.rs -> tests/new.rs"], [&[new], &[new]]),
            ["tests/old.rs (tests/old.rs of 0) -> -"]
        );
        assert_eq!(
            stored(&["src/old.rs -> src/new.rs"], [&[], &[]]),
            ["src/old.rs (src/old.rs of 0) -> src/new.rs (src/new.rs of 1)"]
        );
    }
}
