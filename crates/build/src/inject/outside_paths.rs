//! Path dependencies that lead out of the repository: the checkout is at another place, so the manifests
//! get the path of a folder that the user names.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item};

use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::AddedFiles;
use crate::inject::unused_change;
use memprof_support::paths::{self, without_dots};
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// A folder that takes the place of a path dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    pub package: String,
    /// The folder with its manifest.
    pub folder: Utf8PathBuf,
}

/// Writes the manifests of the checkout that depend on one of these packages. Returns what was written. `name` is the
/// revision's.
///
/// # Errors
/// No manifest has such a dependency that leads out of the repository.
pub(crate) fn write(
    folders: &[NamedFolder],
    name: &str,
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    let (added, changed) = write_found(folders, checkout, injected)?;
    match folders.iter().zip(changed).find(|(_, changed)| !changed) {
        Some((NamedFolder { package, .. }, _)) => {
            let told = format!(
                "--with {package}=…: no path dependency of {name} on {package} leads out of the repository"
            );
            let (reason, help) = why_inside(package, checkout);
            Err(UserError::new(told + &reason).help(help).into())
        }
        None => Ok(added),
    }
}

/// Returns why no path dependency on a package leads out of the repository, which may be empty, and what to do.
fn why_inside(package: &str, checkout: &Utf8Path) -> (String, String) {
    for (path, manifest) in manifests(checkout, &[package]) {
        if let Some(renamed) = renamed(manifest.as_item(), package) {
            return (
                format!(": {package} is the name of the package {renamed} in {path}"),
                format!("name the package: {renamed}=FOLDER"),
            );
        }
        if unused_change::patches(manifest.as_item(), package) {
            return (format!(": {path} has a [patch] for {package}"), unused_change::EDIT_PATCH.to_owned());
        }
    }
    let help = "a package of the repository itself is compared by naming another ref; one of a registry must be in the \
                lock file";
    (String::new(), help.to_owned())
}

/// Returns the package that a manifest has as a dependency of another name.
fn renamed(item: &Item, name: &str) -> Option<String> {
    item.as_table_like()?.iter().find_map(|(key, item)| {
        let package = if key == name { item.get("package").and_then(Item::as_str) } else { None };
        package.filter(|package| *package != name).map(str::to_owned).or_else(|| renamed(item, name))
    })
}

/// Does the same, and says for each folder whether a dependency leads out of the repository.
pub(crate) fn write_found(
    folders: &[NamedFolder],
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<(AddedFiles, Vec<bool>)> {
    let mut changed = vec![false; folders.len()];
    if folders.is_empty() {
        return Ok((AddedFiles::new(), changed));
    }
    let packages: Vec<&str> = folders.iter().map(|folder| folder.package.as_str()).collect();
    let added = replace_all(&packages, checkout, injected, &mut |package, _| {
        let index = folders.iter().position(|folder| folder.package == package)?;
        changed[index] = true;
        Some(folders[index].folder.clone())
    })?;
    Ok((added, changed))
}

/// Replaces the paths of these packages in the manifests of the checkout. Returns what was written. `place` gets a
/// package and its path as seen from the root, and returns the new path; `None` keeps it.
pub(crate) fn replace_all(
    packages: &[&str],
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
    place: &mut dyn FnMut(&str, &Utf8Path) -> Option<Utf8PathBuf>,
) -> anyhow::Result<AddedFiles> {
    let mut added = AddedFiles::new();
    for (relative, mut manifest) in manifests(checkout, packages) {
        let around = relative.parent().context("a manifest has a folder")?;
        let is_changed = replace(manifest.as_item_mut(), &mut |package, path| {
            let path = around.join(path);
            let leads_out = !without_dots(&checkout.join(&path)).starts_with(checkout);
            if leads_out && packages.contains(&package) { place(package, &path) } else { None }
        });
        if is_changed {
            let text = manifest.to_string().into_bytes();
            injected.write(checkout, &relative, &text)?;
            added.insert(relative, text);
        }
    }
    Ok(added)
}

/// Returns the manifests of a checkout that have one of these packages, with their paths.
fn manifests(checkout: &Utf8Path, packages: &[&str]) -> impl Iterator<Item = (Utf8PathBuf, DocumentMut)> {
    let is_meant = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || ![".git", "target"].iter().any(|name| entry.file_name() == *name)
    };
    let entries = walkdir::WalkDir::new(checkout).sort_by_file_name().into_iter().filter_entry(is_meant);
    // Cargo says what is wrong with those that it reads. Others may be test data.
    entries.filter_map(Result::ok).filter(|entry| entry.file_name() == "Cargo.toml").filter_map(
        move |entry| {
            let path = paths::utf8(entry.into_path()).ok()?;
            let text = followed::text(&path).ok()?;
            let manifest =
                packages.iter().any(|package| text.contains(package)).then(|| text.parse())?.ok()?;
            Some((path.strip_prefix(checkout).ok()?.to_owned(), manifest))
        },
    )
}

/// Replaces the paths of packages below an item. Returns whether there was one. `place` gets a package and its path.
fn replace(item: &mut Item, place: &mut dyn FnMut(&str, &str) -> Option<Utf8PathBuf>) -> bool {
    let Some(table) = item.as_table_like_mut() else { return false };
    let mut replaced = false;
    for (key, item) in table.iter_mut() {
        let package = item.get("package").and_then(Item::as_str).unwrap_or(key.get());
        let path = item.get("path").and_then(Item::as_str);
        let placed = path.and_then(|path| place(package, path));
        if let (Some(folder), Some(dependency)) = (placed, item.as_table_like_mut()) {
            dependency.insert("path", toml_edit::value(folder.as_str()));
            replaced = true;
        } else {
            replaced |= replace(item, place);
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_out_of_the_repository_are_replaced() {
        let named = NamedFolder { package: "fairseq".to_owned(), folder: "/copy/fairseq".into() };
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let checkout = root.join("r");
        fs_err::create_dir_all(checkout.join("app")).unwrap();
        let replaced = |text: &str| {
            fs_err::write(checkout.join("app/Cargo.toml"), text).unwrap();
            let mut injected = InjectedFiles::load(&root.join("record")).unwrap();
            let (added, changed) =
                write_found(std::slice::from_ref(&named), &checkout, &mut injected).unwrap();
            assert_eq!(changed, [!added.is_empty()], "{text}");
            added.into_values().next().map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            replaced("[dependencies]\nfairseq = { path = \"../../fairseq\" } # ours\n").unwrap(),
            "[dependencies]\nfairseq = { path = \"/copy/fairseq\" } # ours\n"
        );
        let renamed =
            "[target.'cfg(unix)'.dev-dependencies.seq]\npackage = \"fairseq\"\npath = \"/abs/fairseq\"\n";
        assert!(replaced(renamed).unwrap().contains("path = \"/copy/fairseq\""));
        for text in ["[dependencies]\nfairseq = { path = '../fairseq' }\n", "[dependencies]\nfairseq = '1'\n"]
        {
            assert_eq!(replaced(text), None, "{text}");
        }
    }

    #[test]
    fn a_renamed_package_and_a_patch_are_the_reason_that_no_path_leads_out() {
        let scratch = tempfile::tempdir().unwrap();
        let checkout = Utf8Path::from_path(scratch.path()).unwrap();
        let told = |manifest: &str, package: &str| {
            fs_err::write(checkout.join("Cargo.toml"), manifest).unwrap();
            let named = NamedFolder { package: package.to_owned(), folder: "/copy".into() };
            let mut injected = InjectedFiles::load(&checkout.join("record")).unwrap();
            let error = write(&[named], "main", checkout, &mut injected).unwrap_err();
            error.downcast::<UserError>().unwrap().rendered()
        };
        let outside = "on mydep leads out of the repository";
        for (manifest, reason, help) in [
            (
                "[dependencies]\nmydep = { package = 'dep', version = '1' }\n",
                ": mydep is the name of the package dep in Cargo.toml",
                "name the package: dep=FOLDER",
            ),
            (
                "[patch.crates-io]\nmydep = { path = 'mine' }\n",
                ": Cargo.toml has a [patch] for mydep",
                unused_change::EDIT_PATCH,
            ),
            ("[dependencies]\nmydep = { path = 'mine' }\n", "", "a package of the repository itself"),
        ] {
            let told = told(manifest, "mydep");
            assert!(told.contains(&format!("{outside}{reason}\n  help: {help}")), "{told}");
        }
    }
}
