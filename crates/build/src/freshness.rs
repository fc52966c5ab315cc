//! Proves that artifacts which cargo reports as fresh come from the current files in the checkout.
//!
//! Cargo decides by modification time, which can be wrong: after a checkout with old times, with a
//! copied target folder, or after a killed build. So this module stores content hashes of a crate's
//! sources (from its dep-info) when cargo compiles the crate, and compares them when it is fresh.
//! Cargo does not look at all files that a crate depends on. If one of these others changed, the compiled files are
//! removed before cargo runs, so that it compiles the crate again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Artifact;
use serde::{Deserialize, Serialize};

use crate::cargo::messages::{self, Messages};
use crate::compiled_copies;
use crate::known_files;
use crate::named_files::NamedFiles;
use crate::reading_macros;
use crate::unwatched_files::{Reader, UnwatchedFiles};
use memprof_support::regular_file::followed;
use memprof_support::stamp::{FileId, file_id};

/// The extensions of shared libraries.
const LIBRARIES: [&str; 2] = ["so", "dylib"];

/// What each crate was compiled from, by dep-info file. Stored next to the target folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SourceRecords {
    compiled: BTreeMap<Utf8PathBuf, Compiled>,
    /// The files outside of the checkout that build scripts name.
    #[serde(default)]
    pub named: NamedFiles,
    /// Whether a build script ever wrote into the checkout, where the next checkout undoes it. A script that writes only
    /// what differs may write nothing at the next revision, and has to write at the one after it.
    #[serde(default)]
    do_scripts_write: bool,
}

/// What a crate was compiled from.
#[derive(Debug, Serialize, Deserialize)]
struct Compiled {
    /// A file that the compiler wrote.
    file: Utf8PathBuf,
    /// The folder of its package.
    package: Utf8PathBuf,
    reader: Reader,
    /// The hash of what it may have read, and at which cargo does not look.
    unwatched: String,
    /// Content hashes of the sources; empty for a vendored crate, whose files are all in `unwatched`.
    sources: BTreeMap<Utf8PathBuf, String>,
}

/// Crates that were not compiled from the files in the checkout: the root source of each, and the files that the
/// compiler wrote, as far as they were found.
pub(crate) type Stale = BTreeMap<Utf8PathBuf, BTreeSet<Utf8PathBuf>>;

/// The result of checking one build.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    pub stale: Stale,
    /// Hash over the sources of all crates with sources in the checkout.
    pub digest: String,
    /// The files among these sources that are not Rust, such as those of `include_str!`.
    pub included: BTreeSet<Utf8PathBuf>,
    /// All sources that exist.
    pub read: BTreeSet<Utf8PathBuf>,
    /// The variables that the code of any crate reads.
    pub variables: BTreeSet<String>,
}

impl SourceRecords {
    /// Reads the records. Missing or unreadable records prove nothing and cost a rebuild.
    pub fn load(path: &Utf8Path) -> Self {
        let text = followed::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Writes the records atomically.
    pub fn save(&self, path: &Utf8Path) -> anyhow::Result<()> {
        let partial = path.with_extension("partial");
        fs_err::write(&partial, serde_json::to_vec(self)?)?;
        fs_err::rename(partial, path)?;
        Ok(())
    }

    /// Removes the crates below cargo's target folder that depend on a file which changed and at which cargo does not
    /// look. Returns whether the records changed. `cache` also has the target folders of other builds.
    pub fn remove_outdated(
        &mut self,
        files: &UnwatchedFiles,
        target: &Utf8Path,
        cache: &Utf8Path,
    ) -> anyhow::Result<bool> {
        // The user may choose a folder for what is in `deps`.
        let is_elsewhere = |path: &Utf8PathBuf| !path.starts_with(cache);
        let is_below_target = !self.compiled.keys().any(is_elsewhere);
        let is_of_build = |path: &Utf8PathBuf| path.starts_with(target) || is_elsewhere(path);
        let has_reading_macro = || !is_below_target || has_reading_macro(target);
        let mut may_read = None;
        let (mut outdated, mut has_changed) = (Vec::new(), false);
        for (dep_info, compiled) in self.compiled.iter_mut().filter(|(path, _)| is_of_build(path)) {
            let unwatched = files.hash(compiled.reader, &compiled.package);
            let is_undone = self.do_scripts_write && compiled.reader.is_script();
            if compiled.unwatched == unwatched && !is_undone {
                continue;
            }
            has_changed = true;
            if compiled.reader == Reader::Crate && !*may_read.get_or_insert_with(has_reading_macro) {
                compiled.unwatched = unwatched;
            } else {
                outdated.push(dep_info.clone());
            }
        }
        for dep_info in outdated {
            if let Some(compiled) = self.compiled.remove(&dep_info) {
                remove(&compiled.file)?;
            }
        }
        Ok(has_changed)
    }

    /// Notes that a build script wrote into the checkout, so that each build runs all of them again. A script may write
    /// into any package.
    pub fn mark_scripts(&mut self) {
        self.do_scripts_write = true;
    }

    /// Lets the next build run all build scripts again: one of them may have written into the checkout.
    pub fn forget_scripts(&mut self) {
        for script in self.compiled.values_mut().filter(|one| one.reader.is_script()) {
            // No folder's hash.
            script.unwatched.clear();
        }
    }

    /// Compares cargo's artifacts with the checkout, and stores the hashes of newly compiled
    /// crates.
    pub fn check(
        &mut self,
        messages: &Messages,
        files: &UnwatchedFiles,
        workspace: &Utf8Path,
        root: &Utf8Path,
    ) -> anyhow::Result<Check> {
        let mut hashes = HashMap::new();
        let mut originals = Originals::default();
        let mut check = Check::default();
        let mut all = BTreeMap::new();
        // What one call of cargo compiled is fresh in the next one.
        let compiled = messages.artifacts.iter().filter(|artifact| !artifact.fresh);
        for artifact in compiled.chain(messages.artifacts.iter().filter(|artifact| artifact.fresh)) {
            let file = compiled_file(artifact, &mut originals);
            let dep_info = dep_info(artifact, file.as_deref());
            let known = dep_info.as_ref().and_then(|path| self.compiled.get(path)).map(|known| known.reader);
            let known = known.filter(|_| artifact.fresh);
            let Some(reader) = Reader::of_artifact(artifact, messages, root, known) else {
                let text = dep_info.and_then(|path| followed::text(path).ok()).unwrap_or_default();
                check.variables.extend(variables_in(&text));
                continue;
            };
            let root_source = &artifact.target.src_path;
            let Some(dep_info) = dep_info else {
                // Every crate has a dep-info file. If it is not found, nothing is proven.
                check.stale.entry(root_source.clone()).or_default().extend(file);
                continue;
            };
            let package = messages::package_folder(artifact);
            if !artifact.manifest_path.starts_with(root) {
                // Rustc does not name it, and it has features, dependencies and the edition.
                check.read.insert(artifact.manifest_path.clone());
            }
            let unwatched = files.hash(reader, &package);
            let mut sources = BTreeMap::new();
            let text = followed::text(&dep_info)?;
            check.variables.extend(variables_in(&text));
            if reader == Reader::Vendored {
                all.insert(package.strip_prefix(root).unwrap_or(&package).to_owned(), unwatched.clone());
            } else {
                for file in parse_dep_info(&text) {
                    let bases = [workspace, &package];
                    let path = bases.iter().map(|base| base.join(&file)).find(|path| path.exists());
                    let hash = match &path {
                        Some(path) => hash_of(path, &mut hashes)?,
                        None => "absent".to_owned(),
                    };
                    check.read.extend(path.clone());
                    if file.extension() != Some("rs") {
                        check.included.insert(path.unwrap_or_else(|| workspace.join(&file)));
                    }
                    sources.insert(file, hash);
                }
            }
            for (file, hash) in &sources {
                all.insert(file.strip_prefix(root).unwrap_or(file).to_owned(), hash.clone());
            }
            let file = file.unwrap_or_else(|| dep_info.with_extension(""));
            let compiled = Compiled { file, package, reader, unwatched, sources };
            // A script may have told less when its record was made, so that it could have read more.
            let is_proven = |known: &Compiled| {
                known.reader >= reader
                    && known.unwatched == files.hash(known.reader, &known.package)
                    && known.sources == compiled.sources
            };
            if !artifact.fresh || self.compiled.get(&dep_info).is_some_and(is_proven) {
                self.compiled.insert(dep_info, compiled);
            } else {
                check.stale.entry(root_source.clone()).or_default().insert(compiled.file);
                // The record does not describe this artifact.
                self.compiled.remove(&dep_info);
            }
        }
        check.digest = blake3::hash(&serde_json::to_vec(&all)?).to_hex().to_string();
        Ok(check)
    }
}

/// Whether a procedural macro in cargo's target folder may read files.
fn has_reading_macro(target: &Utf8Path) -> bool {
    let folders = compiled_copies::library_folders(target);
    let entries = folders.iter().filter_map(|folder| folder.read_dir_utf8().ok()).flatten().flatten();
    let libraries = entries.map(camino::Utf8DirEntry::into_path);
    let mut libraries =
        libraries.filter(|path| path.extension().is_some_and(|kind| LIBRARIES.contains(&kind)));
    libraries.any(|library| reading_macros::may_read_files(&library))
}

/// Removes what the compiler wrote for a crate, so that cargo compiles it again, and what depends on it.
pub(crate) fn remove(file: &Utf8Path) -> anyhow::Result<()> {
    let (Some(folder), Some(stem)) = (file.parent(), file.file_stem()) else { return Ok(()) };
    if folder.is_dir() {
        let library = stem.strip_prefix("lib").filter(|_| file.extension().is_some());
        compiled_copies::remove(folder, library.unwrap_or(stem))?;
    }
    Ok(())
}

/// Removes what the compiler wrote for stale crates, so that cargo compiles them again.
pub(crate) fn remove_stale(stale: &Stale) -> anyhow::Result<()> {
    stale.values().flatten().try_for_each(|file| remove(file))
}

/// Returns the existing files from which an artifact of the checkout is compiled, with the whole paths; `None`
/// if this is unknown.
pub(crate) fn sources_of(
    artifact: &Artifact,
    workspace: &Utf8Path,
    checkout: &Utf8Path,
) -> anyhow::Result<Option<BTreeSet<Utf8PathBuf>>> {
    if !messages::is_path_package(artifact) && !artifact.manifest_path.starts_with(checkout) {
        return Ok(Some(BTreeSet::new()));
    }
    let file = compiled_file(artifact, &mut Originals::default());
    let Some(dep_info) = dep_info(artifact, file.as_deref()) else { return Ok(None) };
    let bases = [workspace, &messages::package_folder(artifact)];
    let whole = |file: Utf8PathBuf| bases.iter().map(|base| base.join(&file)).find(|path| path.exists());
    Ok(Some(parse_dep_info(&followed::text(&dep_info)?).into_iter().filter_map(whole).collect()))
}

fn hash_of(path: &Utf8Path, hashes: &mut HashMap<Utf8PathBuf, String>) -> anyhow::Result<String> {
    if let Some(hash) = hashes.get(path) {
        return Ok(hash.clone());
    }
    let hash = if path.is_dir() {
        // A macro may track a folder.
        known_files::hash_folder(path)?
    } else {
        let mut content = blake3::Hasher::new();
        content.update_reader(followed::open(path)?)?;
        content.finalize().to_hex().to_string()
    };
    hashes.insert(path.to_owned(), hash.clone());
    Ok(hash)
}

/// Returns a file that the compiler wrote for an artifact. `deps/libname-hash.rmeta` identifies the unit; `name` and
/// `libname.rlib` may be links to that of several units.
fn compiled_file(artifact: &Artifact, originals: &mut Originals) -> Option<Utf8PathBuf> {
    let is_it = |file: &&Utf8PathBuf| file.as_str().contains("/deps/") || has_hash(file);
    artifact.filenames.iter().find(is_it).cloned().or_else(|| originals.find(artifact.filenames.first()?))
}

/// Whether a program's name ends with cargo's hash, so that no other unit has it.
fn has_hash(file: &Utf8Path) -> bool {
    let hash = file.file_name().and_then(|name| name.rsplit_once('-')).map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the dep-info file of an artifact, which lists its sources. Rustc writes it beside the compiled file, or cargo
/// for files that it copies out of `deps`.
fn dep_info(artifact: &Artifact, compiled: Option<&Utf8Path>) -> Option<Utf8PathBuf> {
    let files = compiled.into_iter().chain(artifact.filenames.iter().map(Utf8PathBuf::as_path));
    files.into_iter().find_map(|file| {
        // The dep-info file of `liba.so` is `a.d`.
        let stem = file.file_stem()?;
        [stem.strip_prefix("lib").unwrap_or(stem), stem]
            .iter()
            .map(|name| file.with_file_name(format!("{name}.d")))
            .find(|path| path.exists())
            .or_else(|| only_dep_info_in(file.parent()?))
    })
}

/// The files that the compiler wrote for programs, by which file they are.
#[derive(Default)]
struct Originals {
    folders: BTreeMap<Utf8PathBuf, HashMap<FileId, Utf8PathBuf>>,
}

impl Originals {
    fn find(&mut self, program: &Utf8Path) -> Option<Utf8PathBuf> {
        let id = file_id(&program.metadata().ok()?);
        let folder = program.parent()?;
        let mut find_in = |folder: Utf8PathBuf| {
            let files = self.folders.entry(folder).or_insert_with_key(|folder| files_in(folder));
            files.get(&id).filter(|file| *file != program).cloned()
        };
        find_in(folder.join("deps"))
            .or_else(|| find_in(folder.to_owned()))
            .or_else(|| original_of_link(program))
    }
}

/// Returns the programs and the shared libraries in a folder that the compiler wrote.
fn files_in(folder: &Utf8Path) -> HashMap<FileId, Utf8PathBuf> {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten().map(camino::Utf8DirEntry::into_path);
    let is_library = |path: &Utf8Path| path.extension().is_some_and(|kind| LIBRARIES.contains(&kind));
    let is_compiled = |path: &Utf8PathBuf| has_hash(path) || is_library(path);
    let files = entries.filter(is_compiled);
    files.filter_map(|path| Some((file_id(&path.metadata().ok()?), path))).collect()
}

/// Returns the file that the compiler wrote, of which a program is a hard link or a copy:
/// `deps/NAME-HASH`, or `NAME-HASH` beside an example.
pub(crate) fn original_of_link(program: &Utf8Path) -> Option<Utf8PathBuf> {
    let folder = program.parent()?;
    original_in(&folder.join("deps"), program).or_else(|| original_in(folder, program))
}

/// Returns the other file in this folder that is the same program or shared library.
fn original_in(folder: &Utf8Path, program: &Utf8Path) -> Option<Utf8PathBuf> {
    let extension = program.extension();
    let is_same = |path: &Utf8PathBuf| {
        path.extension() == extension && path.as_path() != program && is_same_file(path, program)
    };
    let entries = folder.read_dir_utf8().ok()?.filter_map(Result::ok);
    entries.map(camino::Utf8DirEntry::into_path).find(is_same)
}

fn is_same_file(one: &Utf8Path, other: &Utf8Path) -> bool {
    let (Ok(one_metadata), Ok(other_metadata)) = (one.metadata(), other.metadata()) else { return false };
    file_id(&one_metadata) == file_id(&other_metadata)
        || (one_metadata.len() == other_metadata.len()
            && matches!((followed::read_within(one, followed::MOST_OF_BINARY), followed::read_within(other, followed::MOST_OF_BINARY)), (Ok(one), Ok(other)) if one == other))
}

/// Returns a build script's dep-info file. Cargo copies `build_script_build-HASH` to
/// `build-script-build`, next to the script's only dep-info file.
fn only_dep_info_in(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut found = folder.read_dir_utf8().ok()?.filter_map(Result::ok).filter_map(|entry| {
        let path = entry.into_path();
        (path.extension() == Some("d")).then_some(path)
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the files on the right-hand side of all rules. `\ ` is a space in a name.
fn parse_dep_info(text: &str) -> BTreeSet<Utf8PathBuf> {
    let mut files = BTreeSet::new();
    let rules = text.lines().filter(|line| !line.starts_with('#'));
    for (_, right) in rules.filter_map(|line| line.split_once(": ")) {
        let mut name = String::new();
        let mut characters = right.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.peek() == Some(&' ') => {
                    name.push(' ');
                    characters.next();
                }
                ' ' => {
                    if !name.is_empty() {
                        files.insert(std::mem::take(&mut name).into());
                    }
                }
                other => name.push(other),
            }
        }
        if !name.is_empty() {
            files.insert(name.into());
        }
    }
    files
}

/// Returns the variables that the code reads: `# env-dep:NAME=VALUE`, or without a value if it is not set.
fn variables_in(dep_info: &str) -> impl Iterator<Item = String> {
    let lines = dep_info.lines().filter_map(|line| line.strip_prefix("# env-dep:"));
    lines.map(|line| line.split('=').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_link_or_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir(folder.join("deps")).unwrap();
        let write = |name: &str, content: &str| fs_err::write(folder.join(name), content).unwrap();
        write("deps/tool-1", "one");
        write("deps/tool-2", "two");
        write("deps/tool-2.d", "two");
        fs_err::hard_link(folder.join("deps/tool-2"), folder.join("tool")).unwrap();
        assert_eq!(original_of_link(&folder.join("tool")), Some(folder.join("deps/tool-2")));
        write("demo-3", "three");
        write("demo", "three");
        assert_eq!(original_of_link(&folder.join("demo")), Some(folder.join("demo-3")));
        write("other", "four");
        assert_eq!(original_of_link(&folder.join("other")), None);
    }

    #[test]
    fn all_scripts_run_again_after_one_wrote_what_the_next_checkout_restores() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let files = UnwatchedFiles::from_files(root, &BTreeMap::new());
        let build = |records: &mut SourceRecords| {
            for (package, reader) in
                [("app", Reader::NamingScript), ("db", Reader::VariableScript), ("plain", Reader::Crate)]
            {
                let (target, package) = (root.join("target").join(package), root.join(package));
                fs_err::create_dir_all(&target).unwrap();
                let file = target.join("compiled-1");
                fs_err::write(&file, "").unwrap();
                let unwatched = files.hash(reader, &package);
                let compiled = Compiled { file, package, reader, unwatched, sources: BTreeMap::new() };
                records.compiled.insert(target.join("compiled-1.d"), compiled);
            }
        };
        let remaining = |records: &mut SourceRecords| {
            records.remove_outdated(&files, &root.join("target"), root).unwrap();
            let is_there = |package: &&&str| root.join("target").join(package).join("compiled-1").exists();
            ["app", "db", "plain"].iter().filter(is_there).copied().collect::<Vec<_>>()
        };
        let mut records = SourceRecords::default();
        build(&mut records);
        assert_eq!(remaining(&mut records), ["app", "db", "plain"]);
        records.forget_scripts();
        assert_eq!(remaining(&mut records), ["plain"]);
        build(&mut records);
        assert_eq!(remaining(&mut records), ["app", "db", "plain"], "only once");
        records.mark_scripts();
        assert_eq!(remaining(&mut records), ["plain"]);
        // None of them writes here.
        build(&mut records);
        records.save(&root.join("sources.json")).unwrap();
        let mut records = SourceRecords::load(&root.join("sources.json"));
        assert_eq!(remaining(&mut records), ["plain"]);
    }

    #[test]
    fn a_folder_among_the_sources_is_hashed_with_its_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let sql = Utf8Path::from_path(folder.path()).unwrap().join("sql");
        fs_err::create_dir(&sql).unwrap();
        let hash = |file: &str, content: &str| {
            fs_err::write(sql.join(file), content).unwrap();
            hash_of(&sql, &mut HashMap::new()).unwrap()
        };
        let one = hash("1.sql", "a");
        assert_eq!(hash("1.sql", "a"), one);
        assert_ne!(hash("1.sql", "b"), one);
        hash("1.sql", "a");
        assert_ne!(hash("2.sql", ""), one);
    }

    #[test]
    fn dep_info_lists_files_with_spaces_and_skips_comments() {
        let text = "t/a.d: src/lib.rs src/my\\ mod.rs\n\nt/a: src/lib.rs src/my\\ mod.rs\n\nsrc/lib.rs:\n\n# env-dep:X=1\n";
        let files: Vec<_> = parse_dep_info(text).into_iter().collect();
        assert_eq!(files, ["src/lib.rs", "src/my mod.rs"]);
        let variables: Vec<_> = variables_in("# env-dep:X=1=2\n# checksum:a\n# env-dep:Y\n").collect();
        assert_eq!(variables, ["X", "Y"]);
    }
}
