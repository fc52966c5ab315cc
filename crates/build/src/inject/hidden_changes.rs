//! Warns of overlay files that replace a file which differs between the revisions. Both sides then
//! run the same file, and the change in it is not measured.

use std::collections::BTreeMap;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::{Repository, SUBMODULE};
use crate::inject::checkpoint_lines;
use crate::inject::committed_package;
use crate::inject::overlay::{self, OverlayFile};
use memprof_plan::request::OverlayMode;
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};

/// What to do in place of replacing a file.
const HELP: &str = "put a test at a path of its own: --overlay FILE=tests/NAME.rs; to change each \
                    revision's own file: --overlay-patch FILE.patch";

/// How many files a warning names.
const NAMED: usize = 3;

/// Warns of each change that the overlay hides, and of checkpoints at different code, and adds it to the plan's notes, so that every
/// report has it too.
///
/// # Errors
/// An overlay cannot be read.
pub fn note(plan: &mut Plan, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    checkpoint_lines::note(plan, repository, sink)?;
    note_replaced(plan, repository, sink)
}

/// Warns of each change that the overlay hides, as [`note`] does. The plan may have all commits of a range.
///
/// # Errors
/// An overlay cannot be read.
pub fn note_replaced(plan: &mut Plan, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    let is_one_tree = plan.revisions.windows(2).all(|pair| pair[0].tree == pair[1].tree);
    if plan.request.overlay.is_empty() || is_one_tree {
        return Ok(());
    }
    let files = overlay::read(&plan.request.overlay, &plan.overlay_commits, repository)?;
    let mut hidden: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.mode == OverlayMode::Package) {
        if let Some((path, between)) = hidden_change(file, plan, repository)? {
            hidden.entry(between).or_default().push(path);
        }
    }
    for (between, paths) in hidden {
        let message = warning(&paths, &between);
        sink.emit(Event::Warning { message: message.clone(), help: Some(HELP.to_owned()) });
        plan.notes.push(message);
    }
    Ok(())
}

/// Returns the path that the overlay file replaces and the revisions between which it differs;
/// `None` if no change is hidden.
fn hidden_change(
    file: &OverlayFile,
    plan: &Plan,
    repository: &Repository,
) -> anyhow::Result<Option<(String, String)>> {
    let mut versions: Vec<(&Revision, Option<Version>)> = Vec::new();
    let mut folders = PackageFolders { repository, last: None };
    for revision in &plan.revisions {
        versions.push((revision, Version::replaced_by(file, revision, &mut folders)?));
    }
    let (baseline, old) = &versions[plan.baseline];
    let is_same =
        |version: &Option<Version>| version.as_ref().map(|one| &one.id) == old.as_ref().map(|one| &one.id);
    let differing: Vec<_> = versions.iter().filter(|(_, version)| !is_same(version)).collect();
    if differing.is_empty() {
        return Ok(None);
    }
    // A file that some revisions lack and that is the overlay's file in all others is only added.
    let mut present = versions.iter().filter_map(|(revision, version)| Some((revision, version.as_ref()?)));
    let is_only_added = present.all(|(revision, version)| {
        // A link or an LFS pointer has no content of its own, so it is not the overlay's file.
        let content = repository.show(&revision.commit, version.path.as_str());
        content.is_ok_and(|content| content.as_ref() == Some(&file.content))
    });
    if is_only_added && versions.iter().any(|(_, version)| version.is_none()) {
        return Ok(None);
    }
    let path = versions.iter().find_map(|(_, version)| Some(version.as_ref()?.path.to_string()));
    let path = path.context("a file that differs exists in a revision")?;
    let candidates: Vec<String> = differing.iter().map(|(revision, _)| revision.named()).collect();
    Ok(Some((path, format!("{} and {}", baseline.named(), joined(&candidates)))))
}

/// A file as a revision has it.
struct Version {
    /// Relative to the repository's root.
    path: Utf8PathBuf,
    /// Mode and hash.
    id: (u32, String),
}

impl Version {
    /// Returns what the overlay file replaces in a revision; `None` if there is nothing.
    fn replaced_by(
        file: &OverlayFile,
        revision: &Revision,
        folders: &mut PackageFolders<'_>,
    ) -> anyhow::Result<Option<Self>> {
        let repository = folders.repository;
        let folder = match &file.package {
            None => Utf8PathBuf::new(),
            Some(name) => match folders.of(name, &revision.commit)? {
                Some(folder) => folder,
                None => return Ok(None),
            },
        };
        let path = folder.join(&file.destination);
        if let Some(id) = repository.tree_entry(&revision.commit, path.as_str())? {
            return Ok(Some(Self { path, id }));
        }
        // A file of a submodule changes with the submodule's commit.
        for above in path.ancestors().skip(1).filter(|above| !above.as_str().is_empty()) {
            match repository.tree_entry(&revision.commit, above.as_str())? {
                Some(id) if id.0 == SUBMODULE => return Ok(Some(Self { path: above.to_owned(), id })),
                Some(_) => break,
                None => {}
            }
        }
        Ok(None)
    }
}

/// Finds the folder of one package in one commit after the other.
struct PackageFolders<'a> {
    repository: &'a Repository,
    /// The last folder, with mode and hash of its manifest.
    last: Option<(Utf8PathBuf, (u32, String))>,
}

impl PackageFolders<'_> {
    /// Returns the package's folder in a commit. As long as its manifest stays the same, no other one is read: a range
    /// may have thousands of commits.
    fn of(&mut self, name: &str, commit: &str) -> anyhow::Result<Option<Utf8PathBuf>> {
        if let Some((folder, id)) = &self.last
            && self.manifest(folder, commit)?.as_ref() == Some(id)
        {
            return Ok(Some(folder.clone()));
        }
        let Some(folder) = committed_package::folder(self.repository, commit, name)? else { return Ok(None) };
        self.last = self.manifest(&folder, commit)?.map(|id| (folder.clone(), id));
        Ok(Some(folder))
    }

    fn manifest(&self, folder: &Utf8Path, commit: &str) -> anyhow::Result<Option<(u32, String)>> {
        self.repository.tree_entry(commit, folder.join("Cargo.toml").as_str())
    }
}

/// `pr/7`, `pr/7 and pr/8`, `pr/7, pr/8 and 2 more`.
fn joined(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [one, other, rest @ ..] => format!("{one}, {other} and {} more", rest.len()),
    }
}

fn warning(paths: &[String], between: &str) -> String {
    if let [path] = paths {
        return format!(
            "the overlay replaces {path}, which differs between {between}: this change is not measured"
        );
    }
    let mut named: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("{} more", paths.len().saturating_sub(NAMED));
    if paths.len() > NAMED {
        named.push(&more);
    }
    let files = counted(paths.len(), "file");
    let named = named.join(", ");
    format!(
        "the overlay replaces {files} that differ between {between} ({named}): these changes are not \
                 measured"
    )
}
