//! `mode: external`: overlay tests in a crate of their own, outside of the repository's workspace,
//! which depends on the package by path. This serves old revisions whose dev-dependencies or other
//! members no longer resolve.

use std::borrow::Cow;
use std::collections::BTreeSet;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::cargo::toolchain::Toolchain;
use crate::checkout::injected_files::{self, InjectedFiles};
use crate::git::workspace_folder;
use crate::inject::checkout_edits;
use crate::inject::overlay::OverlayFile;
use memprof_plan::request::{BuildOptions, OverlayMode, OverlayRequest};
use memprof_plan::settings::BuildSettings;
use memprof_support::paths;
use memprof_support::regular_file::{followed, remove_file_if_there};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The crate's own files, in addition to the overlay's.
const OWN_FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "src/lib.rs"];

/// The crate's folder, and the checkout that it depends on.
#[derive(Debug)]
pub(crate) struct ExternalCratePaths<'a> {
    /// The crate's folder.
    pub folder: Utf8PathBuf,
    /// The record of the files written there.
    pub record: Utf8PathBuf,
    /// The root of the checkout.
    pub checkout: &'a Utf8Path,
    pub workspace: &'a Utf8Path,
}

/// The build options that concern the package. The external crate applies them to its dependency.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackageOptions {
    /// `-p`, for overlays that name no package.
    pub packages: Vec<String>,
    /// `--features`.
    pub features: Vec<String>,
    /// `--all-features`.
    pub all_features: bool,
    /// `--no-default-features`.
    pub no_default_features: bool,
}

impl PackageOptions {
    /// Splits these options off a build's options. `features` are those of the revision, its tests
    /// and the request.
    pub fn split_off(build: &BuildOptions, features: Vec<String>) -> (Self, BuildOptions) {
        let own = Self {
            packages: build.settings.packages.clone(),
            features,
            all_features: build.settings.all_features,
            no_default_features: build.no_default_features,
        };
        let rest = BuildOptions {
            settings: BuildSettings {
                packages: Vec::new(),
                workspace: false,
                all_features: false,
                ..build.settings.clone()
            },
            features: Vec::new(),
            no_default_features: false,
            ..build.clone()
        };
        (own, rest)
    }

    /// Returns the dependency on the package with this folder and manifest.
    fn dependency(&self, folder: &Utf8Path, manifest: &DocumentMut) -> InlineTable {
        let mut dependency = InlineTable::new();
        dependency.insert("path", folder.as_str().into());
        if self.no_default_features {
            dependency.insert("default-features", false.into());
        }
        let declared = manifest.get("features").and_then(Item::as_table_like).filter(|_| self.all_features);
        let declared = declared.into_iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned()));
        let features: Array = declared.chain(self.features.iter().cloned()).collect();
        if !features.is_empty() {
            dependency.insert("features", features.into());
        }
        dependency
    }
}

/// The crate, ready to be built.
#[derive(Debug)]
pub(crate) struct ExternalCrate {
    pub manifest: Utf8PathBuf,
    /// Warnings about what it lacks of the workspace.
    pub not_carried: Vec<String>,
}

/// Writes the crate for the revision that is checked out.
pub(crate) fn lay_out(
    paths: &ExternalCratePaths<'_>,
    overlays: &[OverlayRequest],
    files: &[OverlayFile],
    options: &PackageOptions,
    toolchain: &Toolchain,
) -> anyhow::Result<ExternalCrate> {
    let workspace = paths.checkout.join(paths.workspace);
    let root_manifest = read_manifest(&workspace.join("Cargo.toml"))?;
    let external: Vec<&OverlayRequest> =
        overlays.iter().filter(|overlay| overlay.mode == OverlayMode::External).collect();
    let packages = tested_packages(&external, options, &root_manifest)?;
    let dependencies = dependencies(paths.checkout, &packages, &external, options)?;
    let document = manifest_of(&packages[0], dependencies, &root_manifest, &workspace);
    let lock_file = match followed::read(workspace.join("Cargo.lock")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        read => Some(read?),
    };
    write_files(paths, &document, files, lock_file.as_deref())?;

    // Cargo and rustup look for `.cargo/config.toml` and the toolchain file from the folder that
    // cargo is called in, and that stays the repository's workspace.
    let manifest = paths.folder.join("Cargo.toml");
    checkout_edits::metadata(toolchain, &manifest, &workspace)
        .context("cargo cannot read the external crate")?;
    Ok(ExternalCrate { manifest, not_carried: not_carried(&root_manifest, lock_file.is_some()) })
}

/// Returns the names of the packages that the overlays test: those they name, else those of `-p`,
/// else the package of the workspace's root.
fn tested_packages(
    external: &[&OverlayRequest],
    options: &PackageOptions,
    root_manifest: &DocumentMut,
) -> anyhow::Result<Vec<String>> {
    let mut named: BTreeSet<&str> =
        external.iter().filter_map(|overlay| overlay.package.as_deref()).collect();
    if named.is_empty() {
        named.extend(options.packages.iter().map(String::as_str));
    }
    if !named.is_empty() {
        return Ok(named.into_iter().map(ToOwned::to_owned).collect());
    }
    let root_package = package_key(root_manifest, "name").ok_or_else(|| {
        UserError::new("the external overlay names no package, and the workspace's root is not a package")
            .help("add `package: NAME` to the overlay, or -p NAME")
    })?;
    Ok(vec![root_package.to_owned()])
}

/// The crate's dependencies: the tested packages by path, and what the overlays ask for.
struct Dependencies {
    table: Table,
    /// The edition of the first tested package that states one.
    edition: Option<String>,
}

fn dependencies(
    checkout: &Utf8Path,
    packages: &[String],
    external: &[&OverlayRequest],
    options: &PackageOptions,
) -> anyhow::Result<Dependencies> {
    let mut table = Table::new();
    let mut edition = None;
    for name in packages {
        let (folder, manifest) = find_package(checkout, name)?;
        edition = edition.or(package_key(&manifest, "edition").map(ToOwned::to_owned));
        let dependency = options.dependency(&folder, &manifest);
        table.insert(name, Item::Value(Value::InlineTable(dependency)));
    }
    for (name, text) in external.iter().flat_map(|overlay| &overlay.dependencies) {
        table.insert(name, dependency(name, text, checkout)?);
    }
    Ok(Dependencies { table, edition })
}

/// Returns the crate's manifest. Profiles, patches and replacements are those of the workspace.
fn manifest_of(
    first_package: &str,
    dependencies: Dependencies,
    root_manifest: &DocumentMut,
    workspace: &Utf8Path,
) -> DocumentMut {
    let mut document = DocumentMut::new();
    let mut package = Table::new();
    package.insert("name", format!("{first_package}-memprof").into());
    package.insert("version", "0.0.0".into());
    package.insert("edition", dependencies.edition.unwrap_or_else(|| "2021".to_owned()).into());
    package.insert("publish", false.into());
    document.insert("package", Item::Table(package));
    // Cargo needs a library or a program. This library is empty and holds no test.
    let mut library = Table::new();
    library.insert("test", false.into());
    library.insert("doctest", false.into());
    document.insert("lib", Item::Table(library));
    document.insert("dependencies", Item::Table(dependencies.table));
    document.insert("workspace", Item::Table(Table::new()));
    for key in ["profile", "patch", "replace"] {
        if let Some(item) = root_manifest.get(key) {
            let mut item = item.clone();
            absolute_paths(&mut item, workspace);
            document.insert(key, item);
        }
    }
    document
}

fn write_files(
    paths: &ExternalCratePaths<'_>,
    manifest: &DocumentMut,
    files: &[OverlayFile],
    lock_file: Option<&[u8]>,
) -> anyhow::Result<()> {
    let folder = &paths.folder;
    fs_err::create_dir_all(folder)?;
    injected_files::remove_all(&paths.record, folder)?;
    let mut injected = InjectedFiles::load(&paths.record)?;
    injected.write(folder, Utf8Path::new("Cargo.toml"), manifest.to_string().as_bytes())?;
    injected.write(folder, Utf8Path::new("src/lib.rs"), b"")?;
    remove_others(folder, files)?;
    for file in files {
        injected.write(folder, &file.destination, &content_of(file))?;
    }
    // Cargo drops the packages that this crate does not need and keeps the versions of the others.
    if let Some(text) = lock_file {
        injected.write(folder, Utf8Path::new("Cargo.lock"), text)?;
    }
    injected.save()
}

/// Returns what the crate lacks of the workspace, one warning each.
fn not_carried(root_manifest: &DocumentMut, has_lock_file: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if !has_lock_file {
        warnings.push(
            "the workspace has no Cargo.lock: the external crate is built with today's versions".to_owned(),
        );
    }
    if root_manifest.get("workspace").and_then(|workspace| workspace.get("lints")).is_some() {
        warnings.push("[workspace.lints] do not apply to the external crate".to_owned());
    }
    warnings
}

/// Restores the overlay's files, and removes files that tests left behind. A file that is already
/// right is not written, so that cargo sees no change.
pub(crate) fn restore(folder: &Utf8Path, files: &[OverlayFile]) -> anyhow::Result<()> {
    fs_err::create_dir_all(folder)?;
    remove_others(folder, files)?;
    for file in files {
        let (path, content) = (folder.join(&file.destination), content_of(file));
        if path.is_symlink() || !followed::read(&path).is_ok_and(|found| found == *content) {
            // The file would be written through a link.
            remove_file_if_there(&path)?;
            fs_err::create_dir_all(path.parent().unwrap_or(folder))?;
            fs_err::write(&path, content)?;
        }
    }
    Ok(())
}

/// Returns the content of an overlay file. The roots of targets link the shim.
fn content_of(file: &OverlayFile) -> Cow<'_, [u8]> {
    let is_test = file.destination.extension() == Some("rs")
        && file.destination.components().count() == 2
        && file.destination.starts_with("tests");
    if is_test {
        checkout_edits::with_lines(&file.content, false).into()
    } else {
        file.content.as_slice().into()
    }
}

/// Removes files that belong neither to the crate nor to the overlay: those of another overlay, and
/// those that tests wrote.
fn remove_others(folder: &Utf8Path, files: &[OverlayFile]) -> anyhow::Result<()> {
    for found in walkdir::WalkDir::new(folder) {
        let found = found?;
        if found.file_type().is_dir() {
            continue;
        }
        let path = paths::utf8(found.into_path())?;
        let relative = path.strip_prefix(folder)?;
        let is_own = OWN_FILES.iter().any(|own| relative == *own);
        if !is_own && !files.iter().any(|file| file.destination == relative) {
            fs_err::remove_file(&path)?;
        }
    }
    Ok(())
}

fn read_manifest(path: &Utf8Path) -> anyhow::Result<DocumentMut> {
    followed::text(path)?.parse().with_context(|| format!("{path} is not TOML"))
}

/// Returns a text of the `[package]` table.
fn package_key<'a>(manifest: &'a DocumentMut, key: &str) -> Option<&'a str> {
    workspace_folder::package_of(manifest)?.get(key)?.as_str()
}

/// Finds a package by name without `cargo metadata`, because the workspace may not load.
fn find_package(checkout: &Utf8Path, name: &str) -> anyhow::Result<(Utf8PathBuf, DocumentMut)> {
    let mut names = Vec::new();
    let manifests = walkdir::WalkDir::new(checkout)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            entry.depth() == 0 || !["target", ".git"].iter().any(|skip| entry.file_name() == *skip)
        })
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name() == "Cargo.toml");
    for entry in manifests {
        let path = paths::utf8(entry.into_path())?;
        let Ok(document) = read_manifest(&path) else { continue };
        match package_key(&document, "name") {
            Some(found) if found == name => {
                return Ok((path.parent().unwrap_or(checkout).to_owned(), document));
            }
            Some(found) => names.push(found.to_owned()),
            None => {}
        }
    }
    Err(UserError::new(format!("the overlay is for package '{name}', which this revision lacks"))
        .maybe_help(suggest::did_you_mean(name, names.iter().map(String::as_str)))
        .into())
}

/// Reads a dependency: `"0.9"`, or an inline table as in a manifest. Its path is relative to the
/// repository, as for all paths of an overlay.
fn dependency(name: &str, text: &str, checkout: &Utf8Path) -> anyhow::Result<Item> {
    let written = text.parse::<Value>().ok().filter(|value| value.is_str() || value.is_inline_table());
    // A version without quotes is not a TOML string. If it is not a version, cargo says so.
    let version = || (!text.contains('{')).then(|| Value::from(text));
    let value = written.or_else(version);
    let mut item =
        Item::Value(value.with_context(|| format!("overlay: the dependency {name} = {text} is not TOML"))?);
    absolute_paths(&mut item, checkout);
    Ok(item)
}

/// Makes every `path = "…"` below an item absolute.
fn absolute_paths(item: &mut Item, base: &Utf8Path) {
    let Some(table) = item.as_table_like_mut() else { return };
    for (key, item) in table.iter_mut() {
        match item.as_str().filter(|_| key == "path") {
            Some(path) => *item = Item::Value(base.join(path).as_str().into()),
            None => absolute_paths(item, base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_patches_become_absolute() {
        let mut document: DocumentMut =
            "[patch.crates-io]\na = { path = 'vendor/a' }\nb = { git = 'u' }\n".parse().unwrap();
        absolute_paths(document.get_mut("patch").unwrap(), Utf8Path::new("/r"));
        assert_eq!(document["patch"]["crates-io"]["a"]["path"].as_str(), Some("/r/vendor/a"));
    }

    #[test]
    fn a_dependency_is_a_version_or_a_table() {
        let read = |text: &str| dependency("a", text, Utf8Path::new("/checkout")).unwrap();
        assert_eq!(read("0.9").as_str(), Some("0.9"));
        assert_eq!(read("\"0.9\"").as_str(), Some("0.9"));
        let table = read("{ version = '1', features = ['x'] }");
        assert_eq!(table["version"].as_str(), Some("1"));
        let inside = read("{ path = 'crates/a', features = ['x'] }");
        assert_eq!(inside["path"].as_str(), Some("/checkout/crates/a"));
        assert_eq!(read("{ path = '/elsewhere/a' }")["path"].as_str(), Some("/elsewhere/a"));
    }
}
