//! The zoo's cases as git repositories: `fixtures/zoo/<case>/old` committed, then what `new` changes.
//!
//! ```ignore
//! let zoo = ZooRepository::of("single");
//! zoo.root();                        // the working tree, on `main`, at the new revision; `old` and `new` are tags
//! for figure in zoo::figures() {}    // what fixtures/zoo/README.md says that each test keeps
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use cargo_memprof::demo::fixture::written_path;

use super::TestRepository;

/// In a `new` folder: paths of the old revision that the new one does not have, one a line.
const REMOVED: &str = ".removed";

/// A case of the zoo in a temporary folder, which is removed with it.
pub struct ZooRepository {
    repository: TestRepository,
    case: String,
    /// Full hash of the old revision, which the tag `old` names too.
    pub old: String,
    /// Full hash of the new revision, which `main` and the tag `new` name too.
    pub new: String,
}

impl ZooRepository {
    /// The case of this name, as a repository.
    pub fn of(case: &str) -> Self {
        let mut repository = TestRepository::with(case, &["--template="]);
        let [old, new] = ["old", "new"].map(|revision| {
            copy_revision(&cases_folder().join(case).join(revision), repository.root());
            let commit = repository.commit(&format!("{case}: {revision}"));
            repository.git(["tag", revision]);
            commit
        });
        Self { repository, case: case.to_owned(), old, new }
    }

    /// The working tree's root.
    pub fn root(&self) -> PathBuf {
        self.repository.root().to_owned()
    }

    /// A folder beside the working tree, for caches and the like; it goes away with the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.repository.beside(name)
    }

    /// Runs git at the root, which must succeed, and returns what it printed.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.repository.git(arguments)
    }

    /// The overlay that the case puts over both revisions, relative to the package, if it has one.
    pub fn overlay(&self) -> Option<PathBuf> {
        Some(cases_folder().join(&self.case).join("overlay")).filter(|folder| folder.is_dir())
    }
}

/// A row of the table of figures in the zoo's README.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The case's folder.
    pub case: String,
    /// `package::binary::test`.
    pub test: String,
    /// Bytes that the test keeps in the old revision; `None` if there the test, its build or its heap figures are missing.
    pub old: Option<u64>,
    /// Bytes that the test keeps in the new revision.
    pub new: Option<u64>,
}

/// All cases, by name.
pub fn cases() -> Vec<String> {
    let entries =
        fs::read_dir(cases_folder()).expect("the zoo is there").map(|entry| entry.expect("it can be read"));
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut cases: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    cases.sort();
    cases
}

/// What each test keeps, as fixtures/zoo/README.md has it.
pub fn figures() -> Vec<Figure> {
    rows_below("## Figures")
        .map(|cells| {
            let [case, test, old, new] = &cells[..] else {
                panic!("a row of figures has 4 cells: {cells:?}")
            };
            let bytes = |cell: &str| cell.replace(',', "").parse().ok();
            Figure { case: case.clone(), test: test.clone(), old: bytes(old), new: bytes(new) }
        })
        .collect()
}

/// The names of the cases that fixtures/zoo/README.md explains.
pub fn explained() -> Vec<String> {
    rows_below("## Cases").map(|cells| cells[0].clone()).collect()
}

/// The cells of the table below a heading, without its head.
fn rows_below(heading: &str) -> impl Iterator<Item = Vec<String>> {
    let readme = fs::read_to_string(cases_folder().join("README.md")).expect("the zoo has a README");
    let (_, section) = readme.split_once(heading).expect("the README has this heading");
    let section = section.split("\n## ").next().unwrap_or_default().to_owned();
    let rows: Vec<Vec<String>> = section
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .skip(2)
        .map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
        .collect();
    rows.into_iter()
}

fn cases_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/zoo")
}

/// Copies a revision's files over what `root` holds, then takes away what the revision does not have.
fn copy_revision(revision: &Path, root: &Path) {
    for entry in walkdir::WalkDir::new(revision).sort_by_file_name() {
        let entry = entry.expect("the case can be read");
        let relative = entry.path().strip_prefix(revision).expect("entries lie below the folder");
        if entry.file_type().is_dir() || relative == Path::new(REMOVED) {
            continue;
        }
        let destination = root.join(written_path(relative));
        fs::create_dir_all(destination.parent().expect("a file has a folder"))
            .expect("the folder can be made");
        // Copies the permission to execute as well, which the scripts need.
        fs::copy(entry.path(), destination).expect("the file can be copied");
    }
    for path in fs::read_to_string(revision.join(REMOVED)).unwrap_or_default().lines() {
        let path = root.join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap_or_else(|error| panic!("cannot remove {}: {error}", path.display()));
    }
}
