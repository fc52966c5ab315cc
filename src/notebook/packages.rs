//! The packages that `:dep` paths of a notebook lead to, at one revision.

use std::cell::RefCell;

use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::kept_runs::current_directory;
use crate::notebook::place::Place;
use crate::request::surroundings::normalized;
use memprof_build::git::workspace_folder;
use memprof_build::notebook::manifest::FoundPackage;
use memprof_support::regular_file::followed;

/// Finds packages at one revision, and remembers where they were.
pub struct Packages<'a> {
    place: &'a Place,
    /// The revision; none in a repository that was made for the notebook.
    commit: Option<&'a str>,
    /// Folders of packages, relative to the repository's root.
    inside: RefCell<Vec<Utf8PathBuf>>,
    /// Folders of packages outside of the repository.
    outside: RefCell<Vec<Utf8PathBuf>>,
}

/// What the workspace around a notebook's packages decides.
#[derive(Default)]
pub struct Workspace {
    pub lock_file: Option<Vec<u8>>,
    pub patches: Table,
}

impl<'a> Packages<'a> {
    /// Begins without any package.
    pub fn new(place: &'a Place, commit: Option<&'a str>) -> Self {
        Self { place, commit, inside: RefCell::default(), outside: RefCell::default() }
    }

    /// Returns the folders outside of the repository.
    pub fn outside(&self) -> Vec<Utf8PathBuf> {
        self.outside.borrow().clone()
    }

    /// Finds the package of a path. It is relative to the notebook's folder. For a notebook outside
    /// of the repository, also to the current folder and to the repository's root.
    pub fn find(&self, path: &str) -> Result<FoundPackage, String> {
        let root = self.place.repository.root();
        let own = self.place.file.parent().unwrap_or(root);
        let mut from = vec![own.to_owned()];
        if self.place.inside.is_none() && !self.place.is_made {
            from.extend(current_directory().ok());
            from.push(root.to_owned());
        }
        let mut missing = None;
        for folder in from {
            let folder = normalized(&folder.join(path));
            let manifest = folder.join("Cargo.toml");
            let inside = folder.strip_prefix(root).ok().filter(|_| !self.place.is_made);
            let text = match inside {
                Some(inside) => self.stored(&inside.join("Cargo.toml")),
                None => followed::text(&manifest).ok(),
            };
            let Some(text) = text else {
                missing.get_or_insert(manifest);
                continue;
            };
            let name = package_name(&text).ok_or_else(|| format!("{manifest} has no [package] name"))?;
            let path = if let Some(inside) = inside {
                self.inside.borrow_mut().push(inside.to_owned());
                Utf8Path::new("..").join(inside)
            } else {
                self.outside.borrow_mut().push(folder.clone());
                folder
            };
            return Ok(FoundPackage { path: path.into_string(), name });
        }
        Err(missing.map_or_else(String::new, |manifest| format!("{manifest} is missing")))
    }

    /// Returns what the workspace of the first package in the repository decides.
    pub fn workspace(&self) -> anyhow::Result<Workspace> {
        let first = self.inside.borrow().first().cloned();
        let (Some(first), Some(commit)) = (first, self.commit) else { return Ok(Workspace::default()) };
        let folder = workspace_folder::of_package(&self.place.repository, commit, &first)?;
        let manifest = self.stored(&folder.join("Cargo.toml")).unwrap_or_default();
        let manifest: DocumentMut = manifest.parse().unwrap_or_default();
        let mut patches = Table::new();
        for key in ["patch", "replace"] {
            if let Some(item) = manifest.get(key) {
                let mut item = item.clone();
                move_paths(&mut item, &folder);
                patches.insert(key, item);
            }
        }
        let lock_file = self.stored(&folder.join("Cargo.lock")).map(String::into_bytes);
        Ok(Workspace { lock_file, patches })
    }

    /// Returns a file of the revision, as text.
    fn stored(&self, path: &Utf8Path) -> Option<String> {
        let bytes = self.place.repository.show(self.commit?, path.as_str()).ok().flatten()?;
        String::from_utf8(bytes).ok()
    }
}

fn package_name(manifest: &str) -> Option<String> {
    let manifest: DocumentMut = manifest.parse().ok()?;
    manifest.get("package").or_else(|| manifest.get("project"))?.get("name")?.as_str().map(str::to_owned)
}

/// Makes the paths of patches relative to the notebook's package, which is in a folder of the root.
fn move_paths(item: &mut Item, folder: &Utf8Path) {
    let Some(table) = item.as_table_like_mut() else { return };
    move_table(table, folder);
}

fn move_table(table: &mut dyn TableLike, folder: &Utf8Path) {
    for (key, item) in table.iter_mut() {
        match item.as_str() {
            Some(path) if key == "path" && Utf8Path::new(path).is_relative() => {
                let moved = Utf8Path::new("..").join(normalized(&folder.join(path)));
                *item = Item::Value(Value::from(moved.as_str()));
            }
            _ => move_paths(item, folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_build::git::repository::Repository;
    use memprof_support::process::Command;

    #[test]
    fn paths_of_patches_are_moved_and_urls_are_not() {
        let text = "[patch.crates-io]\na = { path = \"vendor/a\" }\nb = { git = \"https://x.test/b\" }\n[patch.crates-io.c]\npath = \"/abs/c\"\n";
        let mut document: DocumentMut = text.parse().unwrap();
        move_paths(document.get_mut("patch").unwrap(), Utf8Path::new("crates"));
        let written = document.to_string();
        assert!(written.contains("\"../crates/vendor/a\""), "{written}");
        assert!(written.contains("https://x.test/b") && written.contains("\"/abs/c\""), "{written}");
    }

    #[test]
    fn the_patches_of_a_workspace_without_a_lock_file_apply() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap().canonicalize_utf8().unwrap();
        let git = |arguments: &[&str]| {
            let person = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            Command::new("git").args(person).args(arguments).current_dir(&root).run().unwrap().text()
        };
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        };
        git(&["init", "--quiet"]);
        let patch = "[patch.crates-io]\nlog = { path = 'vendor/log' }\n";
        write("Cargo.toml", &format!("[workspace]\nexclude = ['alone']\n{patch}"));
        write("crates/one/Cargo.toml", "[package]\nname = 'one'\n");
        write("alone/Cargo.toml", "[package]\nname = 'alone'\n");
        let commit = || {
            git(&["add", "."]);
            git(&["commit", "--quiet", "--message", "one"]);
            git(&["rev-parse", "HEAD"])
        };
        let repository = Repository::discover(&root).unwrap();
        let file = root.join("a.ipynb");
        let place = Place { repository, file, inside: Some("a.ipynb".into()), is_made: false };
        let of = |commit: &str, path: &str| {
            let packages = Packages::new(&place, Some(commit));
            packages.find(path).unwrap();
            let found = packages.workspace().unwrap();
            (DocumentMut::from(found.patches).to_string(), found.lock_file)
        };
        let first = commit();
        let (patches, lock_file) = of(&first, "crates/one");
        assert!(patches.contains("../vendor/log"), "{patches}");
        assert_eq!(lock_file, None);
        write("Cargo.lock", "version = 3\n");
        let second = commit();
        assert_eq!(of(&second, "crates/one").1.as_deref(), Some(&b"version = 3\n"[..]));
        assert_eq!(of(&second, "alone"), (String::new(), None), "it is no member");
    }
}
