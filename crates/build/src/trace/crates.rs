//! The crates whose functions may be traced: the members of a workspace, and their path
//! dependencies.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{CrateType, Metadata, Package, Target, TargetKind};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::cargo::toolchain::Toolchain;
use crate::git::workspace_folder;
use crate::inject::checkout_edits;
use memprof_support::paths::without_dots;
use memprof_support::regular_file::followed;

/// Why functions of a procedural macro cannot be traced.
pub(crate) const OF_A_MACRO: &str = "it belongs to a procedural macro, which runs in the compiler";

/// A crate whose functions may be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    /// The compiler's name for it.
    pub name: String,
    /// The root source.
    pub root: Utf8PathBuf,
    /// The folder of its manifest.
    pub package: Utf8PathBuf,
    /// Why none of its functions can be traced, if so.
    pub untraceable: Option<&'static str>,
    /// Whether it belongs to the repository, and not to a registry.
    pub is_own: bool,
    /// Whether it is a member of the workspace. The workspace's wrapper gives members the shim.
    pub is_member: bool,
}

/// Returns the crates of the workspace, and their path dependencies inside of the checkout.
pub(crate) fn own_crates(
    metadata: &Metadata,
    checkout: &Utf8Path,
    toolchain: &Toolchain,
) -> anyhow::Result<Vec<Crate>> {
    let mut crates = Vec::new();
    let mut seen: BTreeSet<Utf8PathBuf> =
        metadata.packages.iter().map(|package| package.manifest_path.clone()).collect();
    let mut pending: Vec<Utf8PathBuf> = Vec::new();
    for package in &metadata.packages {
        crates.extend(package.targets.iter().filter_map(|target| of_target(package, target, true)));
        pending.extend(folders(package));
    }
    while let Some(folder) = pending.pop() {
        let manifest = without_dots(&folder.join("Cargo.toml"));
        if !manifest.starts_with(checkout) || !manifest.exists() || !seen.insert(manifest.clone()) {
            continue;
        }
        // The package may be in a workspace of its own, whose other members are not used.
        let Ok(metadata) = checkout_edits::metadata(toolchain, &manifest, &folder) else {
            // That workspace may not load: `mode: external` is for such revisions.
            let (library, dependencies) = read_manifest(&manifest, checkout)?;
            crates.extend(library);
            pending.extend(dependencies);
            continue;
        };
        for package in metadata.packages.iter().filter(|package| package.manifest_path == manifest) {
            let library = package.targets.iter().find(|target| is_library(target));
            crates.extend(library.and_then(|target| of_target(package, target, false)));
            pending.extend(folders(package));
        }
    }
    // Functions in a file of several targets get the library's name.
    crates.sort_by_key(|one| !one.root.ends_with("lib.rs"));
    Ok(crates)
}

fn folders(package: &Package) -> Vec<Utf8PathBuf> {
    package.dependencies.iter().filter_map(|dependency| dependency.path.clone()).collect()
}

fn is_library(target: &Target) -> bool {
    target.crate_types.iter().any(|kind| !matches!(kind, CrateType::Bin))
}

/// Returns the library of a package, and the compiler's name for it.
pub(crate) fn library(package: &Package) -> Option<(Crate, String)> {
    let target = package.targets.iter().find(|target| is_library(target))?;
    Some((of_target(package, target, false)?, target.name.replace('-', "_")))
}

fn why_untraceable(target: &Target) -> Option<&'static str> {
    if target.kind.contains(&TargetKind::ProcMacro) {
        Some(OF_A_MACRO)
    } else if target.crate_types == [CrateType::DyLib] {
        // Programs would get the shim from the library, and could not measure anything of their
        // own.
        Some("it belongs to a library that is only built as a dylib")
    } else {
        None
    }
}

fn of_target(package: &Package, target: &Target, is_member: bool) -> Option<Crate> {
    if target.kind.contains(&TargetKind::CustomBuild) {
        return None;
    }
    Some(Crate {
        name: target.name.replace('-', "_"),
        root: target.src_path.clone(),
        package: package.manifest_path.parent()?.to_owned(),
        untraceable: why_untraceable(target),
        is_own: true,
        is_member,
    })
}

/// Returns the library of a package and the folders of its path dependencies, according to its
/// manifest. Cargo cannot tell if the workspace around it does not load.
fn read_manifest(
    manifest: &Utf8Path,
    checkout: &Utf8Path,
) -> anyhow::Result<(Option<Crate>, Vec<Utf8PathBuf>)> {
    let folder = manifest.parent().unwrap_or(checkout);
    let document: DocumentMut = followed::text(manifest)?.parse()?;
    let inherited = workspace_dependencies(folder, checkout);
    let mut dependencies = Vec::new();
    let of_targets = document.get("target").and_then(Item::as_table_like).into_iter();
    let of_targets = of_targets.flat_map(|targets| targets.iter().filter_map(|(_, one)| one.as_table_like()));
    for table in of_targets.chain(std::iter::once(document.as_table() as &dyn TableLike)) {
        for key in ["dependencies", "build-dependencies"] {
            let entries = table.get(key).and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
            dependencies.extend(entries.filter_map(|(name, dependency)| {
                let dependency = dependency.as_table_like()?;
                if let Some(path) = dependency.get("path").and_then(Item::as_str) {
                    return Some(folder.join(path));
                }
                dependency.get("workspace")?;
                let (root, table) = inherited.as_ref()?;
                Some(root.join(table.get(name)?.as_table_like()?.get("path")?.as_str()?))
            }));
        }
    }
    let library = document.get("lib");
    let text = |key: &str| library.and_then(|library| library.get(key)).and_then(Item::as_str);
    let package = workspace_folder::package_name(&document);
    let root = folder.join(text("path").unwrap_or("src/lib.rs"));
    let is_macro = library.and_then(|library| library.get("proc-macro")).and_then(Item::as_bool);
    let name = text("name").or(package.as_deref()).filter(|_| root.exists());
    let library = name.map(|name| Crate {
        name: name.replace('-', "_"),
        root,
        package: folder.to_owned(),
        untraceable: (is_macro == Some(true)).then_some(OF_A_MACRO),
        is_own: true,
        is_member: false,
    });
    Ok((library, dependencies))
}

/// Returns `[workspace.dependencies]` of the nearest manifest above that has a workspace, and its
/// folder.
fn workspace_dependencies(folder: &Utf8Path, checkout: &Utf8Path) -> Option<(Utf8PathBuf, Item)> {
    let above = folder.ancestors().take_while(|folder| folder.starts_with(checkout));
    above.into_iter().find_map(|folder| {
        let document: DocumentMut = followed::text(folder.join("Cargo.toml")).ok()?.parse().ok()?;
        let dependencies = document.get("workspace")?.get("dependencies").cloned().unwrap_or_default();
        Some((folder.to_owned(), dependencies))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_whose_workspace_does_not_load_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Utf8Path::from_path(folder.path()).unwrap();
        for (path, text) in [
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"gone\"]\n[workspace.dependencies]\nshapes = { path = \"libs/shapes\" }\n",
            ),
            (
                "core/Cargo.toml",
                "[package]\nname = \"the-core\"\n[dependencies]\nkernels = { path = \"../kernels\" }\n\
                 shapes.workspace = true\nserde = \"1\"\n[target.'cfg(unix)'.dependencies]\nunixes = { path = \"unixes\" }\n",
            ),
            ("core/src/lib.rs", ""),
            ("macros/Cargo.toml", "[package]\nname = \"m\"\n[lib]\nproc-macro = true\npath = \"m.rs\"\n"),
            ("macros/m.rs", ""),
        ] {
            fs_err::create_dir_all(checkout.join(path).parent().unwrap()).unwrap();
            fs_err::write(checkout.join(path), text).unwrap();
        }
        let (library, dependencies) = read_manifest(&checkout.join("core/Cargo.toml"), checkout).unwrap();
        let library = library.unwrap();
        assert_eq!((library.name.as_str(), library.untraceable), ("the_core", None));
        let mut dependencies: Vec<_> = dependencies.iter().map(|path| without_dots(path)).collect();
        dependencies.sort();
        assert_eq!(dependencies, ["core/unixes", "kernels", "libs/shapes"].map(|path| checkout.join(path)));
        let (library, _) = read_manifest(&checkout.join("macros/Cargo.toml"), checkout).unwrap();
        let library = library.unwrap();
        assert_eq!((library.root, library.untraceable), (checkout.join("macros/m.rs"), Some(OF_A_MACRO)));
    }
}
