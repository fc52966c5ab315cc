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
    let root = checkout.canonicalize_utf8().ok()?;
    // The way to the checkout may have links that are no part of it.
    let in_root =
        |path: &Utf8Path| path.strip_prefix(checkout).map_or(path.to_owned(), |path| root.join(path));
    let mut watched = BTreeSet::new();
    for file in included {
        watched.extend(places(&in_root(file))?);
    }
    // What the build itself wrote does not change with the commit.
    watched.retain(|path| path.starts_with(&root));
    for script in &messages.scripts {
        for path in named_by(script, messages)? {
            watched.extend(places_below(&in_root(&path), &root)?);
        }
    }
    watched.into_iter().map(|path| Some(path.strip_prefix(&root).ok()?.to_owned())).collect()
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

/// How many links the operating system follows at most.
const MOST_LINKS: usize = 40;

/// Returns each link on the way that a path leads, and last where it ends. `None` if nothing is there: cargo then never
/// takes the build for fresh.
fn places(path: &Utf8Path) -> Option<Vec<Utf8PathBuf>> {
    let reversed = |path: &Utf8Path| path.components().rev().map(|part| part.to_string()).collect::<Vec<_>>();
    let mut places = Vec::new();
    // This has no link, so `..` is the folder above.
    let mut walked = Utf8PathBuf::new();
    let mut rest = reversed(path);
    while let Some(part) = rest.pop() {
        let next = walked.join(&part);
        match &*part {
            "." => {}
            ".." => drop(walked.pop()),
            _ if next.is_symlink() => {
                rest.extend(reversed(&next.read_link_utf8().ok()?));
                places.push(next);
            }
            _ => walked = next,
        }
        if places.len() > MOST_LINKS {
            return None;
        }
    }
    walked.exists().then(|| places.into_iter().chain([walked]).collect())
}

/// Returns the places of a path, and those of all links in the folder that it leads to. `None` if one of them is not
/// in the checkout: a script that looks outside may look at git's own files, which change with each commit.
fn places_below(path: &Utf8Path, root: &Utf8Path) -> Option<BTreeSet<Utf8PathBuf>> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        let places = places(&path)?;
        if !places.iter().all(|place| place.starts_with(root)) {
            return None;
        }
        let end = places.last()?.clone();
        found.extend(places);
        if seen.insert(end.clone()) {
            for entry in WalkDir::new(end) {
                let entry = entry.ok()?;
                if entry.file_type().is_symlink() {
                    paths.push(paths::utf8(entry.into_path()).ok()?);
                }
            }
        }
    }
    Some(found)
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
    fn a_path_counts_where_it_is_and_each_link_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        let link = |to: &str, from: &str| fs_err::os::unix::fs::symlink(to, root.join(from)).unwrap();
        for made in ["p/src", "q", "docs/v1"] {
            fs_err::create_dir_all(root.join(made)).unwrap();
        }
        fs_err::write(root.join("docs/v1/a.md"), "").unwrap();
        for (to, from) in [
            ("./v1", "docs/now"),
            ("now/a.md", "docs/a.md"),
            ("../docs/a.md", "p/README.md"),
            ("../p", "q/folder"),
            ("loop", "loop"),
            ("/", "outside"),
        ] {
            link(to, from);
        }
        let included = |path: &str| {
            let files = BTreeSet::from([root.join(path)]);
            let found = find(&files, &Messages::default(), &root)?;
            Some(found.into_iter().map(Utf8PathBuf::into_string).collect::<Vec<_>>().join(" "))
        };
        let way = "docs/a.md docs/now docs/v1/a.md";
        assert_eq!(included("p/src/../README.md").unwrap(), format!("{way} p/README.md"));
        assert_eq!(included("p/src/..").unwrap(), "p");
        assert_eq!(included("q/folder/src").unwrap(), "p/src q/folder");
        assert_eq!(included("outside/").unwrap(), "outside");
        for nowhere in ["p/absent.md", "loop"] {
            assert_eq!(included(nowhere), None, "{nowhere}");
        }
        let below = |path: &str| {
            let found = places_below(&root.join(path), &root)?;
            let found = found.iter().map(|path| path.strip_prefix(&root).unwrap().as_str());
            Some(found.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(below("p/src").unwrap(), "p/src");
        assert_eq!(below("p").unwrap(), format!("{way} p p/README.md"));
        assert_eq!(below("q").unwrap(), format!("{way} p p/README.md q q/folder"));
        link("../q", "p/back");
        assert_eq!(below("p").unwrap(), format!("{way} p p/README.md p/back q q/folder"));
        assert_eq!(below("outside"), None);
        fs_err::remove_file(root.join("docs/v1/a.md")).unwrap();
        assert_eq!(below("q"), None, "the link leads nowhere");
    }
}
