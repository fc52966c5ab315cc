//! What is added to a checkout before a build: overlay files, a lock file if there is none, and the
//! lines that link the shim into every target that can contain tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Metadata, Target};

use crate::cargo::manifest::target_kind;
use crate::cargo::toolchain::Toolchain;
use crate::checkout::injected_files::InjectedFiles;
use crate::inject::overlay::OverlayFile;
use memprof_plan::request::TargetKind;
use memprof_support::paths::without_dots;
use memprof_support::regular_file::followed;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The files that are added to a revision's checkout: content by path from the checkout's root.
pub(crate) type AddedFiles = BTreeMap<Utf8PathBuf, Vec<u8>>;

/// Returns the lines that link the shim into a target with tests, or also into a program that is measured: with its
/// global allocator, or without one if the compiler wrapper found that the target has its own.
///
/// `cfg(test)` keeps them out of the plain library that integration tests link. Cargo sets it even
/// for targets without a harness. The wrapper sets `memprof_program` for the program that is built to
/// be measured. A file may be the root of one target and a module of another.
///
/// A test may call cargo for a crate of the workspace, where no wrapper makes our conditions known: a crate that denies
/// warnings would not compile. Inside `cfg_attr(test, …)` they are not looked at.
pub(crate) fn lines(with_programs: bool) -> String {
    let when = if with_programs { "any(test, memprof_program)" } else { "test" };
    format!(
        "\n#[cfg({when})] #[cfg_attr({when}, cfg(memprof_heap))] extern crate memprof_heap as _;\n\
         #[cfg({when})] #[cfg_attr({when}, cfg(not(memprof_heap)))] extern crate memprof_shim as _;\n"
    )
}

/// Returns a target's root with the lines appended. They begin with a newline, which ends a comment
/// on the last line.
pub(crate) fn with_lines(root: &[u8], with_programs: bool) -> Vec<u8> {
    [root, lines(with_programs).as_bytes()].concat()
}

/// Asks cargo for the packages and targets of a workspace. Nothing is resolved, and no network is
/// used. Cargo is called in `folder`, whose configuration it reads. Roots of targets have no `..`, which
/// `path = "../base/src/root.rs"` brings in.
pub fn metadata(toolchain: &Toolchain, manifest: &Utf8Path, folder: &Utf8Path) -> anyhow::Result<Metadata> {
    let command = toolchain
        .cargo()
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(manifest)
        .current_dir(folder);
    let output = command.run()?;
    let mut metadata: Metadata = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cannot read what `{command}` printed"))?;
    for target in metadata.packages.iter_mut().flat_map(|package| &mut package.targets) {
        target.src_path = without_dots(&target.src_path);
    }
    Ok(metadata)
}

/// Writes overlay files into the checkout, and `[[test]]` entries if cargo does not discover them
/// as tests.
///
/// Returns everything that was written. `checkout` is the checkout's root, and `workspace` the
/// workspace's folder in it.
pub(crate) fn lay_overlay(
    files: &[OverlayFile],
    checkout: &Utf8Path,
    workspace: &Utf8Path,
    toolchain: &Toolchain,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    let mut injection = AddedFiles::new();
    if files.is_empty() {
        return Ok(injection);
    }
    let workspace = checkout.join(workspace);
    let manifest = workspace.join("Cargo.toml");
    let before = metadata(toolchain, &manifest, &workspace)?;
    for file in files {
        let folder = match &file.package {
            Some(name) => package_folder(&before, name, checkout)?,
            None => Utf8PathBuf::new(),
        };
        let path = folder.join(&file.destination);
        injected.write(checkout, &path, &file.content)?;
        injection.insert(path, file.content.clone());
    }
    let after = metadata(toolchain, &manifest, &workspace)?;
    for (manifest, entries) in missing_test_entries(&after, &injection, checkout) {
        let relative = manifest.strip_prefix(checkout).unwrap_or(&manifest).to_owned();
        let mut text = followed::text(&manifest)?;
        for (name, path) in entries {
            write!(text, "\n[[test]]\nname = {name:?}\npath = {path:?}\n")?;
        }
        injected.write(checkout, &relative, text.as_bytes())?;
        injection.insert(relative, text.into_bytes());
    }
    Ok(injection)
}

fn package_folder(metadata: &Metadata, name: &str, checkout: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let package = metadata.packages.iter().find(|package| package.name.as_str() == name);
    let package = package.ok_or_else(|| {
        let names: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
        UserError::new(format!("the overlay is for package '{name}', which this revision lacks"))
            .help(suggest::did_you_mean_or_list(name, "packages", &names))
    })?;
    let folder = package.manifest_path.parent().unwrap_or(checkout);
    Ok(folder.strip_prefix(checkout).unwrap_or(folder).to_owned())
}

/// Returns the name of the integration test with this root: `tests/NAME.rs` or `tests/NAME/main.rs` in
/// the package's folder. A package in a folder `tests` holds another package's tests, beside its
/// manifest.
pub(crate) fn integration_test<'a>(package_folder: &Utf8Path, inside: &'a Utf8Path) -> Option<&'a str> {
    let mut parts: Vec<&str> = inside.components().map(|part| part.as_str()).collect();
    let holds_tests = package_folder.file_name() == Some("tests");
    if parts.first() == Some(&"tests") {
        parts.remove(0);
    } else if !holds_tests || parts.first().is_some_and(|first| ["src", "build.rs"].contains(first)) {
        return None;
    }
    match parts[..] {
        [file] => file.strip_suffix(".rs"),
        [name, "main.rs"] => Some(name),
        _ => None,
    }
}

/// Returns the overlay's integration tests that cargo did not discover (`autotests = false`, edition
/// 2015 with a `[[test]]`, or a package that holds only tests): names and paths, by manifest.
fn missing_test_entries(
    metadata: &Metadata,
    injection: &AddedFiles,
    checkout: &Utf8Path,
) -> BTreeMap<Utf8PathBuf, Vec<(String, String)>> {
    let known: BTreeSet<&Utf8Path> = metadata
        .packages
        .iter()
        .flat_map(|package| package.targets.iter().map(|target| target.src_path.as_path()))
        .collect();
    let mut missing: BTreeMap<Utf8PathBuf, Vec<(String, String)>> = BTreeMap::new();
    for path in injection.keys() {
        let absolute = checkout.join(path);
        let owner = metadata
            .packages
            .iter()
            .filter(|package| {
                package.manifest_path.parent().is_some_and(|folder| absolute.starts_with(folder))
            })
            .max_by_key(|package| package.manifest_path.as_str().len());
        let Some(owner) = owner else { continue };
        let folder = owner.manifest_path.parent().unwrap_or(checkout);
        let inside = absolute.strip_prefix(folder).unwrap_or(&absolute);
        let name = integration_test(folder, inside);
        if let Some(name) = name.filter(|_| !known.contains(absolute.as_path())) {
            let entries = missing.entry(owner.manifest_path.clone()).or_default();
            entries.push((name.to_owned(), inside.to_string()));
        }
    }
    missing
}

/// Appends the lines to the root of every target that can contain tests. Returns what was written.
pub(crate) fn append_lines(
    metadata: &Metadata,
    checkout: &Utf8Path,
    with_programs: bool,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    let mut injection = AddedFiles::new();
    let targets = || metadata.packages.iter().flat_map(|package| &package.targets);
    let is_program = |target: &&Target| {
        with_programs && matches!(target_kind(target), Some(TargetKind::Bin | TargetKind::Example))
    };
    let programs: BTreeSet<&Utf8PathBuf> =
        targets().filter(is_program).map(|target| &target.src_path).collect();
    for target in targets().filter(|target| target_kind(target).is_some()) {
        let Ok(relative) = target.src_path.strip_prefix(checkout) else { continue };
        // Two targets may share a root, and a manifest may name a file that only its build creates.
        if injection.contains_key(relative) || !target.src_path.exists() {
            continue;
        }
        let content = with_lines(&followed::read(&target.src_path)?, programs.contains(&target.src_path));
        injected.write(checkout, relative, &content)?;
        injection.insert(relative.to_owned(), content);
    }
    Ok(injection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_tests_has_them_beside_its_manifest() {
        let name = |folder: &str, file: &'static str| integration_test(folder.into(), file.into());
        assert_eq!(name("lib", "tests/memory.rs"), Some("memory"));
        assert_eq!(name("lib", "tests/memory/main.rs"), Some("memory"));
        assert_eq!(name("lib/tests", "memory.rs"), Some("memory"));
        assert_eq!(name("lib/tests", "memory/main.rs"), Some("memory"));
        assert_eq!(name("lib/tests", "tests/memory.rs"), Some("memory"));
        for (folder, file) in [("lib", "memory.rs"), ("lib/tests", "build.rs"), ("lib/tests", "src/main.rs")]
        {
            assert_eq!(name(folder, file), None, "{folder} {file}");
        }
        assert_eq!(name("lib/tests", "memory/cases.rs"), None, "a module");
    }

    #[test]
    fn the_lines_stand_alone_whatever_the_file_ends_with() {
        let text = String::from_utf8(with_lines(b"// the end", false)).unwrap();
        assert_eq!(
            text,
            "// the end\n#[cfg(test)] #[cfg_attr(test, cfg(memprof_heap))] extern crate memprof_heap as _;\n\
             #[cfg(test)] #[cfg_attr(test, cfg(not(memprof_heap)))] extern crate memprof_shim as _;\n"
        );
    }
}
