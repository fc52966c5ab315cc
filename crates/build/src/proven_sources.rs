//! Lets cargo compile again what it would wrongly take for fresh, and compares what it built with the checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};

use crate::build_tree::BuildTree;
use crate::cargo::messages::Messages;
use crate::freshness::{Check, SourceRecords};
use crate::git::changed_submodules::is_submodule;
use crate::git::program::nul_separated;
use crate::job::Job;
use crate::outside_inputs;
use crate::prepared_source::PreparedSource;
use crate::traced_sources;
use crate::unwatched_files::UnwatchedFiles;
use memprof_support::stamp::Stamp;

/// Removes what a build must compile again although cargo does not see it. Returns the files that cargo does not look at.
pub(crate) fn remove_outdated(
    job: &Job<'_>,
    tree: &BuildTree<'_>,
    prepared: &PreparedSource,
) -> anyhow::Result<UnwatchedFiles> {
    let cache = job.inputs.cache;
    let mut records = SourceRecords::load(&cache.sources());
    let files = unwatched_files(job, tree, prepared)?;
    let is_script_outdated = records.named.remove_outdated(&job.inputs.known_files)?;
    let target = traced_sources::target_folder(job)?;
    if records.remove_outdated(&files, &target, cache.folder())? || is_script_outdated {
        records.save(&cache.sources())?;
    }
    Ok(files)
}

/// Compares what cargo compiled or calls fresh with the checkout, and keeps records of it.
pub(crate) fn check(
    job: &Job<'_>,
    tree: &BuildTree<'_>,
    prepared: &PreparedSource,
    messages: &Messages,
    unwatched: &UnwatchedFiles,
) -> anyhow::Result<Check> {
    let path = job.inputs.cache.sources();
    let mut records = SourceRecords::load(&path);
    let workspace = prepared.manifest.parent().unwrap_or(&prepared.manifest);
    let check = records.check(messages, unwatched, workspace, &job.inputs.checkout)?;
    let named = outside_inputs::named_by_scripts(messages, job.inputs.own_folders());
    match have_scripts_written(&job.inputs.checkout, tree, prepared, messages) {
        Some(true) => records.mark_scripts(),
        Some(false) => {}
        None => records.forget_scripts(),
    }
    records.named.note(named, &job.inputs.known_files);
    records.save(&path)?;
    Ok(check)
}

/// Whether build scripts wrote into the checkout, where the next checkout removes or restores files. `None` if git cannot
/// tell.
fn have_scripts_written(
    checkout: &Utf8Path,
    tree: &BuildTree<'_>,
    prepared: &PreparedSource,
    messages: &Messages,
) -> Option<bool> {
    if messages.scripts.is_empty() {
        return Some(false);
    }
    let mut changed = tree.changed_files()?;
    // Cargo writes lock files.
    changed.retain(|path| path.file_name() != Some("Cargo.lock"));
    let ours = prepared.injection.keys().chain(prepared.changes.iter().map(|(path, _)| path));
    Some(has_others(checkout, &changed, ours, prepared.written))
}

/// Whether git reports a file that is not one of these, and that changed since they were written. Git names a file behind
/// a link of a folder by its own place. It may report a file after each checkout, such as one with CRLF for which
/// `.gitattributes` wants LF.
fn has_others<'a>(
    checkout: &Utf8Path,
    reported: &BTreeSet<Utf8PathBuf>,
    ours: impl Iterator<Item = &'a Utf8PathBuf>,
    written: Option<SystemTime>,
) -> bool {
    let ours: BTreeSet<_> = ours.map(|path| place(checkout, path)).collect();
    // A folder is a repository with another commit.
    let is_older = |path: &Utf8Path| {
        !path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
            && Stamp::read(path).is_some_and(|stamp| written.is_some_and(|written| stamp.time() < written))
    };
    reported.iter().map(|path| place(checkout, path)).any(|path| !ours.contains(&path) && !is_older(&path))
}

/// Returns where a file of the checkout is, without links of folders. The file itself may be absent.
fn place(checkout: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    let path = checkout.join(path);
    let folder = path.parent().and_then(|folder| folder.canonicalize_utf8().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Returns the files of the checkout: those of the revision that are there, with what was put into it.
fn unwatched_files(
    job: &Job<'_>,
    tree: &BuildTree<'_>,
    prepared: &PreparedSource,
) -> anyhow::Result<UnwatchedFiles> {
    let list = ["--no-optional-locks", "ls-tree", "-r", "-z", "--full-tree", &job.revision().tree];
    let listed = nul_separated(&job.inputs.repository.git().args(list).run()?.stdout);
    let missing = tree.missing_submodules(job.revision()).into_iter().map(|one| one.path).collect::<Vec<_>>();
    let has_excluded = !job.inputs.plan.request.settings.sparse_exclude.is_empty();
    let mut files = present(&job.inputs.checkout, &listed, has_excluded, &missing);
    let injected = prepared.injection.iter().map(|(path, content)| (path, Some(content)));
    let changed = prepared.changes.iter().map(|(path, content)| (path, content.as_ref()));
    for (path, content) in injected.chain(changed) {
        match content {
            Some(content) => _ = files.insert(path.clone(), blake3::hash(content).to_hex().to_string()),
            None => _ = files.remove(path),
        }
    }
    Ok(UnwatchedFiles::from_files(&job.inputs.checkout, &files))
}

/// Returns the files that a checkout has of those that git listed, each with what git says about it. A checkout
/// lacks what the user excluded, and the submodules that could not be fetched.
fn present(
    checkout: &Utf8Path,
    listed: &[String],
    has_excluded: bool,
    missing_submodules: &[Utf8PathBuf],
) -> BTreeMap<Utf8PathBuf, String> {
    let mut files = BTreeMap::new();
    for (facts, path) in listed.iter().filter_map(|line| line.split_once('\t')) {
        let (path, place) = (Utf8PathBuf::from(path), checkout.join(path));
        let is_submodule = is_submodule(facts);
        // A submodule that was not checked out is an empty folder.
        let is_absent = is_submodule && is_empty(&place) || has_excluded && place.symlink_metadata().is_err();
        if is_absent {
            continue;
        }
        let inside = missing_submodules.iter().filter(|missing| is_submodule && missing.starts_with(&path));
        let facts = inside.fold(facts.to_owned(), |facts, missing| format!("{facts} without {missing}"));
        files.insert(path, facts);
    }
    files
}

fn is_empty(folder: &Utf8Path) -> bool {
    folder.read_dir_utf8().map_or(true, |mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_tool_wrote_is_known_behind_links() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Utf8Path::from_path(folder.path()).unwrap();
        for folder in ["shared/src", "member/src", "nested"] {
            fs_err::create_dir_all(checkout.join(folder)).unwrap();
        }
        fs_err::os::unix::fs::symlink("shared", checkout.join("linked")).unwrap();
        let ours = ["linked/src/lib.rs", "member/src/lib.rs", "gone/src/lib.rs"].map(Utf8PathBuf::from);
        let has_others = |reported: &[&str]| {
            has_others(checkout, &reported.iter().map(Utf8PathBuf::from).collect(), ours.iter(), None)
        };
        assert!(!has_others(&["shared/src/lib.rs", "member/src/lib.rs", "gone/src/lib.rs"]));
        for other in ["shared/src/made.rs", "nested", "member", "member/src/made.rs", "member.rs"] {
            assert!(has_others(&["member/src/lib.rs", other]), "{other}");
        }
    }

    #[test]
    fn what_git_reports_after_each_checkout_is_not_of_a_script() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir(checkout.join("submodule")).unwrap();
        let write = |file: &str| {
            // The clock of files moves on every few milliseconds.
            std::thread::sleep(Duration::from_millis(30));
            fs_err::write(checkout.join(file), "").unwrap();
        };
        for file in ["crlf.txt", "injected.json", "made.rs"] {
            write(file);
        }
        let written = Stamp::read(checkout.join("injected.json")).map(Stamp::time);
        let has_others = |reported: &str| {
            has_others(checkout, &BTreeSet::from([reported.into()]), std::iter::empty(), written)
        };
        assert!(!has_others("crlf.txt"));
        for other in ["made.rs", "removed.rs", "submodule"] {
            assert!(has_others(other), "{other}");
        }
        write("crlf.txt");
        assert!(has_others("crlf.txt"), "a script wrote it, too");
    }

    #[test]
    fn what_a_checkout_lacks_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Utf8Path::from_path(folder.path()).unwrap();
        for folder in ["empty", "outer/inner"] {
            fs_err::create_dir_all(checkout.join(folder)).unwrap();
        }
        fs_err::write(checkout.join("a.txt"), "").unwrap();
        fs_err::os::unix::fs::symlink("nowhere", checkout.join("link")).unwrap();
        let listed = ["a.txt", "excluded.txt", "link"].map(|path| format!("100644 blob 1\t{path}"));
        let submodules = ["empty", "outer"].map(|path| format!("160000 commit 1\t{path}"));
        let listed = [&listed[..], &submodules].concat();
        let present = |missing: &[&str]| {
            let missing: Vec<Utf8PathBuf> = missing.iter().map(Utf8PathBuf::from).collect();
            let files = present(checkout, &listed, true, &missing).into_iter();
            files.map(|(path, facts)| format!("{path}: {facts}")).collect::<Vec<_>>()
        };
        assert_eq!(present(&[]), ["a.txt: 100644 blob 1", "link: 100644 blob 1", "outer: 160000 commit 1"]);
        assert_eq!(
            present(&["empty", "outer/inner"])[2..],
            ["outer: 160000 commit 1 without outer/inner"],
            "a submodule of a submodule"
        );
    }
}
