//! Traced crates of the registry: the compiler gets an edited copy of each in place of the
//! original.
//!
//! The copy is unpacked from the archive whose checksum the lock file states. Manifests and the
//! lock file do not change (`[patch]` would rewrite it, and fail with `--locked`), and cargo
//! resolves and builds as usual. Only the path that rustc gets is different. Cargo does not see
//! this: `compiled_copies` makes it compile a crate again whose edits have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest, Sha256};
use toml_edit::DocumentMut;

use crate::cargo::configuration;
use crate::cargo::toolchain::Toolchain;
use crate::inject::module_files;
use crate::trace::checkpoints;
use crate::trace::crates::{self, Crate};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_support::paths;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;
use serde::{Deserialize, Serialize};

/// A crate of the registry, as stated in a lock file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedCrate {
    name: String,
    version: String,
    /// SHA-256 of its archive.
    checksum: String,
}

impl LockedCrate {
    /// Returns `NAME-VERSION`.
    fn title(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Returns the crates of a lock file with these names, which have `_` for each `-`.
pub fn named_in(lock: &str, names: &BTreeSet<&str>) -> Vec<LockedCrate> {
    if names.is_empty() {
        return Vec::new();
    }
    let Ok(lock) = lock.parse::<DocumentMut>() else { return Vec::new() };
    let packages = lock.get("package").and_then(|packages| packages.as_array_of_tables());
    let mut found: Vec<LockedCrate> = packages
        .into_iter()
        .flatten()
        .filter_map(|package| {
            let text = |key: &str| package.get(key).and_then(|value| value.as_str()).map(str::to_owned);
            let name = text("name")?;
            let is_named = names.contains(name.replace('-', "_").as_str());
            let is_of_registry = text("source")?.starts_with("registry+");
            (is_named && is_of_registry)
                .then(|| Some(LockedCrate { name, version: text("version")?, checksum: text("checksum")? }))?
        })
        .collect();
    found.sort();
    found
}

/// The folders of a crate of the registry and of its edited copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedCrate {
    /// Where cargo unpacked the crate.
    pub original: PathBuf,
    /// The copy.
    pub copy: PathBuf,
    /// The hash of what the copy has in addition to the original.
    #[serde(default)]
    pub edits: String,
}

/// The edited copy of a crate.
#[derive(Debug)]
pub struct EditedCopy {
    /// The folders of the original and the copy.
    pub place: CopiedCrate,
    original: Utf8PathBuf,
    folder: Utf8PathBuf,
    /// The compiler's name for its library.
    pub library: String,
    /// The traced functions in it.
    pub tracing: Tracing,
    dropped: Dropped,
}

/// Where to create copies, and for which build.
pub struct CopyPlan<'a> {
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
pub struct Edits<'a> {
    /// The functions to trace.
    pub patterns: &'a Patterns,
    /// The checkpoints. Their paths begin with a crate's name.
    pub checkpoints: &'a [CheckpointAt],
}

/// Creates or finds the copy of a crate. Its traced functions are edited, except those that an
/// earlier build had to drop.
pub fn copy(
    one: &LockedCrate,
    place: &CopyPlan<'_>,
    edits: &Edits<'_>,
    toolchain: &Toolchain,
) -> anyhow::Result<EditedCopy> {
    let (archive, original) = archive(one, place, toolchain)?;
    let folder = place.folder.join(one.title());
    let dropped_file = place.folder.join(format!("{}.dropped.json", one.title()));
    unpack(&archive, one, place.folder)?;
    let dropped: Vec<(Utf8PathBuf, usize, String)> = followed::read(&dropped_file)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let dropped: Dropped = dropped.into_iter().map(|(file, line, reason)| ((file, line), reason)).collect();
    let mut copy = EditedCopy {
        place: CopiedCrate {
            original: original.clone().into(),
            copy: folder.clone().into(),
            edits: String::new(),
        },
        original,
        folder,
        library: String::new(),
        tracing: Tracing::default(),
        dropped,
    };
    copy.edit(one, edits, place.shim_hash)?;
    Ok(copy)
}

impl EditedCopy {
    /// Edits the copy's files. It always reads the unedited files, even if the copy is edited
    /// already.
    fn edit(&mut self, one: &LockedCrate, edits: &Edits<'_>, shim_hash: &str) -> anyhow::Result<()> {
        let pristine = self.folder.with_file_name(format!("{}.pristine", one.title()));
        let library = library(&pristine, one)?;
        self.library = library_name(&pristine, one)?;
        let crates = [library];
        self.tracing = instrument::find(&Search {
            crates: &crates,
            patterns: edits.patterns,
            base: &pristine,
            prefix: Utf8Path::new(&one.title()),
            dropped: &self.dropped,
            shim_hash,
        });
        let mut edited: BTreeMap<Utf8PathBuf, String> =
            self.tracing.files().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        insert_checkpoints(one, &crates[0], &pristine, edits.checkpoints, &mut edited)?;
        self.place.edits = hash(&edited, shim_hash)?;
        for entry in walkdir::WalkDir::new(&pristine) {
            let entry = entry?;
            let path = paths::utf8(entry.path().to_owned())?;
            let inside = path.strip_prefix(&pristine).unwrap_or(&path);
            let target = self.folder.join(inside);
            if entry.file_type().is_dir() {
                fs_err::create_dir_all(&target)?;
                continue;
            }
            let content = match edited.get(inside) {
                Some(text) => text.as_bytes().to_vec(),
                None => followed::read(&path)?,
            };
            if followed::read(&target).ok().as_ref() != Some(&content) {
                fs_err::write(&target, content)?;
            }
        }
        Ok(())
    }

    /// Whether the copy differs from the original.
    pub fn is_edited(&self) -> bool {
        !self.place.edits.is_empty()
    }

    /// Returns a file in a compiler's message, relative to the crate. Messages name the original.
    pub fn located(&self, file: &str) -> Option<Utf8PathBuf> {
        let file = Utf8Path::new(file);
        let inside = file.strip_prefix(&self.original).or_else(|_| file.strip_prefix(&self.folder)).ok()?;
        Some(inside.to_owned())
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
    one: &LockedCrate,
    library: &Crate,
    pristine: &Utf8Path,
    wanted: &[CheckpointAt],
    edited: &mut BTreeMap<Utf8PathBuf, String>,
) -> anyhow::Result<()> {
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
                .help(format!("choose a line of this version: less {}", pristine.join(path)))
        };
        let mut is_module = false;
        module_files::visit_files(&library.root, pristine, &mut |found| {
            is_module |= found.path.strip_prefix(pristine) == Ok(path);
        });
        let reason = library.untraceable.or((!is_module).then_some("the crate has no such module"));
        if let Some(reason) = reason {
            return Err(refused(places[0].0, reason).into());
        }
        let text = match edited.get(path) {
            Some(text) => text.clone(),
            None => followed::text(pristine.join(path))?,
        };
        let text = checkpoints::insert(&text, &places).map_err(|(line, reason)| refused(line, &reason))?;
        edited.insert(path.to_owned(), text);
    }
    Ok(())
}

/// Returns the crate's archive, checked by its checksum, and the folder that cargo unpacked it to.
fn archive(
    one: &LockedCrate,
    place: &CopyPlan<'_>,
    toolchain: &Toolchain,
) -> anyhow::Result<(Vec<u8>, Utf8PathBuf)> {
    let registry =
        configuration::home().context("found no home folder for cargo; set CARGO_HOME")?.join("registry");
    let registry = paths::utf8(registry)?;
    let name = format!("{}.crate", one.title());
    let find = || -> Option<(Utf8PathBuf, Utf8PathBuf)> {
        let indices = registry.join("cache").read_dir_utf8().ok()?.filter_map(Result::ok);
        let of = |index: camino::Utf8DirEntry| {
            let archive = index.path().join(&name);
            let unpacked = registry.join("src").join(index.file_name()).join(one.title());
            archive.exists().then_some((archive, unpacked))
        };
        indices.filter_map(of).min()
    };
    let mut found = find();
    if found.is_none() {
        let fetch = toolchain.cargo().args(["fetch", "--manifest-path"]).arg(place.manifest);
        fetch.args(place.offline.then_some("--offline")).run()?;
        found = find();
    }
    let (archive, unpacked) = found.ok_or_else(|| {
        UserError::new(format!("the archive of {} is not in {registry}", one.title()))
            .help("a crate from a vendored folder cannot be traced; copy it into the repository")
    })?;
    let bytes = followed::read_within(&archive, followed::MOST_OF_BINARY)?;
    let found = hexadecimal(&Sha256::digest(&bytes));
    if found != one.checksum {
        let message = format!(
            "{archive} does not match Cargo.lock: its SHA-256 is {found}, but Cargo.lock has {}",
            one.checksum
        );
        return Err(UserError::new(message).help("remove the file, and cargo fetches it again").into());
    }
    Ok((bytes, unpacked))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// How many bytes of a crate are unpacked, or twenty times its archive. Cargo has the same limits.
const MOST_OF_CRATE: u64 = 512 << 20;

/// Unpacks the archive beside the copy, as `NAME-VERSION.pristine`.
fn unpack(archive: &[u8], one: &LockedCrate, into: &Utf8Path) -> anyhow::Result<()> {
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

fn unreadable(one: &LockedCrate) -> String {
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
fn library_name(folder: &Utf8Path, one: &LockedCrate) -> anyhow::Result<String> {
    let manifest: DocumentMut = followed::text(folder.join("Cargo.toml"))?.parse()?;
    let name = manifest.get("lib").and_then(|library| library.get("name")).and_then(toml_edit::Item::as_str);
    Ok(name.unwrap_or(&one.name).replace('-', "_"))
}

/// Returns the crate's library. A published manifest is complete: nothing in it is inherited or
/// discovered.
fn library(folder: &Utf8Path, one: &LockedCrate) -> anyhow::Result<Crate> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::request::TraceRequest;

    #[test]
    fn only_crates_of_the_registry_that_are_named_are_copied() {
        let lock = r#"
version = 4

[[package]]
name = "itoa"
version = "1.0.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aa"

[[package]]
name = "own-crate"
version = "0.1.0"

[[package]]
name = "small-vec"
version = "1.2.3"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "bb"
"#;
        let named = |pattern: &str| -> Vec<String> {
            let request = TraceRequest { functions: vec![pattern.to_owned()], ..TraceRequest::default() };
            let patterns = Patterns::of(&request).unwrap();
            named_in(lock, &patterns.crate_names()).iter().map(LockedCrate::title).collect()
        };
        assert_eq!(named("small_vec::**"), ["small-vec-1.2.3"]);
        for pattern in ["**", "own_crate::**", "it*::**", "<A as B>::c"] {
            assert!(named(pattern).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn checksums_are_written_as_cargo_writes_them() {
        assert_eq!(
            hexadecimal(&Sha256::digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
