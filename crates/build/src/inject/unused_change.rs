//! Why cargo does not use a dependency that takes the place of the lock file's.

use camino::Utf8Path;
use toml_edit::{DocumentMut, Item};

use crate::cargo::configuration::CargoConfig;
use crate::git::workspace_folder;
use memprof_plan::dependency_change::{DependencyChange, Replacement};
use memprof_plan::lock_differences::LockedPackage;
use memprof_support::regular_file::followed;

/// What to do about a patch of the repository.
pub(crate) const EDIT_PATCH: &str =
    "edit that [patch], and compare the working tree with the commit: cargo memprof HEAD .";

/// Returns the reason, which may be empty, and what to do. `workspace` is the folder in the checkout, and `stays` are the
/// versions of the package that the lock file keeps.
pub(crate) fn why(
    change: &DependencyChange,
    stays: &[&LockedPackage],
    workspace: &Utf8Path,
    config: Option<&CargoConfig>,
) -> (String, String) {
    let package = &change.package;
    // Only a package that does not come from a registry can be a patch of the repository.
    let of_registry = |one: &&LockedPackage| {
        one.source
            .as_ref()
            .is_some_and(|source| ["registry+", "sparse+"].iter().any(|kind| source.starts_with(kind)))
    };
    if !stays.iter().all(of_registry) {
        let manifest = followed::text(workspace.join("Cargo.toml")).unwrap_or_default();
        let place =
            if manifest.parse::<DocumentMut>().is_ok_and(|manifest| patches(manifest.as_item(), package)) {
                Some("Cargo.toml")
            } else if config
                .is_some_and(|config| config.documents().any(|document| patches(document.as_item(), package)))
            {
                Some("cargo's configuration")
            } else {
                None
            };
        if let Some(place) = place {
            return (format!("{place} has a [patch] for {package}"), EDIT_PATCH.to_owned());
        }
    }
    if let (Replacement::Version(version), Some(config)) = (&change.to, config) {
        let folders = config.vendored_folders();
        let vendored: Vec<String> = folders.iter().flat_map(|folder| versions_in(folder, package)).collect();
        if !vendored.is_empty() && !vendored.contains(version) {
            let reason = format!("the vendored dependencies have only {package} {}", vendored.join(" and "));
            return (reason, format!("name a folder with this version: {package}=FOLDER"));
        }
    }
    let help = "its version must meet the requirements of the packages that use it: `cargo tree --invert` shows them";
    (String::new(), help.to_owned())
}

/// Whether a manifest or a file of cargo's configuration has a patch of a package.
pub(crate) fn patches(document: &Item, package: &str) -> bool {
    let sources = document.get("patch").and_then(Item::as_table_like);
    let patches =
        sources.into_iter().flat_map(|sources| sources.iter()).filter_map(|one| one.1.as_table_like());
    patches
        .flat_map(|patches| patches.iter())
        .any(|(key, patch)| patch.get("package").and_then(Item::as_str).unwrap_or(key) == package)
}

/// Returns the versions of a package in a folder that `cargo vendor` wrote.
fn versions_in(folder: &Utf8Path, package: &str) -> Vec<String> {
    let entries = folder.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    // The folder's name may end with the version.
    let mut versions: Vec<String> = entries
        .filter(|entry| entry.file_name().starts_with(package))
        .filter_map(|entry| {
            let manifest: DocumentMut = followed::text(entry.path().join("Cargo.toml")).ok()?.parse().ok()?;
            let found = workspace_folder::package_of(&manifest)?;
            let text = |key: &str| found.get(key).and_then(Item::as_str).map(str::to_owned);
            (text("name")? == package).then(|| text("version"))?
        })
        .collect();
    versions.sort();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::configuration::Includes;

    #[test]
    fn the_reason_is_a_patch_or_the_vendored_version_or_else_a_requirement() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        };
        let told = |change: &str, source: Option<&str>| {
            let change = change.parse().unwrap();
            let stays =
                LockedPackage { name: "hex".into(), version: "0.4.3".into(), source: source.map(Into::into) };
            let config = CargoConfig::read(root, &[], Includes::Followed).unwrap();
            why(&change, &[&stays], root, Some(&config))
        };
        let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
        let fork = Some("git+https://example.org/fork#0123456");
        write("Cargo.toml", "[dependencies]\nhex = '0.4'\n");
        let (reason, help) = told("hex=../mine", registry);
        assert_eq!(reason, "");
        assert!(help.starts_with("its version must meet the requirements"), "{help}");

        let patch = "[patch.crates-io]\nfork = { package = 'hex', git = 'https://example.org/fork' }\n";
        write("Cargo.toml", patch);
        let (reason, help) = told("hex=../mine", fork);
        assert_eq!(reason, "Cargo.toml has a [patch] for hex");
        assert!(help.ends_with("cargo memprof HEAD ."), "{help}");
        assert_eq!(told("hex=../mine", registry).0, "", "the patch is for another version");

        write("Cargo.toml", "");
        write(".cargo/config.toml", "[patch.crates-io]\nhex.path = 'mine'\n");
        assert_eq!(told("hex@0.4.2", None).0, "cargo's configuration has a [patch] for hex");

        write(".cargo/config.toml", "[source.vendored]\ndirectory = 'vendor'\n");
        write("vendor/hex/Cargo.toml", "[package]\nname = 'hex'\nversion = '0.4.3'\n");
        write("vendor/hex-0.3.2/Cargo.toml", "[package]\nname = 'hex'\nversion = '0.3.2'\n");
        write("vendor/hex-literal/Cargo.toml", "[package]\nname = 'hex-literal'\nversion = '0.4.2'\n");
        let (reason, help) = told("hex@0.4.2", registry);
        assert_eq!(reason, "the vendored dependencies have only hex 0.3.2 and 0.4.3");
        assert_eq!(help, "name a folder with this version: hex=FOLDER");
    }
}
