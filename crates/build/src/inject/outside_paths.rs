//! Path dependencies that lead out of the repository: the checkout is at another place, so the manifests
//! get the path of a folder that the user names.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item};

use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::AddedFiles;
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

/// Writes the manifests of the checkout that depend on one of these packages. Returns what was written.
///
/// # Errors
/// No manifest has such a dependency that leads out of the repository.
pub(crate) fn write(
    folders: &[NamedFolder],
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    let (added, changed) = write_found(folders, checkout, injected)?;
    match folders.iter().zip(changed).find(|(_, changed)| !changed) {
        Some((NamedFolder { package, .. }, _)) => Err(UserError::new(format!(
            "--with {package}=…: no path dependency on {package} leads out of the repository"
        ))
        .help("a package of the repository itself is compared by naming another ref")
        .into()),
        None => Ok(added),
    }
}

/// Does the same, and says for each folder whether a dependency leads out of the repository.
pub(crate) fn write_found(
    folders: &[NamedFolder],
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<(AddedFiles, Vec<bool>)> {
    let mut added = AddedFiles::new();
    let mut changed = vec![false; folders.len()];
    if folders.is_empty() {
        return Ok((added, changed));
    }
    let is_meant = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || ![".git", "target"].iter().any(|name| entry.file_name() == *name)
    };
    for entry in walkdir::WalkDir::new(checkout).sort_by_file_name().into_iter().filter_entry(is_meant) {
        let entry = entry?;
        if entry.file_name() != "Cargo.toml" {
            continue;
        }
        let path = paths::utf8(entry.into_path())?;
        let Ok(mut manifest) = followed::text(&path)?.parse::<DocumentMut>() else { continue };
        let around = path.parent().context("a manifest has a folder")?;
        let mut is_changed = false;
        for (folder, changed) in folders.iter().zip(&mut changed) {
            let replaced = replace(manifest.as_item_mut(), folder, around, checkout);
            *changed |= replaced;
            is_changed |= replaced;
        }
        if is_changed {
            let relative = path.strip_prefix(checkout)?.to_owned();
            let text = manifest.to_string().into_bytes();
            injected.write(checkout, &relative, &text)?;
            added.insert(relative, text);
        }
    }
    Ok((added, changed))
}

/// Replaces the paths of a package below an item. Returns whether there was one.
fn replace(item: &mut Item, named: &NamedFolder, around: &Utf8Path, checkout: &Utf8Path) -> bool {
    let Some(table) = item.as_table_like_mut() else { return false };
    let mut replaced = false;
    for (key, item) in table.iter_mut() {
        let is_package = key == named.package.as_str()
            || item.get("package").and_then(Item::as_str) == Some(named.package.as_str());
        let path = item.get("path").and_then(Item::as_str).filter(|_| is_package);
        let leads_out = path.is_some_and(|path| !without_dots(&around.join(path)).starts_with(checkout));
        if leads_out && let Some(dependency) = item.as_table_like_mut() {
            dependency.insert("path", toml_edit::value(named.folder.as_str()));
            replaced = true;
        } else {
            replaced |= replace(item, named, around, checkout);
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
        let replaced = |text: &str| {
            let mut manifest: DocumentMut = text.parse().unwrap();
            let is_replaced = replace(manifest.as_item_mut(), &named, "/r/app".into(), "/r".into());
            is_replaced.then(|| manifest.to_string())
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
}
