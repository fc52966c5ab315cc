//! The files of submodules that differ between two commits, as far as the submodules' own commits are here.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::git::changed_files::{Listed, listed};
use crate::git::program::{Place, nul_separated};
use crate::git::repository::Repository;
use memprof_plan::changed_file::ChangedFile;
use memprof_support::process::Command;

/// The mode of a submodule in git's trees.
const SUBMODULE: &str = "160000";
/// The mode of what a side lacks.
const ABSENT: &str = "000000";
/// The modes of files with a text. A link has none.
const REGULAR: [&str; 2] = ["100644", "100755"];

/// Whether git says in a list of files that a path is a submodule: `160000 commit …`.
pub(crate) fn is_submodule(facts: &str) -> bool {
    facts.split(' ').next() == Some(SUBMODULE)
}

/// What differs in the submodules of two commits.
#[derive(Default)]
pub struct ChangedSubmodules {
    /// The files, by their paths from the repository's root.
    pub files: Vec<ChangedFile>,
    /// The folders of submodules that differ, and of which it is not known how: `lib/`.
    pub unknown: Vec<String>,
    /// The git directory and the hash of each file's content, by side and path.
    contents: [BTreeMap<String, (Utf8PathBuf, String)>; 2],
}

impl ChangedSubmodules {
    /// Compares the submodules of two commits. `checkout` is the git directory of the checkout, which has those
    /// that were checked out there.
    pub fn between(
        repository: &Repository,
        checkout: &Utf8Path,
        before: &str,
        after: &str,
    ) -> anyhow::Result<Self> {
        let mut found = Self::default();
        let is_declared = |commit| repository.tree_entry(commit, ".gitmodules").map(|entry| entry.is_some());
        if is_declared(before)? || is_declared(after)? {
            let directories = [repository.git_directory(), repository.common_directory(), checkout];
            let directories = directories.map(Utf8Path::to_owned).to_vec();
            let inside = Utf8PathBuf::new();
            let level = Level { repository, inside, git_directory: None, directories };
            level.compare([before, after], &mut found)?;
        }
        Ok(found)
    }

    /// Returns the content of a file on one side; `None` if it is not in a submodule that differs.
    pub fn text(&self, repository: &Repository, side: usize, path: &str) -> Option<Vec<u8>> {
        let (git_directory, hash) = self.contents[side].get(path)?;
        Some(git_in(repository, git_directory).args(["cat-file", "blob", hash]).run().ok()?.stdout)
    }
}

/// A repository whose submodules are compared: the user's, or one of its submodules.
struct Level<'a> {
    repository: &'a Repository,
    /// The path from the repository's root; empty for the repository itself.
    inside: Utf8PathBuf,
    /// Where the objects are; `None` for the repository itself.
    git_directory: Option<Utf8PathBuf>,
    /// The git directories of this level, whose folder `modules` may have its submodules.
    directories: Vec<Utf8PathBuf>,
}

impl Level<'_> {
    fn git(&self) -> Command {
        match &self.git_directory {
            Some(directory) => git_in(self.repository, directory),
            None => self.repository.git(),
        }
    }

    /// Adds what differs between two commits. One of them may be an empty tree.
    fn compare(&self, commits: [&str; 2], found: &mut ChangedSubmodules) -> anyhow::Result<()> {
        for one in listed(&self.git(), commits[0], commits[1])? {
            if one.modes.iter().any(|mode| mode == SUBMODULE) {
                self.enter(&one, commits, found)?;
            } else if let Some(directory) = &self.git_directory {
                let Listed { file: ChangedFile { old, new }, modes, hashes } = one;
                let paths = [old, new].map(|path| path.map(|path| self.inside.join(path).into_string()));
                for (side, hash) in hashes.into_iter().enumerate() {
                    if let Some(path) = paths[side].clone().filter(|_| REGULAR.contains(&&*modes[side])) {
                        found.contents[side].insert(path, (directory.clone(), hash));
                    }
                }
                let [old, new] = paths;
                found.files.push(ChangedFile { old, new });
            }
        }
        Ok(())
    }

    /// Compares the commits of a submodule.
    fn enter(&self, one: &Listed, commits: [&str; 2], found: &mut ChangedSubmodules) -> anyhow::Result<()> {
        let paths: BTreeSet<&String> = one.file.old.iter().chain(&one.file.new).collect();
        // A moved submodule has other paths, and files may take the place of one.
        let is_alone =
            paths.len() == 1 && one.modes.iter().all(|mode| [SUBMODULE, ABSENT].contains(&&**mode));
        let inner = paths.first().filter(|_| is_alone).and_then(|path| self.inner(path, one, commits));
        let Some(inner) = inner else {
            found.unknown.extend(paths.into_iter().map(|path| format!("{}/", self.inside.join(path))));
            return Ok(());
        };
        let empty =
            inner.git().args(["hash-object", "-t", "tree", "--stdin"]).input(Vec::new()).run()?.text();
        let tree = |side: usize| if one.modes[side] == SUBMODULE { &one.hashes[side] } else { &empty };
        inner.compare([tree(0), tree(1)], found)
    }

    /// Returns the level of a submodule; `None` if no repository here has its commits.
    fn inner(&self, path: &str, one: &Listed, commits: [&str; 2]) -> Option<Self> {
        let name = commits.iter().rev().find_map(|commit| self.name(path, commit))?;
        let directories: Vec<Utf8PathBuf> =
            self.directories.iter().map(|directory| directory.join("modules").join(&name)).collect();
        let has_all = |directory: &&Utf8PathBuf| {
            let hashes = (0..2).filter(|side| one.modes[*side] == SUBMODULE).map(|side| &one.hashes[side]);
            let mut commits = hashes.map(|hash| format!("{hash}^{{commit}}"));
            let has = |commit: String| {
                let asked = git_in(self.repository, directory).args(["cat-file", "-e", &commit]).capture();
                asked.is_ok_and(|answer| answer.status.success())
            };
            directory.join("HEAD").exists() && commits.all(has)
        };
        let git_directory = Some(directories.iter().find(has_all)?.clone());
        let inside = self.inside.join(path);
        Some(Self { repository: self.repository, inside, git_directory, directories })
    }

    /// Returns the name of the submodule at a path, as the commit declares it.
    fn name(&self, path: &str, commit: &str) -> Option<String> {
        let (file, keys) = (format!("{commit}:.gitmodules"), r"^submodule\..*\.path$");
        let declared =
            self.git().args(["config", "-z", "--blob", &file, "--get-regexp", keys]).capture().ok()?;
        let name = nul_separated(&declared.stdout).into_iter().find_map(|entry| {
            let (key, value) = entry.split_once('\n')?;
            let is_meant = value.trim_end_matches('/') == path;
            is_meant.then(|| key.strip_prefix("submodule.")?.strip_suffix(".path").map(str::to_owned))?
        })?;
        // The name becomes a path.
        let is_plain = Utf8Path::new(&name).components().all(|part| matches!(part, Utf8Component::Normal(_)));
        is_plain.then_some(name)
    }
}

/// Returns git in the repository of a submodule. It fetches nothing.
fn git_in(repository: &Repository, directory: &Utf8Path) -> Command {
    // Without a work tree, git would look for the one in its configuration.
    let place = Place { git_directory: directory, work_tree: Some(directory) };
    repository.git_at(place).env("GIT_NO_LAZY_FETCH", "1")
}
