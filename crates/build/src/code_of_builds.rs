//! The workspace's packages whose code runs while cargo builds: procedural macros, and what these or build scripts use.
//! Such code decides what others are compiled with, and so which tests they have.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item, TableLike};

/// Returns the folders of these packages, among those of a workspace. `None` if that cannot be told. `read` returns a
/// file of the repository, if there is one.
pub(crate) fn packages(
    folders: &BTreeSet<Utf8PathBuf>,
    read: impl Fn(&Utf8Path) -> Option<Vec<u8>>,
) -> Option<BTreeSet<Utf8PathBuf>> {
    let manifest = |folder: &Utf8Path| -> Option<DocumentMut> {
        String::from_utf8(read(&folder.join("Cargo.toml"))?).ok()?.parse().ok()
    };
    let manifests = folders.iter().map(|folder| Some((&**folder, manifest(folder)?)));
    let manifests: BTreeMap<&Utf8Path, DocumentMut> = manifests.collect::<Option<_>>()?;
    // A workspace may have its root above its packages.
    let above: BTreeSet<&Utf8Path> = folders.iter().flat_map(|folder| folder.ancestors()).collect();
    let roots: Vec<DocumentMut> = above.into_iter().filter_map(manifest).collect();
    let used = |folder: &Utf8Path, key: &str| -> Vec<&Utf8Path> {
        let names = dependencies(&manifests[folder], key, &roots);
        let is_named = |manifest: &DocumentMut| name(manifest).is_some_and(|name| names.contains(name));
        manifests.iter().filter(|(_, manifest)| is_named(manifest)).map(|(folder, _)| *folder).collect()
    };
    let mut waiting: Vec<&Utf8Path> = Vec::new();
    for (folder, manifest) in &manifests {
        waiting.extend(used(folder, "build-dependencies"));
        let of_library = |key: &str| manifest.get("lib").and_then(|library| library.get(key));
        let kinds = of_library("crate-type").or_else(|| of_library("crate_type")).and_then(Item::as_array);
        let is_macro =
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("proc-macro")));
        if is_macro || ["proc-macro", "proc_macro"].iter().any(|key| of_library(key).is_some()) {
            waiting.push(folder);
        }
    }
    let mut found = BTreeSet::new();
    while let Some(folder) = waiting.pop() {
        if found.insert(folder.to_owned()) {
            waiting.extend(used(folder, "dependencies"));
        }
    }
    Some(found)
}

fn name(manifest: &DocumentMut) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// Returns the names of the packages in a table of a manifest, also for one target only, and those that they stand for.
fn dependencies<'a>(manifest: &'a DocumentMut, key: &str, roots: &'a [DocumentMut]) -> BTreeSet<&'a str> {
    let of_targets = manifest.get("target").and_then(Item::as_table_like).into_iter();
    let of_targets = of_targets.flat_map(|all| all.iter().filter_map(|(_, one)| one.as_table_like()));
    let tables = of_targets.chain(std::iter::once(manifest.as_table() as &dyn TableLike));
    let old = key.replace('-', "_");
    let entries = tables.flat_map(|table| [table.get(key), table.get(&old)]).flatten();
    let mut names = BTreeSet::new();
    for (name, dependency) in entries.filter_map(Item::as_table_like).flat_map(TableLike::iter) {
        let inherited = roots.iter().filter_map(|root| root.get("workspace")?.get("dependencies")?.get(name));
        let packages = inherited.chain([dependency]).filter_map(|one| one.get("package")?.as_str());
        names.extend(packages.chain([name]));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_macros_and_build_scripts_use_runs_in_builds() {
        let files: BTreeMap<&str, &str> = BTreeMap::from([
            (
                "Cargo.toml",
                "[workspace.dependencies]\nalias = { package = \"flags\", path = \"libs/flags\" }",
            ),
            (
                "app/Cargo.toml",
                "[package]\nname = \"app\"\n[dependencies]\nm = { path = \"../m\" }\ncore = \"1\"",
            ),
            ("core/Cargo.toml", "[package]\nname = \"core\"\n[build-dependencies]\nalias.workspace = true"),
            (
                "libs/flags/Cargo.toml",
                "[package]\nname = \"flags\"\n[target.'cfg(unix)'.dependencies]\nunixes = { path = \"../unixes\" }",
            ),
            ("libs/unixes/Cargo.toml", "[package]\nname = \"unixes\"\n[dev-dependencies]\ncore = \"1\""),
            ("m/Cargo.toml", "[package]\nname = \"m\"\n[lib]\nproc-macro = true\n[dependencies]\nq = \"1\""),
            ("q/Cargo.toml", "package.name = \"q\""),
            ("typed/Cargo.toml", "[package]\nname = \"typed\"\n[lib]\ncrate-type = [\"proc-macro\"]"),
        ]);
        let read = |path: &Utf8Path| files.get(path.as_str()).map(|text| text.as_bytes().to_vec());
        let folders = ["app", "core", "libs/flags", "libs/unixes", "m", "q", "typed"].map(Utf8PathBuf::from);
        let found = packages(&BTreeSet::from(folders), read).unwrap();
        assert_eq!(
            found,
            BTreeSet::from(["libs/flags", "libs/unixes", "m", "q", "typed"].map(Utf8PathBuf::from))
        );
        assert_eq!(packages(&BTreeSet::from(["gone".into()]), read), None);
    }
}
