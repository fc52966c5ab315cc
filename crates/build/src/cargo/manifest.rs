//! Facts about packages and targets that their manifests or cargo's metadata state.

use std::collections::BTreeMap;

use anyhow::Context;
use camino::Utf8Path;
use cargo_metadata::Artifact;

use crate::git::workspace_folder;
use memprof_plan::request::TargetKind;
use memprof_support::regular_file::followed;

/// Returns the kind of a target that can contain tests.
pub(crate) fn target_kind(target: &cargo_metadata::Target) -> Option<TargetKind> {
    use cargo_metadata::TargetKind as Kind;
    target.kind.iter().find_map(|kind| match kind {
        Kind::Lib | Kind::RLib | Kind::DyLib | Kind::CDyLib | Kind::StaticLib | Kind::ProcMacro => {
            Some(TargetKind::Lib)
        }
        Kind::Bin => Some(TargetKind::Bin),
        Kind::Test => Some(TargetKind::Test),
        Kind::Example => Some(TargetKind::Example),
        Kind::Bench => Some(TargetKind::Bench),
        _ => None,
    })
}

/// Returns the targets of a manifest that have `harness = false`, by kind and name.
///
/// `cargo metadata` omits this. Such a target must not be called with `--list`, because it would
/// run.
pub(crate) fn without_harness(manifest: &Utf8Path) -> anyhow::Result<Vec<(TargetKind, String)>> {
    let document: toml_edit::DocumentMut = followed::text(manifest)?.parse()?;
    let mut targets = Vec::new();
    let off = |item: &toml_edit::Item| item.get("harness").and_then(toml_edit::Item::as_bool) == Some(false);
    if document.get("lib").is_some_and(off) {
        targets.push((TargetKind::Lib, String::new()));
    }
    let kinds = [
        ("bin", TargetKind::Bin),
        ("test", TargetKind::Test),
        ("example", TargetKind::Example),
        ("bench", TargetKind::Bench),
    ];
    for (key, kind) in kinds {
        let Some(item) = document.get(key) else { continue };
        let tables: Vec<BTreeMap<String, toml_edit::Value>> = tables(item);
        for table in tables {
            let name = table.get("name").and_then(|name| name.as_str());
            if table.get("harness").and_then(toml_edit::Value::as_bool) == Some(false) {
                targets.extend(name.map(|name| (kind, name.to_owned())));
            }
        }
    }
    Ok(targets)
}

/// Returns the tables of `[[test]]`, or of an inline `test = [{…}]`.
fn tables(item: &toml_edit::Item) -> Vec<BTreeMap<String, toml_edit::Value>> {
    let values = |table: &dyn toml_edit::TableLike| {
        table
            .iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_value()?.clone())))
            .collect::<BTreeMap<_, _>>()
    };
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| values(table)).collect();
    }
    let inline = item.as_array().into_iter().flatten();
    inline.filter_map(|value| Some(values(value.as_inline_table()?))).collect()
}

/// Returns the name of an artifact's package from its manifest, because package ids have several
/// forms.
pub(crate) fn package_name(artifact: &Artifact) -> anyhow::Result<String> {
    let document: toml_edit::DocumentMut = followed::text(&artifact.manifest_path)?.parse()?;
    workspace_folder::package_name(&document)
        .with_context(|| format!("{} has no package name", artifact.manifest_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_without_a_harness_are_read_from_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = Utf8Path::from_path(folder.path()).unwrap().join("Cargo.toml");
        fs_err::write(
            &manifest,
            "[[test]]\nname='a'\nharness=false\n[[test]]\nname='b'\n[[bench]]\nname='c'\nharness=false\n",
        )
        .unwrap();
        let found = without_harness(&manifest).unwrap();
        assert_eq!(found, [(TargetKind::Test, "a".to_owned()), (TargetKind::Bench, "c".to_owned())]);
    }
}
