//! Traced crates outside of the repository: the compiler gets an edited copy of each in place of the
//! original.
//!
//! A crate of the registry is unpacked from the archive whose checksum the lock file states. One of a
//! git repository or a folder is read where cargo compiles it, and nothing is written there. A copy is
//! a folder of links to these files, but for the edited ones. Manifests and the lock file do not
//! change (`[patch]` would rewrite it, and fail with `--locked`), and cargo resolves and builds as
//! usual. Only the path that rustc gets is different. Cargo does not see this: `compiled_copies` makes
//! it compile a crate again whose edits have changed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::DocumentMut;

use crate::cargo::configuration;
use crate::cargo::toolchain::Toolchain;
use crate::inject::module_files;
use crate::trace::checkpoints;
use crate::trace::crates::{self, Crate};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};
use crate::trace::originals::{self, CopiedCrate, Original};
use crate::trace::outside_crates::{CrateSource, OutsideCrate};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_support::paths;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The edited copy of a crate.
#[derive(Debug)]
pub(crate) struct EditedCopy {
    /// The folders of the original and the copy.
    pub place: CopiedCrate,
    unedited: Unedited,
    folder: Utf8PathBuf,
    /// The compiler's name for its library.
    pub library: String,
    /// The traced functions in it.
    pub tracing: Tracing,
    dropped: Dropped,
}

/// The files of a crate without edits.
#[derive(Debug)]
struct Unedited {
    /// Where cargo finds them.
    original: Original,
    /// A folder that has the same files.
    files: Utf8PathBuf,
    /// The library, below `files`.
    library: Crate,
    /// The compiler's name for it, which may differ from the package's.
    library_name: String,
}

impl Unedited {
    /// Returns the package's folder, relative to the files.
    fn package(&self) -> &Utf8Path {
        self.library.package.strip_prefix(&self.files).unwrap_or(Utf8Path::new(""))
    }
}

/// Where to create copies, and for which build.
pub(crate) struct CopyPlan<'a> {
    /// The folder of all copies.
    pub folder: &'a Utf8Path,
    /// The manifest of the workspace that depends on them.
    pub manifest: &'a Utf8Path,
    /// Whether cargo must not use the network.
    pub offline: bool,
    /// Hash of the shim that the edits link to.
    pub shim_hash: &'a str,
}

/// What is inserted into copies.
pub(crate) struct Edits<'a> {
    /// The functions to trace.
    pub patterns: &'a Patterns,
    /// The checkpoints. Their paths begin with a crate's name.
    pub checkpoints: &'a [CheckpointAt],
}

/// Creates or finds the copy of a crate. Its traced functions are edited, except those that an
/// earlier build had to drop.
pub(crate) fn copy(
    one: &OutsideCrate,
    place: &CopyPlan<'_>,
    edits: &Edits<'_>,
    toolchain: &Toolchain,
) -> anyhow::Result<EditedCopy> {
    let (unedited, name) = unedited(one, place, toolchain)?;
    let folder = place.folder.join(&name);
    let dropped_file = place.folder.join(format!("{name}.dropped.json"));
    let dropped: Vec<(Utf8PathBuf, usize, String)> = followed::read(&dropped_file)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let dropped: Dropped = dropped.into_iter().map(|(file, line, reason)| ((file, line), reason)).collect();
    let root = unedited.library.root.strip_prefix(&unedited.files).unwrap_or(&unedited.library.root);
    let mut copy = EditedCopy {
        place: CopiedCrate {
            original: unedited.original.clone(),
            root: root.into(),
            copy: folder.clone().into(),
            edits: String::new(),
        },
        library: unedited.library_name.clone(),
        unedited,
        folder,
        tracing: Tracing::default(),
        dropped,
    };
    copy.edit(one, edits, place.shim_hash)?;
    Ok(copy)
}

/// Returns the crate's unedited files, and a name for the copy.
fn unedited(
    one: &OutsideCrate,
    place: &CopyPlan<'_>,
    toolchain: &Toolchain,
) -> anyhow::Result<(Unedited, String)> {
    match &one.source {
        CrateSource::Registry { checksum } => {
            let home = configuration::home().context("found no home folder for cargo; set CARGO_HOME")?;
            let registry = paths::utf8(home.join("registry"))?;
            let archive = archive(one, checksum, &registry, place, toolchain)?;
            unpack(&archive, one, place.folder)?;
            let files = place.folder.join(format!("{}.pristine", one.title()));
            let library = library(&files, one)?;
            let library_name = library_name(&files, one)?;
            let original = Original::Registry { registry, title: one.title(), checksum: checksum.clone() };
            Ok((Unedited { original, files, library, library_name }, one.title()))
        }
        CrateSource::Folder { around, library, library_name } => {
            // Two states of a folder may have the same version.
            let hash = blake3::hash(library.package.as_str().as_bytes()).to_hex();
            let name = format!("{}-{}", one.title(), &hash[..8]);
            let (original, files) = (Original::Folder(around.clone().into()), around.clone());
            let (library, library_name) = (library.clone(), library_name.clone());
            Ok((Unedited { original, files, library, library_name }, name))
        }
    }
}

/// Makes a folder with the files of another: the edited files, and links to all others. Nothing is
/// written through a link.
fn lay(original: &Path, copy: &Path, edited: &[(&Path, &str)]) -> anyhow::Result<()> {
    make_way(copy, std::fs::Metadata::is_dir)?;
    fs_err::create_dir_all(copy)?;
    for entry in fs_err::read_dir(original)? {
        let name = entry?.file_name();
        let (from, to) = (original.join(&name), copy.join(&name));
        let below: Vec<(&Path, &str)> =
            edited.iter().filter_map(|(path, text)| Some((path.strip_prefix(&name).ok()?, *text))).collect();
        match below.as_slice() {
            [] => link(&from, &to)?,
            [(path, text)] if path.as_os_str().is_empty() => {
                make_way(&to, std::fs::Metadata::is_file)?;
                if followed::read(&to).ok().as_deref() != Some(text.as_bytes()) {
                    fs_err::write(&to, text)?;
                }
            }
            below => lay(&from, &to, below)?,
        }
    }
    Ok(())
}

/// Makes a link to an unedited file or folder.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    make_way(to, std::fs::Metadata::is_symlink)?;
    match to.read_link() {
        Ok(target) if target == from => return Ok(()),
        Ok(_) => fs_err::remove_file(to)?,
        Err(_) => {}
    }
    Ok(fs_err::os::unix::fs::symlink(from, to)?)
}

/// Removes what is at a path, unless it is of the kind that is wanted there.
fn make_way(path: &Path, is_wanted: impl Fn(&std::fs::Metadata) -> bool) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if is_wanted(&found) => Ok(()),
        Ok(found) if found.is_dir() => Ok(fs_err::remove_dir_all(path)?),
        Ok(_) => Ok(fs_err::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

impl EditedCopy {
    /// Edits the copy's files. It always reads the unedited files, even if the copy is edited
    /// already.
    fn edit(&mut self, one: &OutsideCrate, edits: &Edits<'_>, shim_hash: &str) -> anyhow::Result<()> {
        let library = &self.unedited.library;
        self.tracing = instrument::find(&Search {
            crates: std::slice::from_ref(library),
            patterns: edits.patterns,
            base: &library.package,
            prefix: Utf8Path::new(&one.title()),
            dropped: &self.dropped,
            shim_hash,
        });
        let mut edited: BTreeMap<Utf8PathBuf, String> =
            self.tracing.files().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        insert_checkpoints(one, library, edits.checkpoints, &mut edited)?;
        self.place.edits = hash(&edited, shim_hash)?;
        let package = self.unedited.package();
        let edited: Vec<_> = edited.iter().map(|(path, text)| (package.join(path), text)).collect();
        let edited: Vec<_> = edited.iter().map(|(path, text)| (path.as_std_path(), text.as_str())).collect();
        lay(self.unedited.files.as_std_path(), self.folder.as_std_path(), &edited)
    }

    /// Whether the copy differs from the original.
    pub(crate) fn is_edited(&self) -> bool {
        !self.place.edits.is_empty()
    }

    /// Returns a file in a compiler's message, relative to the crate. Messages name the original.
    pub fn located(&self, file: &str) -> Option<Utf8PathBuf> {
        let file = Utf8Path::new(file);
        let original = self.place.original.folder_of(file.as_std_path());
        let inside = file.strip_prefix(original.unwrap_or_else(|| self.folder.clone().into())).ok()?;
        Some(inside.strip_prefix(self.unedited.package()).ok()?.to_owned())
    }

    /// Keeps functions from being traced in this and all later builds with the same patterns, which
    /// have the same key.
    pub fn drop(&mut self, functions: Dropped) -> anyhow::Result<()> {
        self.dropped.extend(functions);
        let list: Vec<_> = self.dropped.iter().map(|((file, line), reason)| (file, line, reason)).collect();
        let title = self.folder.file_name().unwrap_or_default();
        let file = self.folder.with_file_name(format!("{title}.dropped.json"));
        Ok(fs_err::write(file, serde_json::to_vec_pretty(&list)?)?)
    }
}

/// Inserts the checkpoints of a crate into its files, which may be edited already.
///
/// # Errors
/// A place does not exist in this version of the crate.
fn insert_checkpoints(
    one: &OutsideCrate,
    library: &Crate,
    wanted: &[CheckpointAt],
    edited: &mut BTreeMap<Utf8PathBuf, String>,
) -> anyhow::Result<()> {
    let package = &library.package;
    let mut by_file: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for checkpoint in wanted {
        let Some((name, file)) = checkpoint.file.split_once('/') else { continue };
        if name.replace('-', "_") == library.name {
            by_file.entry(file).or_default().push((checkpoint.line, &checkpoint.label));
        }
    }
    for (file, places) in by_file {
        let path = Utf8Path::new(file);
        let refused = |line: usize, reason: &str| {
            let message = format!(
                "--checkpoint-at {}/{file}:{line} has no place in {}: {reason}",
                one.name,
                one.title()
            );
            UserError::new(message)
                .help(format!("choose a line of this version: less {}", package.join(path)))
        };
        let mut is_module = false;
        module_files::visit_files(&library.root, package, &mut |found| {
            is_module |= found.path.strip_prefix(package) == Ok(path);
        });
        let reason = library.untraceable.or((!is_module).then_some("the crate has no such module"));
        if let Some(reason) = reason {
            return Err(refused(places[0].0, reason).into());
        }
        let text = match edited.get(path) {
            Some(text) => text.clone(),
            None => followed::text(package.join(path))?,
        };
        let text = checkpoints::insert(&text, &places).map_err(|(line, reason)| refused(line, &reason))?;
        edited.insert(path.to_owned(), text);
    }
    Ok(())
}

/// Returns the crate's archive, checked by its checksum.
fn archive(
    one: &OutsideCrate,
    checksum: &str,
    registry: &Utf8Path,
    place: &CopyPlan<'_>,
    toolchain: &Toolchain,
) -> anyhow::Result<Vec<u8>> {
    let name = format!("{}.crate", one.title());
    let find = || -> Option<Utf8PathBuf> {
        let indices = registry.join("cache").read_dir_utf8().ok()?.filter_map(Result::ok);
        let mut archives: Vec<_> = indices.map(|index| index.path().join(&name)).collect();
        archives.retain(|archive| archive.exists());
        archives.sort();
        // Another registry may have a crate of the same name.
        let is_meant = |archive: &&Utf8PathBuf| {
            let read = followed::read_within(archive, followed::MOST_OF_BINARY);
            read.is_ok_and(|bytes| originals::checksum_of(&bytes) == checksum)
        };
        archives.iter().find(is_meant).or_else(|| archives.first()).cloned()
    };
    let mut found = find();
    if found.is_none() {
        let fetch = toolchain.cargo().args(["fetch", "--manifest-path"]).arg(place.manifest);
        fetch.args(place.offline.then_some("--offline")).run()?;
        found = find();
    }
    let archive = found.ok_or_else(|| {
        UserError::new(format!("the archive of {} is not in {registry}", one.title()))
            .help(originals::VENDORED)
    })?;
    let bytes = followed::read_within(&archive, followed::MOST_OF_BINARY)?;
    let found = originals::checksum_of(&bytes);
    if found != checksum {
        let message = format!(
            "{archive} does not match Cargo.lock: its SHA-256 is {found}, but Cargo.lock has {checksum}"
        );
        return Err(UserError::new(message).help("remove the file, and cargo fetches it again").into());
    }
    Ok(bytes)
}

/// How many bytes of a crate are unpacked, or twenty times its archive. Cargo has the same limits.
const MOST_OF_CRATE: u64 = 512 << 20;

/// Unpacks the archive beside the copy, as `NAME-VERSION.pristine`.
fn unpack(archive: &[u8], one: &OutsideCrate, into: &Utf8Path) -> anyhow::Result<()> {
    let pristine = into.join(format!("{}.pristine", one.title()));
    if pristine.exists() {
        return Ok(());
    }
    let aside = into.join(format!("{}.partial", one.title()));
    if aside.exists() {
        fs_err::remove_dir_all(&aside)?;
    }
    fs_err::create_dir_all(&aside)?;
    let content = flate2::read::GzDecoder::new(archive).take(MOST_OF_CRATE.max(archive.len() as u64 * 20));
    let mut entries = tar::Archive::new(content);
    for entry in entries.entries().with_context(|| unreadable(one))? {
        let mut entry = entry.with_context(|| unreadable(one))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = paths::utf8(entry.path()?.into_owned())?;
        let Ok(inside) = path.strip_prefix(one.title()) else {
            bail!("{path} is outside of {}", one.title())
        };
        ensure!(
            inside.components().all(|part| matches!(part, camino::Utf8Component::Normal(_))),
            "{path} leads out of the crate"
        );
        let target = aside.join(inside);
        fs_err::create_dir_all(target.parent().unwrap_or(&aside))?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).with_context(|| unreadable(one))?;
        ensure!(content.len() as u64 == entry.size(), "{}: {path} is cut off", unreadable(one));
        fs_err::write(target, content)?;
    }
    fs_err::rename(aside, pristine)?;
    Ok(())
}

fn unreadable(one: &OutsideCrate) -> String {
    format!("cannot unpack the crate {}, up to its limit of size", one.title())
}

/// Returns a hash of the edited files; empty if there are none.
fn hash(edited: &BTreeMap<Utf8PathBuf, String>, shim_hash: &str) -> anyhow::Result<String> {
    if edited.is_empty() {
        return Ok(String::new());
    }
    Ok(blake3::hash(&serde_json::to_vec(&(shim_hash, edited))?).to_hex().to_string())
}

/// Returns the compiler's name for a crate's library, which may differ from the package's.
fn library_name(folder: &Utf8Path, one: &OutsideCrate) -> anyhow::Result<String> {
    let manifest: DocumentMut = followed::text(folder.join("Cargo.toml"))?.parse()?;
    let name = manifest.get("lib").and_then(|library| library.get("name")).and_then(toml_edit::Item::as_str);
    Ok(name.unwrap_or(&one.name).replace('-', "_"))
}

/// Returns the crate's library. A published manifest is complete: nothing in it is inherited or
/// discovered.
fn library(folder: &Utf8Path, one: &OutsideCrate) -> anyhow::Result<Crate> {
    let manifest = followed::text(folder.join("Cargo.toml"))?;
    let manifest: DocumentMut =
        manifest.parse().with_context(|| format!("could not read the manifest of {}", one.title()))?;
    let library = manifest.get("lib");
    let text = |key: &str| library.and_then(|library| library.get(key)).and_then(|value| value.as_str());
    let is_macro = library.and_then(|library| library.get("proc-macro")).and_then(toml_edit::Item::as_bool);
    Ok(Crate {
        // The package's name, as in the lock file. The library may have another name.
        name: one.name.replace('-', "_"),
        root: folder.join(text("path").unwrap_or("src/lib.rs")),
        package: folder.to_owned(),
        untraceable: (is_macro == Some(true)).then_some(crates::OF_A_MACRO),
        is_own: false,
        is_member: false,
    })
}
