//! Whether a revision needs no build of its own: a build of the store has the same settings, and only
//! documentation that cargo does not watch differs from its revision. If in doubt, the revision is built.

use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};

use crate::documentation::{is_documentation, owner_of};
use crate::git::changed_files::changed_files;
use crate::git::repository::Repository;
use crate::provenance::{KeyInputs, Provenance};
use crate::store::{self, Entry, Stored};
use memprof_plan::changed_file::ChangedFile;

/// How many builds of the store are compared with a revision, those that were used last.
pub(crate) const COMPARED: usize = 12;

/// Returns the build of another revision that is that of this one, too. Those in `first` are looked at first.
/// Its files are checked by the caller.
pub(crate) fn find(
    store: &Utf8Path,
    first: &[Utf8PathBuf],
    repository: &Repository,
    wanted: &KeyInputs,
) -> Option<Box<Entry>> {
    // Secrets are not in the store, so nobody can tell whether they differ.
    if wanted.redacted() != *wanted {
        return None;
    }
    let others = newest(store).into_iter().filter(|folder| !first.contains(folder)).take(COMPARED);
    first.iter().cloned().chain(others).find_map(|folder| {
        let Stored::Complete(entry) = store::find_in(&folder) else { return None };
        let provenance = &entry.provenance;
        if provenance.key_inputs.tree == wanted.tree || !has_same_settings(&provenance.key_inputs, wanted) {
            return None;
        }
        let [one, other] = [&provenance.key_inputs.tree, &wanted.tree];
        // Git may have removed the tree of a commit that nobody uses any more.
        let paths = repository.changed_paths(one, other).ok()?;
        if !paths.iter().all(|path| is_for_people(provenance, path)) {
            return None;
        }
        let changed = changed_files(repository, one, other).ok()?;
        changed.iter().all(|file| is_change_for_people(provenance, file)).then_some(entry)
    })
}

/// Returns the folders of the builds, the one that was used last first.
pub(crate) fn newest(store: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = store.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut builds: Vec<(SystemTime, Utf8PathBuf)> = entries
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.into_path())))
        .filter(|(_, folder)| folder.extension().is_none())
        .collect();
    builds.sort();
    builds.into_iter().rev().map(|(_, folder)| folder).collect()
}

/// Whether all but the tree is the same.
pub(crate) fn has_same_settings(one: &KeyInputs, other: &KeyInputs) -> bool {
    KeyInputs { tree: other.tree.clone(), ..one.clone() }.key() == other.key()
}

/// Whether a change of this file reaches neither the compiler nor a build script.
fn is_for_people(build: &Provenance, path: &str) -> bool {
    let Some(watched) = &build.watched else { return false };
    let path = Utf8Path::new(path);
    is_documentation(path, owner_of(path, &build.local_packages))
        && !path.extension().is_some_and(|extension| ["rs", "toml", "lock"].contains(&extension))
        && !watched.iter().any(|watched| path.starts_with(watched))
        && !build.injected.iter().any(|injected| injected == path)
}

/// Whether this change reaches neither the compiler nor a build script.
pub(crate) fn is_change_for_people(build: &Provenance, file: &ChangedFile) -> bool {
    // Cargo says in a variable whether a package has a README.
    let is_readme = |path: &str| {
        let name = Utf8Path::new(path).file_name().unwrap_or_default();
        name.to_ascii_lowercase().starts_with("readme")
    };
    let mut paths = file.old.iter().chain(&file.new);
    let is_kept = file.old == file.new || !paths.clone().any(|path| is_readme(path));
    is_kept && paths.all(|path| is_for_people(build, path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::provenance::samples;

    /// Whether these changes need no build. `a`, `-a` and `+a` are a changed, a removed and a new file.
    fn is_same(change: impl FnOnce(&mut Provenance), files: &[&str]) -> bool {
        let mut build = samples::provenance(samples::executable());
        build.local_packages = ["", "app"].into_iter().map(Utf8PathBuf::from).collect();
        build.watched = Some(BTreeSet::from(["app/README.md".into(), "docs/api".into()]));
        build.injected = vec!["doc/injected.md".into()];
        change(&mut build);
        let mut changed = files.iter().map(|file| match file.split_at(1) {
            ("-", path) => ChangedFile { old: Some(path.to_owned()), new: None },
            ("+", path) => ChangedFile { old: None, new: Some(path.to_owned()) },
            _ => ChangedFile { old: Some((*file).to_owned()), new: Some((*file).to_owned()) },
        });
        changed.all(|file| is_change_for_people(&build, &file))
    }

    #[test]
    fn documentation_that_cargo_does_not_watch_needs_no_build() {
        assert!(is_same(
            |_| {},
            &["README.md", "docs/guide.md", "+docs/new.md", "-CHANGELOG.md", ".github/ci.yml"]
        ));
        for file in [
            "app/README.md",
            "docs/api/a.md",
            "+docs/api/new.md",
            "doc/injected.md",
            "-README.md",
            "+readme.md",
            "src/lib.rs",
            "app/data.txt",
            "Cargo.lock",
            "data/a.md",
            ".github/tool/Cargo.toml",
            ".github/tool/main.rs",
            ".cargo/config.toml",
            "rust-toolchain",
            "sub",
        ] {
            assert!(!is_same(|_| {}, &["docs/guide.md", file]), "{file}");
        }
        assert!(!is_same(|build| build.watched = None, &["README.md"]), "what cargo watches is not known");
        let all = |build: &mut Provenance| build.watched = Some(BTreeSet::from(["".into()]));
        assert!(!is_same(all, &["README.md"]), "a build script watches everything");
    }

    #[test]
    fn every_setting_but_the_tree_counts() {
        let one = samples::provenance(samples::executable()).key_inputs;
        let with = |change: fn(&mut KeyInputs)| {
            let mut other = one.clone();
            change(&mut other);
            has_same_settings(&one, &other)
        };
        assert!(with(|other| other.tree = "another".into()));
        assert!(!with(|other| other.toolchain.push('1')));
        assert!(!with(|other| other.shim.push('1')));
        assert!(!with(|other| other.checkout.push("x")));
        assert!(!with(|other| drop(other.environment.insert("RUSTFLAGS".into(), "-g".into()))));
    }
}
