//! The submodules that a revision declares in `.gitmodules`. Names and paths are a stranger's text,
//! and become paths of folders that git writes to.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::program::nul_separated;
use crate::git::reserved_names::reserved_part;
use memprof_support::process::{Command, shell_quoted};

/// What `.gitmodules` says of a submodule, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Where its files are, from the work tree's root.
    pub path: Option<String>,
    /// How git updates it.
    pub update: Option<String>,
}

/// A submodule that is not checked out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub name: String,
    /// What is wrong with it: `whose name is an absolute path`.
    pub reason: String,
    /// What to do about it.
    pub help: String,
}

impl Refusal {
    fn of_name(name: &str, reason: &str) -> Self {
        let section = shell_quoted(format!("submodule.{name}").as_ref());
        let help = format!(
            "rename it in that revision: git config --file .gitmodules --rename-section {section} \
             submodule.NAME"
        );
        Self { name: name.to_owned(), reason: format!("whose name {reason}"), help }
    }

    fn of_path(name: &str, path: &str, reason: &str) -> Self {
        let key = shell_quoted(format!("submodule.{name}.path").as_ref());
        let help = format!("correct the path in that revision: git config --file .gitmodules {key} FOLDER");
        Self { name: name.to_owned(), reason: format!("whose path {path:?} {reason}"), help }
    }

    /// The folder of the submodule is reached through a link.
    pub fn linked(name: &str, link: &Utf8Path) -> Self {
        Self {
            name: name.to_owned(),
            reason: format!("whose path goes through the symbolic link {link}"),
            help: format!("if a test made the link, remove it: rm {}", shell_quoted(link.as_ref())),
        }
    }

    /// Git checked out something else.
    pub fn elsewhere(name: &str, found: &str, wanted: &str) -> Self {
        let found = if found.is_empty() { "no commit" } else { found };
        Self {
            name: name.to_owned(),
            reason: format!("which has {found} instead of {wanted} after the checkout"),
            help: "to start afresh: cargo memprof clean".to_owned(),
        }
    }
}

/// Reads `.gitmodules` in the work tree, by name. Returns the first submodule that would leave the
/// checkout or its repository.
pub(crate) fn declared(
    git: &Command,
    work_tree: &Utf8Path,
) -> anyhow::Result<Result<BTreeMap<String, Declared>, Refusal>> {
    let list = ["config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\."];
    let command = git.clone().args(list);
    let listed = command.capture()?;
    // Code 1 means that there is no such key.
    if !matches!(listed.status.code(), Some(0 | 1)) {
        return Err(command.failed(&listed).into());
    }
    let mut all: BTreeMap<String, Declared> = BTreeMap::new();
    for entry in nul_separated(&listed.stdout) {
        // `KEY<newline>VALUE`, and a key without a value has no newline.
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, ""));
        let Some((name, key)) = key.strip_prefix("submodule.").and_then(|key| key.rsplit_once('.')) else {
            continue;
        };
        let submodule = all.entry(name.to_owned()).or_default();
        match key {
            "path" => submodule.path = Some(value.to_owned()),
            "update" => submodule.update = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok(match refusal(&all, work_tree) {
        Some(refusal) => Err(refusal),
        None => Ok(all),
    })
}

fn refusal(all: &BTreeMap<String, Declared>, work_tree: &Utf8Path) -> Option<Refusal> {
    all.iter().find_map(|(name, submodule)| {
        if let Some(reason) = wrong_with(name) {
            return Some(Refusal::of_name(name, reason));
        }
        if let Some(outer) = all.keys().find(|outer| is_inside(name, outer)) {
            return Some(Refusal::of_name(name, &format!("is inside the name of the submodule {outer:?}")));
        }
        let path = submodule.path.as_deref()?;
        let reason = wrong_with(path.strip_suffix('/').unwrap_or(path))
            .or_else(|| leaves(work_tree, path.as_ref()).then_some("leads out of the checkout"))?;
        Some(Refusal::of_path(name, path, reason))
    })
}

/// Returns what makes a name unsafe as a path below a folder. Git itself refuses only `..`.
fn wrong_with(name: &str) -> Option<&'static str> {
    let has = |wanted: &str| name.split(['/', '\\']).any(|part| part == wanted);
    if name.is_empty() {
        Some("is empty")
    } else if name.starts_with(['/', '\\']) {
        Some("is an absolute path")
    } else if name.chars().any(char::is_control) {
        Some("has a control character")
    } else if has("..") {
        Some("has the part '..'")
    } else if has(".") || has("") {
        Some("has an empty part or the part '.'")
    } else if reserved_part(name.as_ref()).is_some() {
        Some("has a part that git keeps for itself")
    } else {
        None
    }
}

/// Whether the repository of `name` would be inside that of `outer`.
fn is_inside(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a link in the work tree leads this path out of it.
fn leaves(work_tree: &Utf8Path, path: &Utf8Path) -> bool {
    let path = work_tree.join(path);
    let existing = path.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    match (existing.unwrap_or(work_tree).canonicalize_utf8(), work_tree.canonicalize_utf8()) {
        (Ok(existing), Ok(root)) => !existing.starts_with(root),
        // A dangling link leads nowhere that is known.
        _ => true,
    }
}

/// Returns the first link on the way to a path below a folder, or at its end.
pub(crate) fn first_link(root: &Utf8Path, relative: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut path = root.to_owned();
    relative.components().find_map(|part| {
        path.push(part.as_str());
        path.is_symlink().then(|| path.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(names: &[(&str, &str)]) -> Option<Refusal> {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        std::os::unix::fs::symlink("/tmp", root.join("outside")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        let declared = |path: &str| Declared { path: Some(path.to_owned()), update: None };
        refusal(&names.iter().map(|(name, path)| ((*name).to_owned(), declared(path))).collect(), root)
    }

    #[test]
    fn names_and_paths_that_leave_their_folder_are_refused() {
        let names = [
            "",
            "/",
            "/a/.git",
            r"\a",
            "..",
            "../a",
            "a/../b",
            r"a\..\b",
            ".",
            "a/./b",
            "a//b",
            "a/",
            ".git",
            "a/.GIT",
            "git~1",
            "a\nb",
            "a\u{1b}[2J",
        ];
        for name in names {
            let refusal = refused(&[(name, "lib")]).unwrap_or_else(|| panic!("{name:?} is not refused"));
            assert!(refusal.reason.starts_with("whose name "), "{refusal:?}");
            assert!(refusal.help.contains("--rename-section"), "{refusal:?}");
        }
        for path in ["", "/a", "../a", "a/../../b", ".git/hooks", "a//b", "outside/a", "outside", "dangling"]
        {
            let refusal = refused(&[("lib", path)]).unwrap_or_else(|| panic!("{path:?} is not refused"));
            assert!(refusal.reason.starts_with("whose path "), "{refusal:?}");
        }
    }

    #[test]
    fn ordinary_names_are_not_refused() {
        let names = ["lib", "vendor/lib", "a b", "-x", "..a", "a..b", "é", "lib.rs", "a.git", ".github"];
        let all: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
        assert_eq!(refused(&all), None);
        assert_eq!(refused(&[("lib", "vendor/lib/")]), None);
    }

    #[test]
    fn a_name_inside_another_one_is_refused() {
        let refusal = refused(&[("a", "a"), ("a/hooks", "b"), ("ab", "c")]).unwrap();
        assert_eq!(refusal.name, "a/hooks");
        assert_eq!(refusal.reason, "whose name is inside the name of the submodule \"a\"");
    }
}
