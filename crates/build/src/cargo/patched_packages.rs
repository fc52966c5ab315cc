//! The packages that a workspace takes from itself instead of a registry: `[patch.crates-io]` with a path.
//!
//! A lock file of another revision may have such a package from the registry, because that revision's own was too old,
//! or not there yet. Cargo would keep that version beside the workspace's own, and code with both may not compile.

use std::collections::BTreeMap;

use cargo_metadata::semver::Version;
use toml_edit::{DocumentMut, Item, Table};

use crate::git::workspace_folder;

/// Returns a lock file without the packages of registries that a workspace has itself, in a compatible version that the
/// lock file does not know. `None` if there are none. `read` returns a manifest, by its folder in the workspace. One that
/// cannot be read replaces nothing: it may be outside of the repository, and cargo says what is wrong with it.
pub(super) fn without_own(lock: &[u8], read: impl Fn(&str) -> Option<String>) -> Option<Vec<u8>> {
    let root: DocumentMut = read("")?.parse().ok()?;
    let own = own_versions(&root, read);
    if own.is_empty() {
        return None;
    }
    let mut lock: DocumentMut = std::str::from_utf8(lock).ok()?.parse().ok()?;
    let packages = lock.get_mut("package")?.as_array_of_tables_mut()?;
    let text = |package: &Table, key: &str| package.get(key).and_then(Item::as_str).map(str::to_owned);
    let version = |package: &Table| Version::parse(&text(package, "version")?).ok();
    let is_own = |package: &Table| package.get("source").is_none();
    let known: Vec<(Option<String>, Option<Version>)> = packages
        .iter()
        .filter(|package| is_own(package))
        .map(|package| (text(package, "name"), version(package)))
        .collect();
    let is_replaced = |package: &Table| {
        let (Some(name), Some(locked)) = (text(package, "name"), version(package)) else { return false };
        let Some(own) = own.get(&name) else { return false };
        let is_of_registry = text(package, "source").is_some_and(|source| source.starts_with("registry+"));
        let is_known = known.contains(&(Some(name), Some(own.clone())));
        is_of_registry && !is_known && compatible(own) == compatible(&locked)
    };
    let before = packages.len();
    packages.retain(|package| !is_replaced(package));
    (packages.len() < before).then(|| lock.to_string().into_bytes())
}

/// Returns the versions of the workspace's packages that replace those of registries.
fn own_versions(root: &DocumentMut, read: impl Fn(&str) -> Option<String>) -> BTreeMap<String, Version> {
    let registries =
        root.get("patch").and_then(Item::as_table_like).into_iter().flat_map(|patch| patch.iter());
    let patches =
        registries.filter_map(|(_, patches)| patches.as_table_like()).flat_map(|patches| patches.iter());
    let of_workspace =
        root.get("workspace").and_then(|workspace| workspace.get("package")?.get("version")?.as_str());
    let version = |folder: &str| {
        let manifest: DocumentMut = read(folder)?.parse().ok()?;
        let version = workspace_folder::package_of(&manifest)?.get("version")?;
        Version::parse(version.as_str().or(of_workspace)?).ok()
    };
    let own = patches.filter_map(|(key, patch)| {
        let name = patch.get("package").and_then(Item::as_str).unwrap_or(key);
        Some((name.to_owned(), version(patch.get("path")?.as_str()?)?))
    });
    own.collect()
}

/// Versions with the same numbers are compatible for cargo.
fn compatible(version: &Version) -> (u64, u64, u64) {
    match (version.major, version.minor, version.patch) {
        (0, 0, patch) => (0, 0, patch),
        (0, minor, _) => (0, minor, 0),
        (major, ..) => (major, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = r#"
[workspace]
members = ["one", "two"]
package.version = "0.3.2"
[patch.crates-io]
one = { path = "one" }
renamed = { package = "two", path = "two" }
other = { git = "https://example.org/other" }
"#;

    fn package(name: &str, version: &str, source: &str) -> String {
        format!("\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}")
    }

    fn left(packages: &[String]) -> Option<Vec<String>> {
        let read = |folder: &str| match folder {
            "" => Some(ROOT.to_owned()),
            "one" => Some("[package]\nname = \"one\"\nversion = \"1.2.0\"\n".to_owned()),
            "two" => Some("[package]\nname = \"two\"\nversion.workspace = true\n".to_owned()),
            _ => None,
        };
        let lock = format!("# note: a note\nversion = 4\n{}", packages.concat());
        let left = String::from_utf8(without_own(lock.as_bytes(), read)?).unwrap();
        assert!(left.starts_with("# note: a note\nversion = 4\n"), "{left}");
        let lock: DocumentMut = left.parse().unwrap();
        let text = |package: &Table, key: &str| package.get(key).and_then(Item::as_str).unwrap().to_owned();
        let packages = lock.get("package").and_then(Item::as_array_of_tables).unwrap().iter();
        Some(
            packages
                .map(|package| format!("{} {}", text(package, "name"), text(package, "version")))
                .collect(),
        )
    }

    #[test]
    fn what_the_workspace_has_itself_is_not_taken_from_the_registry() {
        let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        let of_registry = |name: &str, version: &str| package(name, version, registry);
        let kept = [
            package("one", "1.1.0", ""),
            of_registry("one", "0.9.0"),
            of_registry("two", "0.4.0"),
            of_registry("other", "1.0.0"),
            of_registry("serde", "1.0.0"),
        ];
        assert_eq!(left(&kept), None, "incompatible versions, and other packages");
        let replaced = [of_registry("one", "1.3.0"), of_registry("two", "0.3.9")];
        let names = left(&[&kept[..], &replaced].concat()).unwrap();
        assert_eq!(names, ["one 1.1.0", "one 0.9.0", "two 0.4.0", "other 1.0.0", "serde 1.0.0"]);

        let as_locked = [package("one", "1.2.0", ""), of_registry("one", "1.3.0")];
        assert_eq!(left(&as_locked), None, "cargo wanted both");
    }
}
