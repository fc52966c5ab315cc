//! The files that cargo looks at to tell whether a build is fresh, apart from Rust sources: those that crates
//! include, and those that build scripts name or may read.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use walkdir::WalkDir;

use crate::cargo::messages::{LocalScript, Messages};
use memprof_support::paths;
use memprof_support::regular_file::followed;

/// Returns the watched files and folders of the checkout, relative to it; `None` if they are not all known.
/// Sources that are no Rust are in `included`.
pub(crate) fn find(
    included: &BTreeSet<Utf8PathBuf>,
    messages: &Messages,
    checkout: &Utf8Path,
) -> Option<BTreeSet<Utf8PathBuf>> {
    let checkout = checkout.canonicalize_utf8().ok()?;
    let mut watched = BTreeSet::new();
    for file in included {
        watched.extend(places(file)?);
    }
    // What the build itself wrote does not change with the commit.
    watched.retain(|path| path.starts_with(&checkout));
    for script in &messages.scripts {
        for path in named_by(script, messages)? {
            watched.extend(places(&path)?);
            watched.extend(linked_from(&path)?);
        }
    }
    // A script that looks outside may look at git's own files, which change with each commit.
    watched.into_iter().map(|path| Some(path.strip_prefix(&checkout).ok()?.to_owned())).collect()
}

/// Returns the files and folders whose change lets cargo run a build script again.
fn named_by(script: &LocalScript, messages: &Messages) -> Option<Vec<Utf8PathBuf>> {
    Some(named_in(told_by(script)?, &messages.folder_of(&script.package)?))
}

/// Returns the files and folders that a build script names. One that names none may read any of its package.
fn named_in(told: Told, package: &Utf8Path) -> Vec<Utf8PathBuf> {
    match told {
        Told::Files(files) => files.into_iter().map(|file| package.join(file)).collect(),
        Told::Variables | Told::Nothing => vec![package.to_owned()],
    }
}

/// What a build script tells cargo about when to run it again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// If one of these files changes.
    Files(Vec<String>),
    /// Only if a variable changes.
    Variables,
    /// Nothing: cargo looks at the files of its package.
    Nothing,
}

/// Returns what a build script told cargo when it ran; `None` if that cannot be read.
pub(crate) fn told_by(script: &LocalScript) -> Option<Told> {
    Some(told_in(&followed::text(script.out.parent()?.join("output")).ok()?))
}

/// Returns what a build script told cargo in its output.
pub(crate) fn told_in(output: &str) -> Told {
    let told = output.lines().filter_map(|line| {
        line.strip_prefix("cargo::").or_else(|| line.strip_prefix("cargo:"))?.strip_prefix("rerun-if-")
    });
    let told: Vec<&str> = told.collect();
    let changed = told.iter().filter_map(|one| one.strip_prefix("changed="));
    let files: Vec<String> = changed.map(|path| path.trim().to_owned()).collect();
    match (files.is_empty(), told.is_empty()) {
        (false, _) => Told::Files(files),
        (true, false) => Told::Variables,
        (true, true) => Told::Nothing,
    }
}

/// Returns where a path is, and where it leads to if it is a link. `None` if nothing is there: cargo then never
/// takes the build for fresh.
fn places(path: &Utf8Path) -> Option<[Utf8PathBuf; 2]> {
    let target = path.canonicalize_utf8().ok()?;
    let own = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => folder.canonicalize_utf8().ok()?.join(name),
        // It ends with `..`.
        _ => target.clone(),
    };
    Some([own, target])
}

/// Returns where the links in a folder lead to.
fn linked_from(folder: &Utf8Path) -> Option<Vec<Utf8PathBuf>> {
    let mut targets = Vec::new();
    for entry in WalkDir::new(folder).follow_root_links(true) {
        let entry = entry.ok()?;
        if entry.file_type().is_symlink() {
            targets.push(paths::utf8(entry.into_path()).ok()?.canonicalize_utf8().ok()?);
        }
    }
    Some(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_script_names_its_files_or_watches_its_package() {
        let named = |output: &str| {
            named_in(told_in(output), "p".into())
                .into_iter()
                .map(Utf8PathBuf::into_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(named(""), ["p"]);
        assert_eq!(named("cargo:rustc-cfg=x\nrerun-if-changed=a\n"), ["p"]);
        assert_eq!(named("cargo:rerun-if-env-changed=X\n"), ["p"]);
        assert_eq!(told_in("cargo:rerun-if-env-changed=X\n"), Told::Variables);
        assert_eq!(named("cargo:rerun-if-changed=a\ncargo::rerun-if-changed=../b\n"), ["p/a", "p/../b"]);
    }

    #[test]
    fn a_path_counts_where_it_is_and_where_its_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        fs_err::create_dir_all(root.join("p/src")).unwrap();
        fs_err::write(root.join("README.md"), "").unwrap();
        fs_err::os::unix::fs::symlink("../README.md", root.join("p/README.md")).unwrap();
        let included = |path: &str| {
            let files = BTreeSet::from([root.join(path)]);
            let found = find(&files, &Messages::default(), &root)?;
            Some(found.into_iter().map(Utf8PathBuf::into_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(included("p/src/../README.md").unwrap(), "README.md p/README.md");
        assert_eq!(included("p/src/..").unwrap(), "p");
        assert_eq!(included("p/absent.md"), None);
        assert_eq!(linked_from(&root.join("p")).unwrap(), [root.join("README.md")]);
        fs_err::remove_file(root.join("README.md")).unwrap();
        assert_eq!(linked_from(&root.join("p")), None, "the link leads nowhere");
    }
}
