//! Which targets can contain a selected test, as far as the texts of a revision tell.
//!
//! A test's name consists of names of modules and functions. Such a name is in the text of a file
//! that belongs to the target, in a macro, or in a file's path. What is not found there cannot be
//! the name of a test in the target. When in doubt, a target may contain the test.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use crate::inject::overlay::OverlayFile;
use crate::inject::patch::Patch;
use crate::provenance::{Executable, FailedTarget};
use memprof_plan::request::{OverlayMode, Request, Selection, TargetKind};
use memprof_plan::resolved::Revision;
use memprof_plan::selection::{Selector, UnlistedTarget};

/// The texts of a revision, and of the files that are added to it.
pub struct RevisionTexts<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    pub revision: &'a Revision,
    /// The overlay's files, and test files of other revisions.
    pub overlay: &'a [OverlayFile],
    pub patches: &'a [Patch],
    /// Patterns of files that are left out of the checkout.
    pub not_checked_out: &'a [String],
    found: RefCell<HashMap<String, Option<Rc<Vec<Utf8PathBuf>>>>>,
}

/// Words in the text of a file whose code can become a part of other targets.
pub(crate) const MACROS: [&str; 3] = ["macro_rules!", "proc_macro", "quote!"];

/// Words that put one file into another.
pub(crate) const INCLUSIONS: [&str; 2] = ["#[path", "include!"];

/// Where cargo looks for the roots of targets.
const FOLDERS_OF_TARGETS: [&str; 4] = ["src", "tests", "benches", "examples"];

impl<'a> RevisionTexts<'a> {
    /// Nothing is read yet.
    pub fn new(
        repository: &'a Repository,
        revision: &'a Revision,
        overlay: &'a [OverlayFile],
        patches: &'a [Patch],
    ) -> Self {
        let found = RefCell::default();
        Self { repository, revision, overlay, patches, not_checked_out: &[], found }
    }

    /// Leaves files of these patterns out of the search, as they are out of the checkout.
    #[must_use]
    pub fn without(self, not_checked_out: &'a [String]) -> Self {
        Self { not_checked_out, ..self }
    }

    /// Whether a target that does not compile may contain a selected test.
    pub fn may_select(&self, request: &Request, target: &FailedTarget) -> bool {
        let is_hidden =
            |submodules: Vec<Utf8PathBuf>| submodules.iter().any(|one| target.root.starts_with(one));
        if target.is_program || self.submodules().is_none_or(is_hidden) {
            return true;
        }
        let may_name =
            |part: &str| self.paths_with(part).is_none_or(|paths| self.any_reaches(&paths, target, part));
        let unlisted = UnlistedTarget {
            name: Some((&target.package, &target.binary)),
            kind: Some(target.kind),
            may_name: &may_name,
        };
        may_match_any(request, &unlisted)
    }

    /// Whether a target other than these tests may contain a selected test.
    fn may_select_beside(&self, request: &Request, tests: &BTreeSet<String>) -> bool {
        let may_name = |part: &str| {
            let beside = |paths: Rc<Vec<Utf8PathBuf>>| {
                paths.iter().any(|path| !is_of(tests, path) && !is_prose(path, part))
            };
            self.paths_with(part).is_none_or(beside)
        };
        may_match_any(request, &UnlistedTarget { name: None, kind: None, may_name: &may_name })
    }

    /// Whether one of these files may become a part of the target.
    fn any_reaches(&self, paths: &[Utf8PathBuf], target: &FailedTarget, part: &str) -> bool {
        let folder = target.root.parent().unwrap_or(Utf8Path::new(""));
        let includes_others = || {
            INCLUSIONS.iter().any(|word| {
                self.paths_with(word).is_none_or(|paths| paths.iter().any(|path| path.starts_with(folder)))
            })
        };
        let is_standalone = matches!(target.kind, TargetKind::Test | TargetKind::Bench | TargetKind::Example);
        paths.iter().any(|path| {
            // An overlay's file is relative to its package.
            if target.root.ends_with(path) {
                return true;
            }
            if is_prose(path, part) || path.file_name() == Some("Cargo.toml") {
                return false;
            }
            let is_source = path.extension() == Some("rs");
            let is_in_src = path.iter().any(|name| name == "src");
            // `src/tests/decode.rs` is a module of the library, or a root if packages are below a folder `src`.
            let is_other_root = is_source && !is_in_src && is_root_of_test(path);
            let innermost = path.iter().rev().find(|name| FOLDERS_OF_TARGETS.contains(name));
            let is_of_library = is_source && innermost == Some("src");
            if is_other_root {
                // `tests/common.rs` is a target, and may be a module of others too.
                let stem = path.file_stem().unwrap_or_default();
                self.mentions(&target.root, stem) || includes_others()
            } else if is_of_library && is_standalone {
                MACROS.iter().any(|word| self.paths_with(word).is_none_or(|with| with.contains(path)))
                    || includes_others()
            } else {
                true
            }
        })
    }

    /// Whether a file contains this text.
    fn mentions(&self, file: &Utf8PathBuf, text: &str) -> bool {
        self.paths_with(&text.to_lowercase()).is_none_or(|paths| paths.contains(file))
    }

    /// Returns the folders of submodules, whose files git does not search. `None` if git cannot tell.
    fn submodules(&self) -> Option<Vec<Utf8PathBuf>> {
        self.repository.submodules(&self.revision.commit).ok()
    }

    /// Returns the files whose text or path contains this, in upper or lower case. `None` if git
    /// cannot tell: a clone may lack the files.
    pub(crate) fn paths_with(&self, text: &str) -> Option<Rc<Vec<Utf8PathBuf>>> {
        let known = self.found.borrow().get(text).cloned();
        known.unwrap_or_else(|| {
            let found = self.search(text).map(Rc::new);
            self.found.borrow_mut().insert(text.to_owned(), found.clone());
            found
        })
    }

    fn search(&self, text: &str) -> Option<Vec<Utf8PathBuf>> {
        let commit = &self.revision.commit;
        let in_commit = self.repository.files_with(commit, text, self.not_checked_out).ok()?;
        let mut paths: Vec<Utf8PathBuf> = in_commit.into_iter().map(Utf8PathBuf::from).collect();
        let has = |content: &[u8]| String::from_utf8_lossy(content).to_lowercase().contains(text);
        for file in self.overlay {
            // The package's folder is not known here. A target's root ends with the destination.
            if has(&file.content) || file.destination.as_str().to_lowercase().contains(text) {
                let named = self.repository.files(commit, "").ok()?;
                let replaced = named.into_iter().map(Utf8PathBuf::from);
                paths.extend(replaced.filter(|path| path.ends_with(&file.destination)));
                paths.push(file.destination.clone());
            }
        }
        for patch in self.patches.iter().filter(|patch| has(patch.content())) {
            paths.extend(patch.paths().iter().cloned());
        }
        Some(paths)
    }
}

/// Whether one of a target's tests may be selected.
pub(crate) fn has_selected(request: &Request, executable: &Executable) -> bool {
    if executable.is_program {
        return true;
    }
    let names: Vec<String> = executable.tests.iter().map(|test| test.name.to_lowercase()).collect();
    let may_name = |part: &str| executable.unlisted.is_some() || names.iter().any(|name| name.contains(part));
    let target = UnlistedTarget {
        name: Some((&executable.package, &executable.binary)),
        kind: Some(executable.kind),
        may_name: &may_name,
    };
    let has_tests = !executable.tests.is_empty() || !executable.harness || executable.unlisted.is_some();
    has_tests && may_match_any(request, &target)
}

/// Whether an entry of the request may select a test of a target. Entries that name programs select
/// none.
fn may_match_any(request: &Request, target: &UnlistedTarget<'_>) -> bool {
    request.tests.iter().filter(|entry| entry.program.is_none()).any(|entry| {
        // The command line also selects cells by names that no test has.
        let within = entry.selection.within.clone().filter(|_| entry.name.is_none());
        let selection = Selection { within, ..entry.selection.clone() };
        // A mistake in the selection is reported when the cells are planned.
        Selector::new(&selection).map_or(true, |selector| selector.may_match(target, &entry.params))
    })
}

/// Returns the names of the integration tests that the overlay and the patches add to a revision, if
/// no other target can contain a selected test. `None` means that all targets are built.
pub fn only_tests(texts: &RevisionTexts<'_>, request: &Request) -> Option<BTreeSet<String>> {
    let build = &request.build;
    let is_external = texts.overlay.iter().any(|file| file.mode == OverlayMode::External);
    if build.all_tests || build.selects_targets() || is_external {
        return None;
    }
    let added = texts.overlay.iter().map(|file| &file.destination);
    let added = added.chain(texts.patches.iter().flat_map(Patch::paths)).filter(|path| is_root_of_test(path));
    let names: BTreeSet<String> = added.filter_map(|path| test_of(path)).map(str::to_owned).collect();
    // A manifest may give the file another name, and another test may have it as a module.
    let is_mentioned = |test: &String| {
        let name = test.to_lowercase();
        let beside = |path: &Utf8PathBuf| !is_of(&names, path) && !is_prose(path, &name);
        texts.paths_with(&name).is_none_or(|paths| paths.iter().any(beside))
    };
    let is_only = !names.is_empty()
        && texts.submodules().is_some_and(|submodules| submodules.is_empty())
        && may_be_added(texts, request, &names)
        && !names.iter().any(is_mentioned)
        && !texts.may_select_beside(request, &names);
    is_only.then_some(names)
}

/// Says that only these integration tests are built.
pub(crate) fn told(tests: &BTreeSet<String>) -> String {
    let names = tests.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "only the integration test {names}, which the overlay contains and the selection names (--all-tests builds \
         the rest)"
    )
}

/// Whether the added tests may contain a selected one. A misspelt name is reported best if all tests
/// are known.
fn may_be_added(texts: &RevisionTexts<'_>, request: &Request, added_tests: &BTreeSet<String>) -> bool {
    let contents = texts.overlay.iter().map(|file| file.content.as_slice());
    let added: Vec<String> = contents
        .chain(texts.patches.iter().map(Patch::content))
        .map(|content| String::from_utf8_lossy(content).to_lowercase())
        .collect();
    let names: Vec<String> = added_tests.iter().map(|test| test.to_lowercase()).collect();
    // A package's name is in its manifest.
    let is_in_manifest = |part: &str| {
        let of_manifest = |path: &Utf8PathBuf| path.file_name() == Some("Cargo.toml");
        texts.paths_with(part).is_none_or(|paths| paths.iter().any(of_manifest))
    };
    let may_name = |part: &str| {
        names.iter().any(|name| name.contains(part))
            || added.iter().any(|text| text.contains(part))
            || is_in_manifest(part)
    };
    // The package is not known, so each part of a name counts.
    may_match_any(request, &UnlistedTarget { name: None, kind: Some(TargetKind::Test), may_name: &may_name })
}

/// Whether a file belongs to one of these tests.
fn is_of(tests: &BTreeSet<String>, path: &Utf8Path) -> bool {
    test_of(path).is_some_and(|test| tests.contains(test))
}

/// Whether nothing is compiled from the file, and its path does not contain the text either.
fn is_prose(path: &Utf8Path, text: &str) -> bool {
    let is_prose = path.extension() == Some("md") || path.file_name() == Some("Cargo.lock");
    is_prose && !path.as_str().to_lowercase().contains(text)
}

/// Returns the integration test that a file belongs to: `tests/NAME.rs` or `tests/NAME/…`.
fn test_of(path: &Utf8Path) -> Option<&str> {
    let parts: Vec<&str> = path.iter().collect();
    let start = parts.iter().rposition(|part| *part == "tests")?;
    match parts[start + 1..] {
        [file] => file.strip_suffix(".rs"),
        [folder, ..] => Some(folder),
        [] => None,
    }
}

/// Whether cargo takes the file for the root of a test, a benchmark or an example.
fn is_root_of_test(path: &Utf8Path) -> bool {
    let parts: Vec<&str> = path.iter().collect();
    let is_folder = |name: &str| ["tests", "benches", "examples"].contains(&name);
    match parts[..] {
        [.., folder, _] if is_folder(folder) => path.extension() == Some("rs"),
        [.., folder, _, "main.rs"] => is_folder(folder),
        _ => false,
    }
}
